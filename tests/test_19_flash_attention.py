"""Kata 19, flash_attention: `flash_attention(q, k, v, causal, scale)`, no S x T matrix in memory."""

import torch
from grader import checks
from grader.grading import check
from grader.kata import Cost, Kata, case
from grader.oracle import EPS32, ROUNDOFF
from grader.reasons import Wrong
from grader.run import Run

F16, BF16 = torch.float16, torch.bfloat16
STD = {"sharp": 6.0, "huge": 120.0}  # of q and k; otherwise 1
SLOPE = {"rising": 3, "falling": -40}  # how far k rises along the keys


def inputs(
    draw, S, T, B=1, H=2, D=64, dtype=F16, causal=False, scale=None, layouts="", kind="plain"
):
    def heads(rows, layout, mean=0.5):
        if layout == "tokens":  # [B, rows, H, D] in memory, as projections leave it
            return draw.normal((B, rows, H, D), dtype, mean, std).transpose(1, 2)
        if layout == "shared":  # all heads read the same
            return draw.normal((B, 1, rows, D), dtype, mean, std).expand(B, H, rows, D)
        return draw.normal((B, H, rows, D), dtype, mean, std, layout or "contiguous")

    std = STD.get(kind, 1.0)
    one, two, three = layouts.split(", ") if layouts else ("", "", "")
    mean = 100.0 if kind == "below" else 0.5  # all scores far below 0
    q, k = heads(S, one, mean), heads(T, two, mean if kind != "below" else -mean)
    std = 1.0
    v = heads(T, three)
    if kind == "even":  # all keys alike; 2048 first, then ones that an fp16 sum cannot take in
        q.zero_(), v.zero_()
        v[:, :, :1], v[:, :, 256::256] = 2048, 1
    if kind == "ones":
        v.fill_(1)
    if kind == "wide":  # what bf16 holds and fp16 does not; the scores stay what they were
        q *= 2.0**20
        k *= 2.0**-20
        v *= 2.0**20
    if kind in SLOPE:
        k += torch.linspace(0, SLOPE[kind], T).to(k)[:, None]
    return [q, k, v] if scale is None and not causal else [q, k, v, causal, scale]


def weights(q, k, causal, scale, shift=0):
    """[B, H, S, T], 1 at most; a causal query i sees the keys j <= i + T - S + shift."""
    scores = q @ k.mT * (q.shape[3] ** -0.5 if scale is None else scale)
    if causal:
        ahead = k.shape[2] - q.shape[2] + 1 + shift
        later = torch.ones(scores.shape[2:], device=q.device).triu(ahead) > 0
        scores = scores.masked_fill(later, -float("inf"))
    top = scores.amax(-1, keepdim=True) if k.shape[2] else 0.0
    return torch.exp(scores - top)


def probabilities(*arguments):
    w = weights(*arguments)
    return w / w.sum(-1, keepdim=True)


def reference(q, k, v, causal=False, scale=None):
    return probabilities(q, k, causal, scale) @ v


def bound(want, q, k, v, causal=False, scale=None):
    """What the roundings of the contract may do, added up with their signs all alike.

    A score errs by fp32 roundings of its D terms, and its exponential by as much, relatively. So
    does the sum over T keys. Probabilities are rounded to q's dtype on their way into the second
    product, and may be in the sum as well, unless they are powers of two. Below 2**-14 fp16 has
    fewer digits.
    """
    T, D = k.shape[2:]
    if T == 0:
        return torch.zeros_like(want)
    p = probabilities(q.double(), k.double(), causal, scale)
    terms = q.double().abs() @ k.double().abs().mT * (D**-0.5 if scale is None else scale)
    slip = EPS32 * ((8 + D / 4) * terms + 4 * terms.amax(-1, keepdim=True))
    exact = (p.log2() == p.log2().round()) & (p < 1)
    rounded = 2 * ROUNDOFF[q.dtype] * ~exact
    share = p * (EPS32 * (16 + T / 2) + rounded + slip)
    tiny = 2.0**-24 if q.dtype == F16 else 0.0
    return (share + tiny) @ v.double().abs() + (p * slip).sum(-1, keepdim=True) * want.abs()


