"""Kata 20, lora: `lora(y, x, a, b, index, scale)` adds its own adapter's update to each row of y."""

import math

import torch
from grader import checks
from grader.grading import check
from grader.kata import COUNTING, Cost, Kata, case
from grader.oracle import EPS32, half_ulp
from grader.reasons import Waits, Wrong
from grader.run import Run

F16, BF16 = torch.float16, torch.bfloat16
ODD_BITS = {  # -0, the smallest number, NaN with more bits set than it takes, -inf
    F16: [-0x8000, 0x0001, 0x7E01, -0x0400],
    BF16: [-0x8000, 0x0001, 0x7FC0, -0x0080],
}


def inputs(
    draw, T, D_IN, D_OUT, R, L=1, dtype=F16, kind="whole", who="mixed", scale=None, std=0.05
):
    if kind == "normal":
        y, x = draw.normal((T, D_OUT), dtype), draw.normal((T, D_IN), dtype)
        a = draw.normal((L, R, D_IN), dtype, mean=std / 4, std=std)
        b = draw.normal((L, D_OUT, R), dtype, mean=std, std=2 * std)
    else:  # small whole numbers: every sum is exact
        large = 200 if kind == "cancelled" else 2
        y, x = draw.integers((T, D_OUT), dtype, -8, 9), draw.integers((T, D_IN), dtype, -3, 5)
        a = draw.integers((L, R, D_IN), dtype, -2, 3)
        b = draw.integers((L, D_OUT, R), dtype, -large, large + 1)
    index = draw.integers((T,), torch.int32, 0, max(L, 1))
    if who in ("mixed", "own", "skipped"):  # each adapter once, the last first, the others anywhere
        n = min(T, L)
        index[:n].copy_(torch.arange(L - 1, L - 1 - n, -1))
    if kind == "swamped":  # fp16 (bf16) cannot hold what is summed, however the sum is shared out
        x.copy_(draw.integers(x.shape, dtype, 0, 4)), a.fill_(1)
        x[:, 0] = 2048 if dtype == F16 else 256
    if kind in ("picked", "scaled"):  # a row of a and b picks one number: no sum hides a rounding
        x.mul_(200 if dtype == F16 else 32).add_(1)
        x.mul_(1 if dtype == F16 else 4096)  # beyond what fp16 holds
        a.zero_().scatter_(2, draw.integers((L, R, 1), torch.int64, 0, D_IN), 1)
        b.zero_().scatter_(2, draw.integers((L, D_OUT, 1), torch.int64, 0, R), 1)
    if kind in ("swamped", "cancelled", "scaled"):  # y takes away all but what roundings cost
        y.zero_()
        y.copy_(-update(*(v.double() for v in (x, a, b)), index, 1.0 if scale is None else scale))
    if kind == "odd":  # what only one row, one adapter, or one column of an adapter may see
        x[1], a[1, 0, 0], b[2, 3] = float("nan"), float("nan"), float("nan")
    if who in ("skipped", "none"):
        index[:: 3 if who == "skipped" else 1] = -1
        bits = torch.tensor(ODD_BITS[dtype], dtype=torch.int16).repeat(D_OUT)
        y[index < 0] = bits[:D_OUT].view(dtype)
        x[index < 0] = float("nan")
    return [y, x, a, b, index] if scale is None else [y, x, a, b, index, scale]


def each_adapter(x, a, b, index):
    """For each adapter: the rows that name it, its h and its b."""
    for adapter in range(a.shape[0]):
        rows = (index == adapter).nonzero()[:, 0]
        yield rows, x[rows] @ a[adapter].T, b[adapter]


def update(x, a, b, index, scale=1.0):
    """What is added to y."""
    out = torch.zeros((x.shape[0], b.shape[1]), dtype=x.dtype, device=x.device)
    for rows, h, b_adapter in each_adapter(x, a, b, index):
        out[rows] = scale * (h @ b_adapter.T)
    return out


def reference(y, x, a, b, index, scale=1.0):
    return y + update(x, a, b, index, scale)


