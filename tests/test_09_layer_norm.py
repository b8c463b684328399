"""Kata 9, layer_norm: `layer_norm(x, weight=None, bias=None, eps=1e-5)`, in one kernel."""

from types import SimpleNamespace

import torch
from grader import checks
from grader.grading import check
from grader.kata import Cost, Kata, case, lay_out
from grader.oracle import EPS32
from grader.reasons import Wrong
from grader.run import Run

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32


def inputs(draw, R, C, dtype=F32, layout="contiguous", vectors="both", eps=None, kind=None, **like):
    """Rows that rise, around 300 with a deviation of 100, then twice that, three times that, ..."""
    like = {"mean": 300.0, "std": 100.0} | like
    x = draw.normal((R, C), dtype, **like)
    x += (like["std"] * torch.linspace(-1, 1, C)).to(x.device)
    x *= (1 + torch.arange(R) % 3)[:, None].to(x.device)
    x = lay_out(x, layout)
    if kind == "windows":  # each row starts one element after the row before it
        x = draw.normal((R + C,), dtype, mean=300.0, std=100.0).as_strided((R, C), (1, 1))
    if kind == "equal":
        x[:] = torch.tensor([0.5, 0.0, -0.25]).repeat(R)[:R, None]
    if kind == "unit":  # mean 0 and variance 1 from the start: only eps is left to do
        x[:] = 1 - 2 * (torch.arange(C) % 2)
    weight = draw.integers((C,), dtype, 2, 8).div_(3) if vectors in ("both", "weight") else None
    bias = draw.normal((C,), dtype, mean=-0.7, std=1.5) if vectors in ("both", "bias") else None
    given = [x, weight, bias] if vectors != "none" or eps is not None else [x]
    return given if eps is None else [*given, eps]


def parts(x, weight=None, bias=None, eps=1e-5):
    """What a result is made of, in fp64; weight and bias are 1 and 0 where there are none."""
    x, one = x.double(), torch.ones(x.shape[1], dtype=torch.float64, device=x.device)
    p = SimpleNamespace(x=x, n=x.shape[1], eps=eps)
    p.centred = x - x.mean(-1, keepdim=True)
    p.variance = (p.centred**2).mean(-1, keepdim=True)
    p.root = (p.variance + eps).sqrt()
    p.normal = p.centred / p.root
    p.weight = one if weight is None else weight.double()
    p.bias = 0 * one if bias is None else bias.double()
    return p


def reference(*arguments):
    p = parts(*arguments)
    return p.normal * p.weight + p.bias


def bound(want, *arguments):
    """What fp32 costs with n columns, u = 2^-24 and k = rms(x) / sqrt(variance + eps).

    A mean of n numbers, added in any order or kept up to date as Welford does, errs by n u rms(x):
    the whole row is shifted by n u k. A variance around that mean errs by n u of itself and by the
    square of this shift, Welford's and Chan's by about n u k of itself: the row is stretched by
    half of that. 16 more roundings stand for what is done with each element.
    The mean of squares minus the square of the mean errs by u k^2: more, where k exceeds n.
    """
    p = parts(*arguments)
    if not p.x.numel():
        return torch.zeros_like(want)
    t = (p.n + 16) * EPS32 * (1 + (p.x**2).mean(-1, keepdim=True).sqrt() / p.root)
    row = t + p.normal.abs() * (t + t**2)
    return (p.weight.abs() * row + 4 * EPS32 * p.bias.abs()).nan_to_num()


def as_if(formula, affine=True, shows=lambda p: True):
    """The numbers of a mistake, before weight and bias, where it `shows` beside lost digits."""

    def numbers(*arguments):
        p = parts(*arguments)
        out = formula(p) * p.weight + p.bias if affine else formula(p)
        return out if shows(p) else out[:0]

    return numbers


def eps_counts(p):
    return float(p.variance.max()) < 100 * p.eps


