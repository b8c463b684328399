"""Kata 11, cross_entropy: `cross_entropy(logits, target, ignore_index=-100)`, loss and gradient."""

import torch
from grader import checks
from grader.grading import check
from grader.kata import Cost, Kata, Longest, case
from grader.oracle import EPS32
from grader.reasons import Waits, Wrong
from grader.run import Run
from grader.words import outside_text, place

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32


def inputs(draw, R, V, dtype=F32, layout="contiguous", std=2.0, kind=None, ignore=None):
    x = draw.normal((R, V), dtype, std=std, layout=layout)
    target = draw.integers((R,), torch.int64, 0, max(V, 1))
    slope = torch.linspace(-12, 12, V, dtype=torch.float64)
    if kind == "rising":  # every block has a larger maximum than those before it
        x += slope.to(dtype)
    if kind == "falling":
        x -= slope.to(dtype)
    if kind == "flat":  # fp16 counts up to 2048, bf16 to 256, and beyond 65504 there is no fp16
        x.fill_(0.5)
    if kind == "sure":  # probabilities close to 1, which the gradient takes off 1
        x[torch.arange(R), target] = x.amax(1) + 6
    if kind == "large":  # far beyond exp's reach, on either side, and a class that is ruled out
        x[:3] *= 2000
        x[3:6] += 30_000
        x[6:9] -= 30_000
        if dtype != F16:  # and beyond what fp16 holds
            x[8] -= 2_000_000
        x[9:, 1::3] = float("-inf")
        target[9:] = target[9:] // 3 * 3
    if ignore is None:
        return [x, target]
    target[::2] = ignore
    if kind == "all":
        target[:] = ignore
    if kind == "odd":  # an ignored row may hold anything
        x[0], x[2, 1], x[4, 2:4] = float("nan"), float("inf"), float("-inf")
        x[6] = float("-inf")
    return [x, target] if ignore == -100 else [x, target, ignore]


def parts(x, target, ignore_index):
    """keep [R], and the target's place [R, 1] (0 where there is none)."""
    keep = target != ignore_index
    return keep, torch.where(keep, target, 0)[:, None]


def reference(x, target, ignore_index=-100):
    keep, place = parts(x, target, ignore_index)
    if x.shape[1] == 0:
        return x.new_zeros(x.shape[0]), x.clone()
    logs = torch.log_softmax(x, 1)
    loss = torch.where(keep, -logs.gather(1, place)[:, 0], 0)
    grad = logs.exp().scatter_add(1, place, -torch.ones_like(x[:, :1]))
    return loss, torch.where(keep[:, None], grad, 0)


def bound(want, x, target, ignore_index=-100):
    """fp32 in any order: what goes into exp, what comes out, V numbers added, a log.

    A logit, taken off the maximum, errs by a roundoff of its depth below it, or (where exp2 stands
    for exp) of the logits themselves; exp makes that a relative error, and adds its own. Sums of V
    positive numbers err by V roundoffs at most, and not at all where all of them are exp(0) = 1.
    """
    if not x.numel():
        return torch.zeros_like(want)
    keep, place = parts(x, target, ignore_index)
    x = torch.where(keep[:, None], x.double(), 0)
    top = x.amax(1, keepdim=True)
    depth, p = (top - x).clamp(max=800), torch.softmax(x, 1)
    order = torch.where((depth == 0).all(1, keepdim=True), 0, x.shape[1])
    total = 16 + order + 3 * (p * depth).sum(1, keepdim=True) + 4 * top.abs()  # of the sum
    if want.dim() == 2:
        error = p * (total + 16 + 3 * depth + 4 * top.abs()) + want.abs()
    else:
        hit = x.gather(1, place).nan_to_num(0.0, 0.0, 0.0)
        error = (total + 4 * hit.abs())[:, 0] + 4 * want.abs().nan_to_num(0.0, 0.0, 0.0)
    return EPS32 * error + 2.0**-126


def eager(x, target):
    """What PyTorch needs for the same two results: forward, and backward through autograd."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        loss = torch.nn.functional.cross_entropy(x, target, reduction="none")
    (grad,) = torch.autograd.grad(loss, x, torch.ones_like(loss))
    return loss.detach(), grad


def width(blocks, more=0):
    """Classes, as blocks of the kernel's own size."""
    return lambda block: max(blocks * max(block[0] * block[1], 64) + more, 1)


def mistake(formula):
    """A suspect's formula, whatever is ignored."""
    return lambda x, target, ignore_index=-100: formula(x, target)


