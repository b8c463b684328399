"""Kata 18, dropout: `dropout(x, p, seed)`, and `dropout_backward(grad, p, seed)` with the same mask."""

import itertools
import math

import torch
from grader import checks
from grader.grading import check
from grader.kata import Cost, Kata, case
from grader.oracle import EPS32
from grader.reasons import Unusable, Wrong
from grader.run import Run
from grader.words import plural

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
BACKWARD = "dropout_backward"
SAME = dict(p=0.3, seed=7)  # of all cases whose masks are to be one and the same
DOUBT = 20.0  # a right kernel is taken for a wrong one with a chance of 2 exp(-20) = 4e-9
SEEDS = (0, 1, 2**16 + 1, 2**24, 2**24 + 1, 2**30 + 1)
ALIKE = 8.0  # the same for masks, where many are compared: 2 exp(-8^2 / 2) = 3e-14


def inputs(draw, n=None, p=0.5, seed=None, dtype=F32, shape=None, layout="contiguous", odd=False):
    x = draw.normal((n,) if shape is None else shape, dtype, std=2.0, layout=layout)
    if odd:
        x[::3], x[1::9], x[4::9] = float("nan"), float("inf"), -float("inf")
    # Odd and above 1: a kernel need not be compiled anew because of it, while it is timed.
    return [x, p, 2 * draw.number(1, 2**30 - 1) + 1 if seed is None else seed]


def reference(got, x, p, seed):
    """Kept or dropped, as the result has it; where p is 0 or 1, that is no question."""
    if p in (0, 1):
        return x * 1 if p == 0 else torch.zeros_like(x)
    return torch.where(got == 0, 0, x / (1 - p))


def keep_rate(got, x, p, seed):
    """The number of those kept is binomial: for any n, Bernstein's inequality bounds its tails."""
    seen = (x.abs() >= 2.0**-14) & ~got.isnan()  # NaN: not written; and nothing tiny, nor NaN
    count, kept = int(seen.sum()), int((seen & (got != 0)).sum())
    spread = DOUBT / 3 + math.sqrt(DOUBT**2 / 9 + 2 * DOUBT * count * p * (1 - p))
    if p in (0, 1) or abs(kept - count * (1 - p)) <= spread:
        return ""
    about = f"about {count * (1 - p):,.0f}"
    return f"{kept:,} of {count:,} elements are kept, and not {about}, with p = {p}"


def bound(want, x, p, seed):
    """Two roundings in fp32 and, where p was rounded to fp32 first, the share of that in 1 - p."""
    return 0 * want if p in (0, 1) else want.nan_to_num().abs() * EPS32 * (3 + 2 * p / (1 - p))


