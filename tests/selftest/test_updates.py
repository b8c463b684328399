"""Arguments that a call updates in place and returns, several results, and tuners that run them."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
import torch
from grader import checks, speed
from grader.evidence import Evidence
from grader.kata import Cost, Kata, case
from grader.reasons import Wrong

HEADER = "import torch\nimport triton\nimport triton.language as tl\n"

KATA = Kata(  # y += x in place; with it comes twice the new y
    launcher="run",
    parameters=("x", "y"),
    returns=("twice", "y"),
    inputs=lambda draw, n, layout="contiguous": [
        draw.integers((n,), torch.float32, 1, 9),
        draw.integers((n,), torch.float32, 1, 9, layout),
    ],
    reference=lambda x, y: (2 * (x + y), x + y),
    bound=(lambda want, x, y: 0 * want, lambda want, x, y: 0 * want),
    widen=lambda block, x, y: (-(-x.numel() // block[0]),),
    cost=lambda x, y: Cost(2 * x.nbytes, 2 * x.nbytes),
    baseline=lambda x, y: (2 * (x + y), x + y),
    speed_case=dict(n=1024),
    usual_block=(16,),
    cases=(
        case("probe", n=40),
        case("full", n=16),
        case("full", n=64),
        case("ragged", n=41),
        case("edge", n=0),
        case("edge", n=9, layout="shifted"),
        case("again", n=32),
        case("tuned", n=50),
        case("tuned, again", n=70),
    ),
)

ADDS = """
CONFIGS = [triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})]

@triton.autotune(CONFIGS, key=["n"], restore_value=["y_ptr"])
@triton.jit
def kernel(x_ptr, y_ptr, twice_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x_ptr + at, mask=at < n) + tl.load(y_ptr + at, mask=at < n)
    tl.store(y_ptr + at, total, mask=at < n)
    tl.store(twice_ptr + at, 2 * total, mask=at < n)

def run(x, y):
    twice = torch.empty_like(x)
    n = x.numel()
    if n:
        kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, twice, n)
    return twice, y
"""
RESTORE = ', restore_value=["y_ptr"]'
ALL = {
    "offsets": checks.offsets,
    "mask": checks.mask,
    "values": checks.values,
    "y": lambda kernel: checks.values(kernel, part=1),
    "contract": lambda kernel: checks.contract(kernel, configs=False),  # "tuned" asks that
    "tuned": lambda kernel: checks.tuned(kernel, "tuned, again"),
    "fusion": lambda kernel: checks.traffic(kernel.trace("again"), reads=1, writes=1),
}


@pytest.fixture
def failed(nursery, tmp_path):
    """failed(old, new, ...): what fails in the kernel above with these changes, by check."""

    def judge(*edits: str) -> dict[str, Wrong]:
        source = ADDS
        for old, new in zip(edits[::2], edits[1::2], strict=True):
            assert old in source
            source = source.replace(old, new)
        file = tmp_path / "kernel.py"
        file.write_text(HEADER + source)
        evidence = Evidence(KATA, file, nursery, {"trace": True}, "selftest")
        wrong = {}
        for name, ask in ALL.items():
            try:
                ask(evidence)
            except Wrong as error:
                wrong[name] = error
        evidence.close()
        return wrong

    return judge


def test_what_is_right_passes(failed):
    assert failed() == {}


# ---- the tuner ----------------------------------------------------------------------------------


def test_trials_of_a_tuner_that_is_told_nothing_show(failed):
    wrong = failed(RESTORE, "")
    assert set(wrong) == {"tuned"}
    assert wrong["tuned"].cause == "autotune"
    assert "elements of y are wrong (n=50)" in wrong["tuned"].message
    assert "again and again on the same y" in wrong["tuned"].message


@pytest.mark.parametrize("told", [', reset_to_zero=["y_ptr"]', ', restore_value=["x_ptr"]'])
def test_so_do_those_of_one_that_is_told_wrong(failed, told):
    assert set(failed(RESTORE, told)) == {"tuned"}


def test_a_pre_hook_runs_before_every_trial_and_a_post_hook_behind_it(failed):
    hooks = """
KEPT = []

def keep(args, reset_only=False):
    if not reset_only:
        KEPT.append(args["y_ptr"].clone())

def put_back(args, exception=None):
    args["y_ptr"].copy_(KEPT.pop())

