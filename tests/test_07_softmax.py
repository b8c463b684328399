"""Kata 7, softmax: `softmax(x)` along the last dimension of a matrix, in one kernel."""

import math

import torch
from grader import checks
from grader.grading import check
from grader.kata import Cost, Kata, case
from grader.oracle import EPS32
from grader.reasons import Wrong
from grader.run import Run

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32


def inputs(draw, R, C, dtype=F32, layout="contiguous", std=2.0, lift=None, kind=None):
    if lift is not None:  # whole numbers, the same in every case, with `lift` added exactly
        pattern = (torch.arange(R * C) * 7919 % 17 - 8).reshape(R, C)
        return [(pattern + lift).to(F32)]
    x = draw.normal((R, C), dtype, std=std, layout=layout)
    if kind == "extreme":
        x[0] = float("-inf")
        x[1, ::2] = float("-inf")
        x[2] *= 3000
        x[3, 0] = 6e4
        x[4:5, 1] = float("nan")  # one is enough to make the whole row NaN
    if kind == "late":  # nothing but -inf for more than two thirds of the row
        x[:, : C * 5 // 6] = float("-inf")
    if kind == "low":  # far below any padding but -inf; the last row has nothing else
        if dtype == F32:
            x = -(2.0**100) * (1 + draw.integers((R, C), torch.int64, 0, 8).float())
        x[-1] = float("-inf")
    return [x]


def softmax_of_2(x):
    return torch.softmax(x * math.log(2), dim=-1)


def reference(x):
    return torch.softmax(x, dim=-1)


def bound(want, x):
    """exp in fp32 errs by a few roundings and one for every unit of its argument; the sum by C/16."""
    if not x.numel():
        return torch.zeros_like(want)
    depth = (x.double().amax(-1, keepdim=True) - x.double()).nan_to_num(0.0, 0.0, 0.0)
    return want.nan_to_num(0.0) * EPS32 * (16 + x.shape[1] / 16 + 3 * depth) + 2.0**-126


KATA = Kata(
    launcher="softmax",
    parameters=("x",),
    inputs=inputs,
    reference=reference,
    bound=bound,
    widen=lambda block, x: (x.shape[0],),
    cost=lambda x: Cost(x.nbytes, x.nbytes, 5 * x.numel()),
    baseline=lambda x: torch.softmax(x, dim=-1),
    speed_case=dict(R=16384, C=8192),
    bench_sizes=tuple(dict(R=16384, C=2**e) for e in range(9, 16)),
    figures=(dict(R=16384, C=4096), dict(R=16384, C=8192)),
    suspects=(
        ("values", "These are the numbers of x itself.", lambda x: x),
        ("reduction", "The rows are not divided by their sum.", lambda x: x.exp()),
        (
            "reduction",
            "The rows are not divided by their sum.",
            lambda x: (x - x.amax(-1, keepdim=True)).exp(),
        ),
        ("reduction", "This is the softmax of the columns.", lambda x: torch.softmax(x, 0)),
        ("values", "This is the logarithm of it.", lambda x: torch.log_softmax(x, -1)),
        ("values", "This is 2 to the power of x, normalised.", lambda x: softmax_of_2(x)),
    ),
    show=dict(R=5, C=48),
    cases=(
        case("probe", R=7, C=100),
        case("full", R=16, C=64),
        case("full", R=48, C=128),
        case("full", R=8, C=1024),
        case("full", R=4, C=4096),
        case("full", R=2, C=16_384),
        case("full", R=2, C=32_768),
        case("ragged", R=7, C=100),
        case("ragged", R=1, C=100),
        case("ragged", R=13, C=127),
        case("ragged", R=5, C=129),
        case("ragged", R=5, C=48),
        case("ragged", R=3, C=1040),
        case("ragged", R=9, C=781),
        case("ragged", R=3, C=3000),
        case("ragged", R=2, C=9_000),
        case("ragged", R=2, C=32_767),
        case("many", R=600, C=4),
        case("low, full", R=8, C=128, kind="low"),
        case("low, full", R=8, C=128, kind="low", dtype=F16),
        case("low, full", R=8, C=128, kind="low", dtype=BF16),
        case("low, ragged", R=8, C=100, kind="low"),
        case("low, ragged", R=8, C=100, kind="low", dtype=F16),
        case("low, ragged", R=8, C=100, kind="low", dtype=BF16),
        case("strided", R=16, C=64, layout="transposed"),
        case("strided", R=16, C=128, layout="padded"),
        case("strided", R=16, C=64, layout="spread"),
        case("strided", R=16, C=64, layout="shifted"),
        case("strided", R=16, C=64, layout="one row"),
        case("strided", R=2, C=32_768, layout="transposed"),
        case("strided", R=3, C=9000, layout="spread"),
        case("strided, precision", R=16, C=64, layout="transposed", dtype=BF16),
        case("precision", R=16, C=128, dtype=F16),
        case("precision", R=16, C=128, dtype=BF16),
        case("precision", R=8, C=4096, dtype=F16, std=0.1),
        case("lifted", R=16, C=64, lift=0),
        case("lifted", R=16, C=64, lift=10_000),
        case("lifted", R=16, C=64, lift=-10_000),
        case("extreme", R=16, C=128, kind="extreme"),
        case("extreme", R=16, C=128, dtype=F16, kind="extreme"),
        case("extreme", R=4, C=20_000, kind="extreme"),
        case("extreme", R=2, C=3000, kind="late"),
        case("extreme", R=2, C=9000, kind="late"),
        case("sample", R=66_000, C=17, layout="spread"),
        case("sample", R=1100, C=1000, layout="padded", dtype=F16),
        case("edge", R=0, C=64),
        case("edge", R=8, C=0),
        case("edge", R=1, C=1),
        case("edge", R=5, C=1),
        case("edge", R=40, C=2),
        case("edge", R=16, C=129, dtype=F16, layout="transposed"),
        case("again", R=16, C=128),
        case("tuned", R=10, C=100),
        case("compile", R=64, C=4096),
        case("compile", R=512, C=781, dtype=F16),
        case("compile", R=4, C=32_768),
        case("compile", R=64, C=781, dtype=BF16),
    ),
)


@check("grid", points=10)
def test_grid(kernel):
    """A program for every row."""
    checks.grid(kernel)


@check("offsets", points=10)
def test_offsets(kernel):
    """Each program works on its own row."""
    checks.offsets(kernel)


@check("layout", points=5)
def test_strides(kernel):
    """Rows and columns are found through their strides."""
    checks.group(kernel, "strided", "layout")
    checks.beyond(kernel, "precision", "strided, precision", "layout")


@check("mask", points=15)
def test_mask(kernel):
    """Lanes past the row read nothing, write nothing and count for nothing."""
    checks.mask(kernel)
    checks.beyond(kernel, "low, full", "low, ragged", "mask")
    checks.padding(kernel, "-inf")


@check("values", points=10)
def test_values(kernel):
    """The exponentials are right (the sum of each row is a matter of reduction)."""

    def ask(run: Run) -> None:
        run.kernel_ran()
        wrong = run.mismatch(written_only=True)
        if wrong is not None and row_sums(run)[2]:
            got = run.got().double() / row_sums(run)[0].unsqueeze(-1)
            wrong = run.compare(got, written_only=True, slack=8)
        if wrong is not None:
            run.wrong_values(wrong, 0, "values")

    checks.each(kernel.trace("full"), ask)


def row_sums(run: Run):
    """What the written elements of each row add up to, what they should, and the rows that fail."""
    written = (run.coverage() & 1).bool()
    zero = torch.zeros((), dtype=torch.float64)
    sums, due = (torch.where(written, t.double(), zero).sum(-1) for t in (run.got(), run.want[0]))
    return sums, due, ((sums - due).abs() <= 2e-5 * due).logical_not().nonzero().flatten().tolist()


@check("reduction", points=10)
def test_reduction(kernel):
    """Each row adds up to 1."""

    def ask(run: Run) -> None:
        run.kernel_ran()
        sums, due, wrong = row_sums(run)
        if wrong:
            row = wrong[0]
            part = "" if due[row] > 0.999999 else "what is written of "
            raise Wrong(
                f"{part}row {row} adds up to {sums[row]:.6g}, not to {due[row]:.6g} ({run.label})",
                "reduction",
            )

    checks.each(kernel.trace("full"), ask)


@check("robust", points=5)
def test_shift(kernel):
    """Adding 10,000 to a whole row changes nothing; large and infinite values are survived."""
    plain, *lifted = kernel.trace("lifted")
    plain.kernel_ran()
    for run in lifted:
        run.kernel_ran()
        both = (plain.coverage() & run.coverage() & 1).bool()
        a, b = plain.got().double()[both], run.got().double()[both]
        if not a.numel() or not bool(((a - b).abs() <= 1e-5 * a.abs() + 1e-30).all()):
            raise Wrong(
                "softmax(x + 10000) differs from softmax(x). The row's maximum, taken off first, "
                "makes them the same, and keeps exp from overflowing",
                "robust",
            )
    if checks.values_hold(kernel):
        checks.group(kernel, "extreme", "robust")
        checks.group(kernel, "low, full", "robust")


@check("precision", points=5)
def test_precision(kernel):
    """fp16 and bf16 are worked on in fp32 and rounded once."""
    checks.group(kernel, "precision", "precision")


@check("fusion", points=5)
def test_fusion(kernel):
    """Nothing but the result goes back to memory."""
    checks.needs_values(kernel, "fusion")
    checks.traffic(kernel.trace("full"), reads=3, writes=1)


@check("robust", points=5)
def test_contract(kernel):
    """Any size, shape and dtype of the contract, also on a second call."""
    checks.contract(kernel)


@check("robust", points=2, lane="compile")
def test_compiles(kernel):
    """The compiler accepts the kernel for every chip."""
    checks.compiles(kernel)


@check("precision", points=3, lane="compile")
def test_reduction_type(kernel):
    """tl.sum adds up in fp32."""
    checks.fp32_reductions(kernel)


@check("robust", points=5, lane="gpu")
def test_on_the_card(kernel):
    """On a real card, between guard bands: every case is right and stays inside."""
    checks.on_gpu(kernel)


@check("speed", points=10, lane="gpu")
def test_speed(kernel):
    """At least 0.8 of the reference solution's speed, in one run."""
    checks.speed(kernel)
