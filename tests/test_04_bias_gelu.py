"""Kata 4, bias_gelu: `bias_gelu(x, bias)`, the exact GELU of x + bias, in one kernel."""

import math

import torch
from grader import checks
from grader.grading import check
from grader.kata import Cost, Kata, case
from grader.oracle import EPS32

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32


def inputs(draw, R, C, dtype=F32, layout="contiguous", mean=0.5, std=2.0, kind=None):
    x = draw.normal((R, C), dtype, mean=mean, std=std, layout=layout)
    bias = draw.normal((C,), dtype, mean=-0.7, std=1.5)
    if kind == "sweep":  # all of the curve, closely
        x.copy_(torch.linspace(-9, 9, R * C).reshape(R, C))
    if kind == "large":  # both ends, what lies beyond, and 0
        most = 1e38 if dtype != F16 else 6e4
        odd = [most, -most, 1e4, -1e4, -30.0, 30.0, 0.0, -0.0, float("inf"), float("nan")]
        x.copy_(torch.tensor(odd).repeat(R * C)[: R * C].reshape(R, C))
        bias[::2] = 0
    return [x, bias]


def gelu(z):
    return z * torch.special.erfc(-z / math.sqrt(2)) / 2


def gelu_tanh(z):
    return z * (1 + torch.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))) / 2


def across(x, bias):
    return gelu(x + bias[:, None]) if x.shape[0] == x.shape[1] else x[:0]


def bound(want, x, bias):
    """8 roundings of z = x + bias in fp32.

    The sum errs by one, times GELU's slope of at most 1.13; the argument of erf by two, which erf
    takes down to 0.5; erf by 2 units in its last place, on a GPU, times z / 2; 1 + erf by 0.5; the
    product by one. That makes 4.2. It is relative to z, not to the result: near z = -5 one unit in the
    last place of erf is a tenth of 1 + erf, and from -5.5 down 1 + erf is 0.
    GELU by tanh is off by up to 4.7e-4 at z = 2.7, 3,000 roundings of z; z * sigmoid(1.702 z) by
    2.0e-2, 160,000 of them.
    """
    z = x.double() + bias.double()
    return 8 * EPS32 * z.clamp(min=-10).abs().nan_to_num(0.0, 0.0)


def full(rows, cols):
    """Sizes that fit the kernel's own tile, and whole rows of 64 where it has no columns."""
    return dict(R=lambda block: rows * block[0], C=lambda block: cols * max(block[1], 64))


KATA = Kata(
    launcher="bias_gelu",
    parameters=("x", "bias"),
    inputs=inputs,
    reference=lambda x, bias: gelu(x + bias),
    bound=bound,
    widen=lambda block, x, bias: (-(-x.shape[0] // block[0]), -(-x.shape[1] // block[1])),
    cost=lambda x, bias: Cost(x.nbytes + bias.nbytes, x.nbytes, 5 * x.numel()),
    baseline=lambda x, bias: torch.nn.functional.gelu(x + bias),
    speed_case=dict(R=32768, C=4096),
    bench_sizes=tuple(dict(R=2**e, C=4096) for e in range(12, 17)),
    figures=(dict(R=16384, C=4096), dict(R=32768, C=4096)),
    usual_block=(4, 256),
    suspects=tuple(
        ("values", f"These are the numbers of {what}.", formula)
        for what, formula in (
            ("x + bias: GELU is missing", lambda x, b: x + b),
            ("x itself", lambda x, b: x),
            ("gelu(x): the bias is missing", lambda x, b: gelu(x)),
            ("gelu(x) + bias", lambda x, b: gelu(x) + b),
            ("a bias along the wrong axis, its number i in row i", across),
            ("GELU's tanh approximation", lambda x, b: gelu_tanh(x + b)),
            ("z * sigmoid(1.702 z)", lambda x, b: (x + b) * torch.sigmoid(1.702 * (x + b))),
            ("erf of z, not of z / sqrt(2)", lambda x, b: (x + b) * (1 + torch.erf(x + b)) / 2),
            ("relu(x + bias)", lambda x, b: (x + b).clamp(min=0)),
        )
    ),
    show=dict(R=11, C=100),
    cases=(
        case("probe", R=11, C=300),
        case("full", **full(1, 1)),
        case("full", **full(2, 3)),
        case("full", R=256, C=256),
        case("ragged", R=11, C=300),
        case("ragged", R=lambda block: 2 * block[0] + 1, C=lambda block: max(block[1], 64) + 1),
        case("ragged", R=lambda block: block[0] + 1, C=lambda block: max(block[1], 64) - 1),
        case("ragged", R=1, C=1000),
        case("ragged", R=37, C=5),
        case("ragged", R=101, C=101),
        case("strided", R=16, C=256, layout="padded"),
        case("strided", R=16, C=256, layout="one row"),
        case("strided", R=16, C=256, layout="shifted"),
        case("strided, precision", R=13, C=100, layout="padded", dtype=F16),
        case("precision", R=16, C=256, dtype=F16),
        case("precision", R=16, C=256, dtype=BF16),
        case("precision", R=16, C=256, kind="sweep"),
        case("precision", R=16, C=256, kind="sweep", dtype=F16),
        case("precision", R=16, C=256, mean=-4.0, std=1.0),
        case("many", R=lambda block: min(90 * block[0] - 3, 2000), C=3),
        case("many", R=3, C=lambda block: min(30 * block[1] - 3, 20_000)),
        case("sample", R=1100, C=1000),
        case("sample", R=520, C=2100, layout="padded"),
        case("edge", R=16, C=256, kind="large"),
        case("edge", R=16, C=256, kind="large", dtype=F16),
        case("edge", R=16, C=256, kind="large", dtype=BF16),
        case("edge", R=0, C=64),
        case("edge", R=8, C=0),
        case("edge", R=1, C=1),
        case("edge", R=70, C=1),
        case("edge", R=9, C=129, dtype=BF16, layout="padded"),
        case("again", R=11, C=300),
        case("tuned", R=11, C=300),
        case("compile", R=256, C=4096),
        case("compile", R=100, C=781, dtype=F16),
    ),
)


@check("grid", points=10)
def test_grid(kernel):
    """A program for every tile, along both axes."""
    checks.grid(kernel)


@check("offsets", points=15)
def test_offsets(kernel):
    """Each program works on its own tile."""
    checks.offsets(kernel)


@check("mask", points=15)
def test_mask(kernel):
    """Tiles at both edges stay inside, and so does the bias."""
    checks.mask(kernel)


@check("values", points=15)
def test_values(kernel):
    """The exact GELU of x + bias."""
    checks.values(kernel)


@check("layout", points=5)
def test_strides(kernel):
    """Rows of x may lie any distance apart."""
    checks.group(kernel, "strided", "layout")
    checks.beyond(kernel, "precision", "strided, precision", "layout")


@check("precision", points=5)
def test_precision(kernel):
    """fp16 and bf16 are worked on in fp32 and rounded once; no digit is lost at the flat end."""
    checks.group(kernel, "precision", "precision")


@check("fusion", points=10)
def test_fusion(kernel):
    """x is read once, the result written once; x + bias never goes to memory."""
    checks.traffic(kernel.trace("full"), reads=1, writes=1, besides=("bias",))


@check("robust", points=5)
def test_contract(kernel):
    """Any size, dtype and value of the contract, also on a second call."""
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
