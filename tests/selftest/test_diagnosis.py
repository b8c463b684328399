"""A beginner's slip is told as what it is: which check fails, what it says, and what still counts.

Each case is a reference solution or a stub with one or two lines changed.
"""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from grader import checks
from grader.checks import config_at_fault
from grader.evidence import told_apart
from grader.grading import grade, suite
from grader.kata import case
from grader.reasons import Known, Waits, Wrong
from grader.scorecard import Scorecard
from grader.selfcheck import SLOW

PROJECT = Path(__file__).resolve().parents[2]
TRACE = {"trace": True, "compile": False, "gpu": False}
MATMUL = "12_matmul"
ADD, SCALE, SOFTMAX = "01_vector_add", "03_scale", "07_softmax"
OFFSETS = "pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)"
CDIV = "(triton.cdiv(n_elements, BLOCK_SIZE),)"
MORE = (
    case("sample", R=66_000, C=17, layout="spread"),  # what 2**16 rows in strides show
    case("strided", R=3, C=100, layout="spread"),
)

FOUR = ", ".join(
    f'triton.Config({{"BLOCK_SIZE": {size}}}, num_warps={warps})'
    for size, warps in ((1024, 4), (512, 4), (1000, 8), (256, 2))
)

TAIL = ("offsets < n_elements", "offsets < n_elements // 16 * 16")
LARGE = '''
class Large:
    """A launch around the tuner."""

    def __getitem__(self, grid):
        return lambda *arguments: scale_kernel.fn[grid({"BLOCK_SIZE": 1024})](*arguments, 1024)


'''

