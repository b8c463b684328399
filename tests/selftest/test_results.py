"""A launcher with two results: each is judged by itself, and called by its name."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from conftest import HEADER
from grader import checks
from grader.evidence import Evidence
from grader.judge import Answer
from grader.kata import Cost, Kata, case
from grader.reasons import Wrong
from grader.run import Run

KATA = Kata(
    launcher="ends",
    parameters=("x",),
    inputs=lambda draw, R, C: [draw.normal((R, C))],
    reference=lambda x: (x[:, 0], 2 * x),
    bound=lambda want, x: torch.zeros_like(want),
    result=lambda x: [((x.shape[0],), torch.float32), (tuple(x.shape), torch.float32)],
    returns=("first", "twice"),
    widen=lambda block, x: (x.shape[0],),
    cost=lambda x: Cost(x.nbytes, x.nbytes + 4 * x.shape[0]),
    baseline=lambda x: (x[:, 0], 2 * x),
    speed_case=dict(R=8, C=8),
    suspects=(
        ("values", "No arguments have these numbers.", lambda x: x * int(float("inf"))),
        ("values", "Nor is there a second argument.", lambda x: x + None),
        ("values", "This is x.", lambda x: x),
        ("values", "This is the last number.", lambda x: x[:, -1]),
    ),
    cases=(
        case("probe", R=5, C=7),
        case("full", R=6, C=8),
        case("ragged", R=5, C=7),
        case("edge", R=0, C=8),
        case("edge", R=1, C=1),
        case("again", R=6, C=8),
    ),
)
RIGHT = """
@triton.jit
def kernel(x_ptr, first_ptr, twice_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    tl.store(first_ptr + row, tl.load(x_ptr + row * n_cols))
    tl.store(twice_ptr + row * n_cols + cols, x * 2, mask=mask)


def ends(x):
    n_rows, n_cols = x.shape
    first = torch.empty(n_rows)
    twice = torch.empty(n_rows, n_cols)
    if n_rows:
        grid = (n_rows,)
        kernel[grid](x, first, twice, n_cols, BLOCK=8)
    return first, twice
"""
FIRST = "    tl.store(first_ptr + row, tl.load(x_ptr + row * n_cols))\n"
TWICE = "    tl.store(twice_ptr + row * n_cols + cols, x * 2, mask=mask)\n"


@pytest.fixture
def seen(nursery, tmp_path):
    """seen(old, new, ...): the evidence of the right kernel with these replacements."""
    made = []

    def write(*pairs: str) -> Evidence:
        source = RIGHT
        for old, new in zip(pairs[::2], pairs[1::2], strict=True):
            assert old in source
            source = source.replace(old, new)
        file = tmp_path / "kernel.py"
        file.write_text(HEADER + source)
        made.append(Evidence(KATA, file, nursery, {"trace": True}, "results"))
        return made[-1]

    yield write
    for evidence in made:
        evidence.close()


def said(check, *arguments, **more) -> str:
    """What a check that fails says, with its cause in front."""
    with pytest.raises(Wrong) as wrong:
        check(*arguments, **more)
    return f"{wrong.value.cause}: {wrong.value.message}"


def test_both_right(seen):
    kernel = seen()
    for check in (checks.grid, checks.offsets, checks.mask, checks.values, checks.contract):
        check(kernel)


@pytest.mark.parametrize(("store", "part", "name"), [(FIRST, 0, "first"), (TWICE, 1, "twice")])
def test_one_that_is_never_stored(seen, store, part, name):
    kernel = seen(store, "")
    assert f"of {name} are never written" in said(checks.offsets, kernel)
    assert said(checks.values, kernel) == f"values: no kernel writes any element of {name}"
    checks.values(kernel, part=1 - part)
    assert name in said(checks.values, kernel, part=part)


def test_one_that_is_wrong(seen):
    kernel = seen("x * 2", "x")
    checks.values(kernel, part=0)
    text = said(checks.values, kernel, part=1)
    assert "48 of 48 elements of twice are wrong" in text
    assert text.endswith("This is x.")
    kernel = seen("tl.load(x_ptr + row * n_cols)", "tl.load(x_ptr + row * n_cols + n_cols - 1)")
    checks.values(kernel, part=1)
    text = said(checks.values, kernel)
    assert "6 of 6 elements of first are wrong" in text
    assert text.endswith("This is the last number.")


def test_last_bits_that_are_off_are_no_numbers_in_the_wrong_places(seen):
    assert "wrong places" in said(checks.values, seen("cols, x * 2", "n_cols - 1 - cols, x * 2"))
    text = said(checks.values, seen("x * 2", "x * 2.0000002"))
    assert "elements of twice are wrong" in text
    assert "wrong places" not in text


def test_other_sizes_have_no_lane_outside_either(seen):
    """A row alone, which no plain size has: right numbers, and one more is read behind them."""
    kernel = seen("mask = cols < n_cols", "mask = cols < n_cols + (n_cols == 1)")
    checks.mask(kernel)
    assert "mask: line" in said(checks.contract, kernel)


def test_the_line_is_that_of_the_result_at_fault(seen):
    lines = (HEADER + RIGHT).splitlines()
    for old, new, store in (
        ("x * 2", "x", "tl.store(twice_ptr"),
        ("first_ptr + row, ", "first_ptr + row, 1 + ", "tl.store(first_ptr"),
    ):
        with pytest.raises(Wrong) as wrong:
            checks.values(seen(old, new))
        assert store in lines[wrong.value.line - 1]


def test_a_mask_that_drops_elements_of_the_second(seen):
    kernel = seen("x * 2, mask=mask", "x * 2, mask=cols < n_cols - 1")
    assert "mask: the mask drops 5 elements of 35 of twice, the first at [0, 6]" in said(
        checks.mask, kernel
    )


def test_a_short_grid(seen):
    text = said(checks.grid, seen("grid = (n_rows,)", "grid = (2,)"))
    assert text.startswith("grid: 3 of 5 elements of first are never written")
    assert text.endswith("the grid (2,) starts 2 programs, too few")


def test_each_launch_answers_for_what_it_stores(seen):
    """The launch that stores the first result is not the last one."""
    start, end = RIGHT.index("@triton.jit"), RIGHT.index("\n\ndef ends")
    second = RIGHT[start:end].replace("def kernel", "def other").replace(FIRST.rstrip("\n"), "")
    arguments = "(x, first, twice, n_cols, BLOCK=8)"

    def split(grid: str) -> Evidence:
        calls = f"kernel[{grid}]{arguments}\n        other[grid]{arguments}"
        return seen(TWICE, f"\n\n{second}\n", f"kernel[grid]{arguments}", calls)

    kernel = split("grid")
    for check in (checks.grid, checks.offsets, checks.mask, checks.values, checks.contract):
        check(kernel)
    text = said(checks.grid, split("(2,)"))
    assert "of first are never written" in text
    assert "the grid (2,) starts 2 programs" in text


def test_a_copy_of_what_the_kernel_wrote(seen):
    kernel = seen("return first, twice", "return first, twice.clone()")
    assert (
        "values: ends returns as twice a tensor that no kernel writes; the kernel writes"
        in said(checks.values, kernel)
    )


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ("first", "ends returns a value; it must return 2 tensors (first, twice)"),
        ("first, twice, x", "ends returns a tuple of 3 values; it must return 2 tensors"),
        ("twice, first", "first has shape [6, 8], not [6]"),
        ("first, None", "ends returns nothing for twice; it must return a new tensor of shape"),
    ],
)
def test_words_for_what_is_returned(seen, returned, text):
    kernel = seen("return first, twice", f"return {returned}")
    assert text in said(checks.each, kernel.trace("again"), Run.keeps_contract)


def test_a_result_of_another_dtype(seen):
    kernel = seen("torch.empty(n_rows, n_cols)", "torch.empty(n_rows, n_cols, dtype=torch.float64)")
    assert "twice is float64, not float32" in said(checks.contract, kernel)


def test_a_result_in_the_place_of_an_input(seen):
    kernel = seen("twice = torch.empty(n_rows, n_cols)", "twice = x")
    assert "twice is the input x itself" in said(checks.contract, kernel)


def test_a_lower_precision_is_told_whatever_the_check_asks(seen):
    kernel = seen("x * 2, mask", "(x * 2.0).to(tl.float16), mask")
    with pytest.raises(Wrong, match="some step is done in a lower precision") as caught:
        kernel.trace("full")[0].right(cause="fusion")
    assert caught.value.cause == "fusion"


@pytest.mark.parametrize(
    ("grid", "asked", "cause"),
    [([4, 1, 1], "lead to a block of its own", "offsets"), ([2, 2, 1], "in that order", "grid")],
)
def test_what_is_asked_where_programs_have_nothing_to_do(grid, asked, cause):
    """On a grid of one axis there is no order of axes to ask about."""
    launch = {"grid": grid, "programs": 4, "block": [8], "widest": {0: 8}, "idle": 1}
    launch |= {"cut": False, "atomics": False}
    facts = {"launches": [launch], "result": [{"storage": 0}]}
    run = SimpleNamespace(launch=launch, facts=facts, label="n=32", programs_needed=lambda _: 4)
    with pytest.raises(Wrong, match=asked) as caught:
        Run.none_to_spare(run)
    assert caught.value.cause == cause


@pytest.mark.parametrize("line", [None, 9])
def test_a_compile_lane_without_an_answer_may_have_too_much_to_compile(line):
    """Whether a launcher never ends or the compiler is at work shows in neither: both are told."""
    evidence = SimpleNamespace(kata=KATA, configs=1)
    hang = {"where": "hang", "type": "Hang", "message": "", "line": line}
    run = Run(evidence, "compile", KATA.cases[1], None, [], Answer({"error": hang}))
    with pytest.raises(Wrong, match="never ends, or too much to compile") as caught:
        run.kernel_ran()
    assert caught.value.line == line
