"""The questions that most katas ask, one for each concept. A suite's tests call these.

Each takes the `Evidence` of one file and raises `Wrong` or `NotJudged`; coming back means that the
check passed. They are kept apart so that a half-finished kernel earns what it deserves: grid,
offsets and mask are read off the record of who touched what, values are judged on the elements
that were written, and mask by what changes between full and ragged sizes.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

from . import hints
from .evidence import Evidence, told_apart
from .explain import explain, reason
from .judge import Answer
from .kata import Case
from .outline import Outline
from .reasons import Blame, Known, NotJudged, RightOnCard, Stops, Unusable, Waits, Wrong
from .run import Run
from .words import are, grid_text, plural

NARROW = ("f16", "bf16")  # as Triton's IR names them
# What a config sets beside its dict; inside, Triton puts its own defaults in their place.
LAUNCH_OPTIONS = ("num_warps", "num_stages", "num_ctas")
IDLE_ALLOWED = 8  # idle programs that may come with a larger size before it counts as waste
FIXED_ALLOWED = 1 << 17  # programs of a grid that is the same for every size


def each(runs: Iterable[Run], ask: Callable[[Run], None]) -> None:
    """Ask every run. A wrong one decides; otherwise one that cannot be judged does."""
    unjudged = None
    runs = list(runs)
    if not runs:
        raise LookupError("the kata states no case for this check")
    for run in runs:
        try:
            ask(run)
        except NotJudged as reason:
            unjudged = reason
    if unjudged is not None:
        if runs[0].lane == "trace" and right_on_card(runs[0].evidence):
            raise RightOnCard(str(unjudged))
        raise unjudged


def grid(kernel: Evidence) -> None:
    """Enough programs for every element, and no crowd of programs with nothing to do."""
    groups = ("probe", "full", "ragged", "many", "sample")
    sampled, whole = apart(kernel.trace(*groups, as_launched=True))
    if kernel.crowd is not None:
        too_many(kernel.crowd)
    each(whole, Run.programs_cover)
    for wide in kernel.trace("widened"):
        full = kernel.trace("full", as_launched=True)
        own = next(r for r in full if r.case.name == wide.case.name)
        if own.blame() and not wide.blame():
            raise Wrong(
                f"the grid {grid_text(own.launch)} leaves elements unwritten that "
                f"{grid_text(wide.launch)} reaches ({own.label}): are its axes those that the kernel "
                "asks tl.program_id for, and in that order?",
                "grid",
            )
    for run in sampled:
        if run.answer.error is None or plainly_laid_out(run):  # else strides have their own check
            run.programs_reach()
            if not run.kata.updates and ordinary_sizes_written(kernel, "ragged"):
                run.programs_reach(lanes_off=False)
                run.none_to_spare()
    runs = [
        r
        for r in kernel.trace("full", every_config=True, as_launched=True)
        if "result" in r.facts and r.facts["launches"]
    ]
    for config in sorted({run.config for run in runs}):
        sized = sorted(
            (r for r in runs if r.config == config), key=lambda r: r.programs_needed(r.launch)
        )
        small, large = sized[0], sized[-1]
        fixed = large.launch["programs"] <= small.launch["programs"]
        if fixed and large.launch["programs"] <= FIXED_ALLOWED:
            continue  # a fixed number of programs, which is as good
        growth = idle(large) - idle(small)
        if large.blame():
            continue  # programs that should have worked are no crowd
        if (growth > IDLE_ALLOWED or fixed) and idle(large) >= large.launch["programs"] / 2:
            grows = "" if fixed else ", and the larger the input, the more of them"
            raise Wrong(
                f"{idle(large):,} of {plural(large.launch['programs'], 'program')} in the grid "
                f"{grid_text(large.launch)} have nothing to do ({large.label}){grows}. A grid counts "
                "blocks, not elements",
                "grid",
            )


def too_many(run: Run) -> NoReturn:
    """grid: many times the programs that there are blocks, where one a block is right."""
    launch = run.launch
    lanes = max(launch["widest"].values(), default=1)
    raise Wrong(
        f"the grid {grid_text(launch)} starts {plural(launch['programs'], 'program')} of up to "
        f"{plural(lanes, 'element')} each ({run.label}), where "
        f"{run.programs_needed(launch):,} would do. A grid counts blocks, not elements",
        "grid",
    )


def apart(runs: list[Run]) -> tuple[list[Run], list[Run]]:
    """Calls of which a sample of the programs ran (group "sample"), and the others."""
    sampled = [run for run in runs if run.case.group == "sample"]
    return sampled, [run for run in runs if run not in sampled]


def idle(run: Run) -> int:
    """Programs of the last launch that wrote nothing."""
    return run.launch["idle"]


def offsets(kernel: Evidence) -> None:
    """Every program works on its own elements, judged on a grid that is large enough."""
    wide = {(r.case.name, r.config): r for r in kernel.trace("widened")}
    runs = kernel.trace("full")
    for at, run in enumerate(runs):
        wider = wide.get((run.case.name, run.config))
        blame = run.blame() if wider else None
        if wider and blame and (blame.concept == "grid" or not wider.blame()):
            runs[at] = wider
    why = {unstored(runs, part) for part in runs[0].parts}
    if why in ({"values"}, {"mask"}):
        text = f"nothing is written at all: this counts once {why.pop()} is right (see there)"
        raise Waits(text, "offsets")
    each(runs, Run.own_elements)
    for run in runs:
        if run.elements and not run.wrote():
            raise Wrong(f"nothing is written at all ({run.label})", "offsets")
        blame = run.blame() if run.elements else None
        if blame and blame.concept == "grid":
            raise Wrong(
                f"{run.left_out(blame)} ({run.label}), even with the grid "
                f"{grid_text(run.writer_of(blame.part))}: the offsets leave them out",
                "offsets",
            )


def unstored(runs: list[Run], part: int) -> str:
    """The concept that keeps every call from writing anything of a result; "" where some do."""
    why = {run.unstored(part) for run in runs}
    return why.pop() if len(why) == 1 else ""


def values_hold(kernel: Evidence) -> bool:
    """Whether the formula is right where sizes are plain; other checks build on that."""
    try:
        values(kernel)
    except Unusable:
        raise
    except Wrong:
        return False
    return True


def values(kernel: Evidence, part: int | None = None) -> None:
    """The formula: every element that is written has the right value, on sizes that fit blocks.

    `part`: of this result alone, where there are several.
    """
    runs = kernel.trace("full")
    each(runs, lambda run: run.right(written_only=True, part=part))
    for number in runs[0].parts if part is None else [part]:
        if not any(run.wrote(number) for run in runs):
            if runs[0].updated(number) is not None:
                runs[0].is_the_argument(number)
            text = f"no kernel writes any element of {runs[0].called(number)}"
            if unstored(runs, number) == "mask":
                text += ", as every lane of the store is off: this counts once mask is right"
                raise Waits(f"{text} (see there)", "values")
            elsewhere = next((run.stored_elsewhere(number) for run in runs if run.elements), "")
            line = None
            if all(run.stores_nothing for run in runs):
                elsewhere, line = runs[0].nothing_stored()
            raise Wrong(text + f". {elsewhere}" * bool(elsewhere), "values", line)


def mask(kernel: Evidence) -> None:
    """No lane leaves its tensor, none with work is switched off, and ragged sizes are right too."""
    groups = ("probe", "full", "ragged", "widened to the end", "sample")
    sampled, whole = apart(kernel.trace(*groups))
    each(whole, Run.in_bounds)
    each(kernel.trace("full"), Run.loads_all)
    if all(run.stores_nothing for run in whole if run.elements):
        whole[0].stores_something("mask")
    for run in sampled:
        if plainly_laid_out(run):  # else strides come in, which have a check of their own
            run.no_lane_outside()
    if not any(run.meets_the_end for run in whole if run.case.group != "full"):
        blames = [run.blame() for run in whole if run.elements]
        see = "grid" if any(blame and blame.concept == "grid" for blame in blames) else "offsets"
        text = f"no program gets as far as the last element: this counts once {see} is right"
        raise Waits(f"{text} (see there)", "mask")
    if ordinary_sizes_written(kernel):
        each(kernel.trace("ragged"), all_written)
    if values_hold(kernel):
        each(kernel.trace("ragged"), right_past_the_end)


def padding(kernel: Evidence, neutral: str) -> None:
    """mask: as long as nothing is reduced, lanes past the end hold this number, written as text.

    From then on what comes of them tells more: see `right_past_the_end`.
    """
    if values_hold(kernel) or reduces(kernel):
        return
    for run in kernel.trace("ragged"):
        other, line = run.padding()
        if other not in (None, neutral):
            held = run.held_past_the_end()[0]
            text = f"in the lanes past the end {held}: would the row's maximum and sum be the same "
            text += "without them? This counts once they would"
            raise Waits(text, "mask", line)


def reduces(kernel: Evidence) -> bool:
    """Whether some block is reduced, or nobody can tell."""
    try:
        return bool(reductions(kernel))
    except (Wrong, NotJudged):
        return True


def right_past_the_end(run: Run) -> None:
    """mask: the numbers are right on a size that does not fill its blocks, as they are on others."""
    try:
        run.right(written_only=True, cause="mask")
    except (Unusable, Stops):
        raise
    except Wrong as wrong:
        if wrong.cause != "mask":
            raise
        held, line = run.held_past_the_end()
        why = "what do the lanes past the end hold (other=...), and what comes of it?"
        if held:
            why = f"in the lanes past the end {held}, and what comes of that?"
        for name in run.kata.parameters:
            unread = never_read(run, name)
            if unread > 0:
                text = f"{plural(unread, 'element')} of {name} {are(unread)} never read"
                why = f"{text}: is the last block, which is not full, left out?"
        text = f"{wrong.message.removesuffix('.')}. Sizes that fill their blocks are right"
        raise Wrong(f"{text}: {why}", "mask", line or wrong.line) from None


def plainly_laid_out(run: Run) -> bool:
    """Whether all tensors that the launcher is called with are contiguous."""
    return all(a.is_contiguous() for a in run.arguments if hasattr(a, "is_contiguous"))


def all_written(run: Run) -> None:
    """mask: nothing is left out beside the sizes that fit the blocks (a short grid is not this)."""
    blame = run.blame() if run.elements else None
    if blame and blame.concept != "grid":
        raise Wrong(
            f"{run.left_out(blame)} ({run.label}), though sizes that fit the blocks are complete",
            "mask",
        )


def beyond(kernel: Evidence, plain: str, harder: str, concept: str) -> None:
    """Where the cases of one group are right, those of a harder one must be too.

    What differs between the two is then the concept; if the plain ones are wrong already, their
    own check says so.
    """
    try:
        each(kernel.trace(plain), lambda run: run.right(written_only=True))
    except Wrong:
        return
    if values_hold(kernel):
        group(kernel, harder, concept)


def needs_values(kernel: Evidence, concept: str) -> None:
    """Raise unless the plain sizes are right: what follows says nothing about an empty kernel."""
    if kernel.lanes.get("trace") and not values_hold(kernel):
        raise Waits("this counts once the values on plain sizes are right (see values)", concept)


def needs(kernel: Evidence, name: str, see: str, concept: str) -> None:
    """Raise unless the cases of a group are right: what follows builds on them."""
    if not kernel.lanes.get("trace"):
        return  # nobody can tell; the check says what it can by itself
    try:
        each(kernel.trace(name), lambda run: run.right(written_only=True))
    except Unusable:
        raise
    except Wrong:
        raise Waits(f"this counts once {see} is right (see there)", concept) from None


def group(kernel: Evidence, name: str, concept: str) -> None:
    """All cases of a group are right in full, once the plain sizes are."""
    needs_values(kernel, concept)
    calm, kept_inside = undisturbed(kernel), inside(kernel)
    complete = ordinary_sizes_written(kernel, "probe", "ragged")

    def ask(run: Run) -> None:
        try:
            run.keeps_contract()
        except (Unusable, Stops):
            raise
        except Wrong as wrong:  # what breaks the contract everywhere costs `robust` alone
            if concept in (wrong.cause, "precision") or keeps_its_word(kernel):
                raise
        with after_mask(kernel, run, concept):
            if calm:
                run.undisturbed(concept)
            run.right(written_only=True, cause=concept)
            if complete:
                run.complete(concept)
        if kept_inside:
            run.no_lane_outside("layout" if concept == "layout" else "mask")

    each(kernel.trace(name), ask)


def keeps_its_word(kernel: Evidence) -> bool:
    """Whether results are as the contract says, and inputs left alone, on the sizes of `contract`."""
    try:
        each(kernel.trace("edge", "many", "again", as_launched=True), Run.keeps_contract)
    except (Wrong, LookupError):
        return False
    return True


@contextlib.contextmanager
def after_mask(kernel: Evidence, run: Run, concept: str) -> Iterator[None]:
    """Where lanes lie past the end, wrong numbers say nothing new while `mask` is not right.

    Unless they are those of a known mistake.
    """
    try:
        yield
    except (Known, Unusable, Stops):
        raise
    except Wrong:
        if run.past_the_end and not mask_holds(kernel):
            raise Waits("this counts once mask is right (see there)", concept) from None
        raise


def mask_holds(kernel: Evidence) -> bool:
    """Whether the masks are right where sizes are plain and ragged."""
    try:
        mask(kernel)
    except Wrong:
        return False
    except LookupError:  # the kata states no such sizes
        pass
    return True


def inside(kernel: Evidence) -> bool:
    """Whether no lane leaves its tensor on plain sizes; see `mask` if one does.

    Then right numbers are not enough elsewhere either: what lies outside reads as if it were
    masked, and is never written.
    """
    return not any(run.facts.get("outside") for run in kernel.trace("probe", "full", "ragged"))


def undisturbed(kernel: Evidence) -> bool:
    """Whether programs keep out of each other's way on plain sizes; see `offsets` if not."""
    try:
        each(kernel.trace("full"), Run.undisturbed)
    except Wrong:
        return False
    return True