KATA = Kata(
    launcher="layer_norm",
    parameters=("x", "weight", "bias", "eps"),
    inputs=inputs,
    reference=reference,
    bound=bound,
    widen=lambda block, x, *rest: (x.shape[0],),
    cost=lambda x, *rest: Cost(
        x.nbytes + sum(v.nbytes for v in rest[:2] if v is not None), x.nbytes, 8 * x.numel()
    ),
    baseline=lambda x, weight, bias: torch.nn.functional.layer_norm(x, x.shape[1:], weight, bias),
    speed_case=dict(R=65_536, C=4096, dtype=F16),
    bench_sizes=tuple(dict(R=16384, C=2**e, dtype=F16) for e in range(9, 16)),
    figures=(dict(R=16384, C=4096, dtype=F16), dict(R=16384, C=8192, dtype=F16)),
    suspects=(
        ("values", "Weight and bias are left out.", as_if(lambda p: p.normal, False)),
        ("values", "The bias is left out.", as_if(lambda p: p.normal * p.weight, False)),
        ("values", "The weight is left out.", as_if(lambda p: p.normal + p.bias, False)),
        (
            "robust",
            "eps is left out.",
            as_if(lambda p: p.centred / p.variance.sqrt(), shows=eps_counts),
        ),
        (
            "robust",
            "eps is added outside the root.",
            as_if(lambda p: p.centred / (p.variance.sqrt() + p.eps), shows=eps_counts),
        ),
        (
            "robust",
            "eps is 1e-5, whatever the caller says.",
            as_if(lambda p: p.centred / (p.variance + 1e-5).sqrt(), shows=eps_counts),
        ),
        ("reduction", "The root is missing.", as_if(lambda p: p.normal / p.root)),
        (
            "reduction",
            "The variance is divided by n - 1, not by n.",
            as_if(lambda p: p.normal * (1 - 1 / p.n) ** 0.5, shows=lambda p: p.n <= 128),
        ),
    ),
    cases=(
        case("probe", R=7, C=100),
        case("full", R=16, C=64, vectors="none"),
        case("full", R=48, C=128),
        case("full", R=8, C=1024),
        case("full", R=6, C=2048, vectors="none"),
        case("full", R=4, C=4096, vectors="weight"),
        case("full", R=2, C=32_768, vectors="bias"),
        case("full", R=1, C=65_536),
        case("ragged", R=7, C=100),
        case("ragged", R=1, C=100, vectors="none"),
        case("ragged", R=13, C=127, vectors="weight"),
        case("ragged", R=5, C=129),
        case("ragged", R=5, C=48, vectors="bias"),
        case("ragged", R=3, C=1040),
        case("ragged", R=4, C=1025, vectors="none"),
        case("ragged", R=3, C=3000),
        case("ragged", R=2, C=9_000, vectors="weight"),
        case("ragged", R=2, C=32_769),
        case("many", R=200, C=4, vectors="none"),
        case("strided", R=16, C=128, layout="padded"),
        case("strided", R=16, C=128, layout="shifted", vectors="none"),
        case("strided", R=16, C=128, layout="one row"),
        case("strided", R=16, C=128, kind="windows"),
        case("strided", R=2, C=20_000, layout="padded"),
        case("strided, precision", R=16, C=100, layout="padded", dtype=BF16),
        case("large mean", R=6, C=16, mean=10_000.0, std=1.0, vectors="none"),
        case("large mean", R=6, C=100, mean=10_000.0, std=1.0),
        case("large mean", R=8, C=1500, mean=4_000.0, std=1.0),
        case("large mean", R=8, C=9000, mean=6_000.0, std=1.0, vectors="none"),
        case("precision", R=16, C=128, dtype=F16, vectors="none"),
        case("precision", R=16, C=128, dtype=F16),
        case("precision", R=16, C=128, dtype=BF16),
        case("precision", R=8, C=4099, dtype=F16, vectors="weight"),
        case("precision", R=8, C=512, dtype=F16, mean=8_000.0, std=2_500.0),
        case("precision", R=8, C=512, dtype=BF16, mean=2.0**40, std=2.0**39, vectors="bias"),
        case("unit", R=1, C=128, kind="unit", vectors="none", eps=3.0),
        case("unit", R=1, C=128, kind="unit", vectors="none", eps=0.25),
        case("eps", R=8, C=128, mean=0.002, std=0.001, vectors="none"),
        case("eps", R=5, C=100, mean=0.5, std=0.3, eps=0.1),
        case("eps", R=3, C=3000, mean=0.05, std=0.03, eps=1e-3, vectors="none"),
        case("eps", R=8, C=128, mean=2e-5, std=1e-5, eps=1e-12),
        case("eps", R=5, C=100, kind="equal"),
        case("eps", R=4, C=128, kind="equal", vectors="none", dtype=F16),
        case("sample", R=70_000, C=17, layout="padded"),
        case("edge", R=0, C=64),
        case("edge", R=8, C=0),
        case("edge", R=1, C=1),
        case("edge", R=5, C=1, mean=0.5, std=0.1, vectors="bias"),
        case("edge", R=40, C=2, vectors="weight"),
        case("edge", R=16, C=129, dtype=F16, layout="padded"),
        case("edge", R=7, C=77, dtype=BF16, vectors="none"),
        case("again", R=16, C=128),
        case("tuned", R=10, C=100),
        case("compile", R=512, C=4096, dtype=F16),
        case("compile", R=512, C=781, vectors="weight", eps=1e-6),
        case("compile", R=4, C=65_536, dtype=BF16, vectors="none"),
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


@check("layout", points=5)
def test_strides(kernel):
    """Rows are found through their stride."""
    checks.group(kernel, "strided", "layout")
    checks.beyond(kernel, "precision", "strided, precision", "layout")


@check("mask", points=15)
def test_mask(kernel):
    """Lanes past the row read nothing, write nothing and count in neither moment."""
    checks.mask(kernel)


@check("values", points=10)
def test_values(kernel):
    """Weight and bias are applied (mean and scale of each row are a matter of reduction)."""

    def ask(run: Run) -> None:
        run.kernel_ran()
        wrong = run.mismatch(written_only=True)
        if wrong is not None and moments_wrong(run):
            wrong = with_right_moments(run)
        if wrong is not None:
            run.wrong_values(wrong, 0, "values")

    checks.each(kernel.trace("full"), ask)


def before_vectors(run: Run):
    """The result and what it should be, in fp64 and with weight and bias undone."""
    p = parts(*run.arguments)
    return [(t.double() - p.bias) / p.weight for t in (run.got(), run.want[0])]


def moments_wrong(run: Run) -> list[tuple[int, float, float]]:
    """(row, mean, mean square) of rows, written whole, where they are not what they should be."""
    got, want = before_vectors(run)
    err = run.bounds[0] / parts(*run.arguments).weight
    off = (got - want).mean(-1).abs() > err.mean(-1)
    off |= (got**2 - want**2).mean(-1).abs() > ((2 * want.abs() + err) * err).mean(-1)
    off |= got.isnan().any(-1)
    off &= (run.coverage() & 1).bool().all(-1)
    return [
        (row, float(got[row].mean()), float((got[row] ** 2).mean()))
        for row in off.nonzero().flatten().tolist()
    ]


def with_right_moments(run: Run):
    """What is still wrong once each row has the mean and the scale that it should have."""
    got, want = before_vectors(run)
    got = got - got.mean(-1, keepdim=True)
    scale = (got * want).mean(-1, keepdim=True) / (want**2).mean(-1, keepdim=True)
    p = parts(*run.arguments)
    return run.compare(got / scale.clamp(min=0) * p.weight + p.bias, written_only=True, slack=8)


@check("reduction", points=10)
def test_moments(kernel):
    """Before weight and bias every row of the result has mean 0 and mean square 1."""

    def ask(run: Run) -> None:
        run.kernel_ran()
        wrong = moments_wrong(run)
        if wrong and (len(run.arguments) == 1 or with_right_moments(run) is None):
            row, mean, square = wrong[0]
            raise Wrong(
                f"row {row} of the result has mean {mean:.6g} and mean square {square:.6g}, not 0 "
                f"and 1 ({run.label})",
                "reduction",
            )

    checks.each(kernel.trace("full"), ask)


@check("reduction", points=5)
def test_large_mean(kernel):
    """The variance is that of the centred values: a large mean does not drown it."""
    checks.group(kernel, "large mean", "reduction")


@check("precision", points=5)
def test_precision(kernel):
    """fp16 and bf16 are worked on in fp32 and rounded once."""
    checks.group(kernel, "precision", "precision")


@check("fusion", points=5)
def test_fusion(kernel):
    """x is read once where a row fits a block, three times at most; the result is written once."""
    checks.needs_values(kernel, "fusion")
    # Where weight and bias are given; some kernels make ones and zeros of their own where not.
    runs = [r for r in kernel.trace("full") if "vectors" not in r.case.sizes]
    widths = [[0, *r.launch["loads"].get("x", [])][-1] for r in runs]
    fitting = [r for r, w in zip(runs, widths, strict=True) if r.arguments[0].shape[1] <= w]
    checks.traffic(runs, reads=3, writes=1, besides=("weight", "bias"))
    if fitting:
        checks.traffic(fitting, reads=1, writes=1, besides=("weight", "bias"))


@check("robust", points=5)
def test_eps(kernel):
    """eps is added to the variance, under the root; rows of equal numbers become the bias."""
    checks.each(kernel.trace("unit"), lambda run: run.right(written_only=True, cause="robust"))
    if checks.values_hold(kernel):
        checks.group(kernel, "eps", "robust")


@check("robust", points=5)
def test_contract(kernel):
    """Any size and dtype of the contract, also on a second call."""
    checks.contract(kernel)


@check("robust", points=2, lane="compile")
def test_compiles(kernel):
    """The compiler accepts the kernel for every chip."""
    checks.compiles(kernel)


@check("precision", points=3, lane="compile")
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