def hot(x, target):
    return torch.zeros_like(x).scatter_(1, target[:, None], 1.0)


KATA = Kata(
    launcher="cross_entropy",
    parameters=("logits", "target", "ignore_index"),
    inputs=inputs,
    reference=reference,
    bound=bound,
    result=lambda x, *_: [((x.shape[0],), F32), (tuple(x.shape), x.dtype)],
    returns=("loss", "grad"),
    widen=lambda block, x, *_: (x.shape[0],),
    cost=lambda x, t, *_: Cost(x.nbytes + t.nbytes, x.nbytes + 4 * x.shape[0], 8 * x.numel()),
    baseline=eager,
    speed_case=dict(R=2048, V=128_000, dtype=F16),
    bench_sizes=tuple(dict(R=2048, V=v, dtype=F16) for v in (8192, 32_000, 128_000, 200_000)),
    figures=(dict(R=8192, V=32_000, dtype=BF16), dict(R=2048, V=128_000, dtype=F16)),
    usual_block=(1, 1024),
    suspects=tuple(
        ("values", f"This is {what}.", mistake(formula))
        for what, formula in (
            ("the target's logit, with its sign changed", lambda x, t: -(hot(x, t) * x).sum(1)),
            ("the log of the sum: the target's logit is missing", lambda x, t: x.logsumexp(1)),
            ("minus the loss: a likelihood", lambda x, t: -reference(x, t)[0]),
            ("the loss less the maximum", lambda x, t: reference(x, t)[0] - x.amax(1)),
            ("the logits themselves", lambda x, t: x),
            ("the softmax: nothing is taken off for the target", lambda x, t: x.softmax(1)),
            ("its negative, one-hot minus softmax", lambda x, t: hot(x, t) - x.softmax(1)),
            ("the gradient of the mean", lambda x, t: reference(x, t)[1] / x.shape[0]),
        )
    ),
    show=dict(R=7, V=100),
    cases=(
        case("probe", R=7, V=100),
        case("full", R=16, V=width(1)),
        case("full", R=8, V=width(1), kind="sure"),
        case("ragged", R=1, V=100),
        case("ragged", R=7, V=width(1, -1)),
        case("ragged", R=5, V=77, kind="sure"),
        case("ragged", R=17, V=48),
        case("deep", R=4, V=width(4)),
        case("deep", R=3, V=width(5), kind="rising"),
        case("deep", R=3, V=width(3), kind="falling"),
        case("deep", R=2, V=65_536, kind="rising"),
        case("deep", R=1, V=131_072, dtype=F16, kind="flat"),
        case("deep", R=4, V=4096, dtype=F16, std=0.3),
        case("walk", R=1, V=128_000),
        case("walk", R=1, V=Longest(200_000), dtype=F16),
        case("ragged, deep", R=3, V=width(3, 5), kind="rising"),
        case("ragged, deep", R=2, V=20_011, kind="falling"),
        case("ragged, deep", R=1, V=128_000, dtype=BF16),
        case("strided", R=16, V=128, layout="padded"),
        case("strided", R=16, V=128, layout="shifted"),
        case("strided", R=16, V=128, layout="one row"),
        case("strided, deep", R=2, V=16_384, layout="padded"),
        case("strided, precision", R=16, V=128, layout="padded", dtype=BF16),
        case("precision", R=16, V=128, dtype=F16),
        case("precision", R=16, V=128, dtype=BF16),
        case("precision", R=32, V=128, dtype=F16, kind="sure"),
        case("precision", R=32, V=128, dtype=BF16, kind="sure"),
        case("ignored", R=16, V=128, ignore=-100),
        case("ignored", R=16, V=128, ignore=-100, kind="odd"),
        case("ignored", R=16, V=128, ignore=5),
        case("ignored", R=16, V=128, ignore=0, kind="odd", dtype=F16),
        case("ignored", R=16, V=128, ignore=255, kind="odd", dtype=BF16),
        case("ignored", R=5, V=128, ignore=-100, kind="all"),
        case("ignored", R=5, V=0, ignore=-100, kind="all"),
        case("large", R=12, V=128, kind="large"),
        case("large", R=12, V=128, kind="large", dtype=F16),
        case("large", R=12, V=128, kind="large", dtype=BF16),
        case("large", R=12, V=9000, kind="large"),
        case("many", R=200, V=4),
        case("sample", R=1100, V=1000),
        case("edge", R=0, V=64),
        case("edge", R=0, V=0),
        case("edge", R=1, V=1),
        case("edge", R=9, V=1, layout="padded"),
        case("edge", R=40, V=2, dtype=F16),
        case("edge", R=13, V=129, dtype=BF16, layout="padded"),
        case("again", R=16, V=128),
        case("tuned", R=10, V=100),
        case("compile", R=2, V=128_000, dtype=F16),
        case("compile", R=16, V=781),
    ),
)