# Name: kata, folder, what is replaced.
SLIPS = {
    "no arange": (ADD, "solutions", (OFFSETS, "pid * BLOCK_SIZE")),
    "no arange, no mask": (
        *(ADD, "solutions", (OFFSETS, "pid * BLOCK_SIZE")),
        *(("offsets < n_elements", "offsets >= 0"),),
    ),
    "no arange under a tuner": (SCALE, "solutions", (OFFSETS, "pid * BLOCK_SIZE")),
    "one element a program": (
        *(ADD, "solutions", (OFFSETS, "pid")),
        *((CDIV, "(n_elements,)"),),
    ),
    "one lane a block": (ADD, "solutions", ("BLOCK_SIZE = 1024", "BLOCK_SIZE = 1")),
    "a program for each element of a row": (
        *(SOFTMAX, "solutions"),
        *(("grid = (n_rows,)", "grid = (n_rows, n_cols)"),),
    ),
    "a row for each element": (
        *(SOFTMAX, "solutions"),
        *(("grid = (n_rows,)", "grid = (x.numel(),)"),),
    ),
    "a grid squared": (ADD, "solutions", (CDIV, "(n_elements, n_elements)")),
    "a grid of ten millions": (ADD, "solutions", (CDIV, "(10_000_000,)")),
    "a grid for a whole card": (ADD, "solutions", (CDIV, "(1024,)")),
    "nothing runs": (ADD, "exercises", ("grid = (1,)", "grid = (0,)")),
    "too few run, no mask": (
        *(ADD, "exercises", ("grid = (1,)", "grid = (n_elements // BLOCK_SIZE,)")),
        *(("offsets = tl", "offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl"),),
    ),
    "too few run": (ADD, "solutions", (CDIV, "(n_elements // BLOCK_SIZE,)")),
    "too few run, small blocks": (
        *(ADD, "solutions", (CDIV, "(n_elements // BLOCK_SIZE,)")),
        *(("BLOCK_SIZE = 1024", "BLOCK_SIZE = 256"),),
    ),
    "no row runs": (SOFTMAX, "exercises", ("grid = (1,)", "grid = (n_rows // 1024,)")),
    "stored through both strides of x": (
        *(SOFTMAX, "solutions"),
        *(("row * n_cols + cols", "row * stride_row + cols * stride_col"),),
    ),
    "stored through the row stride of x": (
        *(SOFTMAX, "solutions"),
        *(("row * n_cols + cols", "row * stride_row + cols"),),
    ),
    "a config that does not run": (
        *(SCALE, "exercises"),
        *(('triton.Config({"BLOCK_SIZE": 1024})', FOUR),),
    ),
    "warps inside of the dict": (
        *(SCALE, "solutions"),
        *(('{"BLOCK_SIZE": 512}, num_warps=4', '{"BLOCK_SIZE": 4096, "num_warps": 8}'),),
        *(('{"BLOCK_SIZE": 1024}, num_warps=4', '{"BLOCK_SIZE": 4096, "num_warps": 2}'),),
        *(('{"BLOCK_SIZE": 2048}, num_warps=4', '{"BLOCK_SIZE": 4096, "num_warps": 1}'),),
    ),
    "a config that leaves out": (
        *(SCALE, "solutions"),
        *(('meta["BLOCK_SIZE"]),)', "1024),)"),),
    ),
    "stored a block apart": (
        *(SOFTMAX, "solutions"),
        *(("row * n_cols + cols", "row * BLOCK_SIZE + cols"),),
    ),
    "read a block apart": (
        *(SOFTMAX, "solutions"),
        *(("row * stride_row + cols * stride_col", "row * BLOCK_SIZE + cols"),),
    ),
    "a mask the wrong way round": (
        *(ADD, "solutions"),
        *(("offsets < n_elements", "offsets > n_elements"),),
    ),
    "nothing is stored": (
        *(ADD, "solutions"),
        *(("tl.store(out_ptr + offsets, total, mask=mask)", "total"),),
    ),
    "stored into an input": (
        *(ADD, "solutions"),
        *(("add_kernel[grid](x, y, out,", "add_kernel[grid](out, x, y,"),),
    ),
    "padding that counts": (SOFTMAX, "solutions", ('-float("inf")', "0.0")),
    "a store without its mask": (SOFTMAX, "solutions", ("element_ty), mask=mask)", "element_ty))")),
    "a maximum that starts too high": (
        *(SOFTMAX, "solutions"),
        *(("tl.max(x, axis=0)", "tl.maximum(tl.max(x, axis=0), -1e30)"),),
    ),
    "rounded down under a tuner": (
        *(SCALE, "solutions"),
        *(('triton.cdiv(n_elements, meta["BLOCK_SIZE"])', 'n_elements // meta["BLOCK_SIZE"]'),),
    ),
    "the block has a default": (
        *(ADD, "solutions"),
        *(("BLOCK_SIZE: tl.constexpr)", "BLOCK_SIZE: tl.constexpr = 512)"),),
        *((CDIV, 'lambda meta: (triton.cdiv(n_elements, meta["BLOCK_SIZE"]),)'),),
        *(("n_elements, BLOCK_SIZE=BLOCK_SIZE)", "n_elements)"),),
    ),
    "a grid of one axis for a kernel of two": (
        *(MATMUL, "solutions"),
        *(("BLOCK_SIZE_M), triton.cdiv(N", "BLOCK_SIZE_M) * triton.cdiv(N"),),
        *(("BLOCK_SIZE_N))\n\n    matmul", "BLOCK_SIZE_N),)\n\n    matmul"),),
    ),
    "the last block is left out": (
        *(MATMUL, "solutions"),
        *(("range(0, K, BLOCK_SIZE_K)", "range(0, K - BLOCK_SIZE_K + 1, BLOCK_SIZE_K)"),),
    ),
    "a sum in fp16": (MATMUL, "solutions", ("dtype=tl.float32)", "dtype=tl.float16)")),
    "a result of another dtype": (MATMUL, "solutions", ("dtype=a.dtype)", "dtype=torch.float32)")),
    "operands change places": (
        *(MATMUL, "solutions"),
        *(("tl.dot(a, b, accumulator)", "tl.dot(b, a, accumulator)"),),
    ),
    "the first axis for all elements": (ADD, "solutions", ("x.numel()", "x.shape[0]")),
    "updated while it is tuned": (SCALE, "solutions", ("torch.empty_like(x)", "x")),
    "the tail is left out": (ADD, "solutions", TAIL),
    "the tail is left out under a tuner": (SCALE, "solutions", TAIL),
    "past the tuner where it is large": (
        *(SCALE, "solutions"),
        *(
            (
                "    scale_kernel[grid](",
                "    (scale_kernel if n_elements < 9999 else large)[grid](",
            ),
        ),
        *(("def scale(", "large = Large()\n\n\ndef scale("),),
        *(("@triton.autotune", f"{LARGE}@triton.autotune"),),
    ),
    "an empty tensor is read": (
        *(ADD, "solutions"),
        *(("n_elements = x.numel()", "n_elements = max(x.numel(), 1)"),),
    ),
    "a maximum that makes all NaN": (
        *(SOFTMAX, "solutions"),
        *(("tl.max(x, axis=0)", "tl.max(tl.abs(x), axis=0)"),),
    ),
    "as many rows as a second axis holds": (
        *(SOFTMAX, "solutions"),
        *(("grid = (n_rows,)", "grid = (min(n_rows, 65_535),)"),),
    ),
}


