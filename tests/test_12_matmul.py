"""Kata 12, matmul: `matmul(a, b)` on the tensor cores, tile by tile, summed in fp32."""

import torch
from grader import checks
from grader.grading import check
from grader.kata import Cost, Kata, case
from grader.oracle import EPS32

F16, BF16 = torch.float16, torch.bfloat16
LARGEST = 256  # side of a tile; beyond it, what stored last is not the kernel with the product


def inputs(draw, M, N, K, dtype=F16, a_layout="contiguous", b_layout="contiguous", kind="normal"):
    if kind in ("whole", "huge"):  # small whole numbers, every sum exact; or some beyond fp16
        times = 200 if kind == "huge" else 1
        return [draw.integers(s, dtype, -2, 3) * times for s in ((M, K), (K, N))]
    if kind == "swamped":  # 2048 first, ones that an fp16 sum cannot take in, and 8 at the very end
        a, b = torch.zeros((M, K), dtype=dtype), torch.zeros((K, N), dtype=dtype)
        a[:, 0], b[0, :] = 2048, 1
        a[:, 256::256], b[256::256, :] = 1, 1
        a[:, -1], b[-1, :] = 8, 1
        return [a, b]
    std = 3e5 if kind == "large" else 1.0  # each number, not only the sum, beyond fp16
    a = draw.normal((M, K), dtype, mean=0.1, std=std, layout=a_layout)
    return [a, draw.normal((K, N), dtype, mean=0.1, std=std, layout=b_layout)]


def bound(want, a, b):
    """fp32 sums in any order, and with the truncation that tensor cores allow themselves."""
    K = a.shape[1]
    return (4 + K / 16) * 4 * EPS32 * (a.double().abs() @ b.double().abs())


def tiles(m, n, k, most=(4096, 4096, 4096)):
    """Sizes as multiples of the kernel's own tile, block = (BLOCK_M, BLOCK_N, BLOCK_K), or `most`."""

    def size(axis, times):
        return lambda block: min(max(int(times * min(block[axis], LARGEST)), 1), most[axis])

    return {
        name: size(axis, times) for axis, (name, times) in enumerate((("M", m), ("N", n), ("K", k)))
    }


def less(m, n, k):
    """Sizes that miss the tile by a few."""
    return {
        name: (lambda block, axis=axis, d=d: max(min(block[axis], LARGEST) + d, 1))
        for axis, (name, d) in enumerate((("M", m), ("N", n), ("K", k)))
    }