def bound(want, y, x, a, b, index, scale=1.0):
    """Both sums in fp32, in any order; h rounded to x's dtype or not, before it is scaled or after.

    Whole numbers up to 2^24 fp32 adds up exactly, so how h is rounded is known then: not at all
    where it fits x's dtype. The sum over R, scale and y bring R + 8 more roundings in fp32.
    """
    dtype, terms = x.dtype, a.shape[2]
    y, x, a, b = (v.double().nan_to_num(0.0, 0.0, 0.0) for v in (y, x, a, b))
    out, sizes = 4 * EPS32 * y.abs(), each_adapter(x.abs(), a.abs(), b.abs(), index)
    for (rows, h, b_adapter), (_, size, _) in zip(each_adapter(x, a, b, index), sizes, strict=True):
        known = (h == h.round()) & (size <= 2**24)
        error = torch.zeros_like(h)
        for s in {1.0, scale} - {0.0}:
            exact = known & (math.frexp(s)[0] in (0.5, -0.5))
            off = ((s * h).to(dtype).double() - s * h).abs()
            error = error.maximum(torch.where(exact, off, half_ulp(s * h, dtype)) / abs(s))
        error += (a.shape[1] + 8) * EPS32 * h.abs()
        error += torch.where(known, 0.0, terms * EPS32) * size
        out[rows] += abs(scale) * (error @ b_adapter.abs().T)
    return out


def loop(y, x, a, b, index, scale=1.0):
    """PyTorch's way: one adapter after the other."""
    for adapter in range(a.shape[0]):
        rows = index == adapter
        y[rows] += scale * ((x[rows] @ a[adapter].T) @ b[adapter].T)
    return y


def wide(block):
    """Columns of y that fill blocks of the kernel's own, whichever way they lie."""
    return min(max(256, *block), 1024)


SERVING = dict(D_IN=4096, D_OUT=4096, R=16, L=32, kind="normal", who="any")
PLAIN = dict(T=64, D_IN=128, R=16)