@pytest.fixture(scope="module")
def cards(nursery, short_katas, tmp_path_factory):
    """The scorecards of all slips."""
    folder = tmp_path_factory.mktemp("slips")

    def judged(name: str) -> Scorecard:
        kata, root, *pairs = SLIPS[name]
        source = (PROJECT / root / kata / "kernel.py").read_text()
        for old, new in pairs:
            assert old in source, old
            source = source.replace(old, new)
        file = folder / (name.replace(" ", "_").replace(",", "") + ".py")
        file.write_text(source)
        statement = suite(kata).KATA
        if kata == SOFTMAX:
            statement = dataclasses.replace(statement, cases=(*statement.cases, *MORE))
        return grade(kata, file, nursery, TRACE, "slips", statement=statement)

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(SLIPS, pool.map(judged, SLIPS), strict=True))


def failed(card: Scorecard) -> dict[str, str]:
    """What is said of each concept that fails, the first check of each."""
    wrong = [c for c in card.checks if c.status == "failed"]
    return {c.concept: c.message for c in reversed(wrong)}


@pytest.mark.parametrize("name", ["no arange", "no arange, no mask", "no arange under a tuner"])
def test_offsets_of_one_number_are_told_as_such(cards, name):
    wrong = failed(cards[name])
    assert "tl.arange(0, BLOCK_SIZE)" in wrong["offsets"]
    assert "grid" not in wrong
    assert "this counts once offsets" in wrong["mask"]  # nothing was ever past the end


@pytest.mark.parametrize("name", ["one element a program", "one lane a block"])
def test_a_program_for_each_element_is_right(cards, name):
    assert cards[name].success, failed(cards[name])


@pytest.mark.parametrize(
    "name", ["a program for each element of a row", "a row for each element", "a grid squared"]
)
def test_a_crowd_of_programs_costs_the_grid_alone(cards, name):
    wrong = failed(cards[name])
    assert set(wrong) == {"grid"}, wrong
    assert "A grid counts blocks, not elements" in wrong["grid"]
    assert "where 1 would do" in wrong["grid"] or "where 7 would do" in wrong["grid"]


def test_a_fixed_grid_may_fill_a_card_and_no_more(cards):
    assert cards["a grid for a whole card"].success, failed(cards["a grid for a whole card"])
    wrong = failed(cards["a grid of ten millions"])
    assert set(wrong) == {"grid"}
    assert "have nothing to do" in wrong["grid"]


def test_what_never_ran_earns_nothing(cards):
    assert cards["nothing runs"].score == 0
    for name in ("too few run, no mask", "nothing runs"):
        assert "past the end of x" in failed(cards[name])["mask"], name
    wrong = failed(cards["no row runs"])
    assert {"grid", "offsets", "mask", "values", "reduction"} <= set(wrong)


@pytest.mark.parametrize("name", ["too few run", "too few run, small blocks"])
def test_a_short_grid_leaves_a_right_mask_its_points(cards, name):
    assert not {"mask", "offsets", "values"} & set(failed(cards[name])), failed(cards[name])