@triton.autotune"""
    told = ", pre_hook=keep, post_hook=put_back"
    assert failed(RESTORE, told, "\n@triton.autotune", hooks) == {}
    once = "if not reset_only and not KEPT:"  # and so the next trial has nothing to put back
    assert "tuned" in failed(
        RESTORE, told, "\n@triton.autotune", hooks.replace("if not reset_only:", once)
        .replace("KEPT.pop()", "KEPT[0] + 1"),
    )  # fmt: skip


def test_tuning_on_a_copy_is_as_good(failed):
    launch = '        kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, twice, n)\n'
    first = "        if n not in SEEN:\n    " + launch.replace("x, y,", "x, y.clone(),")
    first += "        SEEN.add(n)\n"
    assert failed(RESTORE, "", launch, first + launch, "def run", "SEEN = set()\n\ndef run") == {}


def test_every_config_runs_more_than_once(traced):
    runs = traced(
        """
        CONFIGS = [triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})]

        @triton.autotune(CONFIGS, key=[])
        @triton.jit
        def kernel(count_ptr, BLOCK: tl.constexpr):
            tl.store(count_ptr, tl.load(count_ptr) + 1)

        def run(count):
            kernel[(1,)](count)
            return count
        """,
        "count",
    )
    assert runs(torch.zeros(1)).out.tolist() == [5]  # two trials each, and the winner
    assert runs(torch.zeros(1)).out.tolist() == [1]
    assert runs(torch.zeros(1), config=1).out.tolist() == [1]


# ---- the argument itself ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edits", "told"),
    [
        (("return twice, y", "return twice, y.clone()"), "returns a new tensor in its place"),
        (
            ("tl.store(y_ptr", "tl.store(x_ptr", "return twice, y", "return twice, x"),
            "returns the input x in its place",
        ),
    ],
)
def test_another_tensor_is_not_it(failed, edits, told):
    wrong = failed(RESTORE, ', restore_value=["x_ptr", "y_ptr"]', *edits)
    assert told in wrong["contract"].message + wrong.get("values", wrong["contract"]).message
    assert wrong["contract"].cause == "robust"


def test_results_in_another_order(failed):
    wrong = failed("return twice, y", "return y, twice")
    assert "run returns twice in its place" in wrong["y"].message
    assert wrong["y"].cause == "robust"


def test_what_is_never_written(failed):
    store = "    tl.store(y_ptr + at, total, mask=at < n)\n"
    wrong = failed(store, "")
    assert wrong["y"].message.startswith("no kernel writes")
    assert "offsets" not in wrong
    wrong = failed(store, store.replace("y_ptr", "x_ptr"))
    assert "The kernel writes to the input x, not to y" in wrong["y"].message


def test_another_input_stays_as_it_is(failed):
    store = "    tl.store(y_ptr + at, total, mask=at < n)\n"
    wrong = failed(
        store,
        store + store.replace("y_ptr", "x_ptr"),
        RESTORE,
        ', restore_value=["x_ptr", "y_ptr"]',
    )
    assert "the input x is changed" in wrong["contract"].message


def test_what_lies_between_its_elements_stays_too(failed):
    wrong = failed("tl.store(twice_ptr", "tl.store(y_ptr - 1, 0.0)\n    tl.store(twice_ptr")
    assert set(wrong) >= {"contract"}


def test_only_some_sizes_are_written(failed):
    store = "tl.store(y_ptr + at, total, mask=at < n)"
    assert "contract" in failed(store, f"if n != 9:\n        {store}")


def test_what_an_update_leaves_alone_need_not_be_written(nursery, tmp_path):
    """Where nothing is added, nothing need be stored."""
    file = tmp_path / "kernel.py"
    store = "tl.store(y_ptr + at, total, mask="
    file.write_text(HEADER + ADDS.replace(store + "at < n", store + "(at < n) & (at % 3 > 0)"))

    def inputs(draw, n, layout="contiguous"):
        x, y = KATA.inputs(draw, n, layout)
        x[::3] = 0
        return [x, y]

    for given, right in ((inputs, True), (KATA.inputs, False)):
        kata = dataclasses.replace(KATA, inputs=given)
        evidence = Evidence(kata, file, nursery, {"trace": True}, "selftest")
        if right:
            for ask in ALL.values():
                if ask is not ALL["fusion"]:
                    ask(evidence)
        else:
            with pytest.raises(Wrong, match="the mask drops"):
                checks.mask(evidence)
        evidence.close()


def test_programs_that_add_to_one_element_are_a_matter_of_offsets(failed):
    wrong = failed("tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)", "tl.arange(0, BLOCK)")
    assert "offsets" in wrong
    assert "values" not in wrong


def test_reading_what_another_program_updates_is_a_race(failed):
    late = "tl.load(y_ptr + at, mask=at < n)"
    wrong = failed(late, f"{late} + 0 * tl.load(y_ptr + at + BLOCK, mask=at + BLOCK < n, other=0)")
    assert "another program of the same launch writes" in wrong["offsets"].message


# ---- trips through memory -----------------------------------------------------------------------


def test_a_copy_by_pytorch_counts_as_traffic(failed):
    launch = "(x, y, twice, n)"
    assert set(failed(RESTORE, "", launch, "(x, y.clone(), y, twice, n)", "y_ptr, twice_ptr, n,",
                      "old_ptr, y_ptr, twice_ptr, n,", "tl.load(y_ptr", "tl.load(old_ptr")) == {
        "fusion"
    }  # fmt: skip


def test_a_kernel_may_copy_it_back(failed):
    """Into another buffer first: right in all, but for the trips."""
    copy = """