def contract(kernel: Evidence, configs: bool = True) -> None:
    """Edge sizes, other shapes and dtypes, a second call: a new tensor each time, inputs kept.

    And if there is a tuner, all its configs and the call that tunes; `configs`: False where
    `tuning` asks that already.
    """
    needs_values(kernel, "robust")
    sampled, runs = apart(kernel.trace("edge", "many", "again", "sample", as_launched=True))
    each([*runs, *sampled], Run.keeps_contract)
    calm, kept_inside = undisturbed(kernel), inside(kernel)

    def ask(run: Run) -> None:
        if run.nothing_to_do:
            run.right(cause="robust")
            return
        with after_mask(kernel, run, "robust"):
            if calm:
                run.undisturbed("robust")
        blame = run.blame() if run.elements else None
        # The ordinary sizes say whose fault this is; alone here, it is the edge.
        if blame and ordinary_sizes_written(kernel) and not known_short(kernel, blame):
            raise Wrong(f"{run.left_out(blame)} ({run.label})", "robust")
        with after_mask(kernel, run, "robust"):
            run.right(written_only=True, cause="robust")
        if kept_inside:
            run.no_lane_outside()

    each(runs, ask)
    for run in sampled:  # what is left to other launches or programs does not show in a sample
        launches = run.facts["launches"]
        if len(launches) == 1 and not launches[0]["cut"] and not launches[0]["atomics"]:
            with after_mask(kernel, run, "robust"):
                run.right(written_only=True, cause="robust")
        if kept_inside:
            run.no_lane_outside("robust")
    if configs and kernel.configs > 1 and values_hold(kernel):
        every_config(kernel, "robust")
        each(kernel.trace("tuned"), tuned_right)