@pytest.mark.parametrize(
    "name", ["stored through both strides of x", "stored through the row stride of x"]
)
def test_a_result_written_through_another_s_strides_is_a_matter_of_layout(cards, name):
    wrong = failed(cards[name])
    assert "mask" not in wrong
    assert "strides of its own, the result too" in wrong["layout"]


def test_a_full_mask_is_not_blamed_for_where_offsets_lead(cards):
    check = next(c for c in cards["stored a block apart"].checks if c.concept == "mask")
    assert check.cause == "offsets"
    assert "the mask is not at fault" in check.message


def test_a_full_mask_is_not_blamed_for_where_loads_go(cards):
    check = next(c for c in cards["read a block apart"].checks if c.concept == "mask")
    assert (check.status, check.cause) == ("failed", "offsets")
    assert "tl.load reads" in check.message
    assert "the mask is not at fault" in check.message


@pytest.mark.parametrize(
    ("name", "concept", "said"),
    [
        ("a mask the wrong way round", "mask", "past the end of x"),
        ("nothing is stored", "values", "tl.store(out_ptr + offsets, ...)"),
        ("stored into an input", "values", "The kernel writes to the input y"),
    ],
)
def test_where_nothing_is_written_one_concept_is_at_fault(cards, name, concept, said):
    wrong = [c for c in cards[name].checks if c.status == "failed"]
    assert said in failed(cards[name])[concept]
    assert {c.concept for c in wrong if not c.waits} <= {concept, "mask"}
    assert f"counts once {concept} is right" in failed(cards[name])["offsets"]
    assert "not at fault" not in failed(cards[name]).get("mask", "")


@pytest.mark.parametrize("name", ["padding that counts", "a store without its mask"])
def test_what_lies_past_the_end_is_told_once(cards, name):
    wrong = [c for c in cards[name].checks if c.status == "failed"]
    assert {c.concept for c in wrong} >= {"mask", "layout"}
    assert {c.concept for c in wrong if not c.waits} == {"mask"}, failed(cards[name])
    unmasked = "This tl.store is given no mask" in failed(cards[name])["mask"]
    assert unmasked == (name == "a store without its mask")


def test_a_known_mistake_is_told_although_the_mask_is_wrong_too(monkeypatch):
    monkeypatch.setattr(checks, "mask_holds", lambda kernel: False)
    ragged, full = SimpleNamespace(past_the_end=True), SimpleNamespace(past_the_end=False)
    for run, raised, told in ((ragged, Wrong, Waits), (ragged, Known, Known), (full, Wrong, Wrong)):
        with pytest.raises(Wrong) as error, checks.after_mask(None, run, "layout"):
            raise raised("numbers", "layout")
        assert type(error.value) is told


def test_padding_that_counts_is_told_where_to_look(cards):
    assert "other=" in failed(cards["padding that counts"])["mask"]


def test_what_is_left_out_is_told_from_what_is_padded(cards):
    said = failed(cards["the last block is left out"])["mask"]
    assert "of b are never read: is the last block" in said
    assert "other=" not in said


def test_axes_of_a_grid_that_the_kernel_does_not_ask_for(cards):
    wrong = failed(cards["a grid of one axis for a kernel of two"])
    assert set(wrong) == {"grid"}
    assert "(6,) leaves elements unwritten that (2, 3) reaches" in wrong["grid"]


def test_an_assertion_of_the_language_is_not_the_kernel_s_own(cards, triton_version):
    for name in ("operands change places", "a sum in fp16"):
        assert "stops itself" not in " ".join(failed(cards[name]).values())
    wrong = failed(cards["a sum in fp16"])
    if triton_version >= (3, 9):  # there tl.dot takes such a sum
        assert "accumulate" in wrong
    else:
        assert "acc must be fp32" in wrong["values"]


def test_a_result_of_another_dtype_is_a_matter_of_the_contract(cards):
    wrong = failed(cards["a result of another dtype"])
    assert set(wrong) == {"robust", "precision"}, wrong


def test_a_maximum_is_that_of_the_row_however_low_it_is(cards):
    assert set(failed(cards["a maximum that starts too high"])) == {"robust"}


def test_a_short_grid_counts_once_under_a_tuner_too(cards):
    assert set(failed(cards["rounded down under a tuner"])) == {"grid"}