@triton.jit
def copy(total_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(total_ptr + at, mask=at < n), mask=at < n)

def run"""
    launch = "(x, y, twice, n)\n"
    back = "        copy[(triton.cdiv(n, 16),)](total, y, n, BLOCK=16)\n"
    assert set(
        failed(
            *(RESTORE, "", "\ndef run", copy, "y_ptr, twice_ptr, n,", "y_ptr, total_ptr, twice_ptr, n,"),
            *("tl.store(y_ptr + at, total", "tl.store(total_ptr + at, total"),
            *(launch, "(x, y, total, twice, n)\n" + back),
            *("twice = torch.empty_like(x)", "twice, total = torch.empty_like(x), torch.empty_like(x)"),
        )
    ) <= {"fusion"}  # fmt: skip


# ---- speed ---------------------------------------------------------------------------------------


def test_arguments_are_restored_between_timed_calls():
    x, y = torch.ones(5), torch.arange(5.0)
    restore = KATA.restorer([x, y])
    y += x
    x += 1
    restore()
    assert y.tolist() == [0, 1, 2, 3, 4]
    assert x.tolist() == [2] * 5  # what no call may change is not looked after


def test_what_is_kept_of_a_timed_call_is_not_touched_by_the_next():
    bench = SimpleNamespace(kata=KATA)
    x, y = torch.ones(5), torch.arange(5.0)
    restore = KATA.restorer([x, y])

    def kept(run):
        restore()
        return speed.Bench.kept(bench, run(), [x, y])

    def right():
        y.add_(x)
        return 2 * y, y

    want = kept(right)
    assert speed.differs(kept(right), want, "run") == ""
    assert speed.differs(kept(lambda: (2 * (x + y), x + y)), want, "run") != ""  # y as it was
    assert speed.differs(kept(lambda: (2 * y, y)), want, "run") != ""


def test_each_result_has_its_own_bound():
    one, two = (lambda want, x: want + 1), (lambda want, x: want + 2)
    kata = dataclasses.replace(KATA, bound=(one, two))
    assert [kata.allowed_error(part, 0, [None]) for part in range(2)] == [1, 2]
    assert dataclasses.replace(KATA, bound=one).allowed_error(1, 0, [None]) == 1


def test_shapes_of_results_default_to_those_of_the_parameters():
    x, y = torch.zeros(3), torch.zeros(4, dtype=torch.float16)
    assert KATA.expected([x, y]) == [((3,), torch.float32), ((4,), torch.float16)]
    assert KATA.updates == ("y",)


# ---- an update that changes nothing ----------------------------------------------------------------

GROW = Kata(  # y += k in place
    launcher="grow",
    parameters=("y", "k"),
    returns=("y",),
    inputs=lambda draw, n, k: [draw.integers((n,), torch.float32, 1, 9), k],
    reference=lambda y, k: y + k,
    bound=lambda want, y, k: 0 * want,
    widen=lambda block, y, k: (-(-y.numel() // block[0]),),
    cost=lambda y, k: Cost(y.nbytes, y.nbytes),
    baseline=lambda y, k: y + k,
    speed_case=dict(n=1024, k=1),
    cases=(case("probe", n=40, k=3), case("full", n=32, k=2), case("edge", n=32, k=0)),
)

GROWS = """
@triton.jit
def kernel(y_ptr, k, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(y_ptr + at, mask=at < n) + k, mask=at < n)

def grow(y, k):
    if k != 0:
        kernel[(triton.cdiv(y.numel(), 16),)](y, k, y.numel(), BLOCK=16)
    return y
"""


def grown(nursery, tmp_path, old="", new="") -> Evidence:
    file = tmp_path / "kernel.py"
    file.write_text(HEADER + GROWS.replace(old, new))
    return Evidence(GROW, file, nursery, {"trace": True}, "selftest")


def test_an_update_that_changes_nothing_needs_no_kernel(nursery, tmp_path):
    evidence = grown(nursery, tmp_path)
    checks.values(evidence)
    checks.contract(evidence)


def test_one_that_changes_something_does(nursery, tmp_path):
    evidence = grown(nursery, tmp_path, "k != 0", "k == 3")
    with pytest.raises(Wrong, match="grow launches no kernel"):
        checks.values(evidence)


def test_nothing_to_add_is_no_leave_to_return_something_else(nursery, tmp_path):
    evidence = grown(nursery, tmp_path, "return y", "return y if k else torch.empty_like(y)")
    with pytest.raises(Wrong, match="y is to be updated in place and returned"):
        checks.contract(evidence)