KATA = Kata(
    launcher="lora",
    parameters=("y", "x", "a", "b", "index", "scale"),
    returns=("y",),
    inputs=inputs,
    reference=reference,
    bound=bound,
    widen=lambda block, y, *_: (-(-y.shape[0] // block[0]), -(-y.shape[1] // block[1])),
    cost=lambda y, x, a, b, index, scale=1.0: Cost(
        y.nbytes + x.nbytes + a.nbytes + b.nbytes + index.nbytes,
        y.nbytes,
        2 * y.shape[0] * a.shape[1] * (x.shape[1] + y.shape[1]),
    ),
    baseline=loop,
    speed_case=dict(T=16_384, **SERVING),
    bench_sizes=tuple(dict(T=2**e, **SERVING) for e in range(10, 16)),
    figures=(
        dict(T=4096, **SERVING),
        dict(T=16_384, **SERVING),
        dict(T=16_384, **(SERVING | dict(R=64, dtype=BF16))),
    ),
    usual_block=(32, 128),
    allowed=COUNTING,
    suspects=(
        ("values", "Nothing has been added to it.", lambda y, *_: y),
        ("values", "This is the update alone.", lambda y, *rest: update(*rest)),
        ("values", "The update is subtracted.", lambda y, *rest: y - update(*rest)),
        ("values", "The update is added twice.", lambda y, *rest: y + 2 * update(*rest)),
        ("values", "scale is missing.", lambda y, *rest: y + update(*rest[:4])),
        ("values", "scale is applied twice.", lambda y, *rest: y + rest[-1] * update(*rest)),
        (
            "layout",
            "Every row goes through adapter 0.",
            lambda y, x, a, b, index, *scale: y + update(x, a, b, index.clamp(max=0), *scale),
        ),
    ),
    cases=(
        case("probe", T=40, D_IN=90, D_OUT=100, R=5),
        case("full", **PLAIN, D_OUT=wide, scale=0.5),
        case("ragged", T=37, D_IN=128, D_OUT=128, R=16),
        case("ragged", T=16, D_IN=77, D_OUT=128, R=16, scale=-2.0),
        case("ragged", T=16, D_IN=128, D_OUT=101, R=16, scale=0.5),
        case("ragged", T=16, D_IN=128, D_OUT=128, R=9),
        case("ragged", T=5, D_IN=20, D_OUT=9, R=40),
        case("adapters", T=16, D_IN=128, D_OUT=128, R=16, L=4),
        case("layout", **PLAIN, D_OUT=128, L=3),
        case("layout, ragged", T=10, D_IN=40, D_OUT=50, R=16, L=10, who="own"),
        case("layout, ragged", T=41, D_IN=90, D_OUT=40, R=7, L=4),
        case("skipped", T=22, D_IN=128, D_OUT=128, R=16, L=3, who="skipped"),
        case("skipped", T=35, D_IN=12, D_OUT=70, R=3, who="skipped", dtype=BF16),
        case("skipped", T=7, D_IN=20, D_OUT=33, R=4, L=2, who="none"),
        case("deep", T=16, D_IN=2049, D_OUT=64, R=2),
        case("deep", T=8, D_IN=2176, D_OUT=40, R=2, kind="swamped", scale=0.5),
        case("deep", T=8, D_IN=2176, D_OUT=40, R=8, kind="swamped", scale=0.5, dtype=BF16),
        case("deep", T=2, D_IN=16_384, D_OUT=16, R=2),
        case("deep", T=6, D_IN=70, D_OUT=50, R=256, scale=0.25),
        case("precision", T=12, D_IN=128, D_OUT=64, R=16, kind="picked"),
        case("precision", T=12, D_IN=128, D_OUT=64, R=16, kind="picked", dtype=BF16),
        case("precision", T=12, D_IN=128, D_OUT=64, R=16, kind="scaled", scale=4.0016),
        case("precision", T=12, D_IN=16, D_OUT=64, R=16, kind="cancelled"),
        case("precision", T=12, D_IN=16, D_OUT=64, R=16, kind="cancelled", dtype=BF16),
        case("precision", T=12, D_IN=128, D_OUT=64, R=16, kind="normal", scale=0.3, L=2),
        case("precision", T=12, D_IN=128, D_OUT=64, R=16, kind="normal", dtype=BF16),
        case("many", T=1030, D_IN=3, D_OUT=5, R=2, L=5, who="skipped"),
        case("many", T=5, D_IN=3, D_OUT=5, R=2, L=300),
        case("many", T=2, D_IN=3, D_OUT=2600, R=2, L=2),
        case("sample", T=16_000, D_IN=8, D_OUT=64, R=4, L=3),
        case("edge", T=0, D_IN=64, D_OUT=64, R=16),
        case("edge", T=9, D_IN=64, D_OUT=0, R=16),
        case("edge", T=9, D_IN=0, D_OUT=20, R=2),
        case("edge", T=5, D_IN=8, D_OUT=8, R=2, L=0, who="none"),
        case("edge", T=1, D_IN=1, D_OUT=1, R=1),
        case("edge", T=1, D_IN=30, D_OUT=20, R=4, L=3),
        case("edge", T=1, D_IN=30, D_OUT=20, R=4, L=3, who="none"),
        case("edge", T=7, D_IN=17, D_OUT=300, R=1, L=30, dtype=BF16),
        case("edge", T=12, D_IN=50, D_OUT=40, R=16, L=3, kind="odd"),
        case("again", T=20, D_IN=40, D_OUT=50, R=8, L=3),
        case("tuned", T=20, D_IN=30, D_OUT=40, R=8, L=2),
        case("compile", T=64, D_IN=256, D_OUT=256, R=16, L=2),
        case("compile", T=20, D_IN=90, D_OUT=77, R=200, dtype=BF16),
    ),
)


def untouched(run: Run) -> None:
    """Rows whose index is -1 hold the very bits that they held."""
    run.kernel_ran()
    run.inputs_unchanged()
    before, index = run.arguments[0], run.arguments[4]
    changed = (run.got().view(torch.int16) != before.view(torch.int16)) & (index < 0)[:, None]
    if bool(changed.any()):
        row, column = changed.nonzero()[0].tolist()
        raise Wrong(
            f"y[{row}, {column}] changes from {float(before[row, column])} to "
            f"{float(run.got()[row, column])}, though index[{row}] is -1 ({run.label})",
            "mask",
        )


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
    checks.each(kernel.trace("adapters"), checks.reads("a b", "layout"))


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
    checks.each(kernel.trace("deep"), checks.reads("x a", "accumulate"))


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
