"""Kata 16, cumsum: `cumsum(x)` in fp32, along rows that are longer than a block, in two reads."""

import torch
from grader import checks
from grader.grading import check
from grader.kata import Cost, Kata, Longest, case, lay_out
from grader.oracle import EPS32
from grader.reasons import Wrong
from grader.run import Run

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
WIDEST = 16_384  # columns that one block may have
LONG = 2 * WIDEST  # columns: two blocks and more, all whole, whatever their size
INF, NAN = float("inf"), float("nan")


def inputs(draw, R, C, dtype=F32, kind="whole", layout="contiguous"):
    if kind == "normal":
        return [draw.normal((R, C), dtype, layout=layout)]
    # Whole numbers whose magnitudes add up to less than 2^24: fp32 holds every sum of them.
    most = min(1000, 2**24 // max(C, 1)) if dtype == F32 else 60
    x = draw.integers((R, C), dtype, -most // 3, most, layout=layout)
    if kind == "ones":  # fp16 counts up to 2048, bf16 to 256
        x = lay_out(torch.ones((R, C), dtype=dtype), layout)
    if kind == "swing":  # far beyond 65504 and back again
        x[:], x[:, :100], x[:, 100:200] = 1, 32_768, -32_768
    if kind == "odd":  # at either end, in the middle, one after the other; some rows have none
        x[0, -1], x[1, C // 2], x[2, C // 2], x[3, C // 3], x[3, C // 2] = NAN, NAN, INF, -INF, INF
        x[4:, C // 2 :], x[5:, 0], x[6:] = INF, NAN, 0
    return [x]


def bound(want, x):
    """n numbers added in fp32, in whatever order, err by less than n roundoffs of their magnitudes.

    For column j these are the first j + 1 numbers of the row, and S the sum of their magnitudes.
    Where all are whole and S is at most 2^24, no partial sum of any order is rounded, so nothing is
    allowed: a carry that passes through fp16 or bf16 fails on its first odd thousand.
    """
    x = x.double()
    total = x.abs().cumsum(-1)
    exact = ((x != x.round()).cumsum(-1) == 0) & (total <= 2**24)
    steps = EPS32 * torch.arange(1, x.shape[1] + 1, device=x.device)
    return torch.where(exact, 0.0, steps / (1 - steps) * total)


def block(share=1.0, more=0):
    """A number of columns by the kernel's own block."""
    return lambda sizes: max(int(share * max(sizes)) + more, 1)


KATA = Kata(
    launcher="cumsum",
    parameters=("x",),
    inputs=inputs,
    reference=lambda x: x.cumsum(-1),
    bound=bound,
    result=lambda x: [(tuple(x.shape), F32)],
    widen=lambda block, x: (x.shape[0],),
    cost=lambda x: Cost(x.nbytes, 4 * x.numel(), x.numel()),
    baseline=lambda x: torch.cumsum(x, -1, dtype=F32),
    speed_case=dict(R=128, C=1_000_000),
    bench_sizes=(
        dict(R=4096, C=4096),
        dict(R=64, C=1_000_000),
        dict(R=4096, C=16_384),
        dict(R=512, C=131_072),
    ),
    figures=(dict(R=4096, C=16_384), dict(R=64, C=1_000_000), dict(R=64, C=1_000_000, dtype=F16)),
    usual_block=(1024, 1),
    suspects=(
        ("values", "These are the numbers of x itself.", lambda x: x),
        (
            "values",
            "Each sum leaves out its own column: exclusive, not inclusive.",
            lambda x: x.cumsum(-1) - x,
        ),
        ("values", "These are sums from the right.", lambda x: x.flip(-1).cumsum(-1).flip(-1)),
        ("values", "These are sums down the columns.", lambda x: x.cumsum(0)),
        ("values", "This is the sum of the whole row.", lambda x: x.sum(-1, True).expand(x.shape)),
    ),
    show=dict(R=5, C=100),
    cases=(
        case("probe", R=7, C=100),
        case("full", R=5, C=block()),
        case("full", R=16, C=block()),
        case("full", R=3, C=block(), kind="normal"),
        case("ragged", R=7, C=100),
        case("ragged", R=1, C=100),
        case("ragged", R=5, C=block(1, -1)),
        case("ragged", R=13, C=77),
        case("deep", R=4, C=LONG),
        case("deep", R=2, C=4 * WIDEST),
        case("deep", R=2, C=LONG, kind="normal"),
        case("ragged, deep", R=4, C=33_001),
        case("ragged, deep", R=3, C=20_011),
        case("walk", R=1, C=Longest(1_000_000)),
        case("many", R=300, C=4),
        case("sample", R=60_000, C=20),
        case("strided", R=16, C=128, layout="padded"),
        case("strided", R=16, C=128, layout="shifted"),
        case("strided", R=16, C=128, layout="one row"),
        case("strided, deep", R=3, C=LONG, layout="padded"),
        case("strided, precision", R=16, C=128, layout="padded", dtype=BF16),
        case("precision", R=40, C=128, dtype=F16),
        case("precision", R=16, C=128, dtype=BF16),
        case("precision", R=9, C=301, dtype=F16, kind="swing"),
        case("precision, deep", R=2, C=LONG, dtype=F16, kind="ones"),
        case("precision, deep", R=2, C=LONG, dtype=BF16),
        case("extreme", R=8, C=128, kind="odd"),
        case("extreme", R=8, C=128, dtype=F16, kind="odd"),
        case("extreme", R=4, C=33_001, kind="odd"),
        case("edge", R=0, C=64),
        case("edge", R=8, C=0),
        case("edge", R=1, C=1),
        case("edge", R=9, C=1, layout="padded"),
        case("edge", R=40, C=2, dtype=F16),
        case("again", R=16, C=128),
        case("again", R=2, C=20_011),
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
    """Lanes past the row read nothing and write nothing."""
    checks.mask(kernel)
    checks.each(kernel.trace("ragged, deep"), Run.in_bounds)
    checks.beyond(kernel, "deep", "ragged, deep", "mask")


@check("values", points=10)
def test_values(kernel):
    """Rows of a single block: each column is the sum of all up to and including itself."""
    checks.values(kernel)


@check("accumulate", points=5)
def test_walk(kernel):
    """Every column of a long row is read and written, in blocks of at most 16,384."""

    checks.walks(kernel.trace("walk"), WIDEST)
    checks.each(kernel.trace("walk", "deep", "ragged, deep", "strided, deep"), checks.writes_all)


@check("accumulate", points=10)
def test_carry(kernel):
    """What stands to the left of a block is added to it: once, and all of it, in fp32."""
    checks.group(kernel, "deep", "accumulate")
    checks.group(kernel, "walk", "accumulate")
    checks.each(kernel.trace("deep", "walk"), lambda run: run.undisturbed("accumulate"))


@check("precision", points=5)
def test_precision(kernel):
    """fp16 and bf16 are added up in fp32: nothing sticks, nothing overflows."""
    checks.group(kernel, "precision", "precision")
    checks.beyond(kernel, "deep", "precision, deep", "precision")


@check("precision", points=3, lane="compile")
def test_scan_type(kernel):
    """tl.cumsum and tl.sum add up in fp32."""
    checks.fp32_reductions(kernel)


@check("fusion", points=5)
def test_traffic(kernel):
    """x is read twice at most, and never copied; the result is written once."""
    checks.needs_values(kernel, "fusion")

    def ask(run: Run) -> None:
        run.kernel_ran()
        n = run.arguments[0].numel()
        # Sums of blocks are few. Whatever is as large as a good part of x holds its elements.
        large = [b for b in run.facts["buffers"] if 16 * b["elements"] > n]
        copied = sum(b["kind"] == "copy" for b in large)
        for what, most, key in (("reads", 2, "loaded_bytes"), ("writes", 1, "stored_bytes")):
            moved = copied + sum(b[key] / b["itemsize"] for b in large) / n
            if moved > most + 0.05:
                raise Wrong(
                    f"the kernel {what} every element {moved:.3g} times where {most} would do "
                    f"({run.label}{', a copy by PyTorch included' * bool(copied)})",
                    "fusion",
                )

    checks.each(kernel.trace("full", "deep", "walk", "strided, deep"), ask)


@check("robust", points=5)
def test_extremes(kernel):
    """An infinity or a NaN is felt from its own column on, and nowhere before."""
    checks.group(kernel, "extreme", "robust")


@check("robust", points=5)
def test_contract(kernel):
    """Any size, row stride and dtype of the contract, also on a second call."""
    checks.needs(kernel, "deep", "accumulate", "robust")
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