def blocks(count, more=0):
    """So many of the kernel's own blocks, or as many as make 2,048 elements."""
    return lambda block: max(count, -(-2048 // block[0])) * block[0] + more


def suspects(concept):
    return (
        (concept, "What is kept is not scaled.", lambda got, x, *_: x * (got != 0)),
        (concept, "What is kept is divided by p.", lambda got, x, p, _: x / p * (got != 0)),
    )


KATA = Kata(
    launcher="dropout",
    parameters=("x", "p", "seed"),
    others={BACKWARD: dict(parameters=("grad", "p", "seed"), suspects=suspects("fusion"))},
    inputs=inputs,
    reference=reference,
    choice=keep_rate,
    bound=bound,
    widen=lambda block, x, *_: (-(-x.numel() // block[0]),),
    cost=lambda x, *_: Cost(x.nbytes, x.nbytes, x.numel()),
    baseline=lambda x, p, seed: torch.nn.functional.dropout(x, p, training=True),
    speed_case=dict(n=2**26),
    bench_sizes=tuple(dict(n=2**e) for e in range(20, 28)),
    figures=(dict(n=2**24), dict(n=2**26), dict(n=2**27, dtype=F16)),
    suspects=suspects("values"),
    show=dict(n=lambda block: block[0] + block[0] // 4 + 7, p=0.3),
    cases=(
        case("probe", n=1000, p=0.3),
        case("full", n=blocks(1)),
        case("full", n=blocks(3), p=0.1),
        case("full", n=blocks(4), p=0.9),
        case("ragged", n=1000, **SAME),
        case("ragged", n=blocks(1, -1), **SAME),
        case("ragged", n=blocks(2, 1), p=0.8),
        case("ragged", n=20_011, **SAME),
        # The backward pass comes first: there is no mask that it could have been left.
        case("backward", launcher=BACKWARD, n=blocks(3), p=0.35, seed=11),
        case("forward", n=blocks(3), p=0.35, seed=11),
        case("forward", n=blocks(2), p=0.6, seed=2**31 - 1),
        case("backward", launcher=BACKWARD, n=blocks(2, 1), p=0.6, seed=2**31 - 1),
        case("backward, edge", launcher=BACKWARD, n=999, p=0.2, dtype=BF16, layout="shifted"),
        case("backward, edge", launcher=BACKWARD, shape=(3, 401, 2), **SAME),
        case("backward, edge", launcher=BACKWARD, n=0),
        case("same", n=blocks(3), **SAME),
        case("same", n=37, **SAME),
        case("same", shape=(3, 401, 2), **SAME),
        case("same", shape=(401, 6), dtype=F16, **SAME),
        case("same", n=3001, dtype=BF16, **SAME),
        # Apart by a step or by one high bit: 16, 24 (as fp32 keeps) or 30 bits of a seed do not do.
        *(case("seeds", n=blocks(3), seed=s) for s in SEEDS),
        case("precision", n=blocks(1), p=0.1, dtype=F16),
        case("precision", n=blocks(1), p=0.3, dtype=BF16),
        case("precision", launcher=BACKWARD, n=blocks(1), p=0.1, dtype=F16),
        case("odd", n=3000, odd=True, **SAME),
        case("odd", n=3000, odd=True, dtype=F16, **SAME),
        case("odd", launcher=BACKWARD, n=3000, odd=True, **SAME),
        case("ends", n=1001, p=0.0),
        case("ends", n=1001, p=1.0),
        case("ends", n=1001, p=1.0, odd=True),
        case("ends", n=1001, p=0.0, dtype=F16, odd=True),
        case("ends", launcher=BACKWARD, n=1001, p=0.0),
        case("ends", launcher=BACKWARD, n=1001, p=1.0, dtype=F16),
        # So few are dropped that a random number of 8 bits shows.
        case("many", n=lambda block: min(300 * block[0], 2**16) - 5, p=0.002),
        case("sample", n=1_100_000, **SAME),
        case("sample", launcher=BACKWARD, n=1_100_000, **SAME),
        # The last program, which runs too, lies 2^20 behind the first.
        case("sample", n=lambda block: 2**20 + block[0], seed=5),
        case("edge", n=0),
        case("edge", shape=(0, 3), dtype=F16),
        case("edge", shape=()),
        case("edge", n=1, p=0.9),
        case("edge", shape=(2, 3, 2, 3, 2), p=0.2, dtype=BF16),
        case("edge", n=1000, layout="shifted", p=0.999),
        case("again", n=1000, **SAME),
        case("tuned", n=1500, **SAME),
        case("compile", n=98_432, p=0.1, seed=42),
        case("compile", launcher=BACKWARD, n=4099, p=0.1, seed=1, dtype=BF16),
    ),
)


def mask_of(run: Run) -> tuple[torch.Tensor, torch.Tensor]:
    """Which elements a call kept, and which of them to go by: those that one program wrote."""
    run.kernel_ran()
    got, flags, x = (t.flatten() for t in (run.got(), run.coverage(), run.arguments[0]))
    filled = run.facts["result"][0].get("kind") == "filled"
    seen = ((flags & (3 if filled else 1)) > 0) & ((flags & 4) == 0) & ~(x.abs() < 2.0**-14)
    return got != 0, seen


def same_masks(runs: list[Run], concept: str) -> None:
    """Calls with the same p and seed keep and drop the same positions."""
    masks: dict = {}
    for run in runs:
        kept, seen = mask_of(run)
        earlier = masks.setdefault(tuple(run.arguments[1:]), [])
        for other, other_kept, other_seen in earlier:
            n = min(len(kept), len(other_kept))
            differ = (kept[:n] != other_kept[:n]) & seen[:n] & other_seen[:n]
            if bool(differ.any()):
                raise Wrong(
                    f"{plural(int(differ.sum()), 'element')}, the first at position "
                    f"{int(differ.nonzero()[0])}, kept in one of two calls with the same p and seed "
                    f"and dropped in the other ({other.label}; {run.label})",
                    concept,
                )
        earlier.append((run, kept, seen))


def alike(one: Run, other: Run) -> str:
    """How two masks (p = 0.5), or one with itself, agree, whatever they are shifted by; "" if not.

    A right kernel's agreements are fair coins: of n, the sum strays by more than ALIKE times the
    root of n with a chance of less than 2 exp(-ALIKE^2 / 2).
    """
    signs = [torch.where(seen, kept * 2.0 - 1, 0) for kept, seen in map(mask_of, (one, other))]
    size = 2 * max(map(len, signs))
    sums, counts = (
        torch.fft.irfft(torch.fft.rfft(a, size).conj() * torch.fft.rfft(b, size), size)
        for a, b in (signs, [s.abs() for s in signs])
    )
    counts = counts.round()
    counts[0] *= one is not other
    stray = sums.abs() * (counts > 0) / counts.clamp(min=ALIKE**2).sqrt()
    at = int(stray.argmax())
    if float(stray[at]) <= ALIKE:
        return ""
    apart = at if at <= size // 2 else size - at
    share = float((1 + sums[at] / counts[at]) / 2)
    told = f"{share:.0%} of {int(counts[at]):,} agree" + f", {apart:,} apart" * (apart > 0)
    return f"{told}, where chance makes it half"


@check("grid", points=5)
def test_grid(kernel):
    """Enough programs for every element."""
    checks.grid(kernel)


@check("offsets", points=10)
def test_offsets(kernel):
    """Each program works on its own block."""
    checks.offsets(kernel)


@check("mask", points=10)
def test_mask(kernel):
    """Neither load nor store leaves the tensors."""
    checks.mask(kernel)


@check("values", points=10)
def test_values(kernel):
    """Each element is 0 or x / (1 - p), and a share of 1 - p is kept."""
    checks.values(kernel)
    checks.each(kernel.trace("full", "many"), lambda run: run.right(written_only=True))


@check("values", points=10)
def test_same_seed(kernel):
    """The same p and seed: the same mask, whatever the size, shape, dtype and numbers."""
    checks.needs_values(kernel, "values")
    runs = kernel.trace("ragged", "same", "many", "sample", "again", "tuned", every_config=True)
    same_masks(runs, "values")


@check("values", points=10)
def test_random(kernel):
    """No two positions share a random number, nor do masks of two seeds resemble each other."""
    checks.needs_values(kernel, "values")
    runs = kernel.trace("seeds")
    far = [run for run in kernel.trace("sample") if run.arguments[1] == 0.5]
    for run in [*runs, *far]:
        told = alike(run, run)
        if told:
            raise Wrong(f"random numbers follow a pattern: {told} ({run.label})", "values")
    for one, other in itertools.combinations(runs, 2):
        told = alike(one, other)
        if told:
            raise Wrong(
                f"the masks of two seeds are alike: {told} ({one.label}; {other.label})", "values"
            )


@check("fusion", points=5)
def test_backward(kernel):
    """The gradient passes where x did, also if the backward pass runs by itself."""
    runs = kernel.trace("backward", "backward, edge")

    def ask(run: Run) -> None:
        try:
            run.keeps_contract()
        except Unusable:
            raise
        except Wrong as wrong:
            text = wrong.message
            if run.answer.error is not None or not run.facts.get("launches"):
                text = f"{text.rstrip('.')}. All it has to go by are grad, p and seed"
            raise Wrong(text, "fusion", wrong.line) from None

    checks.each(runs, ask)
    if not any(run.wrote() for run in runs if run.elements):
        raise Wrong(f"no kernel writes any element of what {BACKWARD} returns", "fusion")
    same_masks([*runs, *kernel.trace("forward", "same")], "fusion")
    if checks.values_hold(kernel):
        whole = checks.ordinary_sizes_written(kernel)
        checks.each(runs, lambda run: run.right(written_only=not whole, cause="fusion"))


@check("fusion", points=5)
def test_nothing_stored(kernel):
    """One read and one write, forward and backward: no mask goes through memory."""
    for run in (runs := kernel.trace("forward", "backward")):
        run.kernel_ran()
        storage = run.facts["result"][0]["storage"]
        for buffer in run.facts["buffers"]:
            if buffer["stored_bytes"] and buffer["name"] != storage:
                what = buffer["name"] or "a tensor"
                raise Wrong(f"a kernel writes {what} besides the result ({run.label})", "fusion")
    checks.traffic(runs, reads=1, writes=1)


@check("precision", points=5)
def test_precision(kernel):
    """fp16 and bf16 are scaled in fp32 and rounded once."""
    checks.group(kernel, "precision", "precision")


@check("robust", points=5)
def test_odd(kernel):
    """What is dropped is 0, be it infinite or NaN."""
    checks.group(kernel, "odd", "robust")
    same_masks([*kernel.trace("same"), *kernel.trace("odd")], "robust")


@check("robust", points=5)
def test_ends(kernel):
    """p = 0 gives x, p = 1 gives zeros."""
    checks.group(kernel, "ends", "robust")
    if checks.ordinary_sizes_written(kernel):
        checks.each(kernel.trace("ends"), lambda run: run.right(cause="robust"))


@check("robust", points=3)
def test_contract(kernel):
    """Any size, shape and dtype, also on a second call; x is left as it was."""
    checks.contract(kernel)


@check("robust", points=2, lane="compile")
def test_compiles(kernel):
    """The compiler accepts the kernel for every chip."""
    checks.compiles(kernel)


@check("robust", points=5, lane="gpu")
def test_on_the_card(kernel):
    """On a real card, between guard bands: every case is right, with the same masks all through."""
    checks.on_gpu(kernel)
    same_masks([run for run in kernel.gpu() if run.elements], "robust")


@check("speed", points=5, lane="gpu")
def test_speed(kernel):
    """Forward: at least 0.8 of the reference solution's speed, in one run."""
    checks.speed(kernel)


@check("speed", points=5, lane="gpu")
def test_speed_backward(kernel):
    """Backward: at least 0.8 of the reference solution's speed, in one run."""
    checks.speed(kernel, BACKWARD)
