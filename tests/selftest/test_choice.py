"""A file with two launchers, and a contract that leaves a choice to the kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from conftest import HEADER
from grader import checks
from grader.evidence import Evidence
from grader.kata import Cost, Kata, case
from grader.reasons import Unusable, Wrong
from grader.run import Run
from grader.speed import CardDraw, unfit


def picked(got, x):
    """Too few, too many?"""
    seen = ~got.isnan() & (x != 0)
    share = float(((got != 0) & seen).sum() / seen.sum()) if seen.any() else 0.5
    return "" if 0.3 < share < 0.7 else f"{share:.0%} are kept, not about half"


KATA = Kata(
    launcher="pick",
    parameters=("x",),
    inputs=lambda draw, n, dtype=torch.float32: [draw.normal((n,), dtype)],
    reference=lambda got, x: torch.where(got == 0, 0, 2 * x),
    bound=lambda want, *_: torch.zeros_like(want),
    choice=picked,
    widen=lambda block, x: (-(-x.numel() // block[0]),),
    cost=lambda x: Cost(x.nbytes, x.nbytes),
    baseline=torch.nn.functional.dropout,
    speed_case=dict(n=4096),
    usual_block=(64,),
    suspects=(("values", "Nothing is doubled.", lambda got, x: torch.where(got == 0, 0, x)),),
    others={"pick_back": dict(parameters=("grad",), marks=(0.5, 0.9))},
    cases=(
        case("probe", n=1000),
        case("full", n=lambda block: 16 * block[0]),
        case("full", launcher="pick_back", n=lambda block: 16 * block[0]),
        case("ragged", n=1001),
        case("edge", n=0),
        case("edge", launcher="pick_back", n=900),
        case("again", n=1000),
        case("again", launcher="pick_back", n=1000),
        case("compile", n=1000),
        case("compile", launcher="pick_back", n=1000),
    ),
)
RIGHT = """
@triton.jit
def kernel(x_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    keep = offsets % 2 == 0
    tl.store(out_ptr + offsets, tl.where(keep, x * 2, 0), mask=mask)


def pick(x):
    out = torch.empty_like(x)
    if x.numel():
        kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out


def pick_back(grad):
    out = torch.empty_like(grad)
    kernel[(triton.cdiv(grad.numel(), 64),)](grad, out, grad.numel(), BLOCK=64)
    return out
"""
CHECKS = (checks.grid, checks.offsets, checks.mask, checks.values, checks.contract)


@pytest.fixture
def seen(nursery, tmp_path):
    """seen(old, new, ..., lanes=("trace",)): the evidence of the right kernel, so replaced."""
    made = []

    def write(*pairs: str, lanes=("trace",)) -> Evidence:
        source = RIGHT
        for old, new in zip(pairs[::2], pairs[1::2], strict=True):
            assert old in source
            source = source.replace(old, new)
        file = tmp_path / "kernel.py"
        file.write_text(HEADER + source)
        made.append(Evidence(KATA, file, nursery, dict.fromkeys(lanes, True), "choice"))
        return made[-1]

    yield write
    for evidence in made:
        evidence.close()


def said(check, *arguments) -> str:
    """What a check that fails says, with its cause in front."""
    with pytest.raises(Wrong) as wrong:
        check(*arguments)
    return f"{wrong.value.cause}: {wrong.value.message}"


# ---- a choice of the kernel's own ------------------------------------------------------------


@pytest.mark.parametrize("keep", ["offsets % 2 == 0", "offsets % 3 > 0", "(offsets // 7) % 2 == 0"])
def test_any_fair_choice_is_right(seen, keep):
    kernel = seen("offsets % 2 == 0", keep)
    for check in CHECKS:
        check(kernel)


def test_what_a_mask_leaves_in_filled_memory_is_chosen_too(seen):
    kernel = seen("mask=mask)\n\n", "mask=mask & keep)\n\n", "torch.empty_like", "torch.zeros_like")
    for check in CHECKS:
        check(kernel)


@pytest.mark.parametrize(
    ("keep", "text"),
    [("offsets >= 0", "100% are kept, not about half"), ("offsets < 0", "0% are kept")],
)
def test_an_unfair_choice_is_wrong(seen, keep, text):
    kernel = seen("offsets % 2 == 0", keep)
    assert said(checks.values, kernel).startswith(f"values: {text}")
    assert not checks.values_hold(kernel)


def test_an_element_that_no_choice_explains(seen):
    text = said(checks.values, seen("x * 2", "x"))
    assert "are wrong" in text
    assert text.endswith("Nothing is doubled.")


def test_what_is_not_written_is_no_choice(seen):
    """Four blocks of sixteen are written: of these, half are kept."""
    kernel = seen("(triton.cdiv(x.numel(), 64),)", "(4,)")
    assert said(checks.grid, kernel).startswith("grid: 744 of 1,000 elements are never written")
    checks.values(kernel)
    filled = seen("(triton.cdiv(x.numel(), 64),)", "(4,)", "torch.empty_like", "torch.zeros_like")
    assert said(checks.grid, filled).startswith("grid:")
    checks.values(filled)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (lambda x: torch.where(torch.arange(len(x)) % 3 == 0, 0, 2 * x), ""),
        (lambda x: 2 * x, "100% are kept"),
        (lambda x: 0 * x, "0% are kept"),
        (lambda x: torch.where(torch.arange(len(x)) % 3 == 0, 0, x), "a wrong result"),
        (lambda x: 2 * x[:-1], "pick returns [4095] torch.float32 at this size"),
        (lambda x: None, "pick returns no tensor at this size"),
    ],
)
def test_a_timed_result(result, text):
    (x,) = (CardDraw.normal(CardDraw(1, "cpu"), (4096,)),)
    found = unfit(result(x), [x], KATA)
    assert text in found
    assert bool(found) == bool(text)


@pytest.mark.parametrize(("factor", "text"), [(1, ""), (2, "pick launches no kernel (n=1000)")])
def test_where_the_answer_is_an_argument_a_copy_will_do(nursery, tmp_path, factor, text):
    file = tmp_path / "kernel.py"
    file.write_text(HEADER + "def pick(x):\n    return x.clone()\n")
    one = replace(KATA, reference=lambda got, x: factor * x, others={}, cases=(KATA.cases[0],))
    kernel = Evidence(one, file, nursery, {"trace": True}, "copy")
    (run,) = kernel.trace("probe")
    if text:
        assert text in said(checks.each, [run], Run.right)
    else:
        run.keeps_contract()
        run.kernel_ran()
    kernel.close()


# ---- several launchers -----------------------------------------------------------------------


def test_each_launcher_has_a_statement_of_its_own():
    assert KATA.launchers == ("pick", "pick_back")
    back = KATA.of("pick_back")
    assert (back.launcher, back.parameters, back.marks) == ("pick_back", ("grad",), (0.5, 0.9))
    assert back.inputs is KATA.inputs
    assert KATA.of("") is KATA.of("pick") is KATA
    settled = KATA.cases[2].settled((64,))
    assert (settled.name, settled.launcher) == ("pick_back: n=1024", "pick_back")


def test_a_case_calls_its_launcher(seen):
    kernel = seen("def pick_back(grad):\n", "def pick_back(grad):\n    return None\n")
    assert "pick_back launches no kernel" in said(checks.values, kernel)


def test_the_compile_lane_too(seen):
    kernel = seen(
        "def pick_back(grad):\n", "def pick_back(grad):\n    grad.x\n", lanes=("compile",)
    )
    assert "pick_back(grad) raises AttributeError" in said(checks.compiles, kernel)
    checks.compiles(seen(lanes=("compile",)))


def test_arguments_are_called_as_their_launcher_calls_them(seen):
    kernel = seen("def pick_back(grad):\n", "def pick_back(grad):\n    grad.zero_()\n")
    runs = [run for run in kernel.trace("again") if run.case.launcher]
    assert "the input grad is changed" in said(checks.each, runs, Run.inputs_unchanged)


@pytest.mark.parametrize("name", ["pick", "pick_back"])
def test_a_launcher_that_is_missing(seen, name):
    kernel = seen(f"def {name}(", "def other(")
    with pytest.raises(Unusable, match=rf"the file has no function {name}\(...\); it defines"):
        checks.grid(kernel)


def test_a_number_is_drawn():
    for draw in (CardDraw(7, "cpu"), CardDraw(7, "meta")):
        assert all(3 <= draw.number(3, 6) < 6 for _ in range(20))