@check("grid", points=5)
def test_grid(kernel):
    """A program for every row."""
    checks.grid(kernel)


@check("offsets", points=10)
def test_offsets(kernel):
    """Each program works on its own row, its own target and its own loss."""
    checks.offsets(kernel)


@check("mask", points=10)
def test_mask(kernel):
    """Lanes past the row read nothing, write nothing and count for nothing."""
    checks.mask(kernel)
    try:
        checks.each(kernel.trace("walk"), whole_row)
    except Wrong:
        return  # what the walk leaves out is not the mask's fault
    checks.beyond(kernel, "deep", "ragged, deep", "mask")


@check("values", points=10)
def test_loss(kernel):
    """The loss: the log of the sum of exponentials, less the target's logit."""
    checks.values(kernel, part=0)


@check("values", points=10)
def test_gradient(kernel):
    """The gradient: the softmax, less 1 at the target."""
    checks.values(kernel, part=1)


@check("layout", points=5)
def test_strides(kernel):
    """Rows are found through their stride."""
    checks.group(kernel, "strided", "layout")
    checks.beyond(kernel, "deep", "strided, deep", "layout")
    checks.beyond(kernel, "precision", "strided, precision", "layout")


@check("accumulate", points=5)
def test_walk(kernel):
    """Of a long row every logit is read, and every gradient written."""
    checks.each(kernel.trace("walk"), whole_row)


def whole_row(run: Run) -> None:
    checks.reads_all(run)
    blame = run.blame()
    if blame:
        raise Wrong(f"{run.left_out(blame)} ({run.label})", "accumulate")


@check("accumulate", points=5)
def test_accumulate(kernel):
    """All blocks of a row count, against the maximum of the whole row."""
    checks.group(kernel, "deep", "accumulate")
    checks.group(kernel, "walk", "accumulate")


@check("precision", points=5)
def test_precision(kernel):
    """fp16 and bf16 are worked on in fp32; the loss stays fp32, the gradient is rounded once."""
    checks.group(kernel, "precision", "precision")


@check("fusion", points=5)
def test_fusion(kernel):
    """Loss and gradient come from two reads of the logits at most."""
    checks.needs(kernel, "deep", "accumulate", "fusion")
    checks.traffic(kernel.trace("deep"), reads=2, writes=2)


@check("robust", points=5)
def test_ignored(kernel):
    """Ignored rows have no loss and no gradient, whatever is in them; the others are right."""

    def ask(run: Run) -> None:
        run.kernel_ran()
        for event in run.facts["outside"]:
            text = f"{outside_text(event)} ({run.label}): an ignored row has no target to look up"
            raise Wrong(text, "robust", event["line"])
        keep = parts(*run.arguments[:2], (*run.arguments, -100)[2])[0]
        for part in run.parts:
            got = run.got(part)
            wrong = (got != 0) & ~keep.view(-1, *[1] * (got.dim() - 1))
            if not checks.ordinary_sizes_written(kernel):
                wrong &= (run.coverage(part) & 1).bool()
            if bool(wrong.any()):
                at = tuple(wrong.nonzero()[0].tolist())
                text = f"row {at[0]} is ignored, but {run.called(part)} at {place(at)} is "
                raise Wrong(f"{text}{got[at].item():.6g}, not 0 ({run.label})", "robust")
        if bool(keep.any()) and not bool(run.got(1)[keep].any()):
            raise Waits("this counts once the other rows are not 0 (see values)", "robust")

    checks.each(kernel.trace("ignored"), ask)
    if checks.values_hold(kernel):
        checks.group(kernel, "ignored", "robust")


@check("robust", points=3)
def test_large(kernel):
    """Large logits, and classes that are ruled out by -inf."""
    checks.group(kernel, "large", "robust")


@check("robust", points=3)
def test_contract(kernel):
    """Any size and dtype of the contract, also on a second call."""
    checks.contract(kernel)


@check("robust", points=2, lane="compile")
def test_compiles(kernel):
    """The compiler accepts the kernel for every chip."""
    checks.compiles(kernel)


@check("precision", points=2, lane="compile")
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
