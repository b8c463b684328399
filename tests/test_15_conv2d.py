"""Kata 15, conv2d: `conv2d(x, weight, stride, padding)` as a product that gathers its windows."""

import torch
from grader import checks
from grader.grading import check
from grader.kata import Cost, Kata, case
from grader.oracle import EPS32
from grader.reasons import Wrong

F16, F32 = torch.float16, torch.float32


def inputs(draw, N, C, H, W, OC, KH=1, KW=1, stride=1, padding=0, dtype=F16, kind="normal"):
    std = 300.0 if kind == "large" else 1.0  # beyond what fp16 holds
    x = draw.normal((N, C, H, W), dtype, mean=0.1, std=std)
    return [x, draw.normal((OC, C, KH, KW), dtype, mean=0.1, std=std), stride, padding]


def size(x, weight, stride=1, padding=0):
    """Shape of the result; a kernel larger than the padded image fits nowhere in it."""
    fits = [
        max((n + 2 * padding - k) // stride + 1, 0)
        for n, k in zip(x.shape[2:], weight.shape[2:], strict=True)
    ]
    return (x.shape[0], weight.shape[0], *fits)


def reference(x, weight, stride=1, padding=0, mode="constant"):
    """A product of matrices for each tap, and the sum of all taps."""
    out = x.new_zeros(size(x, weight, stride, padding))
    x = torch.nn.functional.pad(x, (padding,) * 4, mode=mode)
    for i in range(weight.shape[2]):
        for j in range(weight.shape[3]):
            under = x[:, :, i::stride, j::stride][:, :, : out.shape[2], : out.shape[3]]
            out += torch.einsum("oc,nchw->nohw", weight[:, :, i, j], under)
    return out


def bound(want, x, weight, stride=1, padding=0):
    """fp32 sums in any order, and with the truncation that tensor cores allow themselves."""
    K = weight.shape[1] * weight.shape[2] * weight.shape[3]
    products = reference(x.double().abs(), weight.double().abs(), stride, padding)
    return (4 + K / 16) * 4 * EPS32 * products


def moved(x, weight, stride, padding, by):
    """With windows that start so far above and left of the image."""
    *_, OH, OW = size(x, weight, stride, padding)
    x = torch.nn.functional.pad(x, (by, OW * stride + padding, by, OH * stride + padding))
    return reference(x, weight, stride)[..., :OH, :OW]


def widen(block, x, weight, stride=1, padding=0):
    N, OC, OH, OW = size(x, weight, stride, padding)
    return (-(-OC // block[0]) * -(-N * OH * OW // block[1]),)


def cost(x, weight, stride=1, padding=0):
    N, OC, OH, OW = size(x, weight, stride, padding)
    steps = x.shape[1] * weight.shape[2] * weight.shape[3]
    out = N * OC * OH * OW
    return Cost(x.nbytes + weight.nbytes, out * x.element_size(), 2 * out * steps)


def side(times, apart=1, plus=0):
    """So many sides of a tile. Which of them counts pixels is the kernel's own affair: the longer
    one fits both."""
    return lambda block: max(min(max(block), 128) * times // apart + plus, 1)


def plain(o, p, c=64, **sizes):
    """A row of pixels and a kernel of one: the product of two matrices, of o x p tiles."""
    return dict(N=1, C=c, H=1, W=side(p), OC=side(o)) | sizes


def taps(KH, KW, stride=1, padding=0, N=2, C=20, H=5, W=6, OC=12, **more):
    return dict(N=N, C=C, H=H, W=W, OC=OC, KH=KH, KW=KW, stride=stride, padding=padding) | more


LAYER = dict(N=1, C=256, H=56, W=56, OC=256, KH=3, KW=3, padding=1)

KATA = Kata(
    launcher="conv2d",
    parameters=("x", "weight", "stride", "padding"),
    inputs=inputs,
    reference=reference,
    bound=bound,
    result=lambda x, *more: [(size(x, *more), x.dtype)],
    widen=widen,
    cost=cost,
    baseline=lambda x, weight, stride=1, padding=0: torch.nn.functional.conv2d(
        x, weight, stride=stride, padding=padding
    ),
    speed_case=LAYER | dict(N=32),
    bench_sizes=tuple(LAYER | dict(N=n) for n in (1, 4, 16, 32)),
    figures=(
        LAYER | dict(N=32),
        LAYER | dict(N=32, C=128, H=112, W=112, stride=2),
        dict(N=32, C=512, H=56, W=56, OC=256),
    ),
    marks=(0.6, 0.95),
    usual_block=(64, 64),
    allowed=("constant_pad_nd",),  # zeros around x, as in torch.nn.functional.pad
    suspects=(
        (
            "layout",
            "The kernel is flipped, as in a convolution on paper.",
            lambda x, w, *more: reference(x, w.flip(2, 3), *more),
        ),
        (
            "layout",
            "The stride is left out.",
            lambda *all: reference(*all[:2], 1, all[3])[..., : size(*all)[2], : size(*all)[3]],
        ),
        (
            "layout",
            "The padding is counted in steps of the stride.",
            lambda x, w, stride, padding: moved(x, w, stride, padding, stride * padding),
        ),
        (
            "layout",
            "Windows start at the image's corner, not at that of its padding.",
            lambda x, w, stride, padding: moved(x, w, stride, padding, 0),
        ),
        (
            "accumulate",
            "Only the first 64 channels are summed.",
            lambda x, w, *more: reference(x[:, :64], w[:, :64], *more),
        ),
        (
            "mask",
            "Beyond the border the image goes on with its last pixel, where zeros belong.",
            lambda *all: reference(*all, mode="replicate"),
        ),
    ),
    show=taps(3, 3, padding=1, N=1, C=3, H=8, W=10, OC=5),
    cases=(
        case("probe", N=1, C=13, H=3, W=20, OC=50),
        case("full", **plain(1, 1)),
        case("full", **plain(2, 3)),
        case("ragged", **plain(1, 1, c=29, W=side(1, plus=4), OC=side(1, plus=-1))),
        case("ragged", **plain(1, 1, c=5, W=side(1, plus=-1), OC=side(1, plus=1))),
        case("images", **plain(1, 1, N=4, H=side(1, 16), W=4)),
        case("images", **plain(1, 1, N=3, H=side(1, 16), W=16)),
        case("strided", **plain(1, 1, W=side(2, plus=-1), stride=2)),
        case("strided", **plain(1, 3, stride=3)),
        case("deep", **plain(1, 1, c=256)),
        case("ragged, deep", N=1, C=150, H=1, W=21, OC=20),
        case("taps", **taps(3, 3)),
        case("taps", **taps(5, 4, N=1, H=12, W=11, OC=2)),  # windows of one axis weigh 3 times x
        case("taps", **taps(2, 3, H=9, W=7, stride=4)),
        case("taps", **taps(1, 3, C=70, N=1, H=3)),
        case("padded", **taps(1, 1, padding=1)),
        case("padded", **taps(3, 3, padding=1, N=1)),
        case("padded", **taps(3, 3, padding=1, stride=2)),
        case("padded", **taps(7, 3, padding=3, stride=3, N=1, C=3)),
        case("padded", **taps(2, 3, padding=4, N=1, C=3, H=2, W=1)),
        case("precision", **plain(1, 1, c=16, dtype=F32)),
        case("precision", **plain(1, 1, c=16, dtype=F32, kind="large")),
        case("precision, deep", **taps(3, 3, padding=1, N=1, H=4, dtype=F32)),
        case("many", **plain(1, 3, c=3, N=3)),
        case("sample", N=4, C=3, H=66, W=66, OC=66),
        case("edge", N=0, C=3, H=4, W=5, OC=6, KH=3, KW=3),
        case("edge", N=2, C=3, H=4, W=5, OC=0, KH=3, KW=3),
        case("edge", **taps(3, 3, C=0)),
        case("edge", **taps(4, 4, stride=2, H=1, W=3)),  # the kernel fits nowhere, by far and just
        case("edge", **taps(3, 2, H=3, W=2)),
        case("edge", **taps(3, 3, N=1, C=1, OC=1, padding=1)),
        case("edge", N=1, C=1, H=1, W=1, OC=1, stride=3, dtype=F32),
        case("edge", **taps(3, 3, padding=2, N=1, C=2, H=1, W=2, dtype=F32)),
        case("again", **taps(2, 2, padding=1, H=4)),
        case("tuned", **taps(1, 2, H=4)),
        case("compile", N=1, C=32, H=16, W=16, OC=64, KH=3, KW=3, padding=1),
        case("compile", N=16, C=64, H=32, W=32, OC=128, KH=3, KW=3, padding=1),
        case("compile", N=1, C=20, H=9, W=8, OC=20, KH=3, KW=3, padding=1, dtype=F32),
    ),
)


def holds(kernel, *groups):
    """Whether all cases of these groups are right, so that what a harder case lacks is new."""

    def ask(run):
        run.in_bounds()
        run.right(written_only=True)

    try:
        checks.each(kernel.trace(*groups), ask)
    except Wrong:
        return False
    return True


@check("grid", points=10)
def test_grid(kernel):
    """A program for every tile of the result."""
    checks.grid(kernel)


@check("offsets", points=10)
def test_offsets(kernel):
    """Each program works on its own tile, and knows where its pixels lie."""
    checks.offsets(kernel)
    checks.group(kernel, "images", "offsets")
    for run in kernel.trace("images"):
        run.own_elements()


@check("mask", points=15)
def test_mask(kernel):
    """The edges of the sizes, and the border of the image: zeros, not its neighbours."""
    checks.mask(kernel)
    checks.beyond(kernel, "deep", "ragged, deep", "mask")
    if holds(kernel, "images", "strided", "deep", "taps"):
        checks.beyond(kernel, "taps", "padded", "mask")
        if checks.ordinary_sizes_written(kernel):
            checks.each(kernel.trace("taps", "padded"), checks.all_written)


@check("values", points=5)
def test_values(kernel):
    """A kernel of one pixel: the product of one block of channels."""
    checks.values(kernel)


@check("layout", points=15)
def test_windows(kernel):
    """Each tap meets its own pixel of x; PyTorch does not unfold them."""
    checks.group(kernel, "strided", "layout")
    if holds(kernel, "ragged", "images", "strided", "deep"):
        checks.beyond(kernel, "deep", "taps", "layout")
    for run in kernel.trace("taps"):
        copies, cost = run.facts.get("copies", ()), run.kata.cost(*run.arguments)
        if sum(copy["bytes"] for copy in copies) > 2 * (cost.read + cost.written):
            text = f"PyTorch copies {sum(copy['bytes'] for copy in copies):,} bytes, where x has "
            text += f"{run.arguments[0].nbytes:,} ({run.label}): another order is fine, copies of "
            raise Wrong(text + "windows are the kernel's to avoid", "layout", copies[-1]["line"])


@check("accumulate", points=10)
def test_accumulate(kernel):
    """All blocks of channels are summed."""
    checks.group(kernel, "deep", "accumulate")


@check("precision", points=8)
def test_precision(kernel):
    """fp32 is multiplied as fp32, not as TF32."""
    checks.group(kernel, "precision", "precision")
    if holds(kernel, "images", "strided", "deep", "taps", "padded"):
        checks.beyond(kernel, "deep", "precision, deep", "precision")


@check("robust", points=5)
def test_contract(kernel):
    """Any size of the contract, none and one too, also on a second call."""
    checks.contract(kernel)


@check("robust", points=2, lane="compile")
def test_compiles(kernel):
    """The compiler accepts the kernel for every chip."""
    checks.compiles(kernel)


@check("accumulate", points=5, lane="compile")
def test_tensor_cores(kernel):
    """fp16 runs on the tensor cores, summed in fp32."""
    checks.fp32_accumulators(kernel)
    checks.tensor_cores(kernel, but="float32")
    checks.needs(kernel, "deep", "accumulate", "accumulate")


@check("robust", points=5, lane="gpu")
def test_on_the_card(kernel):
    """On a real card, between guard bands: every case is right and stays inside."""
    checks.on_gpu(kernel)


@check("speed", points=10, lane="gpu")
def test_speed(kernel):
    """At least 0.6 of the reference solution's speed, in one run."""
    checks.speed(kernel)
