"""What a kernel costs, worked out where there need not be a GPU: a section of the report.

Bytes moved come from the trace lane, registers and their like from the compile lane, the least
that must be done from the kata's own `cost`, and what cards can do from `chips` (data sheets, named
there). Nothing is run for it. It is an estimate, it says so, and it earns no points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import checks
from .chips import CARDS, Card
from .kata import Cost, Kata
from .speed import MATRIX, CardDraw

if TYPE_CHECKING:
    from .evidence import Collected
    from .run import Run
    from .scorecard import Check

NUMBERS = ("values", "reduction", "accumulate")  # concepts without which numbers are wrong
SHOWN = ("RTX 4090", "A100", "H100", "H200", "MI300X")


def section(evidence: Collected | None, verdicts: Sequence[Check] = ()) -> list[tuple[str, str]]:
    """The section's paragraphs as (label, text); none where nothing can be said.

    A kernel that does not work out the right numbers yet, or not all of them, has other worries: it
    gets none. Never raises: what goes wrong here must not touch a verdict.
    """
    try:
        if evidence is None or any(v.status == "failed" and v.concept in NUMBERS for v in verdicts):
            return []
        return paragraphs(evidence)
    except Exception:
        return []


def paragraphs(evidence: Collected) -> list[tuple[str, str]]:
    """The same, but an error of its own is raised. Looks only at lanes that are done already."""
    if not isinstance(evidence, checks.Evidence):  # an agent costs what its tools cost
        return []
    if not evidence.finished("trace") or not checks.values_hold(evidence):
        return []
    if not checks.ordinary_sizes_written(evidence):  # what is left out costs nothing
        return []
    out = []
    run = largest(evidence.trace("full"))
    if run is not None:
        out.append(("moves", traffic(run)))
    least = at_speed_size(evidence.kata)
    size = ", ".join(f"{name}={value}" for name, value in evidence.kata.speed_case.items())
    out.append(("work", work(least, size)))
    out += bounds(least)
    if evidence.finished("compile"):
        out += compiled(evidence.compiled(), evidence.kata.targets)
    return out


# ---- bytes and operations --------------------------------------------------------------------


def largest(runs: list[Run]) -> Run | None:
    """The run with the largest result, of those that moved anything."""
    fit = [r for r in runs if r.answer.error is None and r.facts.get("buffers") and r.elements]
    return max(fit, key=lambda r: r.elements, default=None)


def traffic(run: Run) -> str:
    """What a traced run loaded and stored, in bytes, against the fewest that would do."""
    loaded = sum(buffer["loaded_bytes"] for buffer in run.facts["buffers"])
    stored = sum(buffer["stored_bytes"] for buffer in run.facts["buffers"])
    least = moved(run.kata.cost(*run.arguments))
    return (
        f"{loaded:,} bytes loaded, {stored:,} stored at {run.case.name}: "
        f"{(loaded + stored) / least:.2f} times the fewest possible"
    )


def moved(cost: Cost) -> int:
    """The fewest bytes that must move."""
    return cost.read + cost.written


def at_speed_size(kata: Kata) -> Cost:
    """The least that must be done at the size that speed is measured at (no memory is taken)."""
    return kata.cost(*kata.inputs(CardDraw(0, "meta"), **kata.speed_case))


def work(cost: Cost, size: str) -> str:
    """Operations, bytes and their quotient, the arithmetic intensity."""
    intensity = cost.flops / moved(cost)
    return (
        f"{scaled(cost.flops)}flop on {scaled(moved(cost))}B at {size}: {figure(intensity)} "
        "operations a byte (arithmetic intensity)"
    )


def scaled(value: float) -> str:
    """1.5e9 as "1.5 G", with three digits."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g} {prefix}"
    return f"{value:g} "


# ---- the roofline ----------------------------------------------------------------------------


def roofline(cost: Cost, card: Card) -> tuple[float, str] | None:
    """The least time in seconds on a card, and what it is bound by; None without its figures.

    Work of a high arithmetic intensity is held against the matrix units' dense fp16 rate with fp32
    accumulation, all other against the fp32 rate.
    """
    rate = card.fp16 if cost.flops > MATRIX * moved(cost) else card.fp32
    if not rate or not card.bandwidth:
        return None
    memory, arithmetic = moved(cost) / card.bandwidth, cost.flops / rate
    return max(memory, arithmetic), "memory" if memory >= arithmetic else "arithmetic"


def bounds(cost: Cost) -> list[tuple[str, str]]:
    """One paragraph for each thing that bounds, with the least time on the named cards."""
    found: dict[str, list[str]] = {}
    for name in SHOWN:
        card = next(c for c in CARDS if c.name.startswith(name))
        bound = roofline(cost, card)
        if bound is not None:
            found.setdefault(bound[1], []).append(f"{name} {microseconds(bound[0])}")
    return [("at best", f"bound by {what}: {', '.join(texts)}") for what, texts in found.items()]


def microseconds(seconds: float) -> str:
    """Seconds as microseconds."""
    return f"{figure(seconds * 1e6)} us"


def figure(value: float) -> str:
    """Three digits, and no more decimals than help."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


# ---- what the compiler made of it ------------------------------------------------------------


def compiled(answers: list[dict], targets: tuple[str, ...]) -> list[tuple[str, str]]:
    """The main target in full, for the first compiled case; other chips where they have trouble."""
    built = [x for answer in answers for x in answer.get("launches", []) if x["ok"]]
    first = {x["target"] for x in built}
    main = [x for x in answers[0].get("launches", []) if x["ok"] and x["target"] == targets[0]]
    out = [(targets[0], resources(main))] if main else []
    for target in targets[1:]:
        notes = {trouble(x) for x in built if x["target"] == target} - {""}
        if target in first and notes:
            out.append((target, "; ".join(sorted(notes))))
    return out


def resources(launches: list[dict]) -> str:
    """Registers, spills, shared memory, occupancy and tensor cores; ranges over several configs."""
    many = f"{len(launches)} variants: " if len(launches) > 1 else ""
    words = [span([x["registers"] for x in launches], "registers a thread")]
    spills = [x["spills"] for x in launches if x["spills"] is not None]
    if spills:
        words.append(span(spills, "bytes spilled") if max(spills) else "nothing spilled")
    shared = [x["shared"] for x in launches]
    words.append(span(shared, "bytes of shared memory") if max(shared) else "no shared memory")
    fill = [x["occupancy"] for x in launches if x["occupancy"]]
    if fill:
        worst = min(fill, key=lambda o: o["share"])
        limited = f" (limited by {worst['limit']})" if worst["share"] < 1 else ""
        words.append(f"occupancy {span([round(100 * o['share']) for o in fill])}%{limited}")
    used = any(x["tensor_cores"] for x in launches)
    words.append("tensor cores in use" if used else "no tensor cores")
    return many + ", ".join(word for word in words if word)


def span(values: list, unit: str = "") -> str:
    """The values with their unit: one figure, or from the least to the most; "" for none."""
    known = sorted(v for v in values if v is not None)
    if not known:
        return ""
    figures = f"{known[0]:,}" if known[0] == known[-1] else f"{known[0]:,} to {known[-1]:,}"
    return f"{figures} {unit}".strip()


def trouble(launch: dict) -> str:
    """What stands in a kernel's way on a chip, "" for nothing."""
    if launch["fits"] is False:
        return launch["fits_note"]
    return f"{launch['spills']} bytes spilled" if launch["spills"] else ""
