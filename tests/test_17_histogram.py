"""Kata 17, histogram: `histogram(x, bins)`, int32 counts of whole numbers that many programs share."""

import math

import torch
from grader import checks
from grader.grading import check
from grader.kata import Cost, Kata, case
from grader.reasons import Waits, Wrong
from grader.run import Run
from grader.words import grid_text, outside_text, plural

I32, I64 = torch.int32, torch.int64
MANY = 19 * 8192


def inputs(draw, n, bins=256, dtype=I32, kind="plain", layout="contiguous"):
    if kind == "turns":  # many values, quickly made
        return [torch.arange(n, dtype=dtype) % bins, bins]
    x = draw.integers((n,), dtype, 0, bins, layout=layout)
    if kind == "hot":  # nearly all values are the same
        x[:] = bins - 1
        x[::37] = 0
    if kind == "none":
        x += bins
    if kind == "gaps":  # most bins stay empty
        x *= 7
        x %= bins
    if kind == "outside":  # a third has a bin
        x[::3] -= bins
        x[1::3] += bins
    if kind == "around":  # just outside, and what a narrower integer makes of larger numbers
        far = [
            -1,
            bins,
            -bins,
            2 * bins,
            bins + 3,
            255 - 2**31,
            -(2**31),
            2**31 - 1,
            2**16 + 3,
            -256,
        ]
        if dtype == I64:
            far += [k * 2**32 + v for k in (-1, 1, 3) for v in (0, 3, 7)] + [-(2**63), 2**63 - 1]
        far = (8 * far)[:n]
        x[: len(far)] = torch.tensor(far, dtype=dtype)
    return [x, bins]


def count(x, bins, inside=lambda x, bins: (x >= 0) & (x < bins)):
    """The histogram, as PyTorch counts it."""
    return torch.bincount(x[inside(x, bins)].long(), minlength=bins)[:bins]


def size(block):
    """Values in a block, as the kernel reads them."""
    return min(block[0] * block[1] or 1024, 8192)


def values(blocks, more=0):
    """So many of the kernel's own blocks of values."""
    return lambda block: max(int(blocks * size(block)) + more, 1)


