"""Kata 1, vector_add: `add(x, y)` of two tensors of the same shape and dtype."""

import torch
from grader import checks
from grader.grading import check
from grader.kata import Cost, Kata, case

F16, BF16, F32, I32 = torch.float16, torch.bfloat16, torch.float32, torch.int32


def inputs(draw, n=None, dtype=F32, shape=None, layout="contiguous", special=False):
    shape = (n,) if shape is None else shape
    if special:  # infinities, NaN, the largest and the smallest numbers pass through
        odd = [float("inf"), float("-inf"), float("nan"), -0.0, 1e-45, 3e38, -3e38, 1.0]
        x, y = torch.tensor(odd).repeat(8), torch.tensor(odd).repeat_interleave(8)
        return [x.to(dtype), y.to(dtype)]
    if dtype == I32:  # large enough that fp32 would lose the last bits
        return [draw.integers(shape, I32, -(2**30), 2**30) for _ in "xy"]
    return [draw.normal(shape, dtype, mean=m, layout=layout) for m in (0.5, -2.0)]


KATA = Kata(
    launcher="add",
    parameters=("x", "y"),
    inputs=inputs,
    reference=lambda x, y: x + y,
    bound=lambda want, x, y: torch.zeros_like(want),  # one rounding, nothing else
    widen=lambda block, x, y: (-(-x.numel() // block[0]),),
    cost=lambda x, y: Cost(2 * x.nbytes, x.nbytes, x.numel()),
    baseline=lambda x, y: x + y,
    speed_case=dict(n=2**28),
    bench_sizes=tuple(dict(n=2**e) for e in range(16, 29, 2)),
    figures=tuple(dict(n=2**e) for e in (24, 26, 28)),
    suspects=(
        ("values", "These are the numbers of x + x: y is never used.", lambda x, y: x + x),
        ("values", "These are the numbers of x alone.", lambda x, y: x),
        ("values", "These are the numbers of x - y.", lambda x, y: x - y),
        ("values", "These are the numbers of x * y.", lambda x, y: x * y),
    ),
    show=dict(n=lambda block: 2 * block[0] + block[0] // 2 + 7),
    cases=(
        case("probe", n=1000),
        case("full", n=lambda block: 2 * block[0]),
        case("full", n=lambda block: 5 * block[0]),
        case("full", n=lambda block: 16 * block[0]),
        case("ragged", n=lambda block: 3 * block[0] + block[0] // 2 + 1),
        case("ragged", n=lambda block: 3 * block[0] + 16),
        case("ragged", n=lambda block: block[0] - 1),
        case("ragged", n=lambda block: block[0] + 1),
        case("ragged", n=4099),
        case("ragged", n=20_011),
        case("many", n=lambda block: min(300 * block[0] - 5, 2**20)),
        case("sample", n=1_100_000),
        case("edge", n=0),
        case("edge", shape=(0, 3)),
        case("edge", shape=()),
        case("edge", shape=(5, 1)),
        case("edge", shape=(2, 3, 2, 3, 2)),
        case("edge", special=True),
        case("edge", special=True, dtype=F16),
        case("edge", n=1),
        case("edge", shape=(3, 5, 7)),
        case("edge", shape=(61, 129), dtype=F16),
        case("edge", n=777, dtype=BF16),
        case("edge", n=1025, dtype=I32),
        case("edge", n=1000, layout="shifted"),
        case("again", n=1000),
        case("tuned", n=1500),
        case("compile", n=98_432),
        case("compile", n=4099, dtype=F16),
        case("compile", n=4099, dtype=BF16),
        case("compile", n=4099, dtype=I32),
    ),
)


@check("grid", points=20)
def test_grid(kernel):
    """Enough programs for every element."""
    checks.grid(kernel)


@check("offsets", points=20)
def test_offsets(kernel):
    """Each program works on its own block."""
    checks.offsets(kernel)


@check("mask", points=20)
def test_mask(kernel):
    """The last block stays inside the tensors."""
    checks.mask(kernel)


@check("values", points=15)
def test_values(kernel):
    """x + y, rounded once."""
    checks.values(kernel)


@check("robust", points=5)
def test_contract(kernel):
    """Any size, shape and dtype of the contract, also on a second call."""
    checks.contract(kernel)


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
