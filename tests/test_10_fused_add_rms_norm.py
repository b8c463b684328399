"""Kata 10, fused_add_rms_norm: residual updated in place by an autotuned kernel, y normalised."""

import torch
from grader import checks
from grader.grading import check
from grader.kata import Cost, Kata, case
from grader.oracle import EPS32, compare, half_ulp

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
Y, RESIDUAL = 0, 1  # the results


def inputs(draw, R, C, dtype=F32, kind="whole", eps=0.25, layout="contiguous"):
    if kind == "whole":  # with sums of squares that fp32 holds exactly, and nothing narrower does
        x, residual = (draw.integers((R, C), dtype, -7, 9, layout) for _ in "xr")
    else:
        x, residual = (draw.normal((R, C), dtype, layout=layout) for _ in "xr")
    weight = draw.normal((C,), dtype, mean=1.0)
    if kind == "large":  # squares far beyond fp16
        x, residual = 128 * x, 128 * residual
    if kind == "small":  # eps is about as large as the mean of the squares
        x, residual = x / 1024, residual / 1024
    if kind == "odd":
        x[0, 1], residual[1, 2], x[2, 3] = float("inf"), float("-inf"), float("nan")
        x[3], x[4] = -residual[3], 0
    return [x, residual, weight] if eps is None else [x, residual, weight, eps]


def normalised(total, weight, eps=1e-6, of=None):
    """total over the root mean square of itself (or of another sum)."""
    squares = total * total if of is None else of * of
    return total / torch.sqrt(squares.mean(-1, keepdim=True) + eps) * weight


def reference(x, residual, weight, eps=1e-6):
    return normalised(x + residual, weight, eps), x + residual


def bound_y(want, x, residual, weight, eps=1e-6):
    """y may come from the exact sum or from the rounded one: what that makes a difference is allowed.

    Either may stand above the fraction, and either below it: a kernel that walks along a row reads
    back what it has rounded. To that come n additions of squares in fp32, in any order, halved by
    the root, and some 16 more roundings: of the sum, the mean, root and quotient (2 units each),
    and the products. Where all sums are whole and their squares add up to 2^24 at most, adding them
    up rounds nothing, so that is not allowed either.
    """
    total, weight = x.double() + residual.double(), weight.double()
    rounded = total.to(x.dtype).double()
    others = [normalised(rounded, weight, eps, of) for of in (total, rounded)]
    others = torch.stack([*others, normalised(total, weight, eps, rounded)])
    either = (others - want).abs().amax(0).nan_to_num(0.0)
    step = (half_ulp(others.abs().amax(0), x.dtype) - half_ulp(want, x.dtype)).clamp(min=0)
    whole = (total == total.round()) & ((total * total).sum(-1, keepdim=True) <= 2**24)
    terms = torch.where(whole.all(-1, keepdim=True), 0.0, x.shape[1])
    return either + step + EPS32 * (terms / 2 + 16) * want.abs().nan_to_num(0.0, 0.0, 0.0)


def bound_residual(want, x, *_):
    """One addition: exact but for its rounding to fp32, which for fp32 is the last rounding too."""
    return (0.0 if x.dtype == F32 else EPS32) * want.abs().nan_to_num(0.0, 0.0, 0.0)


def eager(x, residual, weight, eps=1e-6):
    total = x + residual
    return torch.nn.functional.rms_norm(total, total.shape[-1:], weight, eps), total


def padded(x, residual, weight, eps=1e-6):
    """y with the mean taken over a block, the next power of two."""
    C = x.shape[1]
    total, block = x + residual, 1 << (C - 1).bit_length()
    mean = (total * total).sum(-1, keepdim=True) / block
    return total / torch.sqrt(mean + eps) * weight, None


def y_is(formula):
    """A usual mistake that shows in y, from (x + residual, weight, eps)."""
    return lambda x, residual, weight, eps=1e-6: (formula(x + residual, weight, eps), None)


