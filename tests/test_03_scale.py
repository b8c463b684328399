"""Kata 3, scale: `scale(x, s)`, autotuned over block sizes."""

import torch
from grader import checks
from grader.grading import check
from grader.kata import Cost, Kata, case
from grader.oracle import half_ulp

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32


def inputs(draw, n=None, dtype=F32, shape=None, s=3.7, layout="contiguous", std=1.0, special=False):
    if special:
        odd = [float("inf"), float("-inf"), float("nan"), -0.0, 1e-45, 3e38, -3e38, 1.0]
        return [torch.tensor(odd).to(dtype), s]
    return [draw.normal((n,) if shape is None else shape, dtype, std=std, layout=layout), s]


def bound(want, x, s):
    """Two units in the last place in all: one for rounding s, one more than the last rounding."""
    return 3 * half_ulp(want, x.dtype)


KATA = Kata(
    launcher="scale",
    parameters=("x", "s"),
    inputs=inputs,
    reference=lambda x, s: x * s,
    bound=bound,
    widen=lambda block, x, s: (-(-x.numel() // block[0]),),
    cost=lambda x, s: Cost(x.nbytes, x.nbytes, x.numel()),
    baseline=lambda x, s: x * s,
    speed_case=dict(n=2**28),
    bench_sizes=tuple(dict(n=2**e) for e in range(16, 29, 2)),
    figures=tuple(dict(n=2**e) for e in (24, 26, 28)),
    suspects=(
        ("values", "These are the numbers of x itself: s is not used.", lambda x, s: x),
        ("values", "These are the numbers of x / s.", lambda x, s: x / s),
        ("values", "These are the numbers of x + s.", lambda x, s: x + s),
        ("values", "s was cut to a whole number.", lambda x, s: x * int(s)),
    ),
    show=dict(n=lambda block: 2 * block[0] + block[0] // 2 + 7),
    cases=(
        case("probe", n=1000),
        case("full", n=lambda block: 2 * block[0]),
        case("full", n=lambda block: 5 * block[0], s=-1.25),
        case("full", n=lambda block: 16 * block[0]),
        case("ragged", n=lambda block: 3 * block[0] + block[0] // 2 + 1),
        case("ragged", n=lambda block: 3 * block[0] + 16),
        case("ragged", n=lambda block: block[0] - 1),
        case("ragged", n=lambda block: block[0] + 1),
        case("precision", n=lambda block: 2 * block[0], dtype=F16, s=1 / 3),
        case("precision", n=lambda block: 2 * block[0], dtype=BF16, s=1 / 3),
        case("precision", n=lambda block: 2 * block[0], s=1 / 3),
        case("precision", n=lambda block: 2 * block[0], dtype=F16, s=0.001, std=6e4),
        case("precision", n=lambda block: 2 * block[0], dtype=BF16, s=70_000.0),
        case("many", n=lambda block: min(300 * block[0] - 5, 2**20)),
        case("sample", n=1_100_000),
        case("edge", n=0),
        case("edge", shape=()),
        case("edge", n=300, s=1),
        case("edge", n=300, s=float("inf")),
        case("edge", n=300, s=float("nan")),
        case("edge", special=True),
        case("edge", special=True, s=0.0),
        case("edge", special=True, dtype=BF16, s=-1.0),
        case("edge", n=300, dtype=BF16, s=1.0, std=1e30),
        case("edge", n=1, s=-2),
        case("edge", n=1000, s=0.0),
        case("edge", shape=(3, 5, 7), s=1e30),
        case("edge", shape=(61, 129), dtype=F16, s=-0.5),
        case("edge", n=777, dtype=BF16, s=100),
        case("edge", n=1000, layout="shifted"),
        case("again", n=1000),
        case("tuned", n=1500),
        case("tuned", n=40_000),
        case("compile", n=98_432),
        case("compile", n=4099, dtype=F16),
    ),
)


@check("grid", points=15)
def test_grid(kernel):
    """Enough programs, whatever block size the config has."""
    checks.grid(kernel)


@check("offsets", points=10)
def test_offsets(kernel):
    """Each program works on its own block."""
    checks.offsets(kernel)


@check("mask", points=15)
def test_mask(kernel):
    """The last block stays inside the tensors."""
    checks.mask(kernel)


@check("values", points=10)
def test_values(kernel):
    """x times s."""
    checks.values(kernel)


@check("precision", points=10)
def test_precision(kernel):
    """Within two units in the last place, in fp16, bf16 and fp32."""
    checks.group(kernel, "precision", "precision")


@check("autotune", points=15)
def test_autotune(kernel):
    """Four different configs, two block sizes, tuned anew for a new size, each of them right."""
    checks.tuning(kernel, configs=4, blocks=2)


@check("robust", points=5)
def test_contract(kernel):
    """Any size, shape and dtype of the contract, also on a second call."""
    checks.contract(kernel, configs=False)


@check("robust", points=5, lane="compile")
def test_compiles(kernel):
    """The compiler accepts every config for every chip."""
    checks.compiles(kernel)


@check("robust", points=5, lane="gpu")
def test_on_the_card(kernel):
    """On a real card, between guard bands: every case is right and stays inside."""
    checks.on_gpu(kernel)


@check("speed", points=10, lane="gpu")
def test_speed(kernel):
    """At least 0.8 of the reference solution's speed, in one run."""
    checks.speed(kernel)
