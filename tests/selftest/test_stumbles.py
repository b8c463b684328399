"""Where newcomers stumbled: what is said of a slip, which line is named, and what is pointed to next.

Each case is a reference solution or a stub with one or two lines changed.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from grader.grading import grade, suite
from grader.judge import Answer
from grader.kata import case
from grader.outline import Outline
from grader.reasons import Wrong
from grader.report import next_step
from grader.run import Run
from grader.scorecard import Check, Scorecard

PROJECT = Path(__file__).resolve().parents[2]
TRACE = {"trace": True, "compile": False, "gpu": False}
BOTH = TRACE | {"compile": True}
ADD, SCALE, SOFTMAX = "01_vector_add", "03_scale", "07_softmax"
STORE = "tl.store(out_ptr + offsets, total, mask=mask)"
OFFSETS = "offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)"
GRID = 'lambda meta: (triton.cdiv(n_elements, meta["BLOCK_SIZE"]),)'
CONFIG = '[triton.Config({"BLOCK_SIZE": 1024})]'

# Name: kata, folder, lanes, what is replaced.
SLIPS = {
    "returned, not stored": (ADD, "solutions", BOTH, (STORE, "return total")),
    "neither returned nor stored": (ADD, "solutions", TRACE, (STORE, "total + 0")),
    "another name in the configs": (SCALE, "solutions", BOTH, ('{"BLOCK_SIZE"', '{"BLOCK"')),
    "another name in one config": (SCALE, "solutions", BOTH, ('{"BLOCK_SIZE": 512', '{"BLOCK": 512')),
    "another name in the stub": (SCALE, "exercises", TRACE, ('{"BLOCK_SIZE"', '{"BLOCK"')),
    "numbers for configs": (SCALE, "exercises", BOTH, (CONFIG, "[128, 256, 512, 1024]")),
    "no power of two": (SCALE, "solutions", BOTH, ('{"BLOCK_SIZE": 512', '{"BLOCK_SIZE": 500')),
    "three warps": (SCALE, "solutions", BOTH, ("2048}, num_warps=4", "2048}, num_warps=3")),
    "a range, used later": (
        *(ADD, "solutions", BOTH),
        (OFFSETS, "lanes = range(BLOCK_SIZE)\n    offsets = pid * BLOCK_SIZE + lanes"),
    ),
    "a range with a block's bounds": (
        *(ADD, "solutions", BOTH),
        (OFFSETS, "offsets = range(pid * BLOCK_SIZE, (pid + 1) * BLOCK_SIZE)"),
    ),
    "no brackets": (ADD, "solutions", BOTH, ("add_kernel[grid](", "add_kernel(")),
    "no brackets behind a tuner": (SCALE, "solutions", BOTH, ("scale_kernel[grid](", "scale_kernel(")),
    "the block size in the launcher": (SCALE, "solutions", BOTH, (GRID, "(BLOCK_SIZE,)")),
    "meta without a function": (SCALE, "solutions", BOTH, (GRID, GRID.removeprefix("lambda meta: "))),
    "strides left out": (
        *(SOFTMAX, "solutions", TRACE),
        ("row * stride_row + cols * stride_col", "row * n_cols + cols"),
    ),
    "one stride left out": (SOFTMAX, "solutions", TRACE, (" + cols * stride_col", " + cols")),
    "the result through the strides of x": (
        *(SOFTMAX, "solutions", TRACE),
        ("row * n_cols + cols", "row * stride_row + cols * stride_col"),
    ),
    "a block narrower than its row": (
        *(SOFTMAX, "solutions", TRACE),
        ("BLOCK_SIZE = triton.next_power_of_2(n_cols)", "BLOCK_SIZE = 32"),
    ),
    "offsets in bytes": (ADD, "solutions", TRACE, (OFFSETS, f"{OFFSETS}\n    offsets = offsets * 4")),
    "every third element": (ADD, "solutions", TRACE, (OFFSETS, f"{OFFSETS}\n    offsets = offsets * 3")),
    "zeros count in a maximum": (SOFTMAX, "solutions", TRACE, ('-float("inf")', "0.0")),
    "nothing in lanes that are off": (SOFTMAX, "solutions", TRACE, (", other=padding", "")),
    "a load with a mask of its own": (
        *(SOFTMAX, "solutions", TRACE),
        ("mask=mask, other", "mask=cols < n_cols // 32 * 32, other"),
    ),
    "a function of torch in a branch": (
        *(ADD, "solutions", BOTH),
        ("BLOCK_SIZE: tl.constexpr", "BLOCK_SIZE: tl.constexpr, FEW: tl.constexpr"),
        ("BLOCK_SIZE=BLOCK_SIZE", "BLOCK_SIZE=BLOCK_SIZE, FEW=n_elements < 100"),
        ("total = x + y", "total = x + y\n    if FEW:\n        total = torch.add(x, y)"),
    ),
    "and between blocks": (
        *(ADD, "solutions", BOTH),
        ("mask = offsets < n_elements", "mask = (offsets >= 0) and (offsets < n_elements)"),
    ),
}  # fmt: skip


@dataclass
class Told:
    """What was said of one slip."""

    card: Scorecard
    file: Path

    def failed(self, concept: str, lane: str = "trace") -> Check:
        """The first check of a concept, which fails."""
        found = next(c for c in self.card.checks if (c.concept, c.lane) == (concept, lane))
        assert found.status == "failed", found
        return found

    @property
    def lost(self) -> set[str]:
        """The concepts that cost points."""
        return {c.concept for c in self.card.checks if c.status == "failed"}

    @property
    def next(self) -> str:
        return next_step(self.card, self.card.checks, self.file, None)

    def line(self, text: str) -> int:
        lines = self.file.read_text().splitlines()
        return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.fixture(scope="module")
def told(nursery, short_katas, tmp_path_factory):
    """What is said of all slips, by name."""
    folder = tmp_path_factory.mktemp("slips")

    def judged(name: str) -> Told:
        kata, root, lanes, *pairs = SLIPS[name]
        source = (PROJECT / root / kata / "kernel.py").read_text()
        for old, new in pairs:
            assert old in source, old
            source = source.replace(old, new)
        file = folder / (name.replace(" ", "_").replace(",", "") + ".py")
        file.write_text(source)
        return Told(grade(kata, file, nursery, lanes, "stumbles"), file)

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(SLIPS, pool.map(judged, SLIPS), strict=True))


def test_a_kernel_that_returns_its_result_is_told_to_store_it(told):
    one = told["returned, not stored"]
    line = one.line("return total")
    assert one.failed("values").line == one.failed("robust", "compile").line == line
    assert "A kernel returns nothing: tl.store(" in one.failed("values").message
    assert "a kernel returns nothing: it writes" in one.failed("robust", "compile").message
    assert "Next: values, line" in one.next
    for concept in ("offsets", "mask"):  # neither shows without a store
        assert one.failed(concept).waits
    assert "grid" not in one.lost


def test_a_kernel_without_a_store_is_told_so(told):
    assert (
        "No program comes to a tl.store"
        in told["neither returned nor stored"].failed("values").message
    )


def test_a_name_that_the_kernel_lacks_is_a_matter_of_the_configs(told):
    for name in ("another name in the configs", "another name in the stub"):
        for check in told[name].card.checks:
            if check.stops:
                assert "sets BLOCK, and scale_kernel has no parameter" in check.message
                assert "Is BLOCK_SIZE meant?" in check.message
                assert check.cause == "autotune"
                assert check.line == told[name].line("CONFIGS = [")
    assert "in TODO(autotune)" in told["another name in the stub"].next
    one = told["another name in one config"]
    assert one.lost == {"autotune", "robust"}
    for check in (one.failed("autotune"), one.failed("robust", "compile")):
        assert "Is BLOCK_SIZE meant?" in check.message
        assert check.line == one.line("CONFIGS = [")


def test_configs_that_are_none_are_looked_for_where_they_stand(told):
    one = told["numbers for configs"]
    for check in (one.failed("grid"), one.failed("robust", "compile")):
        assert "a list of triton.Config({...}" in check.message
        assert (check.cause, check.line) == ("autotune", one.line("CONFIGS = ["))
    assert "in TODO(autotune)" in one.next


def test_a_size_of_a_config_is_looked_for_where_the_configs_stand(told):
    one = told["no power of two"]
    for said in (one.failed("autotune"), one.failed("robust", "compile")):
        assert "must be a power of two" in said.message
        assert "BLOCK_SIZE=500" in said.message
        assert said.line == one.line("CONFIGS = [")


def test_warps_that_the_compiler_refuses_cost_autotune_too(told):
    one = told["three warps"]
    assert one.lost == {"autotune", "robust"}
    said = one.failed("autotune").message
    assert "config 3 of 5 (BLOCK_SIZE=2048, num_warps=3) does not compile" in said
    assert "power of two (1, 2, 4, 8, ...), not 3" in said
    assert "with BLOCK_SIZE=2048, num_warps=3" in one.failed("robust", "compile").message
    assert one.failed("robust", "compile").line == one.line("CONFIGS = [")


@pytest.mark.parametrize("name", ["a range, used later", "a range with a block's bounds"])
def test_both_lanes_find_a_range_on_the_line_where_it_is_made(told, name):
    line = told[name].line("range(BLOCK_SIZE)" if "later" in name else "= range(pid")
    for check in (told[name].failed("grid"), told[name].failed("robust", "compile")):
        assert check.line == line
        assert "range() is for loops" in check.message


@pytest.mark.parametrize("name", ["no brackets", "no brackets behind a tuner"])
def test_a_kernel_called_like_a_function_is_found_where_it_is_called(told, name):
    kernel = "add_kernel" if name == "no brackets" else "scale_kernel"
    for check in (told[name].failed("grid"), told[name].failed("robust", "compile")):
        assert f"in square brackets: {kernel}[grid](...)" in check.message
        assert check.line == told[name].line(f"    {kernel}(")
    assert "Next: grid, line" in told[name].next


def test_a_name_of_the_kernels_in_the_launcher_is_told_what_to_do(told):
    said = told["the block size in the launcher"].failed("grid")
    assert "BLOCK_SIZE is a parameter of scale_kernel" in said.message
    assert 'grid = lambda meta: (... meta["BLOCK_SIZE"]' in said.message
    said = told["meta without a function"].failed("grid")
    assert "meta is what a grid function is given" in said.message
    assert said.cause == "grid"


def test_strides_that_are_left_out_are_named_where_offsets_are_made(told):
    one = told["strides left out"]
    assert "numbers of x read as if it were contiguous" in one.failed("layout").message
    assert one.failed("layout").line == one.line("x_offsets =")
    one = told["one stride left out"]
    assert "x read " in one.failed("layout").message
    assert one.failed("layout").line == one.line("x_offsets =")
    one = told["the result through the strides of x"]
    assert "strides of its own, the result too" in one.failed("layout").message
    assert one.failed("layout").line == one.line("out_offsets =")


def test_a_block_too_narrow_for_its_share_is_told_as_such(told):
    said = told["a block narrower than its row"].failed("offsets").message
    assert "A program stores at most 32 elements here, and 64 are its share" in said
    assert "as wide as that" in said


def test_offsets_in_bytes_are_told_as_such(told):
    one = told["offsets in bytes"]
    said = one.failed("offsets")
    assert "Of 4 elements in a row only the first is written" in said.message
    assert "count elements, not bytes" in said.message
    assert said.line == one.line("offsets * 4")
    said = told["every third element"].failed("offsets").message
    assert "Of 3 elements in a row only the first is written" in said
    assert "bytes" not in said


def test_what_lanes_hold_that_are_off_is_told(told):
    for name, held in (
        ("zeros count in a maximum", "puts 0 (other=)"),
        ("nothing in lanes that are off", "puts nothing certain (other=)"),
    ):
        said = told[name].failed("mask")
        assert held in said.message
        assert said.line == told[name].line("x = tl.load")
    said = told["a load with a mask of its own"].failed("mask")
    assert "of x are never read" in said.message
    assert said.line == told["a load with a mask of its own"].line("x = tl.load")


def test_a_branch_that_no_compiled_case_comes_to_is_compiled_before_it_is_left_to_a_gpu(told):
    one = told["a function of torch in a branch"]
    check = one.failed("robust")
    assert "functions of torch do not run inside a kernel" in check.message
    assert check.line == one.line("torch.add")


def test_and_between_blocks_passes_and_is_told(told):
    one = told["and between blocks"]
    assert not one.lost
    said = next(c for c in one.card.checks if c.lane == "compile").message
    assert f"line {one.line(') and (')}" in said
    assert "deprecated: write & and |" in said


@pytest.mark.parametrize(
    ("programs", "block", "said"),
    [
        (20_011, [1], "20,011 programs, each with a block of 1 element. 20 with 1,024 would do"),
        (2_502, [8], "2,502 programs, each with a block of 8 elements. 20 with 1,024 would do"),
        (20_011, [1024], "where 20 would do, one a block. A grid counts blocks, not elements"),
        (20, [1024], "a loop that never ends"),
    ],
)
def test_what_does_not_end_for_its_many_programs_says_why_there_are_so_many(
    tmp_path, programs, block, said
):
    file = tmp_path / "kernel.py"
    file.write_text("def run(x):\n    kernel[grid](x)\n")
    evidence = SimpleNamespace(kata=suite(ADD).KATA, configs=1, file=file)
    launch = {"kernel": "kernel", "grid": [programs, 1, 1], "programs": programs, "block": block}
    answer = Answer({"error": {"where": "hang", "type": "Hang", "line": 1}, "launches": [launch]})
    tensors = [torch.zeros(20_011)] * 2
    run = Run(evidence, "trace", case("ragged", n=20_011), None, tensors, answer)
    with pytest.raises(Wrong) as told:
        run.kernel_ran()
    assert said in told.value.message
    if programs > 20:
        assert (told.value.cause, told.value.line) == ("grid", 2)


# ---- lines of a file ---------------------------------------------------------------------------

FILE = """
CONFIGS = [triton.Config({"B": 16})]