def ordinary_sizes_written(kernel: Evidence, *more: str) -> bool:
    """Whether plain sizes, and those of more groups, are written in full."""
    runs = kernel.trace("full", *more, as_launched=True)
    return all(r.blame() is None for r in runs if r.elements)


def known_short(kernel: Evidence, blame: Blame) -> bool:
    """Whether grid or mask is at fault, as on ragged sizes too: their checks say so, and it counts once."""
    runs = kernel.trace("probe", "ragged", as_launched=True)
    found = [run.blame() for run in runs if run.elements and run.incomplete]
    same = any(b and b.concept == blame.concept for b in found)
    return blame.concept in ("grid", "mask") and same


def configs_listed(kernel: Evidence) -> list[dict]:
    """The configs of the tuner that the launcher uses; raises Wrong when there is none."""
    probe = kernel.trace("probe")[0]
    probe.kernel_ran()
    tuners = probe.facts["tuners"]
    if not tuners:
        raise Wrong("the kernel has no @triton.autotune, or the launcher goes past it", "autotune")
    return tuners[0]["configs"]


def tuning(
    kernel: Evidence,
    configs: int,
    blocks: int,
    keys: set[str] | None = None,
    tuned_call: bool = True,
) -> None:
    """At least so many different configs and block sizes, each right, and the tuned call too.

    `tuned_call`: False leaves that to a check of its own, see `tuned`.
    """
    listed = configs_listed(kernel)
    hidden = {n for c in listed for n in c["kwargs"] if n in LAUNCH_OPTIONS}
    kept = [{n: v for n, v in c["kwargs"].items() if n not in hidden} for c in listed]
    different = {str(c | {"kwargs": k}) for c, k in zip(listed, kept, strict=True)}
    if len(different) < configs:
        text = f"@triton.autotune has {plural(len(different), 'different config')}; "
        text += f"give it at least {configs}"
        for name in sorted(hidden):
            text += f". {name} inside of the dict counts for nothing: it stands behind it"
        raise Wrong(text, "autotune")
    probes = kernel.trace("probe", every_config=True)
    for run in probes:
        if run.answer.error is None:
            run.kernel_ran()  # or it would count as a config that is like the others
    ran = [r.launch for r in probes if r.facts.get("launches")]
    shapes = {(tuple(launch["block"]), launch["programs"]) for launch in ran}
    if len(shapes) < blocks:
        raise Wrong(
            f"all configs use {plural(len(shapes), 'block size')}; try at least {blocks}",
            "autotune",
        )
    if keys is not None and not kernel.trace("probe")[0].facts["tuners"][0]["keys"]:
        raise Wrong(
            "key=[] tunes once for all sizes; name the argument that holds the size", "autotune"
        )
    retunes(kernel)
    every_config(kernel, "autotune")
    if tuned_call and values_hold(kernel) and ordinary_sizes_written(kernel):
        each(kernel.trace("tuned"), tuned_right)