KATA = Kata(
    launcher="fused_add_rms_norm",
    parameters=("x", "residual", "weight", "eps"),
    returns=("y", "residual"),
    inputs=inputs,
    reference=reference,
    bound=(bound_y, bound_residual),
    widen=lambda block, x, *_: (x.shape[0],),
    cost=lambda x, residual, weight, *_: Cost(
        2 * x.nbytes + weight.nbytes, 2 * x.nbytes, 6 * x.numel()
    ),
    baseline=eager,
    speed_case=dict(R=32_768, C=4096, dtype=F16, kind="normal"),
    bench_sizes=tuple(dict(R=16_384, C=2**e, dtype=F16, kind="normal") for e in range(9, 15)),
    figures=(
        dict(R=16_384, C=4096, dtype=F16, kind="normal"),
        dict(R=16_384, C=8192, dtype=BF16, kind="normal"),
        dict(R=16_384, C=5120, dtype=F32, kind="normal"),
    ),
    suspects=(
        ("values", "Nothing has been added to it.", lambda x, r, *_: (None, r)),
        ("values", "These are the numbers of x alone.", lambda x, r, *_: (None, x)),
        ("values", "This is residual - x.", lambda x, r, *_: (None, r - x)),
        ("values", "x is added twice.", lambda x, r, *_: (None, r + 2 * x)),
        ("values", "It comes from x alone.", lambda x, r, *w: (normalised(x, *w), None)),
        ("values", "It comes from the old residual.", lambda x, r, *w: (normalised(r, *w), None)),
        ("reduction", "The weight is missing.", y_is(lambda t, w, eps: normalised(t, 1, eps))),
        ("reduction", "The sum is not normalised.", y_is(lambda t, w, eps: t * w)),
        ("reduction", "eps is missing.", y_is(lambda t, w, eps: normalised(t, w, 0))),
        (
            "reduction",
            "eps stands outside of the root.",
            y_is(lambda t, w, eps: t / ((t * t).mean(-1, keepdim=True).sqrt() + eps) * w),
        ),
        (
            "reduction",
            "A mean is subtracted: this is layer norm.",
            y_is(lambda t, w, eps: normalised(t - t.mean(-1, keepdim=True), w, eps)),
        ),
        ("reduction", "The mean is taken over the block, not over the columns.", padded),
    ),
    show=dict(R=5, C=100),
    cases=(
        case("probe", R=7, C=100),
        case("full", R=8, C=128),
        case("full", R=1, C=1024),
        case("full", R=3, C=256, kind="normal"),
        case("full", R=3, C=4096),
        case("ragged", R=6, C=100),
        case("ragged", R=3, C=127),
        case("ragged", R=3, C=1040),
        case("ragged", R=2, C=5000),
        case("precision", R=8, C=1024, dtype=F16),
        case("precision", R=8, C=1024, dtype=BF16),
        case("precision", R=4, C=4099, dtype=F16, kind="normal"),
        case("precision", R=4, C=4099, dtype=BF16, kind="normal"),
        case("precision", R=4, C=512, dtype=F16, kind="large"),
        case("precision", R=8, C=300, kind="small", eps=None),
        case("many", R=300, C=4),
        case("sample", R=70_000, C=17),
        case("edge", R=0, C=64),
        case("edge", R=5, C=0),
        case("edge", R=1, C=1),
        case("edge", R=5, C=1, eps=None),
        case("edge", R=20, C=2, dtype=F16),
        case("edge", R=1, C=65_536),
        case("edge", R=1, C=40_001, dtype=F16),
        case("edge", R=6, C=77, layout="shifted", dtype=BF16),
        case("edge", R=9, C=77, kind="odd", eps=1e-5),
        case("edge", R=9, C=77, kind="odd", eps=1e-5, dtype=BF16),
        case("again", R=8, C=1024),
        case("tuned", R=2, C=90),
        case("tuned", R=2, C=2048),
        case("tuned, again", R=2, C=310),
        case("compile", R=512, C=4096, dtype=F16),
        case("compile", R=64, C=300, dtype=BF16),
    ),
)


@check("grid", points=5)
def test_grid(kernel):
    """A program for every row."""
    checks.grid(kernel)


@check("offsets", points=10)
def test_offsets(kernel):
    """Each program works on its own row."""
    checks.offsets(kernel)


@check("mask", points=15)
def test_mask(kernel):
    """Lanes past the row read nothing, write nothing and count for nothing."""
    checks.mask(kernel)


@check("values", points=10)
def test_residual(kernel):
    """residual becomes x + residual."""
    checks.values(kernel, part=RESIDUAL)


@check("reduction", points=15)
def test_y(kernel):
    """y is residual over the root of its mean square plus eps, times weight."""

    def ask(run):
        run.kernel_ran()
        wrong = run.mismatch(Y, written_only=True)
        if wrong and run.mismatch(RESIDUAL, written_only=True):  # judged by the sum that it has
            want = normalised(run.got(RESIDUAL).double(), *run.arguments[2:])
            wrong = compare(run.got(Y), want, 1e-5 * want.abs(), run.written(Y))
        if wrong:
            run.wrong_values(wrong, Y, "reduction")

    checks.each(kernel.trace("full"), ask)


@check("precision", points=5)
def test_precision(kernel):
    """fp16 and bf16 are worked on in fp32, and y is rounded once."""
    checks.group(kernel, "precision", "precision")


@check("fusion", points=5)
def test_fusion(kernel):
    """x and residual are read once, residual and y written once (reads: twice in wide rows)."""
    checks.needs_values(kernel, "fusion")
    for run in kernel.trace("again"):
        run.kernel_ran()
        C = run.arguments[0].shape[1]
        fits = all(launch["loads"].get("x", [C])[-1] >= C for launch in run.facts["launches"])
        checks.traffic([run], reads=1 if fits else 2, writes=1, besides=("weight",))


@check("autotune", points=5)
def test_configs(kernel):
    """Four different configs, tuned anew for a new width, each of them right."""
    checks.tuning(kernel, configs=4, blocks=1, tuned_call=False)


@check("autotune", points=7)
def test_tuned_call(kernel):
    """x is added once, also in the call that tunes and in the one after it."""
    checks.tuned(kernel, "tuned, again")


@check("robust", points=5)
def test_contract(kernel):
    """Any size and dtype; residual itself is returned, x and weight are left alone."""
    checks.contract(kernel, configs=False)


@check("robust", points=1, lane="compile")
def test_compiles(kernel):
    """The compiler accepts every config for every chip."""
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
