"""Kata 8, online_softmax: `online_softmax(x)` along rows that are longer than a block, in two reads."""

import torch
from grader import checks
from grader.grading import check
from grader.kata import Cost, Kata, case
from grader.oracle import EPS32
from grader.reasons import Wrong
from grader.run import Run

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
WIDEST = 16_384  # columns that one block may have
LONG = 2 * WIDEST  # columns: two blocks and more, all whole, whatever their size
INF = float("inf")


def inputs(draw, R, C, dtype=F32, layout="contiguous", kind="plain"):
    x = draw.normal((R, C), dtype, std=2.0, layout=layout)
    slope = torch.linspace(0, 20, C)
    if kind == "slopes":  # the maximum rises all along the row, falls, comes in the middle
        for row, lift in enumerate((0 * slope, slope, -slope, -(slope - 10).abs())[:R]):
            x[row] += lift.to(dtype)
    if kind == "late":  # a first block of -inf, a last one, both
        x[0, : C * 5 // 6] = x[1, C // 6 :] = -INF
        x[2, : C // 2] = x[2, C // 2 + 1 :] = -INF
    if kind == "extreme":
        x[0], x[1, ::2], x[3, 0], x[4, 0], x[5, -1], x[6, -1] = -INF, -INF, 6e4, INF, INF, INF
        x[2] *= 3000
        x[6, : C - 1] = -INF
    if kind == "low":  # far below any padding but -inf; the last row has nothing else
        x = -(2.0**100) * (1 + draw.integers((R, C), torch.int64, 0, 8).float())
        x[-1] = -INF
    if kind == "lifted":  # whole numbers, which 20,000 is added to or taken off exactly
        x = draw.integers((R, C), F32, -8, 9) + 20_000
        x[::2] -= 40_000
    return [x]


def bound(want, x):
    """Roundings in fp32, relative to each element.

    exp errs by one for every unit of what its argument is made of, x and the maximum, in each of
    three steps; the rest of it and the division by a few more. Each block of a walk adds four to
    the sum: exp, the product with it, the addition, and a share of the sum within the block. In
    blocks of 64 columns and more that makes C / 16. Nothing may err by more than a bf16 number does.
    """
    if not x.numel():
        return torch.zeros_like(want)
    size = x.double().abs() + x.double().amax(-1, keepdim=True).abs()
    steps = 16 + x.shape[1] / 16 + 3 * size.nan_to_num(0.0, 0.0, 0.0)
    return want.nan_to_num(0.0) * (EPS32 * steps).clamp(max=2.0**-8) + 2.0**-126


def block(share=1.0, more=0):
    """A number of columns by the kernel's own block."""
    return lambda sizes: max(int(share * max(sizes)) + more, 1)


KATA = Kata(
    launcher="online_softmax",
    parameters=("x",),
    inputs=inputs,
    reference=lambda x: torch.softmax(x, dim=-1),
    bound=bound,
    widen=lambda block, x: (x.shape[0],),
    cost=lambda x: Cost(x.nbytes, x.nbytes, 8 * x.numel()),
    baseline=lambda x: torch.softmax(x, dim=-1),
    speed_case=dict(R=1024, C=131_072),
    bench_sizes=tuple(dict(R=512, C=2**e) for e in range(13, 19)),
    figures=(dict(R=2048, C=32_768), dict(R=512, C=131_072), dict(R=128, C=1_000_000)),
    usual_block=(1024, 1),
    suspects=(
        ("values", "These are the numbers of x itself.", lambda x: x),
        ("reduction", "This is the softmax of the columns.", lambda x: torch.softmax(x, 0)),
        (
            "values",
            "This is 2 to the power of x, normalised.",
            lambda x: torch.softmax(x * 0.6931471805599453, -1),
        ),
    ),
    show=dict(R=5, C=100),
    cases=(
        case("probe", R=7, C=100),
        case("full", R=5, C=block()),
        case("full", R=16, C=block()),
        case("ragged", R=7, C=100),
        case("ragged", R=1, C=100),
        case("ragged", R=5, C=block(1, -1)),
        case("ragged", R=13, C=77),
        case("deep", R=4, C=LONG, kind="slopes"),
        case("deep", R=1, C=4 * WIDEST),
        case("ragged, deep", R=4, C=33_001, kind="slopes"),
        case("ragged, deep", R=3, C=20_011),
        case("walk", R=1, C=880_000),
        case("many", R=600, C=4),
        case("low, full", R=8, C=block(), kind="low"),
        case("low, ragged", R=8, C=block(0.75), kind="low"),
        case("strided", R=16, C=128, layout="padded"),
        case("strided", R=16, C=128, layout="shifted"),
        case("strided", R=16, C=128, layout="one row"),
        case("strided, deep", R=3, C=LONG, layout="padded"),
        case("strided, precision", R=16, C=128, layout="padded", dtype=BF16),
        case("precision", R=40, C=128, dtype=F16),
        case("precision", R=16, C=128, dtype=BF16),
        case("precision, deep", R=4, C=LONG, dtype=F16, kind="slopes"),
        case("late", R=3, C=LONG, kind="late"),
        case("extreme", R=16, C=128, kind="lifted"),
        case("extreme", R=7, C=128, kind="extreme"),
        case("extreme", R=7, C=128, dtype=F16, kind="extreme"),
        case("extreme", R=7, C=20_000, kind="extreme"),
        case("sample", R=70_000, C=17, layout="padded"),
        case("edge", R=0, C=64),
        case("edge", R=8, C=0),
        case("edge", R=1, C=1),
        case("edge", R=9, C=1, layout="padded"),
        case("edge", R=40, C=2, dtype=F16),
        case("again", R=16, C=128),
        case("tuned", R=10, C=100),
        case("compile", R=2, C=1_000_000),
        case("compile", R=2, C=781, dtype=F16),
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
    """Rows are found through their stride."""
    checks.group(kernel, "strided", "layout")
    checks.beyond(kernel, "deep", "strided, deep", "layout")
    checks.beyond(kernel, "precision", "strided, precision", "layout")


@check("mask", points=10)
def test_mask(kernel):
    """Lanes past the row read nothing, write nothing and count for nothing."""
    checks.mask(kernel)
    checks.beyond(kernel, "low, full", "low, ragged", "mask")
    checks.each(kernel.trace("ragged, deep"), Run.in_bounds)
    try:
        checks.each(kernel.trace("walk"), checks.reads_all)
    except Wrong:
        return  # what the walk leaves out is not the mask's fault
    checks.beyond(kernel, "deep", "ragged, deep", "mask")


@check("reduction", points=10)
def test_reduction(kernel):
    """Rows of a single block add up to 1, and are right."""

    def ask(run: Run) -> None:
        run.kernel_ran()
        sums = run.got().double().sum(-1)
        wrong = (run.coverage() & 1).all(-1) & ~((sums - 1).abs() < 0.01)
        if bool(wrong.any()):
            row = int(wrong.nonzero()[0])
            raise Wrong(
                f"row {row} adds up to {sums[row]:.6g}, not to 1 ({run.label})", "reduction"
            )

    checks.each(kernel.trace("full"), ask)
    checks.values(kernel)


@check("accumulate", points=5)
def test_walk(kernel):
    """Every column of a long row is read and written, in blocks of at most 16,384."""

    checks.walks(kernel.trace("walk"), WIDEST)
    checks.each(kernel.trace("walk"), checks.writes_all)


@check("accumulate", points=10)
def test_running(kernel):
    """Maximum and sum are carried from block to block, past blocks of -inf too."""
    checks.group(kernel, "deep", "accumulate")
    checks.group(kernel, "late", "accumulate")
    checks.group(kernel, "walk", "accumulate")


@check("precision", points=5)
def test_precision(kernel):
    """fp16 and bf16 are worked on in fp32 and rounded once."""
    checks.group(kernel, "precision", "precision")
    checks.beyond(kernel, "deep", "precision, deep", "precision")


@check("precision", points=3, lane="compile")
def test_reduction_type(kernel):
    """tl.sum adds up in fp32."""
    checks.fp32_reductions(kernel)


@check("fusion", points=5)
def test_traffic(kernel):
    """x is read twice at most, and never copied; nothing but the result is written."""
    checks.needs_values(kernel, "fusion")

    def ask(run: Run) -> None:
        if any(b["kind"] == "copy" and b["loaded_bytes"] for b in run.facts["buffers"]):
            raise Wrong(f"the kernel reads a copy that PyTorch made ({run.label})", "fusion")

    checks.traffic(kernel.trace("deep", "ragged, deep", "strided, deep"), reads=2, writes=1)
    checks.each(kernel.trace("full", "deep", "strided", "strided, deep"), ask)


@check("robust", points=5)
def test_extremes(kernel):
    """Large and infinite values are survived: NaN comes where PyTorch has it, and nowhere else."""
    checks.group(kernel, "extreme", "robust")


@check("robust", points=5)
def test_contract(kernel):
    """Any size, row stride and dtype of the contract, also on a second call."""
    checks.contract(kernel)


@check("robust", points=2, lane="compile")
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