def every_config(kernel: Evidence, concept: str) -> None:
    """`concept`: every config runs; where the first one is right, all others are, on plain sizes."""
    probes = kernel.trace("probe", every_config=True, as_launched=True)
    each(probes, lambda run: runs(run, concept))
    each(probes[:1], lambda run: whole_warps(run, concept))
    if not values_hold(kernel) or not ordinary_sizes_written(kernel):
        return
    kept_inside = inside(kernel)

    def ask(run: Run) -> None:
        if run.config == kernel.base:
            return
        runs(run, concept)
        run.kernel_ran()
        if kept_inside:
            run.no_lane_outside()
        blame = run.blame() if run.elements else None
        if blame and known_short(kernel, blame):
            return
        if blame:
            text = f"with {kernel.config_text(run.config, of=True)}, {run.left_out(blame)}"
            raise Wrong(f"{text} ({run.case.name})", concept)
        try:
            run.right(cause=concept)
        except Wrong:
            if right_by_itself(kernel, run.case):  # or it is no config's fault
                raise

    groups = ("probe", "full", "ragged")
    each(kernel.trace(*groups, every_config=True, as_launched=True), ask)


def runs(run: Run, concept: str) -> None:
    """`concept`: a config runs, if it is not the one that all the rest is judged with."""
    kernel, error = run.evidence, run.answer.error
    if error is None or run.config == kernel.base:
        return
    text, _, line = reason(run, error)
    which = kernel.config_text(run.config, of=True)
    raise Wrong(f"{which} does not run: {text} ({run.case.name})", concept, line)


