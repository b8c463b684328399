"""Kata 6, row_sum: `row_sum(x)` in fp32, along rows that are longer than a block."""

import torch
from grader import checks
from grader.grading import check
from grader.kata import Cost, Kata, Longest, case, lay_out
from grader.oracle import EPS32
from grader.reasons import Wrong

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
WIDEST = 16_384  # columns that one block may have


def inputs(draw, R, C, dtype=F32, kind="whole", layout="contiguous"):
    if kind == "normal":
        return [draw.normal((R, C), dtype, layout=layout)]
    # Whole numbers whose magnitudes add up to less than 2^24: fp32 holds every sum of them.
    most = min(1000, 2**24 // max(C, 1)) if dtype == F32 else 60
    if kind == "windows":  # each row starts one element after the row before it
        return [draw.integers((R + C - 1,), dtype, -most // 3, most).as_strided((R, C), (1, 1))]
    x = draw.integers((R, C), dtype, -most // 3, most, layout=layout)
    if kind == "ones":  # fp16 counts up to 2048, bf16 to 256
        x = lay_out(torch.ones((R, C), dtype=dtype), layout)
    if kind == "swing":  # far beyond 65504 and back again, past many ones
        height = 32_768 if dtype == F16 else 98_304  # which fp16 does not have at all
        x[:], x[:, :50], x[:, -50:] = 1, height, -height
    if kind == "odd":
        info = torch.finfo(dtype)
        x[0, 1], x[1, 2], x[2, 3] = float("inf"), float("-inf"), float("nan")
        x[3, 4], x[3, 5] = float("inf"), float("-inf")
        x[4] = 65_504 if dtype == F16 else 2.0**100
        x[5], x[6, 0] = info.smallest_normal, info.max
    return [x]


def bound(want, x):
    """n numbers added in fp32, in whatever order, err by less than n roundoffs of their magnitudes.

    That is each of n - 1 additions rounding a partial sum no larger than the sum of magnitudes, S.
    Where all are whole numbers and S is at most 2^24, no partial sum of any order is rounded, so
    nothing is allowed: a sum that passes through fp16 or bf16 fails on its first odd thousand.
    """
    x = x.double()
    total = x.abs().sum(-1)
    exact = (x == x.round()).all(-1) & (total <= 2**24)
    return torch.where(exact, 0.0, 1.02 * x.shape[1] * EPS32 * total)


def times(rows, blocks, more=0):
    """Sizes as multiples of the kernel's own block, (rows a program, columns a step)."""
    return dict(
        R=lambda block: rows * min(block[0], 64), C=lambda block: max(blocks * block[1] + more, 1)
    )


KATA = Kata(
    launcher="row_sum",
    parameters=("x",),
    inputs=inputs,
    reference=lambda x: x.sum(-1),
    bound=bound,
    result=lambda x: [((x.shape[0],), F32)],
    widen=lambda block, x: (-(-x.shape[0] // block[0]),),
    cost=lambda x: Cost(x.nbytes, 4 * x.shape[0], x.numel()),
    baseline=lambda x: torch.sum(x, -1, dtype=F32),
    speed_case=dict(R=8192, C=32_768),
    bench_sizes=(
        dict(R=256, C=200_000),
        dict(R=65_536, C=1024),
        dict(R=1024, C=100_000),
        dict(R=4096, C=32_768),
        dict(R=16_384, C=8192),
        dict(R=8192, C=32_768),
    ),
    figures=(dict(R=8192, C=4096), dict(R=256, C=200_000, dtype=F16), dict(R=8192, C=32_768)),
    usual_block=(1, 1024),
    suspects=(
        ("reduction", "This is the mean of the row.", lambda x: x.mean(-1)),
        ("reduction", "This is the maximum of the row.", lambda x: x.amax(-1)),
        ("reduction", "These are the sums of the columns.", lambda x: x.sum(0)),
        ("values", "This is the sum of the magnitudes.", lambda x: x.abs().sum(-1)),
        ("values", "This is the sum of the squares.", lambda x: (x * x).sum(-1)),
        ("reduction", "This is the first number of the row.", lambda x: x[:, 0]),
        ("accumulate", "This is twice the sum: a block counts twice.", lambda x: 2 * x.sum(-1)),
        ("mask", "The last column is left out.", lambda x: x[:, :-1].sum(-1)),
    ),
    show=times(3, 2, 21),
    cases=(
        case("probe", R=7, C=100),
        case("full", **times(8, 1)),
        case("full", **times(3, 1), kind="normal"),
        case("ragged", R=1, C=100),
        case("ragged", **times(4, 1, -1)),
        case("ragged", **times(5, 0, 77)),
        case("ragged", R=lambda block: 3 * min(block[0], 64) + 1, C=100),
        case("deep", **times(2, 4)),
        case("deep", R=3, C=65_536),
        case("deep, half", R=3, C=32_768, dtype=F16),
        case("deep, half", R=2, C=32_768, dtype=BF16, kind="ones"),
        case("walk", R=1, C=131_072),
        case("walk", R=1, C=Longest(200_000)),
        case("ragged, deep", **times(3, 3, 5)),
        case("ragged, deep", R=3, C=20_011, kind="ones"),
        case("ragged, deep", R=2, C=100_000),
        case("strided", R=16, C=128, layout="padded"),
        case("strided", R=16, C=128, layout="shifted"),
        case("strided", R=16, C=128, layout="one row"),
        case("strided", R=16, C=128, kind="windows"),
        case("strided, deep", R=3, C=32_768, layout="padded"),
        case("strided, precision", R=16, C=128, layout="padded", dtype=BF16),
        case("precision", R=16, C=128, kind="normal"),
        case("precision", R=24, C=512, dtype=F16),
        case("precision", R=24, C=512, dtype=BF16),
        case("precision", R=4, C=4099, dtype=F16, kind="ones"),
        case("precision", R=4, C=4099, dtype=BF16, kind="ones"),
        case("precision", R=4, C=3001, dtype=F16, kind="swing"),
        case("precision", R=4, C=3001, dtype=BF16, kind="swing"),
        case("many", R=600, C=4),
        case("sample", R=70_000, C=17),
        case("edge", R=8, C=0),
        case("edge", R=0, C=64),
        case("edge", R=1, C=1),
        case("edge", R=0, C=0),
        case("edge", R=9, C=1, layout="padded"),
        case("edge", R=40, C=2, dtype=F16),
        case("edge", R=9, C=77, kind="odd"),
        case("edge", R=9, C=77, kind="odd", dtype=F16),
        case("edge", R=9, C=77, kind="odd", dtype=BF16),
        case("again", R=16, C=128),
        case("tuned", R=10, C=100),
        case("compile", R=16, C=100_000, dtype=F16),
        case("compile", R=512, C=781),
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


@check("mask", points=15)
def test_mask(kernel):
    """Lanes past the row read nothing and count as 0."""
    checks.mask(kernel)
    try:
        checks.each(kernel.trace("walk"), checks.reads_all)
    except Wrong:
        return  # what the walk leaves out is not the mask's fault
    checks.beyond(kernel, "deep", "ragged, deep", "mask")


@check("reduction", points=15)
def test_reduction(kernel):
    """The lanes of a block become one number."""
    checks.values(kernel)


@check("accumulate", points=5)
def test_walk(kernel):
    """Every column of a long row is read, in blocks of at most 16,384."""
    checks.walks(kernel.trace("walk"), WIDEST)


@check("accumulate", points=10)
def test_accumulate(kernel):
    """All blocks of a row are added, in fp32."""
    checks.group(kernel, "deep", "accumulate")
    checks.group(kernel, "deep, half", "accumulate")
    checks.group(kernel, "walk", "accumulate")


@check("precision", points=5)
def test_precision(kernel):
    """fp16 and bf16 are summed in fp32: nothing sticks, nothing overflows."""
    checks.needs(kernel, "deep", "accumulate", "precision")
    checks.group(kernel, "precision", "precision")


@check("robust", points=5)
def test_contract(kernel):
    """Any size and dtype of the contract, no columns too, also on a second call."""
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
