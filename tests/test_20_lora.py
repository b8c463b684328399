"""Kata 20, lora: `lora(y, x, a, b, index, scale)` adds its own adapter's update to each row of y."""

import torch
from grader import checks
from grader.evidence import Run, Waits, Wrong
from grader.grading import check

F16, BF16 = torch.float16, torch.bfloat16
ODD_BITS = {  # -0, the smallest number, NaN with more bits set than it takes, -inf
    F16: [-0x8000, 0x0001, 0x7E01, -0x0400],
    BF16: [-0x8000, 0x0001, 0x7FC0, -0x0080],
}


def untouched(run: Run) -> None:
    """Rows whose index is -1 hold the very bits that they held."""
    run.kernel_ran()
    before, index = run.arguments[0], run.arguments[4]
    changed = (run.got().view(torch.int16) != before.view(torch.int16)) & (index < 0)[:, None]
    if bool(changed.any()):
        row, column = changed.nonzero()[0].tolist()
        raise Wrong(
            f"y[{row}, {column}] changes from {float(before[row, column])} to "
            f"{float(run.got()[row, column])}, though index[{row}] is -1 ({run.label})",
            "mask",
        )


def reads(names: str, concept: str):
    """The kernels read every element of these parameters."""

    def ask(run: Run) -> None:
        run.kernel_ran()
        for name, size in zip(
            run.kata.parameters, map(torch.numel, run.arguments[:5]), strict=False
        ):
            read = sum(b["read"] for b in run.facts["buffers"] if b["name"] == name)
            if name in names.split() and read < size:
                raise Wrong(
                    f"{size - read:,} of {size:,} elements of {name} are never read ({run.label})",
                    concept,
                )

    return ask


@check("grid", points=10)
def test_grid(kernel):
    """A program for every block of y."""
    checks.grid(kernel)


@check("offsets", points=12)
def test_offsets(kernel):
    """Each program works on its own rows and columns."""
    checks.offsets(kernel)


@check("mask", points=10)
def test_mask(kernel):
    """Blocks at the edges stay inside, and what does not exist does not count."""
    checks.mask(kernel)
    checks.beyond(kernel, "layout", "layout, ragged", "mask")


@check("mask", points=10)
def test_skipped(kernel):
    """A row whose index is -1 stays as it is, bit for bit."""
    checks.each(kernel.trace("skipped"), Run.no_lane_outside)
    checks.each(kernel.trace("skipped"), untouched)
    checks.beyond(kernel, "layout", "skipped", "mask")


@check("values", points=8)
def test_values(kernel):
    """y += scale * update."""
    checks.values(kernel)


@check("layout", points=3)
def test_adapters(kernel):
    """The matrices of every adapter are read."""
    checks.each(kernel.trace("adapters"), reads("a b", "layout"))


@check("layout", points=7)
def test_own_adapter(kernel):
    """Each row goes through the matrices of its own adapter."""
    if not checks.undisturbed(kernel):
        raise Waits("this counts once programs keep to rows of their own (see offsets)", "layout")
    checks.group(kernel, "adapters", "layout")
    checks.group(kernel, "layout", "layout")


@check("accumulate", points=3)
def test_walk(kernel):
    """All of x is read, however long its rows are."""
    checks.each(kernel.trace("deep"), reads("x a", "accumulate"))


@check("accumulate", points=7)
def test_accumulate(kernel):
    """What the blocks of x and a give is added up, in fp32."""
    checks.group(kernel, "deep", "accumulate")


@check("precision", points=5)
def test_precision(kernel):
    """The update is added in fp32, and y is rounded once."""
    checks.group(kernel, "precision", "precision")


@check("precision", points=3, lane="compile")
def test_sum_type(kernel):
    """tl.dot, tl.sum and the loops keep their sums in fp32."""
    checks.fp32_reductions(kernel)
    if any(launch["dots"] for launch in checks.compiled_launches(kernel)):
        checks.fp32_accumulators(kernel)


@check("robust", points=5)
def test_contract(kernel):
    """Any size of the contract, also on a second call; y itself is returned, all else left alone."""
    checks.contract(kernel)
    if kernel.configs > 1:
        checks.tuned(kernel)


@check("robust", points=2, lane="compile")
def test_compiles(kernel):
    """The compiler accepts the kernels for every chip."""
    checks.compiles(kernel)


@check("robust", points=5, lane="gpu")
def test_on_the_card(kernel):
    """On a real card, between guard bands: every case is right and stays inside."""
    checks.on_gpu(kernel)
    checks.each(kernel.gpu("skipped"), untouched)


@check("speed", points=10, lane="gpu")
def test_speed(kernel):
    """At least 0.8 of the reference solution's speed, in one run."""
    checks.speed(kernel)
