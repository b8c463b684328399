"""Kata 21, fused_moe: `fused_moe(x, weights, topk_weights, topk_ids)`, by blocks of one expert each."""

import torch
from grader import checks
from grader.grading import check
from grader.kata import COUNTING, Cost, Kata, case
from grader.oracle import EPS32, half_ulp
from grader.reasons import Wrong
from grader.run import Run
from grader.words import grid_text

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32


def inputs(draw, T, D_IN, D_OUT, E=1, k=1, dtype=F16, kind="plain", who="any", alike=False):
    """`who`: "even" (16 tokens an expert), "hot" (all to expert 1), "idle" (none to every other).
    `alike`: the matrices of all experts. In a plain case all of topk_weights is 1."""
    if kind == "normal":
        x = draw.normal((T, D_IN), dtype)
        weights = draw.normal((E, D_OUT, D_IN), dtype, 0.02, 0.1)
    else:  # small whole numbers: every sum is exact
        x = draw.integers((T, D_IN), dtype, -3, 5)
        weights = draw.integers((E, D_OUT, D_IN), dtype, -2, 3)
    topk_weights = draw.integers((T, k), F32, 1, 16).div_(8)
    topk_weights *= draw.integers((T, k), F32, 0, 2).mul_(2).sub_(1)  # below zero, too
    scores = draw.normal((T, E), F32)
    if who == "hot":
        scores[:, 1] += 100
    if who == "idle":
        scores[:, ::2] -= 100
    topk_ids = scores.argsort(1, descending=True)[:, :k].int().contiguous()
    if who == "even":
        topk_ids[:, 0] = torch.arange(T - 1, -1, -1) * 7 % E
    if kind in ("plain", "swamped", "spread"):
        topk_weights.fill_(1)
    if alike:
        weights[:] = weights[:1].clone()
    if kind == "swamped":  # 2048 (256) first, then ones that fp16 (bf16) cannot add to it
        x.zero_(), weights.zero_()
        x[:, 0], weights[..., 0] = 2048 if dtype == F16 else 256, 1
        x[:, 128::128], weights[..., 128::128] = 1, 1
    if kind == "spread":  # the same among the k contributions of each token
        x.zero_(), weights.zero_()
        x[:, 0], weights[..., 0] = 1, 1
        topk_weights[:, 0] = 2048 if dtype == F16 else 256
    if kind == "tiny":  # fp16 has not enough bits for the weights, but for what comes of them
        x.mul_(64)
        topk_weights.mul_(1.37e-6)
    if kind == "large":  # beyond what fp16 holds
        topk_weights.mul_(1e6)
    if kind == "odd":  # what one token may see, what the tokens of one expert, and nobody
        x[1], weights[1, 3] = float("nan"), float("nan")
        weights[::2] = float("inf")
    return [x, weights, topk_weights, topk_ids]


def parts(x, weights, topk_ids):
    """[T, k, D_OUT]: every token by the matrix of each of its experts."""
    out = x.new_zeros((*topk_ids.shape, weights.shape[1]))
    for expert in range(weights.shape[0]):
        token, slot = (topk_ids == expert).nonzero(as_tuple=True)
        out[token, slot] = x[token] @ weights[expert].T
    return out


def reference(x, weights, topk_weights, topk_ids):
    return (parts(x, weights, topk_ids) * topk_weights[..., None]).sum(1)


def baseline(x, weights, topk_weights, topk_ids):
    """Expert by expert."""
    y = x.new_zeros((x.shape[0], weights.shape[1]))
    for expert in range(weights.shape[0]):
        token, slot = (topk_ids == expert).nonzero(as_tuple=True)
        part = (x[token] @ weights[expert].T) * topk_weights[token, slot, None]
        y.index_add_(0, token, part.to(y.dtype))
    return y