def pairs(q, k, causal=False):
    """Queries and keys that see each other, in all heads."""
    (B, H, S, _), T = q.shape, k.shape[2]
    return B * H * (S * T - (S * (S - 1) // 2 if causal else 0))


def torch_attention(q, k, v, causal=False, scale=None):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)


def rows(block):
    """The kernel's own BLOCK_M."""
    return block[0]


def keys(block):
    """The kernel's own BLOCK_N, for D = 64."""
    return max(block[3] // 64, 1)


def blocks(s, t, less_s=0, less_t=0):
    """S and T by the kernel's own blocks."""
    return {
        "S": lambda block: max(int(s * rows(block)) - less_s, 1),
        "T": lambda block: max(int(t * keys(block)) - less_t, 1),
    }


BIG = dict(B=4, H=32, S=4096, T=4096, D=128)
KATA = Kata(
    launcher="flash_attention",
    parameters=("q", "k", "v", "causal", "scale"),
    inputs=inputs,
    reference=reference,
    bound=bound,
    widen=lambda block, q, *_: (-(-q.shape[2] // block[0]), q.shape[0] * q.shape[1]),
    cost=lambda q, k, v, causal=False, scale=None: Cost(
        q.nbytes + k.nbytes + v.nbytes, q.nbytes, 4 * pairs(q, k, causal) * q.shape[3]
    ),
    baseline=torch_attention,
    speed_case=BIG | dict(causal=True),
    marks=(0.6, 0.95),
    bench_sizes=tuple(
        dict(B=4, H=32, S=n, T=n, D=128, causal=True) for n in (512, 1024, 2048, 4096)
    ),
    figures=(BIG, BIG | dict(causal=True)),
    usual_block=(128, 64, 64, 64 * 64),
    suspects=(
        (
            "values",
            "This is v's mean: all keys weigh the same.",
            lambda q, k, v, *_: reference(0 * q, k, v),
        ),
        (
            "values",
            "The scale is missing.",
            lambda q, k, v, c=False, s=None: reference(q, k, v, c, 1.0),
        ),
        (
            "values",
            "The scale is the default, not the one given.",
            lambda q, k, v, c=False, s=None: reference(q, k, v, c),
        ),
        (
            "values",
            "This is 2 to the power of the scores, normalised.",
            lambda q, k, v, c=False, s=None: reference(0.6931471805599453 * q, k, v, c, s),
        ),
        (
            "reduction",
            "The weights are not divided by their sum.",
            lambda q, k, v, c=False, s=None: weights(q, k, c, s) @ v,
        ),
        (
            "mask",
            "No key is hidden.",
            lambda q, k, v, c=False, s=None: reference(q, k, v, False, s),
        ),
        (
            "mask",
            "The causal mask is aligned at the start, not at the end.",
            lambda q, k, v, c=False, s=None: probabilities(q, k, c, s, q.shape[2] - k.shape[2]) @ v,
        ),
        (
            "mask",
            "Each row sees one key too many.",
            lambda q, k, v, c=False, s=None: probabilities(q, k, c, s, 1) @ v,
        ),
    ),
    show=blocks(0.75, 1.25) | dict(D=16),
    cases=(
        case("probe", S=100, T=61),
        case("full", **blocks(1, 1), B=2, H=3),
        case("full", **blocks(2, 1)),
        case("ragged", **blocks(1, 1, 1, 3)),
        case("ragged", S=37, T=13, H=1),
        case("ragged", S=50, T=33, H=1),
        case("ragged", S=20, T=50, H=1),
        case("causal", **blocks(0.25, 1, 3, 1), H=1, causal=True),
        case("causal", S=47, T=61, H=1, causal=True),
        case("causal", S=61, T=61, H=1, causal=True),
        case("causal", S=1, T=40, H=1, causal=True),
        case("scaled", **blocks(1, 1), scale=0.2),
        case("scaled", **blocks(1, 1), H=1, D=32),
        case("scaled", **blocks(1, 1), H=1, D=128),
        case("scaled", **blocks(1, 1), H=1, D=16, scale=0.05),
        case("ones", **blocks(1, 1), kind="ones"),
        case("deep", **blocks(1, 3), H=1, kind="rising"),
        case("deep", **blocks(1, 3), H=1, kind="falling"),
        case("ragged, deep", S=40, T=150, H=1, kind="rising"),
        case("ragged, deep", S=40, T=130, H=1),
        case("causal, deep", S=150, T=150, causal=True, kind="rising"),
        case("causal, deep", S=70, T=201, H=1, causal=True),
        case("causal, deep", **blocks(1, 4, 60, 0), H=1, causal=True),
        # A block of keys that the first row sees but for its last key, and one for the last row's.
        case("causal, deep", S=40, T=lambda block: 40 + keys(block) - 2, H=1, causal=True),
        case("causal, deep", S=rows, T=lambda block: rows(block) + 1, H=1, D=16, causal=True),
        case("even", S=16, T=2048, D=16, H=1, kind="even"),
        case("strided", S=64, T=48, H=3, B=2, layouts="tokens, tokens, tokens"),
        case("strided", S=30, T=48, layouts="padded, shifted, tokens"),
        case("strided", S=30, T=48, H=3, layouts="shifted, shared, padded"),
        case("strided", S=20, T=32, B=2, layouts="one row, tokens, shared"),
        case("strided, deep", S=40, T=200, layouts="tokens, padded, tokens", causal=True),
        case("strided, precision", S=40, T=30, layouts="tokens, padded, padded", dtype=BF16),
        case("precision", S=128, T=8, D=32, H=4, kind="sharp"),
        case("precision", S=128, T=3, D=32, H=4),
        case("precision", S=100, T=50, dtype=BF16, kind="wide"),
        case("precision", S=100, T=8, D=32, dtype=BF16, kind="sharp"),
        case("extreme", **blocks(1, 1), kind="huge"),
        case("extreme", **blocks(1, 1), H=1, kind="below", dtype=BF16),
        case("edge", S=40, T=50, H=1, kind="below", dtype=BF16, causal=True),
        case("memory", S=128, T=512, D=16, H=1),
        case("many", S=140, T=16, H=9, D=16),
        case("sample", B=2, H=65, S=256, T=40),
        case("sample", B=2, H=65, S=130, T=130, causal=True, layouts="tokens, tokens, tokens"),
        case("edge", S=20, T=0),
        case("edge", S=0, T=20),
        case("edge", S=20, T=20, B=0),
        case("edge", S=1, T=1, H=1, D=16, causal=True),
        case("edge", S=3, T=3, D=128, causal=True, dtype=BF16, scale=1.7),
        case("edge", S=1, T=130, B=3),
        case("again", S=40, T=40),
        case("tuned", S=40, T=50),
        case("compile", S=2048, T=2048, H=1, D=128, causal=True),
        case("compile", S=1, T=1, D=16, H=1, causal=True, dtype=BF16),
    ),
)


@check("grid", points=10)
def test_grid(kernel):
    """A program for every block of rows of every head."""
    checks.grid(kernel)


@check("offsets", points=10)
def test_offsets(kernel):
    """Each program works on its own rows of its own head."""
    checks.offsets(kernel)


@check("mask", points=15)
def test_mask(kernel):
    """Rows and keys end where the tensors do, and no query sees a later key."""
    checks.mask(kernel)
    checks.each(kernel.trace("causal"), Run.in_bounds)
    checks.beyond(kernel, "full", "causal", "mask")
    checks.each(kernel.trace("ragged, deep"), Run.in_bounds)
    try:
        checks.each(kernel.trace("ragged, deep"), checks.reads("k v", "accumulate"))
    except Wrong:
        return  # what the walk leaves out is not the mask's fault
    checks.beyond(kernel, "deep", "ragged, deep", "mask")
    checks.beyond(kernel, "deep", "causal, deep", "mask")


@check("values", points=10)
def test_values(kernel):
    """Attention to a single block of keys, with the scale that is given."""
    checks.needs(kernel, "ones", "reduction", "values")
    checks.values(kernel)
    checks.beyond(kernel, "full", "scaled", "values")


@check("layout", points=5)
def test_strides(kernel):
    """q, k and v are read through their strides."""
    checks.group(kernel, "strided", "layout")
    checks.beyond(kernel, "precision", "strided, precision", "layout")
    checks.beyond(kernel, "causal, deep", "strided, deep", "layout")


@check("reduction", points=5)
def test_normalised(kernel):
    """The weights of a row add up to 1, whatever they are."""
    checks.each(kernel.trace("ones"), lambda run: run.right(written_only=True, cause="reduction"))


@check("accumulate", points=5)
def test_walk(kernel):
    """Every key and value is read."""
    checks.each(kernel.trace("deep", "ragged, deep"), checks.reads("k v", "accumulate"))


@check("accumulate", points=7)
def test_accumulate(kernel):
    """Maximum, sum and product are carried from block to block."""
    checks.needs(kernel, "extreme", "robust", "accumulate")
    checks.group(kernel, "deep", "accumulate")
    checks.group(kernel, "even", "accumulate")


@check("precision", points=5)
def test_precision(kernel):
    """Scores and weights are worked on in fp32; only the weights are rounded, for their product."""
    checks.needs(kernel, "extreme", "robust", "precision")
    checks.group(kernel, "precision", "precision")


@check("fusion", points=3)
def test_no_matrix(kernel):
    """No S x T matrix goes through memory."""
    checks.needs(kernel, "deep", "accumulate", "fusion")

    def ask(run: Run) -> None:
        run.kernel_ran()
        q, k = run.arguments[:2]
        for buffer in run.facts["buffers"]:
            if buffer["kind"] != "input" and buffer["written"] >= pairs(q, k):
                raise Wrong(
                    f"the kernels write {buffer['written']:,} numbers to {buffer['name']}, one for "
                    f"each of S x T scores ({run.label}): keep them on the chip",
                    "fusion",
                )

    checks.each(kernel.trace("memory"), ask)


@check("robust", points=5)
def test_contract(kernel):
    """Any size of the contract, also on a second call; scores of any size."""
    checks.contract(kernel)
    checks.group(kernel, "extreme", "robust")


@check("robust", points=2, lane="compile")
def test_compiles(kernel):
    """The compiler accepts the kernel for every chip."""
    checks.compiles(kernel)


@check("accumulate", points=3, lane="compile")
def test_accumulator_type(kernel):
    """Both products run on the tensor cores; they and what the loop carries are summed in fp32."""
    checks.fp32_accumulators(kernel)
    checks.tensor_cores(kernel)
    checks.fp32_reductions(kernel)
    checks.needs(kernel, "even", "accumulate", "accumulate")


@check("robust", points=5, lane="gpu")
def test_on_the_card(kernel):
    """On a real card, between guard bands: every case is right and stays inside."""
    checks.on_gpu(kernel)


@check("speed", points=10, lane="gpu")
def test_speed(kernel):
    """At least 0.6 of the reference solution's speed, in one run."""
    checks.speed(kernel)
