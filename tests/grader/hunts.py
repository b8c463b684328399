"""Bug hunts: a kernel that is wrong in one respect, and what its user says: `python -m grader.hunts N`.

A hunt is one of the kata's mutants under a name that gives nothing away: exercises/hunts/NN_slug/
kernel.py, without the comments and docstrings that would. The first call hands it out with its
user's report, later ones have the suite judge what was made of it. Once it is right, the mistake is
named, and the next call hands out the next one; the mended file is kept beside it.
"""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import sys
import textwrap
import tokenize
from pathlib import Path

from . import progress
from .progress import Entry, command, kata_of, shown
from .scorecard import PROJECT
from .stubs import keep_aside, replace
from .words import speak, wrapped

MUTANTS = PROJECT / "tests" / "mutants"

# The hunts of each kata, easy ones first: mutants whose symptom leads somewhere, and whose cure is
# a line or two.
HUNTS = {
    "01_vector_add": "grid_floor_division store_without_mask integers_through_float32",
    "02_relu": "mask_of_positive_values times_comparison max_of_whole_block",
    "03_scale": "grid_ignores_config adds_into_output_while_tuned factor_rounded_to_half",
    "04_bias_gelu": "gelu_before_bias row_stride_is_n_cols tanh_approximation",
    "05_transpose": "tile_not_transposed sizes_swapped_in_masks row_stride_is_n_cols",
    "06_row_sum": "padding_with_one row_without_stride sum_in_dtype_of_x",
    "07_softmax": "padding_with_zero no_max_subtraction output_written_with_strides_of_x",
    "08_online_softmax": "sum_not_rescaled second_pass_drops_the_rest first_block_of_minus_inf",
    "09_layer_norm": "variance_over_padded_lanes eps_outside_the_root mean_of_squares",
    "10_fused_add_rms_norm": "mean_over_block y_from_x_alone no_restore",
    "11_cross_entropy": "maximum_not_added_back running_sum_not_rescaled ignored_loss_times_zero",
    "12_matmul": "k_mask_of_first_block strides_of_b_swapped rounded_after_every_block",
    "13_tuned_matmul": "activation_before_bias last_group_taken_for_full key_without_depth",
    "14_quantized_matmul": "top_nibble_keeps_its_sign groups_in_packed_rows k_mask_missing_on_a",
    "15_conv2d": "left_and_right_not_masked kernel_flipped padding_before_stride",
    "16_cumsum": "carry_counted_twice carry_goes_on_into_the_next_row carry_in_dtype_of_x",
    "17_histogram": "padding_counts_in_bin_0 clamped_into_the_last_bin load_add_store",
    "18_dropout": "backward_not_scaled same_numbers_in_every_block multiplied_by_the_mask",
    "19_flash_attention": "acc_not_rescaled exp2_without_log2e causal_aligned_at_start",
    "20_lora": "skipped_rows_take_adapter_zero other_adapters_times_zero tuned_without_restoring",
    "21_fused_moe": "first_weight_of_the_token depth_not_masked tokens_of_the_next_expert_too",
    "22_softmax_tool": "last_call_for_all one_error_ends_the_turn nan_let_through",
}
HEAD = '''\
"""Hunt {number} of kata {kata}: something is wrong in here.

Its user says: {report}

Find it, mend it, and type `{command} -s debug-{kata}`.
"""

'''


def names(kata: str) -> list[str]:
    """The mutants that are hunts of a kata, in order."""
    return HUNTS.get(kata, "").split()


def mutant(kata: str, number: int) -> str:
    """The source of a hunt as the mutant that it is."""
    file = MUTANTS / kata / f"{names(kata)[number - 1]}.py"
    return file.read_text(encoding="utf-8")


def told(source: str) -> tuple[str, str]:
    """What a mutant's docstring says: the mistake ("concept: what is wrong"), and the symptom."""
    text = ast.get_docstring(ast.parse(source)) or ""
    mistake, _, symptom = text.partition("symptom:")
    return " ".join(mistake.split()), " ".join(symptom.split())


def report(kata: str, number: int) -> str:
    """What the user of a hunt says."""
    symptom = told(mutant(kata, number))[1]
    return f'"{symptom[:1].upper()}{symptom[1:].rstrip(".")}."'


def text_of(kata: str, number: int) -> str:
    """A hunt as it is handed out."""
    said = textwrap.fill(
        f"Its user says: {report(kata, number)}", 95, break_on_hyphens=False
    ).removeprefix("Its user says: ")
    head = HEAD.format(number=number, kata=int(kata[:2]), report=said, command="nox")
    return head + silent(mutant(kata, number))