@pytest.mark.parametrize(
    ("name", "concept", "said"),
    [
        ("the tail is left out", "mask", "drops"),
        ("the tail is left out under a tuner", "mask", "drops"),
        ("past the tuner where it is large", "autotune", "past the tuner (n=40000)"),
        ("an empty tensor is read", "robust", "1 element past the end of an empty tensor"),
        ("as many rows as a second axis holds", "grid", "17 elements each: too few"),
    ],
)
def test_what_shows_in_some_sizes_counts_once(cards, name, concept, said):
    wrong = failed(cards[name])
    assert set(wrong) == {concept}, wrong
    assert said in wrong[concept]


def test_nan_all_over_can_come_from_anywhere(cards):
    assert "contiguous" not in failed(cards["a maximum that makes all NaN"])["layout"]


@pytest.mark.parametrize("padding", ["0.0", '-float("inf")'])
def test_as_long_as_nothing_is_reduced_padding_counts_as_it_is_written(nursery, tmp_path, padding):
    source = (PROJECT / "exercises" / SOFTMAX / "kernel.py").read_text()
    assert "cols >= 0" in source
    assert "padding = 0.0" in source
    file = tmp_path / "kernel.py"
    file.write_text(source.replace("cols >= 0", "cols < n_cols").replace("= 0.0", f"= {padding}"))
    card = grade(SOFTMAX, file, nursery, TRACE | {"compile": True}, "slips", SLOW)
    wrong = failed(card)
    assert ("mask" in wrong) == (padding == "0.0"), wrong
    if padding == "0.0":
        assert "puts 0 (other=)" in wrong["mask"]
    (summed,) = (c for c in card.checks if c.id == "reduction_type")
    assert summed.waits
    assert "nothing is summed yet" in summed.message


def test_a_default_of_the_kernel_is_in_the_meta_of_a_grid(cards):
    assert cards["the block has a default"].success, failed(cards["the block has a default"])


def test_an_error_of_the_launcher_is_no_error_of_a_kernel(cards):
    wrong = failed(cards["the first axis for all elements"])
    assert set(wrong) == {"robust"}
    assert "x.numel() counts the elements of any shape" in wrong["robust"]


def test_what_stands_in_the_wrong_place_of_a_config_tells_none_apart(cards):
    wrong = failed(cards["warps inside of the dict"])
    assert set(wrong) == {"autotune"}, wrong
    assert "has 3 different configs" in wrong["autotune"]
    assert "num_warps inside of the dict counts for nothing" in wrong["autotune"]


def test_a_sentence_ends_once(cards):
    assert ".. " not in " ".join(failed(cards["updated while it is tuned"]).values())


def test_the_config_that_the_compiler_refuses_is_named():
    common = {"kernel": "k", "target": "sm_80", "case": "n=1"}
    launches = [
        {**common, "ok": warps != 6, "config": {"kwargs": {"BLOCK": "64"}, "num_warps": warps}}
        for warps in (4, 6, 8)
    ]
    assert config_at_fault(launches[1], launches) == " with num_warps=6"
    assert config_at_fault(launches[1], launches[1:2]) == ""  # none builds: it is no config's fault
    assert config_at_fault({**common, "ok": False, "config": None}, launches) == ""


def test_a_config_that_does_not_run_is_told_before_anything_else_is_right(cards):
    wrong = failed(cards["a config that does not run"])
    assert "values" in wrong  # of all configs: its TODO is open
    assert "config 3 of 4 (BLOCK_SIZE=1000, num_warps=8) does not run" in wrong["autotune"]
    assert "power of two" in wrong["autotune"]


def test_a_config_is_named_with_its_values(cards):
    assert (
        "config 1 (BLOCK_SIZE=512, num_warps=" in failed(cards["a config that leaves out"])["grid"]
    )


def test_values_that_all_configs_share_tell_none_apart():
    configs = [{"kwargs": {"BLOCK": "64"}, "num_warps": n} for n in (4, 8)]
    assert told_apart(configs) == ["num_warps=4", "num_warps=8"]
    assert told_apart(configs[:1]) == [""]