def whole_warps(run: Run, concept: str) -> None:
    """`concept`: each config has a number of warps that the compiler takes; here nothing else asks."""
    tuners = run.facts.get("tuners") if run.answer.error is None else None
    for number, config in enumerate(tuners[0]["configs"] if tuners else []):
        warps = config.get("num_warps")
        if isinstance(warps, int) and (warps < 1 or warps & (warps - 1)):
            which = run.evidence.config_text(number, of=True)
            text = f"{which} does not compile: {hints.WARPS}, not {warps}"
            raise Wrong(text, concept, run.outline.configs())


def right_by_itself(kernel: Evidence, case: Case) -> bool:
    """Whether the first config that runs is right in a case."""
    runs = [r for r in kernel.trace(case.group) if r.case.name == case.name]
    try:
        each(runs, lambda run: run.right(written_only=True))
    except (Wrong, LookupError):
        return not runs
    return True


def tuned(kernel: Evidence, *groups: str) -> None:
    """autotune: the call that tunes gives the right result, though every config ran before.

    `groups` of cases besides "tuned", such as "tuned, again" for the call after it.
    """
    if len({str(config) for config in configs_listed(kernel)}) < 2:
        raise Waits("this counts once there are configs to choose from", "autotune")
    needs_values(kernel, "autotune")
    needs(kernel, "ragged", "mask", "autotune")

    each(kernel.trace("tuned", *groups), tuned_right)


def tuned_right(run: Run) -> None:
    """autotune: the result of a call that tunes, where each config by itself is right."""
    try:
        run.right(written_only=True, cause="autotune")
    except NotJudged:
        raise
    except Wrong as wrong:
        if run.answer.error is not None:
            raise
        same = run.kata.updates[0] if run.kata.updates else "memory"
        text = (
            f"{wrong.message.removesuffix('.')}. With one config by itself it is right: while it "
            f"tunes, Triton runs the kernel again and again on the same {same}, unless it is told to "
            "restore it (reset_to_zero, restore_value)"
        )
        raise Wrong(text, "autotune", wrong.line) from None