def bound(want, x, weights, topk_weights, topk_ids):
    """fp32 sums in any order, as tensor cores make them, and the roundings of the contract.

    What an expert contributes may be rounded to x's dtype as it is and once it has its weight. Where
    x's dtype holds it, and with the whole numbers here the fp32 sum is exact, that changes nothing.
    """
    sums = (
        (4 + x.shape[1] / 16)
        * 4
        * EPS32
        * parts(x.double().abs(), weights.double().abs(), topk_ids)
    )
    part, w = parts(x.double(), weights.double(), topk_ids), topk_weights.double()[..., None]

    def rounding(value):
        return torch.where(value.to(x.dtype) == value, 0.0, half_ulp(value, x.dtype))

    slots = w.abs() * (sums + rounding(part)) + rounding(w * part)
    return (slots.sum(1) + 16 * EPS32 * (w * part).abs().sum(1)).nan_to_num(0.0, 0.0, 0.0)


def cost(x, weights, topk_weights, topk_ids):
    (T, k), (E, D_OUT, D_IN) = topk_ids.shape, weights.shape
    used = min(E, T * k)
    read = x.nbytes + weights.nbytes // max(E, 1) * used + topk_weights.nbytes + topk_ids.nbytes
    return Cost(read, T * D_OUT * x.element_size(), 2 * T * k * D_OUT * D_IN)