@triton.autotune(
    configs=CONFIGS, key=["n"],
)
@triton.jit
def kernel(
    x_ptr,  # a comment (with brackets
    n: int, B: tl.constexpr = 16,
):
    offsets = tl.arange(0, B)
    rows = x_ptr + offsets
    x = tl.load(rows, mask=offsets < n)
    return x

def helper(a):
    return a

def run(x):
    kernel[(1,)](x, 5)
"""


def test_an_outline_names_lines():
    outline = Outline(FILE)
    lines = FILE.splitlines()
    at = {text: next(n for n, line in enumerate(lines, 1) if text in line) for text in
          ("CONFIGS =", "rows =", "tl.load", "return x", "kernel[")}  # fmt: skip
    assert outline.parameters("kernel") == ["x_ptr", "n", "B"]
    assert outline.kernels() == ["kernel"]
    assert outline.configs() == at["CONFIGS ="]
    assert outline.returns("kernel") == at["return x"]
    assert outline.launches("kernel") == at["kernel["]
    assert outline.offsets(at["tl.load"]) == at["rows ="]
    assert outline.unknown("B", at["kernel["]).endswith("so the launch leaves it out")
    assert outline.misnamed("kernel", ["BB"]).endswith("Is B meant?")


@pytest.mark.parametrize(
    ("line", "unmasked"),
    [
        ("x = tl.load(x_ptr + offsets).to(tl.float32)", True),
        ("tl.store(out_ptr + (rows[:, None] + cols), tl.where(x > 0, x, 0))  # mask", True),
        ("tl.store(out_ptr + offsets, x, mask=mask)", False),
        ("tl.store(out_ptr + offsets, x, offsets < n)", False),
        ("x = tl.load(x_ptr + offsets, offsets < n)", False),
        ("x = tl.load(block, boundary_check=(0,))", False),
        ("x = tl.load(x_ptr + offsets,", False),
        ("tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))", False),
        ("x = x_ptr + offsets", False),
    ],
)
def test_an_outline_sees_where_a_mask_is_left_out(line, unmasked):
    text = f"x = tl.load(x_ptr, mask=mask)\n{line}"
    assert Outline(text).unmasked(2) == unmasked
    assert not Outline(line.replace("mask", "m")).unmasked(1)  # where no mask is used at all


@pytest.mark.parametrize("text", ["", "def kernel(", "@triton.autotune(", "\n" * 5, "x = tl.load("])
def test_an_outline_of_anything_raises_nothing(text):
    outline = Outline(text)
    assert outline.parameters("kernel") == []
    assert outline.returns("kernel") is outline.launches("kernel") is None
    assert outline.offsets(1) in (None, 1)
    assert outline.misnamed("kernel", ["B"]) == outline.unknown("B", 1) == ""
    outline.configs()