def silent(source: str) -> str:
    """Python source without comments and docstrings; every other line as it was."""
    lines: list[str | None] = list(source.splitlines())
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            left = (lines[row - 1] or "")[:column].rstrip()
            lines[row - 1] = left or None
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
            continue
        first = node.body[0]
        if ast.get_docstring(node, clean=False) is not None:
            lines[first.lineno - 1 : first.end_lineno] = [None] * (
                (first.end_lineno or first.lineno) - first.lineno + 1
            )
    kept = "\n".join(line for line in lines if line is not None)
    return re.sub(r"\n{4,}", "\n\n\n", kept).strip("\n") + "\n"


# ---- handing out, judging ---------------------------------------------------------------------


def folder() -> Path:
    """The root that holds the hunts: in it, NN_slug/kernel.py."""
    return progress.EXERCISES / "hunts"


def under_way(file: Path) -> int:
    """The number of the hunt in a file; 0 if it does not say."""
    try:
        found = re.search(r"Hunt (\d+) of kata", file.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return 0
    return int(found[1]) if found else 0


def hand_out(kata: str, number: int) -> str:
    """Write a hunt, keeping aside what was there; what to do, in words. Raises OSError."""
    file = folder() / kata / "kernel.py"
    kept = keep_aside(file)
    replace(file, text_of(kata, number).encode())

    def alter(entry: Entry) -> None:
        entry.hunt = number

    progress.change(kata, alter)
    text = introduction(kata, number)
    return text + (f"\n{wrapped(f'The file before it is kept as {shown(kept)}.')}" if kept else "")


def introduction(kata: str, number: int) -> str:
    """The user's report, and what to do."""
    file = shown(folder() / kata / "kernel.py")
    n = int(kata[:2])
    lines = [f"Bug hunt {number} of {len(names(kata))}, kata {n}: {progress.title(kata)}", ""]
    lines += [wrapped(f"Its user says: {report(kata, number)}", "  "), ""]
    lines.append(wrapped(f"Find the mistake in {file} and mend it. Then {command()} -s debug-{n}."))
    return "\n".join(lines)


def following(kata: str, entry: Entry) -> int:
    """The first hunt that is not solved; 0 if all are."""
    numbers = range(1, len(names(kata)) + 1)
    return next((number for number in numbers if number not in entry.hunted), 0)


def judge(kata: str, number: int) -> int:
    """Have the suite judge the file; the exit code."""
    test = f"tests/test_{kata}.py"
    words = [sys.executable, "-m", "pytest", test, f"--root={folder()}"]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    code = subprocess.run(words, cwd=PROJECT, env=environment, check=False).returncode
    n = int(kata[:2])
    if code == 0:

        def alter(entry: Entry) -> None:
            entry.hunted = sorted({*entry.hunted, number})

        progress.change(kata, alter)
        more = following(kata, progress.load().get(kata, Entry(hunted=[number])))
        print(wrapped(f"Found it! {told(mutant(kata, number))[0]}."))
        more_text = f"{command()} -s debug-{n} hands out the next one."
        print(wrapped(more_text if more else "That was the last hunt of this kata."))
    elif code == 1:
        other = number % len(names(kata)) + 1
        print(wrapped(f"Not yet. Its user says: {report(kata, number)}"))
        turn = f"{command()} -s debug-{n} -- {other}"
        print(wrapped(f"Had enough of it? {turn} turns to another one."))
    return code


def main(words: list[str]) -> int:
    if not words or len(words) > 2:
        progress.stop("debug-N takes one number at most, that of a hunt: debug-1 -- 2")
    kata, entry = kata_of(words[0]), Entry()
    entry = progress.load().get(kata, entry)
    count = len(names(kata))
    if not count:
        progress.stop(f"kata {int(kata[:2])} has no bug hunt")
    file = folder() / kata / "kernel.py"
    now = under_way(file) or (entry.hunt if file.is_file() else 0)
    try:
        if len(words) == 2:
            if words[1] not in map(str, range(1, count + 1)):
                progress.stop(f"kata {int(kata[:2])} has no hunt {words[1]}; it has 1 to {count}")
            print(hand_out(kata, int(words[1])))
            return 0
        if not 1 <= now <= count or now in entry.hunted:
            number = following(kata, entry)
            if not number:
                text = f"All {count} hunts of this kata are solved. {command()} -s debug-"
                print(wrapped(f"{text}{int(kata[:2])} -- 1 hands out the first again."))
                return 0
            print(hand_out(kata, number))
            return 0
    except OSError as error:
        progress.stop(f"{shown(file)} cannot be written: {error.strerror or error}")
    if file.read_bytes() == text_of(kata, now).encode():
        print(introduction(kata, now))
        return 0
    return judge(kata, now)


if __name__ == "__main__":
    speak(main, sys.argv[1:])