BIG = dict(D_IN=2048, D_OUT=2048, E=64, k=8, kind="normal")
KATA = Kata(
    launcher="fused_moe",
    parameters=("x", "weights", "topk_weights", "topk_ids"),
    inputs=inputs,
    reference=reference,
    bound=bound,
    result=lambda x, weights, *_: [((x.shape[0], weights.shape[1]), x.dtype)],
    widen=lambda block, x, weights, *_: (
        -(-x.shape[0] * weights.shape[1] // max(block[0] * block[1], 1)),
    ),
    cost=cost,
    baseline=baseline,
    speed_case=dict(T=4096, dtype=BF16, **BIG),
    bench_sizes=tuple(dict(T=2**e, dtype=BF16, **BIG) for e in range(6, 15, 2)),
    figures=(
        dict(T=4096, dtype=BF16, **BIG),
        dict(T=256, dtype=BF16, **BIG),
        dict(T=4096, dtype=F16, **BIG | dict(E=16, k=2)),
    ),
    marks=(0.6, 0.95),
    usual_block=(1024, 1),
    allowed=COUNTING,
    suspects=(
        ("fusion", "The weights are missing.", lambda x, m, w, ids: reference(x, m, w**0, ids)),
        (
            "reduction",
            "Only the first expert of each token counts.",
            lambda x, m, w, ids: reference(x, m, w[:, :1], ids[:, :1]),
        ),
        (
            "offsets",
            "Every token is multiplied by the matrix of expert 0.",
            lambda x, m, w, ids: reference(x, m, w, 0 * ids),
        ),
        (
            "values",
            "The matrices are transposed.",
            lambda x, m, w, ids: reference(x, m.mT, w, ids),
        ),
        (
            "accumulate",
            "Only the first 64 of D_IN are summed.",
            lambda x, m, w, ids: reference(x[:, :64], m[..., :64], w, ids),
        ),
    ),
    show=dict(T=21, D_IN=24, D_OUT=40, E=5),
    cases=(
        case("probe", T=7, D_IN=13, D_OUT=20, E=2),
        case("full", T=16, D_IN=64, D_OUT=64),
        case("experts", T=48, D_IN=64, D_OUT=64, E=3, who="even"),
        case("experts", T=32, D_IN=64, D_OUT=64, E=4, who="hot"),
        case("blocks", T=256, D_IN=64, D_OUT=256),
        case("blocks", T=48, D_IN=64, D_OUT=64, E=4, who="hot"),
        case("columns", T=16, D_IN=16, D_OUT=300),
        case("ragged", T=5, D_IN=64, D_OUT=64),
        case("ragged", T=16, D_IN=13, D_OUT=64),
        case("ragged", T=16, D_IN=64, D_OUT=20),
        case("ragged, experts", T=21, D_IN=24, D_OUT=40, E=5),
        case("ragged, experts", T=19, D_IN=16, D_OUT=30, E=5, who="idle"),
        case("deep", T=16, D_IN=256, D_OUT=64),
        case("deep", T=16, D_IN=640, D_OUT=64, kind="swamped"),
        case("deep", T=16, D_IN=4096, D_OUT=64),
        case("ragged, deep", T=3, D_IN=201, D_OUT=64),
        case("weighted", T=16, D_IN=64, D_OUT=64, kind="weighted"),
        case("weighted, experts", T=23, D_IN=40, D_OUT=30, E=3, kind="weighted"),
        case("weighted, slots", T=9, D_IN=16, D_OUT=20, E=4, k=3, kind="weighted"),
        case("slots", T=16, D_IN=64, D_OUT=64, E=2, k=2, alike=True),
        case("slots, experts", T=11, D_IN=24, D_OUT=30, E=3, k=2),
        case("slots, experts", T=9, D_IN=16, D_OUT=20, E=5, k=3, who="hot"),
        case("slots, experts", T=5, D_IN=16, D_OUT=20, E=9, k=8),
        case("precision", T=9, D_IN=40, D_OUT=30, E=2, dtype=BF16, kind="weighted"),
        case("precision", T=9, D_IN=640, D_OUT=20, dtype=BF16, kind="swamped"),
        case("precision", T=9, D_IN=40, D_OUT=30, kind="tiny"),
        case("precision", T=9, D_IN=40, D_OUT=30, dtype=BF16, kind="large"),
        case("precision, slots", T=5, D_IN=16, D_OUT=20, E=4, k=4, kind="spread"),
        case("precision, slots", T=5, D_IN=16, D_OUT=20, E=4, k=3, dtype=BF16, kind="spread"),
        case("precision, slots", T=13, D_IN=40, D_OUT=30, E=4, k=2, dtype=BF16, kind="normal"),
        case("edge", T=0, D_IN=32, D_OUT=32, E=3),
        case("edge", T=9, D_IN=32, D_OUT=0, E=3),
        case("edge", T=9, D_IN=0, D_OUT=20, E=3, k=2),
        case("edge", T=1, D_IN=1, D_OUT=1, kind="weighted"),
        case("edge", T=1, D_IN=33, D_OUT=70, E=40, k=3, kind="weighted"),
        case("edge", T=12, D_IN=3, D_OUT=5, E=300, k=4),
        case("edge", T=70, D_IN=20, D_OUT=24, E=3, k=2, kind="normal", who="hot"),
        case("edge", T=9, D_IN=20, D_OUT=24, E=6, k=2, kind="odd", who="idle"),
        case("many", T=257, D_IN=2, D_OUT=3, E=130, k=4),
        case("many", T=1030, D_IN=2, D_OUT=3, E=2, who="hot"),
        case("many", T=4, D_IN=2, D_OUT=2600),
        case("sample", T=1100, D_IN=16, D_OUT=1000, E=2),
        case("again", T=12, D_IN=24, D_OUT=30, E=3, k=2, kind="weighted"),
        case("tuned", T=12, D_IN=24, D_OUT=30, E=3, k=2, kind="weighted"),
        case("compile", T=1024, D_IN=128, D_OUT=128, E=4, k=2),
        case("compile", T=20, D_IN=30, D_OUT=50, E=4, k=2, dtype=BF16),
    ),
)


def too_few(run: Run) -> bool:
    """Whether those that multiply cannot do it all, if each does as much as the busiest one."""
    launches = [x for x in run.facts["launches"] if "weights" in x["loads"]]
    result = run.facts["result"][0]["storage"]
    # A bound of blocks starts more than there are: where there is one block, only the busy count.
    one = run.case.group == "columns"
    programs = [x["programs"] - one * x["idle"] for x in launches]
    most = [max(x["most"].values(), default=0) for x in launches]
    reach = sum(n * each for n, each in zip(programs, most, strict=True))
    alone = all(set(x["most"]) == {result} and not x["atomics"] for x in launches)
    (T, k), D_OUT = run.arguments[3].shape, run.arguments[1].shape[1]
    return 0 < reach < T * D_OUT * (1 if alone else k) and run.mismatch() is not None


def alone(run: Run, cause: str) -> None:
    """No two programs have the same contribution to store (in memory that has no room to spare)."""
    run.kernel_ran()
    n = run.arguments[3].numel() * run.arguments[1].shape[1]
    for buffer in run.facts["buffers"]:
        if buffer["conflicts"] and buffer["elements"] == n:
            raise Wrong(
                f"two programs store different values to the same elements of {buffer['name']}: on a "
                f"GPU nobody knows who is last ({run.label})",
                cause,
            )


@check("grid", points=8)
def test_grid(kernel):
    """Programs for all blocks that the experts may need, and for all columns."""
    groups = ("probe", "full", "experts", "ragged, experts", "slots, experts", "blocks", "columns")
    sampled, whole = checks.apart(kernel.trace(*groups, "many", "sample"))

    def ask(run: Run) -> None:
        run.programs_cover()
        if too_few(run):
            grids = [grid_text(x) for x in run.facts["launches"] if "weights" in x["loads"]]
            text = f"the grid {grids[0]} starts too few programs to multiply everything"
            raise Wrong(f"{text} ({run.label})", "grid")

    checks.each(whole, ask)
    for run in sampled:
        run.programs_reach()


@check("offsets", points=12)
def test_offsets(kernel):
    """Each block has tokens of one expert, its matrix and its own columns."""
    checks.group(kernel, "experts", "offsets")
    checks.each(kernel.trace("experts"), lambda run: alone(run, "offsets"))

    def ask(run: Run) -> None:
        run.kernel_ran()
        if not too_few(run):
            run.right(cause="offsets")

    checks.each(kernel.trace("blocks"), ask)


@check("mask", points=12)
def test_mask(kernel):
    """Blocks end where their expert's tokens, D_IN and D_OUT end."""
    checks.mask(kernel)
    checks.each(kernel.trace("ragged, experts", "ragged, deep"), Run.no_lane_outside)
    checks.beyond(kernel, "experts", "ragged, experts", "mask")
    checks.each(kernel.trace("ragged, experts"), lambda run: alone(run, "mask"))
    checks.beyond(kernel, "deep", "ragged, deep", "mask")


@check("values", points=8)
def test_values(kernel):
    """One expert, a single block: a product with the matrix transposed."""
    checks.values(kernel)


@check("reduction", points=10)
def test_sum(kernel):
    """Every token is the sum over its experts, for any k."""
    checks.group(kernel, "slots", "reduction")
    checks.beyond(kernel, "ragged, experts", "slots, experts", "reduction")


@check("accumulate", points=10)
def test_accumulate(kernel):
    """All of D_IN is summed, in fp32."""
    checks.group(kernel, "deep", "accumulate")


@check("accumulate", points=3, lane="compile")
def test_accumulator_type(kernel):
    """The compiler sees sums in fp32 alone."""
    if any(launch["dots"] for launch in checks.compiled_launches(kernel)):
        checks.fp32_accumulators(kernel)
    checks.fp32_reductions(kernel)
    checks.needs(kernel, "deep", "accumulate", "accumulate")


@check("fusion", points=10)
def test_weights(kernel):
    """Each contribution has the weight that its token gave its expert, by the kernel's work."""
    checks.group(kernel, "weighted", "fusion")
    checks.beyond(kernel, "ragged, experts", "weighted, experts", "fusion")
    checks.beyond(kernel, "slots, experts", "weighted, slots", "fusion")


@check("precision", points=5)
def test_precision(kernel):
    """The fp32 of sums and weights is kept; bf16 gives bf16."""
    checks.needs(kernel, "deep", "accumulate", "precision")
    checks.needs(kernel, "weighted, experts", "fusion", "precision")
    checks.group(kernel, "precision", "precision")
    checks.beyond(kernel, "weighted, slots", "precision, slots", "precision")


@check("robust", points=5)
def test_contract(kernel):
    """Any size, a single token, idle experts whatever they hold, also on a second call."""
    checks.contract(kernel)
    checks.group(kernel, "tuned", "robust")


@check("robust", points=2, lane="compile")
def test_compiles(kernel):
    """The compiler accepts the kernels for every chip."""
    checks.compiles(kernel)


@check("robust", points=5, lane="gpu")
def test_on_the_card(kernel):
    """On a real card, between guard bands: every case is right and stays inside."""
    checks.on_gpu(kernel)


@check("speed", points=10, lane="gpu")
def test_speed(kernel):
    """At least 0.6 of the reference solution's speed, in one run."""
    checks.speed(kernel)