def retunes(kernel: Evidence) -> None:
    """The tuner's key changes with the size: two sizes must not share one verdict."""
    runs = [r for r in kernel.trace("tuned") if not r.facts.get("error")]
    for run in runs:
        if run.elements and run.facts["launches"] and not run.facts["tuners"]:
            text = f"the launcher goes past the tuner ({run.label}): it is to choose for every size"
            raise Wrong(text, "autotune")
    keys = {str(t.get("key_values")) for r in runs for t in r.facts["tuners"]}
    if len({r.elements for r in runs}) > 1 and len(keys) < 2:
        raise Wrong(
            "the key does not change with the size of the input: every size would be run with the "
            "config that was tuned for the first one",
            "autotune",
        )


def reads_all(run: Run) -> None:
    """accumulate: the kernel reads each element of its first input at least once."""
    unread = never_read(run, run.kata.parameters[0])
    if unread > 0:
        raise Wrong(
            f"{plural(unread, 'column')} {are(unread)} never read ({run.label})", "accumulate"
        )


def reads(names: str, cause: str) -> Callable[[Run], None]:
    """`cause`: a question for `each`, whether kernels read every element of these parameters."""

    def ask(run: Run) -> None:
        for name in names.split():
            unread = never_read(run, name)
            if unread > 0:
                text = f"{plural(unread, 'element')} of {name} {are(unread)} never read"
                raise Wrong(f"{text} ({run.label})", cause)

    return ask


def never_read(run: Run, name: str) -> int:
    """How many elements of a parameter no kernel reads."""
    run.kernel_ran()
    read = sum(b["read"] for b in run.facts["buffers"] if b["name"] == name)
    given = dict(zip(run.kata.parameters, run.arguments, strict=False))  # some may be left out
    return given[name].numel() - read if hasattr(given.get(name), "numel") else 0


def writes_all(run: Run) -> None:
    """accumulate: kernels write each element of the result."""
    run.kernel_ran()
    unwritten = int(((run.coverage() & 1) == 0).sum())
    if unwritten:
        text = f"{plural(unwritten, 'column')} {are(unwritten)} never written ({run.label})"
        raise Wrong(text, "accumulate")


def walks(runs: list[Run], widest: int) -> None:
    """accumulate: rows of the first input are read whole, in blocks of at most `widest` columns.

    `runs` are of a single row, so that what one load reaches are the columns of a block.
    """

    def ask(run: Run) -> None:
        reads_all(run)
        for launch in run.facts["launches"]:
            columns = launch["reach"].get(run.kata.parameters[0], 0)
            if columns > widest:
                raise Wrong(
                    f"a block has {columns:,} columns, more than {widest:,} ({run.label}): walk "
                    "the row in several",
                    "accumulate",
                )

    each(runs, ask)


def traffic(runs: list[Run], reads: float, writes: float, besides: tuple[str, ...] = ()) -> None:
    """fusion: at most so many reads of each input byte and writes of each result byte.

    `besides` names small parameters that stay in cache, such as a bias that every row needs: how
    often they are read is each kernel's own affair.
    """

    def ask(run: Run) -> None:
        run.kernel_ran()
        cost = run.kata.cost(*run.arguments)
        named = zip(run.kata.parameters, run.arguments, strict=False)
        small = sum(a.nbytes for name, a in named if name in besides and a is not None)
        buffers = [b for b in run.facts["buffers"] if b["name"] not in besides]
        copied = sum(copy["bytes"] for copy in run.facts["copies"])  # by PyTorch
        for what, limit, least, key in (
            ("loads", reads, cost.read - small, "loaded_bytes"),
            ("stores", writes, cost.written, "stored_bytes"),
        ):
            moved = sum(b[key] for b in buffers) + copied
            if moved > 1.05 * limit * least:  # a number or two a row may go through memory
                raise Wrong(
                    f"the kernel {what} {moved:,} bytes where {least:,} would do ({run.label}): "
                    "keep what is in between on the chip",
                    "fusion",
                )

    each(runs, ask)