KATA = Kata(
    launcher="histogram",
    parameters=("x", "bins"),
    inputs=inputs,
    reference=count,
    bound=lambda want, x, bins: torch.zeros_like(want),  # whole numbers: nothing is rounded
    result=lambda x, bins: [((bins,), I32)],
    widen=lambda block, x, bins: (-(-x.numel() // size(block)),),
    cost=lambda x, bins: Cost(x.nbytes, 4 * bins),
    # Of whole numbers, on a card, this is the contract. torch.bincount looks for the largest first.
    baseline=lambda x, bins: torch.histc(x, bins, 0, bins - 1),
    speed_case=dict(n=2**26),
    bench_sizes=tuple(dict(n=2**e) for e in range(20, 28, 2)),
    figures=(dict(n=2**26), dict(n=2**25, dtype=I64), dict(n=2**26, bins=65_536)),
    usual_block=(1, 1024),
    suspects=(
        ("mask", "The last value is left out.", lambda x, bins: count(x[:-1], bins)),
        ("accumulate", "All counts are doubled.", lambda x, bins: 2 * count(x, bins)),
        (
            "accumulate",
            "Each bin says whether there is a value, and not how many.",
            lambda x, bins: count(x, bins).clamp(max=1),
        ),
        (
            "values",
            "Values past the last bin are counted in it.",
            lambda x, bins: count(x.clamp(max=bins - 1), bins),
        ),
        (
            "values",
            "What has no bin is counted in the first or the last.",
            lambda x, bins: count(x.clamp(0, bins - 1), bins),
        ),
        (
            "values",
            "Values are cut to 32 bits before they are asked for their bin.",
            lambda x, bins: count(x.int(), bins),
        ),
    ),
    show=dict(n=values(1.25), bins=100),
    cases=(
        case("probe", n=1000, bins=100),
        case("full", n=values(1), bins=100),
        case("full", n=values(1)),
        case("ragged", n=values(1, -1)),
        case("ragged", n=values(0.7), bins=100),
        case("ragged", n=1, bins=5),
        case("ragged", n=values(0.5, 3), kind="gaps"),
        case("blocks", n=MANY),
        case("blocks", n=values(4), bins=100),
        case("ragged, blocks", n=values(3, 5), bins=100),
        case("ragged, blocks", n=30_011, kind="gaps"),
        case("hot", n=MANY, bins=7, kind="hot"),
        case("hot", n=values(4), kind="hot"),
        case("bins", n=values(4), bins=1023),
        case("bins", n=values(4), bins=65_536, kind="hot"),
        case("bins", n=20_000, bins=4099),
        case("bins", n=10_000, bins=65_536),
        case("outside", n=values(0.5), kind="outside"),
        case("outside", n=values(0.5), bins=100, kind="around"),
        case("outside", n=999, bins=100, dtype=I64, kind="around"),
        case("outside", n=999, dtype=I64, kind="around"),
        case("outside", n=999, bins=9001, dtype=I64, kind="around"),
        case("edge", n=0, bins=10),
        case("edge", n=1, bins=1),
        case("edge", n=5000, bins=1),
        case("edge", n=3001, bins=3, dtype=I64),
        case("edge", n=64, bins=2000),
        case("edge", n=801, layout="shifted"),
        case("edge", n=500, bins=100, kind="none"),
        case("many", n=60_000, bins=10),
        case("sample", n=9_000_000, kind="turns"),  # more than 1,024 blocks of 8,192
        case("again", n=3000, bins=100),
        case("tuned", n=1000, bins=100),
        case("tuned", n=3000, bins=100),
        case("compile", n=3000),
        case("compile", n=2999, bins=9001, dtype=I64),
    ),
)


def unread(run: Run) -> int:
    """Values that no program reads."""
    run.kernel_ran()
    return run.arguments[0].numel() - sum(
        b["read"] for b in run.facts["buffers"] if b["name"] == "x"
    )


def readers(run: Run) -> list[dict]:
    """The launches that read x."""
    return [launch for launch in run.facts["launches"] if "x" in launch["loads"]]


def too_few(run: Run) -> bool:
    """Whether values are left out for want of programs."""
    n = run.arguments[0].numel()
    left, launches = unread(run), readers(run)
    blocks = [math.prod(x["loads"]["x"]) for x in launches]
    one_each = n - left == sum(b * x["ran"] for b, x in zip(blocks, launches, strict=True))
    if run.case.group == "sample" and not one_each:
        # Two programs ran, and the last, which may have little to do.
        reach = sum(x["programs"] * (n - left) / max(x["ran"] - 1, 1) for x in launches)
    else:
        reach = sum(b * x["programs"] for b, x in zip(blocks, launches, strict=True))
    return bool(launches) and left > 0 and reach < n


def shared_right(kernel) -> bool:
    """Whether several whole blocks are counted right."""
    try:
        checks.each(kernel.trace("blocks"), Run.right)
    except Wrong:
        return False
    return True


@check("grid", points=10)
def test_grid(kernel):
    """Enough programs to share the values out."""
    for run in kernel.trace("probe", "blocks", "ragged, blocks", "bins", "many", "sample"):
        run.kernel_ran()
        programs = sum(x["programs"] for x in readers(run))
        grid = " and ".join(grid_text(launch) for launch in readers(run))
        if too_few(run):
            text = (
                f"the grid {grid} starts {plural(programs, 'program')}, too few to read all values"
            )
            raise Wrong(f"{text} ({run.label})", "grid")


@check("offsets", points=10)
def test_offsets(kernel):
    """Each block reads its own values, and all are read."""

    def ask(run: Run) -> None:
        left = unread(run)
        if too_few(run):
            raise Waits("this counts once there are enough programs (see grid)", "offsets")
        if left:
            n = run.arguments[0].numel()
            raise Wrong(f"{left:,} of {n:,} values are never read ({run.label})", "offsets")
        for event in run.facts["outside"]:
            if event["op"] != "load":
                raise Wrong(f"{outside_text(event)} ({run.label})", "offsets", event["line"])

    checks.each(kernel.trace("blocks"), ask)


@check("mask", points=15)
def test_mask(kernel):
    """Lanes past the end of x read nothing and count nowhere."""
    sampled, runs = checks.apart(
        kernel.trace("probe", "full", "ragged", "ragged, blocks", "sample")
    )
    checks.each([*runs, *sampled], Run.no_lane_outside)
    harder = ["ragged"] * checks.values_hold(kernel)
    if harder and shared_right(kernel) and not any(too_few(run) for run in runs):
        harder.append("ragged, blocks")
    if harder:
        checks.each(kernel.trace(*harder), lambda run: run.right(written_only=True, cause="mask"))


@check("values", points=10)
def test_values(kernel):
    """Each bin gets the number of its values."""

    usual = {
        "uninitialised": "counters start from whatever memory held: set them to 0",
        "collision": "lanes with equal values store to one counter at once, and all but one is lost",
    }

    def ask(run: Run) -> None:
        run.kernel_ran()
        for hazard in run.facts["hazards"]:
            if hazard["kind"] in usual:
                text = f"{usual[hazard['kind']]} ({run.label})"
                raise Wrong(text, "accumulate", hazard["line"])
        if not run.wrote():
            run.keeps_contract()
        run.right()

    checks.each(kernel.trace("full"), ask)


@check("values", points=15)
def test_range(kernel):
    """Values below 0 and from bins on are ignored, in int64 too."""

    def ask(run: Run) -> None:
        run.kernel_ran()
        for event in run.facts["outside"]:
            if event["op"] != "load":
                raise Wrong(f"{outside_text(event)} ({run.label})", "values", event["line"])

    checks.needs_values(kernel, "values")
    checks.each(kernel.trace("outside"), ask)
    checks.group(kernel, "outside", "values")


@check("accumulate", points=8)
def test_races(kernel):
    """No two programs, and no two lanes, load and store the same counter."""
    runs = kernel.trace("blocks", "hot", "bins")
    checks.each(runs, lambda run: run.undisturbed("accumulate"))
    if not any(run.wrote() for run in runs):
        raise Wrong("no kernel writes any counter", "accumulate")


@check("accumulate", points=7)
def test_together(kernel):
    """What the programs have counted comes together, in a hot bin too."""
    for name in ("blocks", "hot"):
        checks.group(kernel, name, "accumulate")
        checks.each(kernel.trace(name), lambda run: run.right(cause="accumulate"))
    checks.group(kernel, "tuned", "autotune")


@check("accumulate", points=5)
def test_bins(kernel):
    """Up to 65,536 bins, more than a program can count for itself."""
    checks.group(kernel, "bins", "accumulate")
    checks.each(kernel.trace("bins"), lambda run: run.right(cause="accumulate"))


@check("robust", points=3)
def test_contract(kernel):
    """Any size, int64, a single bin, empty bins, also on a second call."""
    checks.contract(kernel)


@check("robust", points=2, lane="compile")
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
