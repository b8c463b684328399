"""Kata 13, tuned_matmul: `tuned_matmul(a, b, bias, activation)`, tuned, in groups, fused."""

import torch
from grader import checks
from grader.grading import check
from grader.kata import Cost, Kata, case
from grader.oracle import EPS32
from grader.reasons import Wrong

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
LARGEST = 256  # side of a tile; beyond it, what stored last is not the kernel with the product


def inputs(draw, M, N, K, dtype=F16, bias=False, activation=None, layouts="", kind="normal"):
    """`layouts`: of a and of b, with a comma between them."""
    layouts = layouts.split(", ") if layouts else ["contiguous"] * 2
    if kind == "swamped":  # 2048 first, then 4 ones that an fp16 sum cannot take in
        a, b = torch.zeros((M, K), dtype=dtype), torch.zeros((K, N), dtype=dtype)
        a[:, 0], b[0, :] = 2048, 1
        a[:, 256::256], b[256::256, :] = 1, 1
    else:
        std = 3e5 if kind == "large" else 1.0  # each number, not only the sum, beyond fp16
        a = draw.normal((M, K), dtype, mean=0.1, std=std, layout=layouts[0])
        b = draw.normal((K, N), dtype, mean=0.1, std=std, layout=layouts[1])
    if kind == "single":  # one product, whose error nothing else in the sum makes up for
        a[:, 1:] = 0
    # Both signs, and as large as the products: what is left out, or rounded too early, shows.
    vector = draw.normal((N,), dtype, mean=0.5, std=8.0) if bias else None
    if bias:
        vector[-2:] = torch.tensor([200.0, -200.0])[:N]  # exp of these is more than fp32 holds
    return [a, b, vector, activation]


ACTIVATIONS = {None: lambda x: x, "relu": torch.relu, "silu": torch.nn.functional.silu}


def plus(product, bias):
    return product if bias is None else product + bias


def reference(a, b, bias=None, activation=None):
    return ACTIVATIONS[activation](plus(a @ b, bias))


def bound(want, a, b, bias=None, activation=None):
    """fp32 sums in any order, with the truncation that tensor cores allow themselves; then bias,
    exponential, quotient and product at a few units each. silu is nowhere steeper than 1.1."""
    size = a.double().abs() @ b.double().abs()
    sums = (4 + a.shape[1] / 16) * 4 * EPS32 * size
    whole = size if bias is None else size + bias.double().abs()
    return 1.1 * sums + (0 if bias is None and activation is None else 16 * EPS32 * whole)


def tiles(m, n, k, more=(0, 0, 0), most=(3072, 3072, 4096)):
    """Sizes as multiples of the kernel's own tile, (BLOCK_M, BLOCK_N, BLOCK_K), and a few more."""

    def size(axis, times):
        return lambda block: min(
            max(int(times * min(block[axis], LARGEST)) + more[axis], 1), most[axis]
        )

    return dict(M=size(0, m), N=size(1, n), K=size(2, k))


