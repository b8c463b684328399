"""Kata 2, relu: `relu(x)` of a tensor of any shape; NaN and the sign of 0 are nobody's business."""

import torch
from grader import checks
from grader.grading import check
from grader.kata import Cost, Kata, case
from grader.run import Run

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32


def inputs(draw, n=None, dtype=F32, shape=None, layout="contiguous", mean=0.2, std=1.0, odd=False):
    if odd:  # infinities, the largest and the smallest numbers of the dtype on either side of 0
        info = torch.finfo(dtype)
        least = info.smallest_normal * info.eps
        sizes = [float("inf"), info.max, 100.0, info.smallest_normal, least, 0.0]
        x = torch.tensor(sizes, dtype=torch.float64)
        return [torch.cat([x, -x[:-1]]).repeat(9).to(dtype)]
    return [draw.normal((n,) if shape is None else shape, dtype, mean, std, layout)]


KATA = Kata(
    launcher="relu",
    parameters=("x",),
    inputs=inputs,
    reference=lambda x: x.clamp(min=0),
    bound=lambda want, x: torch.zeros_like(want),  # every result is x or 0: nothing is rounded
    widen=lambda block, x: (-(-x.numel() // block[0]),),
    cost=lambda x: Cost(x.nbytes, x.nbytes, x.numel()),
    baseline=lambda x: torch.relu(x),
    speed_case=dict(n=2**28),
    bench_sizes=tuple(dict(n=2**e) for e in range(24, 29)),
    figures=tuple(dict(n=2**e) for e in (24, 26, 28)),
    suspects=(
        ("values", "These are the numbers of x itself.", lambda x: x),
        (
            "values",
            "These are the negative numbers: the two sides are swapped.",
            lambda x: -(-x).relu(),
        ),
        ("values", "These are the absolute values.", lambda x: x.abs()),
        ("values", "This is -x where x is negative.", lambda x: (-x).relu()),
        (
            "values",
            "This is 1 where x is positive: the comparison itself.",
            lambda x: (x > 0) * 1.0,
        ),
        ("values", "Large numbers are cut off at 6.", lambda x: x.clamp(0, 6)),
        ("values", "Large numbers are cut off at 1.", lambda x: x.clamp(0, 1)),
        ("values", "Negative numbers leak through.", lambda x: torch.where(x < 0, 0.01 * x, x)),
    ),
    show=dict(n=lambda block: 2 * block[0] + block[0] // 2 + 7),
    cases=(
        case("probe", n=1000),
        case("full", n=lambda block: 2 * block[0]),
        case("full", n=lambda block: 5 * block[0], std=20.0),
        case("full", n=lambda block: 3 * block[0], mean=-1.5),
        case("full", n=lambda block: 16 * block[0]),
        case("ragged", n=lambda block: 3 * block[0] + block[0] // 2 + 1),
        case("ragged", n=lambda block: block[0] - 1),
        case("ragged", n=lambda block: block[0] + 1),
        case("ragged", n=4099),
        case("ragged", n=20_011),
        case("many", n=lambda block: min(300 * block[0] - 5, 2**20)),
        case("sample", n=1_100_000),
        case("edge", n=0),
        case("edge", shape=(3, 5, 7)),
        case("edge", shape=(0, 3)),
        case("edge", shape=()),
        case("edge", shape=(64, 129), dtype=F16),
        case("edge", n=777, dtype=BF16),
        case("edge", n=1),
        case("edge", shape=(5, 1)),
        case("edge", shape=(2, 3, 2, 3, 2), dtype=BF16),
        case("edge", n=1000, layout="shifted"),
        case("edge", n=999, dtype=F16, std=1e4),
        case("extreme", odd=True),
        case("extreme", odd=True, dtype=F16),
        case("extreme", odd=True, dtype=BF16),
        case("again", n=1000),
        case("tuned", n=1500),
        case("compile", n=98_432),
        case("compile", n=4099, dtype=F16),
        case("compile", n=4099, dtype=BF16),
    ),
)


@check("grid", points=15)
def test_grid(kernel):
    """Enough programs for every element."""
    checks.grid(kernel)


@check("offsets", points=15)
def test_offsets(kernel):
    """Each program works on its own block."""
    checks.offsets(kernel)


@check("mask", points=20)
def test_mask(kernel):
    """Neither load nor store leaves the tensors."""
    checks.mask(kernel)


@check("values", points=15)
def test_values(kernel):
    """0 for what is negative, x for the rest, and no bit lost."""
    checks.values(kernel)


@check("robust", points=5)
def test_result(kernel):
    """The result is a new tensor of x's shape and dtype."""
    checks.each(kernel.trace("edge"), Run.keeps_contract)


@check("robust", points=5)
def test_contract(kernel):
    """Any size, shape and dtype of the contract, also on a second call; x is left as it was."""
    checks.contract(kernel)


@check("robust", points=5)
def test_extremes(kernel):
    """Infinities, the largest and the smallest numbers of each dtype."""
    checks.group(kernel, "extreme", "robust")


@check("robust", points=5, lane="compile")
def test_compiles(kernel):
    """The compiler accepts the kernel for every chip."""
    checks.compiles(kernel)


@check("robust", points=5, lane="gpu")
def test_on_the_card(kernel):
    """On a real card, between guard bands: every case is right and stays inside."""
    checks.on_gpu(kernel)


@check("speed", points=10, lane="gpu")
def test_speed(kernel):
    """At least 0.8 of the reference solution's speed, in one run."""
    checks.speed(kernel)
