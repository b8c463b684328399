"""Kata 14, quantized_matmul: `quantized_matmul(a, packed, scales, group_size)`, 4-bit weights."""

import torch
from grader import checks
from grader.grading import check
from grader.kata import Cost, Kata, case
from grader.oracle import EPS32, half_ulp
from grader.reasons import Wrong

F16, I32 = torch.float16, torch.int32
ALL = 4096  # a group size that puts all of K into one group
INT4 = torch.arange(0, 32, 4)  # where the nibbles begin


def inputs(draw, M, N, K, group_size=ALL, kind="normal"):
    a = draw.normal((M, K), F16, mean=0.1)
    packed = draw.integers((K // 8, N), I32, -(2**31), 2**31)  # every bit is drawn
    scales = draw.normal((-(-K // group_size), N), F16, mean=0.1, std=0.03)
    if kind == "whole":  # small whole numbers times powers of two: weights and sums are exact
        a = draw.integers((M, K), F16, -2, 3)
        scales = 2.0 ** draw.integers(scales.shape, F16, -2, 2)
    if kind == "swamped":  # 2048 first, then 4 ones that an fp16 sum cannot take in
        a.fill_(0)
        a[:, 0], a[:, 128::128] = 2048, 1
        packed.fill_(0x99999999 - 2**32)  # 1, eight times
        scales.fill_(1)
    return [a, packed, scales, group_size]


def unpacked(packed):
    """q as [K, N]."""
    return (packed[:, None] >> INT4.to(packed.device)[:, None] & 15).flatten(0, 1)


def weights(packed, scales, group_size):
    """(q - 8) * scale as [K, N], in fp64."""
    rows = scales.double().repeat_interleave(group_size, 0)
    return rows[: 8 * packed.shape[0]] * (unpacked(packed) - 8)


def bound(want, a, packed, scales, group_size):
    """What rounding the weights to fp16 changes, and fp32 sums in any order, with the truncation
    that tensor cores allow themselves. Weights in bf16, or with two roundings, err by more."""
    w, size = weights(packed, scales, group_size), a.double().abs()
    steps = (4 + a.shape[1] / 16) * 4 * EPS32
    error = size @ ((w - w.half().double()).abs() * 1.001 + steps * w.abs())
    # The result is rounded where it is, which may be beyond the next power of two.
    return error + half_ulp(want.abs() + error, F16) - half_ulp(want, F16)


DENSE: dict = {}


def baseline(a, packed, scales, group_size):
    """The fp16 product with weights that lie there unpacked: this is what 4 bits must beat.

    They are made once for a size. Other numbers than those in `packed`, which takes no less time.
    """
    key = (a.shape[1], packed.shape[1], a.device)
    if key not in DENSE:
        DENSE.clear()
        DENSE[key] = torch.randn(key[:2], dtype=F16, device=a.device)
    return torch.mm(a, DENSE[key])


def tiles(m, n, k, more=(0, 0, 0), most=(256, 512, 512)):
    """Sizes as multiples of the kernel's own tile, (BLOCK_M, BLOCK_N, BLOCK_K), and a few more."""

    def size(axis, times):
        step = (1, 1, 8)[axis]  # K is a multiple of 8, and 128 of it make tl.dot's least depth
        return lambda block: (
            max(min(int(times * max(block[axis], 16 * step)), most[axis]) + more[axis], step)
            // step
            * step
        )

    return dict(M=size(0, m), N=size(1, n), K=size(2, k))


def suspect(concept, sentence, change):
    """A mistake in the weights: change(q, its row of K, its scale), each [K, N]."""

    def product(a, packed, scales, group_size):
        q = unpacked(packed).double()
        k = torch.arange(len(q), device=a.device)[:, None].expand_as(q)
        return a @ change(q, k, scales.repeat_interleave(group_size, 0)[: len(q)])

    return concept, sentence, product


def turned(q):
    """The eight of an int32 in the opposite order."""
    return q.view(-1, 8, q.shape[1]).flip(1).flatten(0, 1)


KATA = Kata(
    launcher="quantized_matmul",
    parameters=("a", "packed", "scales", "group_size"),
    inputs=inputs,
    reference=lambda a, *rest: a @ weights(*rest),
    bound=bound,
    result=lambda a, packed, *_: [((a.shape[0], packed.shape[1]), F16)],
    widen=lambda block, a, packed, *_: (
        -(-a.shape[0] // block[0]),
        -(-packed.shape[1] // block[1]),
    ),
    cost=lambda a, packed, scales, _: Cost(
        a.nbytes + packed.nbytes + scales.nbytes,
        2 * a.shape[0] * packed.shape[1],
        2 * a.shape[0] * a.shape[1] * packed.shape[1],
    ),
    baseline=baseline,
    speed_case=dict(M=1, N=28_672, K=8192, group_size=128),
    bench_sizes=tuple(dict(M=m, N=8192, K=8192, group_size=128) for m in (1, 4, 16, 64, 1024)),
    figures=tuple(dict(M=m, N=28_672, K=8192, group_size=128) for m in (1, 16, 1024)),
    usual_block=(16, 128, 128),
    suspects=(
        suspect("values", "The weights are 8 too large.", lambda q, k, s: q * s),
        suspect("values", "The weights are not scaled.", lambda q, k, s: q - 8),
        suspect("values", "The top nibble comes first.", lambda q, k, s: (turned(q) - 8) * s),
        suspect(
            "values",
            "The top nibble keeps the sign that >> drags along: mask after the shift.",
            lambda q, k, s: (q - 8 - 16 * ((k % 8 == 7) & (q > 7))) * s,
        ),
        suspect("values", "8 to 15 are -8 to -1 here.", lambda q, k, s: (q - 16 * (q > 7)) * s),
        suspect("layout", "All of K is of the first group.", lambda q, k, s: (q - 8) * s[:1]),
        suspect(
            "layout",
            "Groups are counted in rows of packed, not of K.",
            lambda q, k, s: (q - 8) * s.gather(0, k // 8),
        ),
        suspect("accumulate", "Only 128 of K are summed.", lambda q, k, s: (q - 8) * s * (k < 128)),
    ),
    show=dict(M=140, N=100, K=40, group_size=24),
    cases=(
        case("probe", M=20, N=70, K=40),
        case("full", **tiles(1, 1, 1)),
        case("full", **tiles(2, 3, 1)),
        case("ragged", M=1, N=70, K=104),
        case("ragged", M=5, N=70, K=8),
        case("ragged", M=16, N=33, K=96),
        case("ragged", **tiles(1, 1, 1, more=(3, -1, -8))),
        case("groups", **tiles(1, 1, 1), group_size=8),
        case("groups", M=16, N=128, K=128, group_size=64),
        case("groups", **tiles(1, 1, 1), group_size=24),
        case("groups, deep", M=16, N=128, K=512, group_size=128),
        case("groups, deep", M=16, N=128, K=384, group_size=136),
        case("ragged, groups", M=3, N=33, K=104, group_size=40),
        case("ragged, groups", M=3, N=33, K=72, group_size=64),
        case("deep", **tiles(1, 1, 3, most=(64, 128, 384))),
        case("deep", M=16, N=128, K=640),
        case("ragged, deep", M=1, N=70, K=520),
        case("ragged, deep", M=33, N=40, K=264),
        case("whole", M=20, N=64, K=256, group_size=64, kind="whole"),
        case("whole", M=16, N=32, K=640, kind="swamped"),
        case("many", **tiles(3, 4, 0, most=(192, 512, 16))),
        case("sample", M=1100, N=1000, K=40, group_size=16),
        case("edge", M=0, N=32, K=32),
        case("edge", M=32, N=0, K=32),
        case("edge", M=20, N=30, K=0),
        case("edge", M=1, N=1, K=8, group_size=8),
        case("edge", M=70, N=1, K=40, group_size=32),
        case("edge", M=33, N=40, K=520),  # a second kernel, if there is one, has an edge of its own
        case("again", M=16, N=64, K=128, group_size=32),
        case("tuned", M=4, N=50, K=64),
        case("compile", M=16, N=256, K=1024, group_size=128),
        case("compile", M=20, N=30, K=40, group_size=24),
    ),
)


@check("grid", points=8)
def test_grid(kernel):
    """A program for every tile of the result."""
    checks.grid(kernel)


@check("offsets", points=8)
def test_offsets(kernel):
    """Each program works on its own tile."""
    checks.offsets(kernel)


@check("mask", points=12)
def test_mask(kernel):
    """Tiles at the edges of M, N and K stay inside."""
    checks.mask(kernel)
    checks.beyond(kernel, "deep", "ragged, deep", "mask")
    checks.beyond(kernel, "groups", "ragged, groups", "mask")


@check("values", points=18)
def test_values(kernel):
    """Eight weights in an int32, each a number from -8 to 7, times its scale."""
    checks.values(kernel)


@check("layout", points=3)
def test_scales(kernel):
    """Every scale is read."""
    checks.each(kernel.trace("groups"), checks.reads("scales", "layout"))


@check("layout", points=9)
def test_groups(kernel):
    """Each weight has the scale of its own group, whatever the size of groups."""
    checks.group(kernel, "groups", "layout")
    checks.beyond(kernel, "deep", "groups, deep", "layout")


@check("accumulate", points=3)
def test_walk(kernel):
    """All of K is read."""
    checks.each(kernel.trace("deep"), checks.reads("a", "accumulate"))


@check("accumulate", points=5)
def test_accumulate(kernel):
    """All blocks of K are summed."""
    checks.group(kernel, "deep", "accumulate")


@check("precision", points=4)
def test_precision(kernel):
    """Sums are fp32: of whole numbers, they are exact."""
    checks.needs(kernel, "deep", "accumulate", "precision")
    checks.group(kernel, "whole", "precision")


@check("fusion", points=3)
def test_on_chip(kernel):
    """Unpacked weights do not go through memory."""
    checks.needs_values(kernel, "fusion")
    for run in kernel.trace("deep", "ragged, deep"):
        run.kernel_ran()
        weights = 8 * run.arguments[1].numel()
        for buffer in run.facts["buffers"]:
            # Fewer are the sums of shares of K, where programs share a tile.
            if run.arguments[0].shape[0] <= 16 and buffer["written"] >= weights:
                raise Wrong(
                    f"{buffer['written']:,} numbers are written to {buffer['name'] or 'a tensor'}, "
                    f"one for each weight ({run.label}): unpack the weights in the kernel that "
                    "multiplies",
                    "fusion",
                )


@check("robust", points=5)
def test_contract(kernel):
    """Any size of the contract, K = 0 too, also on a second call."""
    checks.contract(kernel)


@check("robust", points=2, lane="compile")
def test_compiles(kernel):
    """The compiler accepts the kernel for every chip."""
    checks.compiles(kernel)


@check("accumulate", points=3, lane="compile")
def test_accumulator_type(kernel):
    """tl.dot and the loop keep their sum in fp32."""
    checks.fp32_accumulators(kernel)
    checks.needs(kernel, "deep", "accumulate", "accumulate")


@check("accumulate", points=2, lane="compile")
def test_tensor_cores(kernel):
    """The products run on the tensor cores."""
    checks.tensor_cores(kernel)
    checks.needs(kernel, "deep", "accumulate", "accumulate")


@check("robust", points=5, lane="gpu")
def test_on_the_card(kernel):
    """On a real card, between guard bands: every case is right and stays inside."""
    checks.on_gpu(kernel)


@check("speed", points=10, lane="gpu")
def test_speed(kernel):
    """At least 0.8 of the reference solution's speed, in one run."""
    checks.speed(kernel)