KATA = Kata(
    launcher="tuned_matmul",
    parameters=("a", "b", "bias", "activation"),
    inputs=inputs,
    reference=reference,
    bound=bound,
    result=lambda a, b, *_: [((a.shape[0], b.shape[1]), a.dtype)],
    widen=lambda block, a, b, *_: (-(-a.shape[0] // block[0]) * -(-b.shape[1] // block[1]),),
    cost=lambda a, b, *_: Cost(
        a.nbytes + b.nbytes,
        a.shape[0] * b.shape[1] * a.element_size(),
        2 * a.shape[0] * b.shape[1] * a.shape[1],
    ),
    baseline=reference,
    speed_case=dict(M=4096, N=4096, K=4096),
    bench_sizes=tuple(dict(M=n, N=n, K=n) for n in (512, 1024, 2048, 4096, 8192)),
    figures=(*(dict(M=n, N=n, K=n) for n in (4096, 8192)), dict(M=4095, N=4097, K=4000)),
    marks=(0.6, 0.95),
    usual_block=(64, 64, 64),
    suspects=(
        ("layout", "This is a @ b.T.", lambda a, b, *_: a @ b.T),
        ("layout", "This is a.T @ b.", lambda a, b, *_: a.T @ b),
        ("fusion", "The bias is missing.", lambda a, b, c, f: ACTIVATIONS[f](a @ b)),
        ("fusion", "The activation is missing.", lambda a, b, c, f: plus(a @ b, c)),
        ("fusion", "Bias and activation are missing.", lambda a, b, *_: a @ b),
        ("fusion", "The bias comes last.", lambda a, b, c, f: plus(ACTIVATIONS[f](a @ b), c)),
        (
            *("fusion", "The bias is added down the rows, its number i in row i."),
            lambda a, b, c, f: ACTIVATIONS[f](plus(a @ b, None if c is None else c[:, None])),
        ),
        (
            *("fusion", "tl.max makes one number of a column; tl.maximum works on each."),
            lambda a, b, c, f: plus(a @ b, c).amax(0).expand(a.shape[0], -1),
        ),
        (
            *("fusion", "The exponential is of x, not of -x."),
            lambda a, b, c, f: plus(a @ b, c) * torch.sigmoid(-plus(a @ b, c)),
        ),
        ("accumulate", "Only the first 64 of K are summed.", lambda a, b, *_: a[:, :64] @ b[:64]),
        ("accumulate", "Only the first 32 of K are summed.", lambda a, b, *_: a[:, :32] @ b[:32]),
    ),
    show=tiles(1, 1, 1, more=(16, 8, 8)),
    cases=(
        case("probe", M=100, N=90, K=13),
        case("full", **tiles(1, 2, 1)),
        case("full", **tiles(2, 1, 1)),
        case("ragged", **tiles(1, 1, 1, more=(1, -1, -3))),
        case("ragged", M=48, N=80, K=16),
        case("ragged", M=1030, N=43, K=16),  # rows of b at odd addresses, read by many programs
        case("strided", **tiles(2, 1, 1), layouts="transposed, padded"),
        case("strided", **tiles(1, 1, 1), layouts="spread, transposed"),
        case("strided", **tiles(1, 2, 1), layouts="shifted, one row"),
        case("strided, deep", **tiles(1, 1, 3), layouts="transposed, spread"),
        case("strided, deep", **tiles(1, 1, 3), layouts="padded, transposed"),
        case("deep", **tiles(1, 1, 4)),
        case("ragged, deep", M=33, N=40, K=271),
        case("deep", M=16, N=32, K=1280, kind="swamped"),
        case("precision", **tiles(1, 2, 1), dtype=F32),
        case(
            "precision",
            **tiles(2, 1, 1),
            dtype=F32,
            layouts="contiguous, transposed",
            kind="single",
        ),
        case("precision", **tiles(1, 1, 1), dtype=BF16),
        case("precision", M=20, N=20, K=16, dtype=BF16, kind="large"),
        case("precision, deep", **tiles(1, 1, 5), dtype=F32),
        case("precision, deep", **tiles(1, 1, 5), dtype=BF16),
        case("fusion", **tiles(1, 1, 1), bias=True),
        case("fusion", **tiles(1, 1, 1), activation="relu"),
        case("fusion", **tiles(1, 2, 1), activation="silu"),
        case("fusion", **tiles(1, 1, 1), bias=True, activation="relu"),
        case("fusion", **tiles(2, 2, 1), bias=True, activation="silu"),
        case("fusion", **tiles(1, 1, 1), dtype=BF16, bias=True, activation="silu"),
        case("order", **tiles(48, 24, 0) | dict(K=16)),
        case("many", **tiles(18, 9, 0.7, most=(1300, 1300, 40))),
        case("sample", M=1500, N=1400, K=40, layouts="transposed, padded", bias=True),
        case("edge", M=0, N=32, K=32),
        case("edge", M=32, N=0, K=32, bias=True),
        case("edge", M=20, N=30, K=0),
        case("edge", M=20, N=30, K=0, bias=True, activation="silu", dtype=F32),
        case("edge", M=1, N=1, K=1, bias=True),
        case("edge", M=30, N=150, K=64, dtype=F32, bias=True, activation="silu"),
        case("edge", M=1, N=129, K=64, dtype=F32),
        case("edge", M=130, N=1, K=200, layouts="transposed, transposed"),
        case("again", M=64, N=64, K=64, bias=True, activation="silu"),
        case("tuned", M=16, N=16, K=16),
        case("tuned", M=300, N=16, K=16),
        case("tuned", M=16, N=300, K=16),
        case("tuned", M=16, N=16, K=300),
        case("compile", M=512, N=512, K=256, bias=True, activation="silu"),
        case("compile", M=20, N=30, K=5, dtype=F32),
        case("compile", M=1024, N=2048, K=64, dtype=BF16, layouts="contiguous, transposed"),
    ),
)


@check("grid", points=5)
def test_grid(kernel):
    """A program for every tile, whatever the config."""
    checks.grid(kernel)


@check("offsets", points=5)
def test_offsets(kernel):
    """Each program works on its own tile."""
    checks.offsets(kernel)


@check("offsets", points=10)
def test_order(kernel):
    """Programs that run side by side share tiles of a and b."""
    checks.offsets(kernel)
    checks.needs_values(kernel, "offsets")
    checks.neighbours_share(kernel, "order", "offsets")
    for run in kernel.trace("many"):  # more rows of tiles than a group has
        run.own_elements()


@check("mask", points=8)
def test_mask(kernel):
    """Tiles at the edges of M, N and K stay inside."""
    checks.mask(kernel)
    checks.beyond(kernel, "deep", "ragged, deep", "mask")


@check("values", points=5)
def test_values(kernel):
    """The product of one block of K."""
    checks.values(kernel)


@check("layout", points=5)
def test_strides(kernel):
    """Operands are read through their strides, where they lie."""
    checks.group(kernel, "strided", "layout")
    checks.beyond(kernel, "deep", "strided, deep", "layout")
    for run in kernel.trace("strided", "strided, deep"):
        for copy in run.facts["copies"]:
            if copy["bytes"] >= min(a.nbytes for a in run.arguments[:2]):
                text = f"PyTorch copies an operand: {copy['op']} ({run.label})"
                raise Wrong(text, "layout", copy["line"])


@check("accumulate", points=5)
def test_accumulate(kernel):
    """All blocks of K are summed, in fp32."""
    checks.group(kernel, "deep", "accumulate")


@check("precision", points=8)
def test_precision(kernel):
    """fp32 is multiplied as fp32, not as TF32; bf16 gives bf16, rounded once."""
    checks.group(kernel, "precision", "precision")
    checks.beyond(kernel, "deep", "precision, deep", "precision")


@check("fusion", points=12)
def test_epilogue(kernel):
    """Bias, then activation, in fp32, before the one rounding."""
    checks.group(kernel, "fusion", "fusion")


@check("autotune", points=8)
def test_configs(kernel):
    """Six different configs, each of them right."""
    checks.tuning(kernel, configs=6, blocks=1)


@check("autotune", points=5)
def test_key(kernel):
    """M, N and K: each of them, when it changes, calls for tuning anew."""
    checks.configs_listed(kernel)
    first, *others = kernel.trace("tuned")
    for run in others:
        run.kernel_ran()
        keys = [[t["key_values"] for t in one.facts["tuners"]] for one in (first, run)]
        if keys[0] == keys[1]:
            text = f"the key is the same for ({first.label}) and ({run.label})"
            raise Wrong(text + ": the second runs with what was best for the first", "autotune")


@check("robust", points=4)
def test_contract(kernel):
    """Any size of the contract, K = 0 too, also on a second call."""
    checks.contract(kernel, configs=False)


@check("robust", points=2, lane="compile")
def test_compiles(kernel):
    """The compiler accepts every config for every chip."""
    checks.compiles(kernel)


@check("accumulate", points=3, lane="compile")
def test_tensor_cores(kernel):
    """fp16 and bf16 run on the tensor cores, summed in fp32."""
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