KATA = Kata(
    launcher="matmul",
    parameters=("a", "b"),
    inputs=inputs,
    reference=lambda a, b: a @ b,
    bound=bound,
    result=lambda a, b: [((a.shape[0], b.shape[1]), a.dtype)],
    widen=lambda block, a, b: (-(-a.shape[0] // block[0]), -(-b.shape[1] // block[1])),
    cost=lambda a, b: Cost(
        a.nbytes + b.nbytes,
        a.shape[0] * b.shape[1] * a.element_size(),
        2 * a.shape[0] * b.shape[1] * a.shape[1],
    ),
    baseline=lambda a, b: a @ b,
    speed_case=dict(M=4096, N=4096, K=4096),
    bench_sizes=tuple(dict(M=n, N=n, K=n) for n in (512, 1024, 2048, 4096, 8192)),
    figures=(dict(M=4096, N=4096, K=4096), dict(M=8192, N=8192, K=8192)),
    marks=(0.6, 0.95),
    usual_block=(64, 64, 64),
    suspects=(
        ("layout", "This is a @ b.T.", lambda a, b: a @ b.T),
        ("layout", "This is a.T @ b.", lambda a, b: a.T @ b),
        ("layout", "This is the product of the operands swapped.", lambda a, b: b @ a),
        (
            "accumulate",
            "This is twice the product: a block counts twice.",
            lambda a, b: 2 * (a @ b),
        ),
        ("accumulate", "Only the first 64 of K are summed.", lambda a, b: a[:, :64] @ b[:64]),
        ("accumulate", "Only the first 32 of K are summed.", lambda a, b: a[:, :32] @ b[:32]),
        ("accumulate", "Only the last 64 of K are summed.", lambda a, b: a[:, -64:] @ b[-64:]),
        ("accumulate", "Only the last 32 of K are summed.", lambda a, b: a[:, -32:] @ b[-32:]),
    ),
    show=less(16, 8, 8),
    cases=(
        case("probe", M=100, N=90, K=13),
        case("full", **tiles(1, 1, 1)),
        case("full", **tiles(2, 3, 1)),
        case("ragged", **less(1, -1, 0)),
        case("ragged", **less(-1, 5, -3)),
        case("ragged", M=7, N=100, K=13),
        case("ragged", M=80, N=48, K=16),
        case("strided", **tiles(2, 1, 1), a_layout="transposed"),
        case("strided", **tiles(1, 2, 1), b_layout="transposed"),
        case("strided", **tiles(1, 1, 1), a_layout="padded", b_layout="spread"),
        case("strided", **tiles(1, 1, 1), a_layout="shifted", b_layout="one row"),
        case("strided", **tiles(1, 1, 1), a_layout="one row", b_layout="shifted"),
        case("strided", **tiles(1, 1, 1) | dict(M=1), a_layout="spread"),
        case("strided", **tiles(1, 1, 1) | dict(N=1), b_layout="padded"),
        case("strided, precision", **tiles(1, 1, 1), a_layout="transposed", dtype=BF16),
        case("strided, deep", M=40, N=30, K=320, a_layout="transposed", b_layout="padded"),
        case("strided, deep", M=40, N=30, K=320, a_layout="padded", b_layout="transposed"),
        case("deep", **tiles(1, 1, 4)),
        case("ragged, deep", M=33, N=40, K=271),
        case("ragged, deep", M=48, N=80, K=144),
        case("deep", M=16, N=16, K=1024),
        case("whole", M=40, N=24, K=512, kind="whole"),
        case("deep", M=16, N=32, K=16 * 256 + 256, kind="swamped"),
        case("precision", **tiles(1, 1, 1), dtype=BF16),
        case("precision", M=20, N=20, K=40, dtype=BF16, kind="large"),
        case("precision", M=70, N=50, K=300, dtype=BF16),
        case("many", **tiles(13, 12, 1.2, most=(832, 768, 40))),
        case("many", **tiles(17, 2, 1)),
        case("sample", M=1500, N=1400, K=72),
        case("sample", M=1500, N=1400, K=40, dtype=BF16, a_layout="transposed", b_layout="padded"),
        case("edge", M=0, N=32, K=32),
        case("edge", M=32, N=0, K=32),
        case("edge", M=20, N=30, K=0),
        case("edge", M=1, N=1, K=1),
        case("edge", M=20, N=20, K=9, kind="huge"),
        case("edge", M=1, N=129, K=64),
        case("edge", M=130, N=1, K=200, a_layout="transposed", b_layout="transposed"),
        case("again", M=64, N=64, K=64),
        case("tuned", M=40, N=50, K=60),
        case("compile", M=512, N=512, K=512),
        case("compile", M=512, N=512, K=512, dtype=BF16, b_layout="transposed"),
        case("compile", M=20, N=30, K=5),
        case("compile", M=1536, N=1408, K=1024),
    ),
)


@check("grid", points=10)
def test_grid(kernel):
    """A program for every tile of the result."""
    checks.grid(kernel)


@check("offsets", points=10)
def test_offsets(kernel):
    """Each program works on its own tile."""
    checks.offsets(kernel)


@check("mask", points=15)
def test_mask(kernel):
    """Tiles at the edges of M, N and K stay inside."""
    checks.mask(kernel)
    checks.beyond(kernel, "deep", "ragged, deep", "mask")


@check("values", points=5)
def test_values(kernel):
    """The product of one block of K."""
    checks.values(kernel)


@check("layout", points=10)
def test_strides(kernel):
    """Operands are read through their strides."""
    checks.group(kernel, "strided", "layout")
    checks.beyond(kernel, "precision", "strided, precision", "layout")
    checks.beyond(kernel, "deep", "strided, deep", "layout")


@check("accumulate", points=15)
def test_accumulate(kernel):
    """All blocks of K are summed, in fp32."""
    checks.group(kernel, "deep", "accumulate")
    checks.group(kernel, "whole", "accumulate")


@check("precision", points=5)
def test_precision(kernel):
    """bf16 gives bf16, rounded once."""
    checks.needs(kernel, "deep", "accumulate", "precision")
    checks.group(kernel, "precision", "precision")


@check("robust", points=5)
def test_contract(kernel):
    """Any size of the contract, K = 0 too, also on a second call."""
    checks.contract(kernel)


@check("robust", points=2, lane="compile")
def test_compiles(kernel):
    """The compiler accepts the kernel for every chip."""
    checks.compiles(kernel)


@check("accumulate", points=5, lane="compile")
def test_accumulator_type(kernel):
    """tl.dot and the loop keep their sum in fp32."""
    checks.fp32_accumulators(kernel)
    checks.needs(kernel, "whole", "accumulate", "accumulate")


@check("accumulate", points=3, lane="compile")
def test_tensor_cores(kernel):
    """The products run on the tensor cores."""
    checks.tensor_cores(kernel)
    checks.needs(kernel, "whole", "accumulate", "accumulate")


@check("robust", points=5, lane="gpu")
def test_on_the_card(kernel):
    """On a real card, between guard bands: every case is right and stays inside."""
    checks.on_gpu(kernel)


@check("speed", points=10, lane="gpu")
def test_speed(kernel):
    """At least 0.6 of the reference solution's speed, in one run."""
    checks.speed(kernel)