def neighbours_share(kernel: Evidence, name: str, cause: str) -> None:
    """`cause`: programs that start side by side share what they load of both operands.

    Asked of cases of a group of which the first programs run; one config that does so is enough.
    """
    first, *others = kernel.trace(name, every_config=True)
    if first.shares() or any(run.answer.error is None and run.shares() for run in others):
        return
    n, needed, line = max(first.tiles_needed() or [], key=lambda row: row[0] == 16)
    raise Wrong(
        f"the first {n} programs load {needed} different tiles of the operands. Along one row or "
        f"column of tiles it would be {line}, in a block of 4 x 4 only 8 ({first.label})",
        cause,
    )


# ---- compile lane ----------------------------------------------------------------------------


def compiled_launches(kernel: Evidence) -> list[dict]:
    """All kernels that the compile lane built; raises Wrong when one did not build."""
    answers = kernel.compiled()
    launches: list[dict] = []
    for answer in answers:
        if "error" in answer:
            case = Case("compile", {}, answer["case"], answer["launcher"])
            explain(Run(kernel, "compile", case, None, [], Answer(answer)), answer["error"])
        launches += [launch | {"case": answer["case"]} for launch in answer["launches"]]
    outline = Outline.of(kernel.file)
    for launch in launches:
        of_config, fault = config_of(launch), launch["grid_error"] or launch["error"]
        if of_config and fault and re.search(hints.MISNAMED, fault["message"]):
            misnamed = outline.misnamed(launch["kernel"], of_config)
            if misnamed:
                raise Wrong(misnamed, "autotune", outline.configs())
        if launch["grid_error"]:
            error = launch["grid_error"]
            raise Wrong(f"the grid is wrong: {error['message']}", "grid", error.get("line"))
        # What only NVIDIA's chips can do (inline PTX, say) is no fault: AMD's word alone fails
        # nobody.
        if launch["ok"] is False and launch["target"].startswith("sm_"):
            error = launch["error"]
            what = f"{launch['kernel']} for {launch['target']}{config_at_fault(launch, launches)}"
            if error["type"] == "TimeoutError":
                text = f"the compiler is not done with {what} in time: give it less, by smaller blocks or "
                text += "fewer unrolled steps"
            else:
                text = f"the compiler rejects {what}: {error['type']}: {error['message']}"
            cause, line = "robust", error.get("line")
            sized = hints.POWER in text and outline.sized_by(of_config, line)
            if sized or (of_config and hints.WARPS in text):
                cause, line = "autotune", outline.configs() or line
            raise Wrong(text, cause, line)
    launches = [x for x in launches if x["ok"]]
    if not launches:
        raise Wrong("nothing could be compiled: does the launcher launch a kernel?", "robust")
    return launches


def config_at_fault(launch: dict, launches: list[dict]) -> str:
    """What sets a tuner's config that does not build apart, in words; "" if none builds."""
    same = [x for x in launches if all(x[k] == launch[k] for k in ("kernel", "target", "case"))]
    if launch["config"] is None or not any(x["ok"] for x in same):
        return ""
    return f" with {told_apart([x['config'] for x in same if x['config']])[same.index(launch)]}"


def config_of(launch: dict) -> list[str]:
    """The names that the config of an autotuned launch sets, none for one without a tuner."""
    config = launch.get("config")
    kwargs = config.get("kwargs") if isinstance(config, dict) else None
    return list(kwargs) if isinstance(kwargs, dict) else []


def compiles(kernel: Evidence) -> None:
    """Every kernel and config builds for every named chip; in each case one fits one of them."""
    chances: dict[tuple, list[dict]] = {}  # an autotuner drops the configs that do not fit
    for launch in compiled_launches(kernel):
        chances.setdefault((launch["case"], launch["kernel"]), []).append(launch)
    for (case, _), launches in chances.items():
        if all(launch["fits"] is False for launch in launches):
            note = launches[0]["fits_note"]
            cure = "num_warps" if "threads" in note else "num_stages"
            text = f"the kernel {note}: use smaller blocks or fewer {cure} ({case})"
            raise Wrong(text, "robust")
    with contextlib.suppress(NotJudged):  # what only a GPU can run may still be compiled
        needs_values(kernel, "robust")
        kernel.note = deprecated(kernel)


def deprecated(kernel: Evidence) -> str:
    """What the compiler takes and warns of, which costs nothing; "" where there is nothing."""
    lines = {line for run in kernel.trace("probe") for line in run.facts.get("logic", ())}
    if not lines:
        return ""
    return (
        f"line {min(lines)}: `and` and `or` between blocks still work lane by lane, and Triton warns "
        "that they are deprecated: write & and |, each comparison in parentheses"
    )


def fp32_accumulators(kernel: Evidence) -> None:
    """Every tl.dot and every loop-carried sum is held in fp32, read off the compiler's IR."""
    launches = compiled_launches(kernel)
    dots = [dot for launch in launches for dot in launch["dots"] or []]
    if not dots:
        raise Wrong("there is no tl.dot in the kernel: the tensor cores stay idle", "accumulate")
    for dot in dots:
        if dot["result"] in NARROW:
            raise Wrong(
                f"tl.dot sums in {dot['result']}; give it an fp32 accumulator",
                "accumulate",
                dot["line"],
            )
    for launch in launches:
        for carried in launch["accumulators"] or []:
            if carried["update"] in ("dot", "add") and carried["narrowest"] in NARROW:
                raise Wrong(
                    f"the running sum passes through {carried['narrowest']}: what fp32 keeps, "
                    "every step rounds away. Keep it in fp32 until the loop is over",
                    "accumulate",
                    carried["line"] or carried["loop_line"],
                )


def fp32_reductions(kernel: Evidence) -> None:
    """Every tl.sum reduces fp32, read off the compiler's IR; without any sum, values must be right."""
    sums = [r for r in reductions(kernel) if "add" in "".join(r["combine"])]
    for reduction in sums:
        if reduction["type"] in NARROW:
            raise Wrong(
                f"a reduction runs in {reduction['type']}: convert the block with "
                ".to(tl.float32) first",
                "precision",
                reduction["line"],
            )
    if sums or any(launch["dots"] for launch in compiled_launches(kernel)):
        return
    if kernel.lanes.get("trace") and not values_hold(kernel):
        raise Waits("nothing is summed yet: this counts once something is", "precision")


def reductions(kernel: Evidence) -> list[dict]:
    """All reductions and scans of all kernels that were compiled."""
    return [r for launch in compiled_launches(kernel) for r in launch["reductions"] or []]


def tensor_cores(kernel: Evidence, but: str = "") -> None:
    """Every tl.dot runs on the tensor cores of every chip; not asked of cases named like `but`."""
    launches = [x for x in compiled_launches(kernel) if not but or but not in x["case"]]
    if not any(launch["dots"] for launch in launches):
        raise Wrong("there is no tl.dot in the kernel: the tensor cores stay idle", "accumulate")
    for launch in launches:
        for dot in launch["dots"] or []:
            if dot["a"] == dot["b"] == "f32" and dot["precision"] == "ieee":
                raise Wrong(
                    "tl.dot multiplies fp32 numbers in full precision, which tensor cores cannot: "
                    "give it both operands in the inputs' dtype",
                    "accumulate",
                    dot["line"],
                )
        if launch["dots"] and not launch["tensor_cores"]:
            raise Wrong(
                f"no tensor-core instruction in the code for {launch['target']}: give tl.dot fp16 or "
                "bf16 blocks of at least 16 each way",
                "accumulate",
            )


# ---- gpu lane --------------------------------------------------------------------------------


def on_gpu(kernel: Evidence) -> None:
    """On the card every case is right, stays inside its tensors and keeps the contract."""
    runs = kernel.gpu()
    each(runs, Run.stays_inside)
    each(runs, lambda run: run.right(cause="robust"))
    each(runs, Run.keeps_contract)


def right_on_card(kernel: Evidence) -> bool:
    """Whether a card is there, and all is well on it."""
    try:
        on_gpu(kernel)
    except (Wrong, NotJudged):
        return False
    return True


def speed(kernel: Evidence, launcher: str = "") -> None:
    """At least the kata's first mark of the reference solution's speed, in the same run.

    `launcher`: of this one, where a kata has several.
    """
    try:
        on_gpu(kernel)
    except Wrong:
        raise Waits(
            "this counts once the kernel is right on the card (see robust)", "speed"
        ) from None
    measured = kernel.speed(launcher)
    if not measured.passed:
        if measured.late > 0.5:
            hint = "the card waits for the launcher's Python: do less in it, or in fewer steps"
        elif measured.kind == "matrix":
            hint = "try larger tiles, num_warps and num_stages"
        else:
            hint = "look at block size and num_warps, and let neighbouring lanes read neighbours"
        raise Wrong(f"{measured.text}. {measured.marks[0]:g} passes: {hint}", "speed")
    kernel.note = measured.text
