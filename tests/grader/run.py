"""One call of the launcher in one lane, and the questions that checks ask of it.

They are methods that raise `Wrong` with the message a learner reads, the cause (a concept) and the
line; or `NotJudged` where this machine cannot tell.
"""

from __future__ import annotations

import contextlib
import math
import re
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from . import guesses, oracle
from .explain import CROWD, explain
from .judge import Answer
from .kata import Case
from .outline import Outline
from .reasons import Blame, Known, NotJudged, Waits, Wrong
from .tensors import decode, short, storage_bytes, updated_from
from .watch import as_written
from .words import are, got_and_want, grid_text, outside_text, place, plural

if TYPE_CHECKING:
    from .evidence import Evidence

SHARED = 0.85  # of the tiles that neighbours along one line load: so many at most if they share
OWN_STRIDES = "Each tensor has strides of its own, the result too."
# Checks whose numbers can be wrong for many reasons. For the others the case itself is the reason,
# unless the numbers are exactly those of a known mistake.
OPEN_CAUSES = ("values", "robust", "precision")


class Run:
    """One call of the launcher in one lane, and what came of it.

    A launcher may return several results: `part` is the number of one of them.
    """

    def __init__(
        self, evidence: Evidence, lane: str, case: Case, config, arguments, answer: Answer
    ):
        self.evidence, self.lane, self.case, self.config = evidence, lane, case, config
        self.kata = evidence.kata.of(case.launcher)
        self.arguments, self.answer, self.facts = arguments, answer, answer.facts
        self.wide: Run | None = None  # the same call on a grid that is large enough, if none ran
        self._tensors: dict[tuple, torch.Tensor] = {}  # of the answer, as they were asked for

    # ---- what was asked and what came back ---------------------------------------------------

    @property
    def label(self) -> str:
        """The case in a few words, for messages."""
        tuned = "" if self.config is None else f", {self.evidence.config_text(self.config)}"
        return self.case.name + (tuned if self.evidence.configs > 1 else "")

    @cached_property
    def asked(self) -> list:
        """What formulas are asked with: the arguments in fp64 (whole numbers stay whole).

        Where the contract leaves a choice to the kernel, its results come first.
        """
        exact = [
            a.double() if isinstance(a, torch.Tensor) and a.is_floating_point() else a
            for a in self.arguments
        ]
        chosen = [] if self.kata.choice is None else [self.seen(part) for part in self.parts]
        return self.kata.asked(exact, chosen)

    @cached_property
    def want(self) -> list[torch.Tensor]:
        """The fp64 reference of each result (whole numbers stay whole)."""
        out = self.kata.reference(*self.asked)
        return list(out) if isinstance(out, tuple) else [out]

    def seen(self, part: int = 0) -> torch.Tensor:
        """A result in fp64, with NaN where no kernel has written (whole numbers: as it is).

        Where memory was filled beforehand, a mask may leave there what belongs there.
        """
        got = self.got(part)
        if not got.dtype.is_floating_point:
            return got
        filled = self.facts["result"][part].get("kind") == "filled"
        touched = (self.coverage(part) & (3 if filled else 1)) > 0
        return torch.where(touched, got.double(), float("nan"))

    @cached_property
    def bounds(self) -> list[torch.Tensor]:
        """The absolute error allowed for each element of each result."""
        shapes = self.kata.expected(self.arguments)
        out = []
        for part, (want, (_, dtype)) in enumerate(zip(self.want, shapes, strict=True)):
            if not dtype.is_floating_point:
                out.append(torch.zeros(want.shape, dtype=torch.float64))
                continue
            rounding = oracle.half_ulp(want, dtype) * 1.001
            out.append(rounding + self.kata.allowed_error(part, want, self.arguments))
        return out

    def _tensor(self, blob: int, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
        """A tensor of the answer, which many checks ask for."""
        asked = blob, dtype, shape
        if asked not in self._tensors:
            self._tensors[asked] = decode(self.answer.blobs[blob], dtype, shape)
        return self._tensors[asked]

    def got(self, part: int = 0) -> torch.Tensor:
        """The result as it came back; raises Wrong if it is no tensor of the right shape."""
        facts = self.facts["result"]
        wanted = self.kata.expected(self.arguments)
        name = self.kata.launcher
        if len(facts) != len(wanted) or (len(wanted) == 1 and "container" in facts[0]):
            many = "one tensor" if len(wanted) == 1 else f"{len(wanted)} tensors"
            many += f" ({', '.join(self.kata.returns)})" if self.kata.returns else ""
            if not facts:
                raise Wrong(f"{name} returns nothing; it must return {many}", "robust")
            count = facts[0].get("count", 1)
            what = facts[0].get("container") or "value"
            of = f" of {plural(count, 'value')}" if "container" in facts[0] else ""
            raise Wrong(f"{name} returns a {what}{of}; it must return {many}", "robust")
        fact = facts[part]
        shape, dtype = wanted[part]
        if fact["type"] != "Tensor":
            what = "nothing" if fact["type"] == "NoneType" else f"something of type {fact['type']}"
            where = "" if len(wanted) == 1 else f" for {self.called(part)}"
            kind = "a new tensor" if self.updated(part) is None else "the tensor that it updates"
            raise Wrong(
                f"{name} returns {what}{where}; it must return {kind} of shape "
                f"{list(shape)} and dtype {short(dtype)}",
                "robust",
            )
        called = self.called(part)
        if tuple(fact["shape"]) != tuple(shape):
            raise Wrong(
                f"{called} has shape {fact['shape']}, not {list(shape)} ({self.label})", "robust"
            )
        if "data" not in fact:
            if fact.get("layout", "strided") != "strided":
                raise Wrong(f"{called} is a tensor of layout {fact['layout']}", "robust")
            raise Wrong(f"{called} is on {fact['device']}, not where its inputs are", "robust")
        return self._tensor(fact["data"], fact["dtype"], shape)

    @property
    def parts(self) -> range:
        """The numbers of the results."""
        return range(len(self.kata.expected(self.arguments)))

    def called(self, part: int) -> str:
        """A result in a message: "the result", or its name where there are several."""
        if self.kata.returns:
            return self.kata.returns[part]
        return "the result" if len(self.parts) == 1 else f"result {part + 1}"

    def size(self, part: int) -> int:
        """Elements of a result."""
        return math.prod(self.kata.expected(self.arguments)[part][0])

    def share(self, count, part: int) -> str:
        """So many of a result's elements: "3 of 8 elements"; of several results, it is named."""
        of = "" if len(self.parts) == 1 else f" of {self.called(part)}"
        return f"{int(count):,} of {plural(self.size(part), 'element')}{of}"

    def wrote(self, part: int | None = None) -> bool:
        """Whether kernels wrote some of a result, or had nothing to write there; of any by default."""
        parts = self.parts if part is None else [part]
        return any(
            bool((self.coverage(i) & 1).any()) or not bool(self.due(i).any())
            for i in parts
            if self.size(i)
        )

    def coverage(self, part: int = 0) -> torch.Tensor:
        """Per element of the result: bit 0 written by a kernel, 1 masked off, 2 written twice."""
        self.got(part)
        fact = self.facts["result"][part]
        if "coverage" not in fact:
            return torch.zeros(fact["shape"], dtype=torch.uint8)
        return self._tensor(fact["coverage"], "uint8", tuple(fact["shape"]))

    def written(self, part: int = 0) -> torch.Tensor:
        """Per element of a result: is it some kernel's work, so that its value can be judged?

        Where several programs of a launch update one element, each has added to what another left
        there: its value says nothing but that, which is a matter of offsets.
        """
        flags = self.coverage(part)
        written = (flags & 1) > 0
        return written & ((flags & 4) == 0) if self.kata.updates else written

    def due(self, part: int = 0) -> torch.Tensor:
        """Per element of a result: must a kernel write it? Not where an update leaves it as it is."""
        place_ = self.updated(part)
        if place_ is None:
            return torch.ones(self.want[part].shape, dtype=torch.bool)
        before = self.arguments[place_]
        wrong = oracle.compare(before, self.want[part], self.bounds[part])
        return torch.zeros(before.shape, dtype=torch.bool) if wrong is None else wrong.wrong

    def updated(self, part: int) -> int | None:
        """The place of the argument that this result is, updated in place; None for a new tensor."""
        name = self.kata.returns[part] if self.kata.returns else ""
        return self.kata.parameters.index(name) if name in self.kata.parameters else None

    # ---- did a kernel do the work? -----------------------------------------------------------

    def kernel_ran(self) -> None:
        """The launcher came back, and what it returns is the work of Triton kernels alone."""
        if self.answer.error is not None:
            explain(self, self.answer.error)
        foreign = self.facts.get("foreign", [])
        if foreign:
            for one in foreign[:3]:
                text = f"{as_written(one['op'])} of PyTorch, line {one['line']}"
                self.evidence.flag("foreign work", text)
            names = ", ".join(as_written(f["op"]) for f in foreign[:3])
            raise Wrong(
                f"PyTorch does part of the work: {names}. The launcher may allocate and view "
                "tensors; the arithmetic belongs in the kernel.",
                "values",
                foreign[0]["line"],
            )
        for hazard in self.facts.get("hazards", []):
            if hazard["kind"] in ("changed-outside", "foreign-read"):
                what = hazard["buffer"] or "a tensor"
                how = (
                    f"{plural(hazard['count'], 'element')} of {what} changed while no kernel was running"
                    if hazard["kind"] == "changed-outside"
                    else f"the kernel reads {what}, which is neither an input nor new memory"
                )
                self.evidence.flag("foreign work", f"{how} ({self.label})")
                raise Wrong(f"{how}: the work must be done by the kernel itself.", "values")
        if self.nothing_to_do:
            return
        if self.lane in ("trace", "gpu") and not self.facts["launches"] and self.elements:
            raise Wrong(f"{self.kata.launcher} launches no kernel ({self.label})", "robust")
        if self.lane == "trace" and self.elements:
            self._left_as_written()
            self._returns_what_was_written()

    @property
    def nothing_to_do(self) -> bool:
        """No kernel was started, and none had to be.

        An empty sum: the result is all zeros, and the launcher allocated it so. An update that
        changes nothing. What an argument holds, copied.
        """
        if self.facts["launches"]:
            return False
        results = zip(self.parts, self.facts["result"], strict=False)
        kinds = {fact.get("kind") for part, fact in results if self.size(part)}
        if kinds == {"filled"}:
            return all(not bool(want.any()) for want in self.want)
        if self.kata.updates:
            return not any(bool(self.due(part).any()) for part in self.parts)
        tensors = [a for a in self.arguments if isinstance(a, torch.Tensor)]
        return kinds == {"copy"} and all(
            any(
                a.shape == w.shape and torch.equal(a.to(w.dtype).nan_to_num(), w.nan_to_num())
                for a in tensors
            )
            for w in self.want
        )

    def _left_as_written(self) -> None:
        """A copy may go anywhere but over the result of a kernel, as the last word."""
        for part, fact in zip(self.parts, self.facts["result"], strict=False):
            named = (b for b in self.facts["buffers"] if b["name"] == fact.get("storage"))
            buffer = next(named, None)
            if buffer and buffer["overwritten"]:
                text = f"PyTorch writes over {plural(buffer['overwritten'], 'element')} of "
                text += f"{self.called(part)} that a kernel has written ({self.label}): the work "
                text += "must be done by the kernel itself"
                self.evidence.flag("foreign work", text)
                raise Wrong(text, "values")

    def _returns_what_was_written(self) -> None:
        others = [b for b in self.facts["buffers"] if b["kind"] != "input" and b["written"]]
        for part in self.parts:
            if self.wrote(part) or not self.size(part):
                continue
            as_what = ""
            if len(self.parts) > 1:  # it may be missing by itself, and workspaces are not meant
                as_what = f" as {self.called(part)}"
                returned = {fact["storage"] for fact in self.facts["result"]}
                others = [b for b in others if b["name"] not in returned]
                others = [b for b in others if b["elements"] == self.size(part)]
            if others:
                what = others[0]["name"] or "another tensor"
                if self.updated(part) is not None:
                    text = f"no kernel writes {self.called(part)}; the kernel writes {what}"
                    raise Wrong(text, "values")
                raise Wrong(
                    f"{self.kata.launcher} returns{as_what} a tensor that no kernel writes; the "
                    f"kernel writes {what}. Return that one, not a copy of it",
                    "values",
                )

    def unstored(self, part: int) -> str:
        """Why nothing of a result is written: "values" if no store is meant for it, "mask" if one
        is and all of its lanes are off; "" if some of it is written, or lanes lead elsewhere."""
        with contextlib.suppress(NotJudged):
            self.kernel_ran()
            if self.wrote(part) or not self.facts["launches"]:
                return ""
            storage, blame = self.facts["result"][part]["storage"], self.blame()
            if not any(storage in launch["widest"] for launch in self.facts["launches"]):
                return "values" if any(x["programs"] for x in self.facts["launches"]) else ""
            if blame and (blame.concept, blame.part) == ("mask", part):
                return "mask"
        return ""

    def stored_elsewhere(self, part: int) -> str:
        """A sentence about an input that the kernel writes to instead of a result, or nothing."""
        if self.wrote(part):
            return ""
        stored = [
            b["name"]
            for b in self.facts["buffers"]
            if b["kind"] == "input" and b["written"] and b["name"] not in self.kata.updates
        ]
        text = f"The kernel writes to the input {stored[0]}, not to " if stored else ""
        return text and text + self.called(part)

    @cached_property
    def outline(self) -> Outline:
        """The text of the file under test, for messages that point into it."""
        return Outline.of(self.evidence.file)

    @property
    def signature(self) -> str:
        return ", ".join(self.kata.parameters)

    @property
    def elements(self) -> int:
        """Elements of all results together."""
        return sum(self.size(part) for part in self.parts)

    # ---- grid, offsets, mask -----------------------------------------------------------------

    @cached_property
    def launch(self) -> dict:
        return self.facts["launches"][-1]

    def writer_of(self, part: int) -> dict:
        """The launch that stores a result: the last one that does, or else the last of all."""
        storage = self.facts["result"][part]["storage"]
        writers = [x for x in self.facts["launches"] if storage in x["most"]]
        return writers[-1] if writers else self.launch

    def blame(self) -> Blame | None:
        """Elements of the first result that kernels left out; None if there are none.

        Elements that only masked-off lanes point at: the mask drops them. Too few programs for
        the elements even if each did as much as the busiest one: the grid. Otherwise the programs
        point at the wrong places. An argument that is to be updated and that no lane points at,
        while another result is written, is left out: that is for its values to say.
        """
        stored = any(bool((self.coverage(part) & 1).any()) for part in self.parts)
        for part in self.parts:
            flags = self.coverage(part)
            missing = (flags & 1) == 0
            if bool(missing.any()) and self.updated(part) is not None:
                if stored and not bool((flags & 3).any()):
                    continue
                missing = missing & self.due(part)
            if bool(missing.any()) and self.facts["result"][part].get("kind") == "filled":
                wrong = self.mismatch(part)  # torch.zeros may have left there what belongs there
                missing = missing & wrong.wrong if wrong else torch.zeros_like(missing)
            if not bool(missing.any()):
                continue
            twice = bool((flags & 4).any())
            launch = self.writer_of(part)
            most = launch["most"].get(self.facts["result"][part]["storage"], 0)
            if not twice and bool((flags[missing] & 2).all()):
                return Blame("mask", missing, part)
            if self.one_by_one(part):
                return Blame("offsets", missing, part)
            reach = launch["programs"] * most
            if reach < self.size(part) and launch["programs"] < self.programs_needed(launch):
                return Blame("grid", missing, part)
            return Blame("offsets", missing, part)
        return None

    def one_by_one(self, part: int) -> bool:
        """Does each program store one element, though the kata has a block for each of them?

        So it is where tl.arange is forgotten. (A program for each element would need more of them.)
        """
        storage, launch = self.facts["result"][part]["storage"], self.writer_of(part)
        blocks = math.prod(self.kata.widen(self.kata.usual_block, *self.arguments))
        single = launch["widest"].get(storage, 0) == 1
        return single and blocks <= launch["programs"] and blocks < self.size(part)

    @property
    def incomplete(self) -> bool:
        """Whether kernels left elements out, as far as that can be told."""
        try:
            return self.answer.error is None and self.blame() is not None
        except Wrong:
            return False

    def left_out(self, blame: Blame) -> str:
        """How many elements are blamed for: "3 of 8 elements are never written"."""
        count = int(blame.missing.sum())
        return f"{self.share(count, blame.part)} {are(count)} never written"

    def complete(self, cause: str) -> None:
        """Every element is written, here as on plain sizes; what keeps some from it is `cause`."""
        blame = self.blame() if self.elements and self.case.group != "sample" else None
        if blame:
            text = f"{self.left_out(blame)} ({self.label}), though plain sizes are complete"
            raise Wrong(text, cause)

    def programs_needed(self, launch: dict) -> int:
        """Programs that the kata asks for, one a block of the size this launch uses."""
        block = (*launch["block"], *self.kata.usual_block[len(launch["block"]) :])
        return math.prod(self.kata.widen(block, *self.arguments))

    def programs_cover(self) -> None:
        """grid: enough programs for every element."""
        self.kernel_ran()
        if not self.elements:
            return
        blame = self.blame()
        if blame and blame.concept == "grid":
            launch = self.writer_of(blame.part)
            raise Wrong(
                f"{self.left_out(blame)} ({self.label}): the grid {grid_text(launch)} starts "
                f"{plural(launch['programs'], 'program')}, too few",
                "grid",
            )

    def programs_reach(self, lanes_off: bool = True) -> None:
        """grid, where only a sample of the programs ran: would all of them cover the result?

        `lanes_off`: lanes that a mask switches off are taken for lanes with work all the same.
        Without them it is asked only where the first programs do equally much, as all then will.
        """
        self.kernel_ran()
        launches, storage = self.facts["launches"], self.facts["result"][0]["storage"]
        most = [launch["widest"].get(storage, 0) for launch in launches]
        if not lanes_off:
            stored = [{p.get(storage, 0) for p in launch["stored"]} for launch in launches]
            if any(len(shares) > 1 for shares in stored):
                return
            most = [max(shares, default=0) for shares in stored]
        if not any(most) or any(x["cut"] or x["atomics"] for x in launches):
            return  # how much the others would do does not show here
        if self.one_by_one(0):
            return  # too little in each program, rather than too few of them
        reach = sum(x["programs"] * lanes for x, lanes in zip(launches, most, strict=True))
        if reach < self.size(0):
            raise Wrong(
                f"the grid {grid_text(self.launch)} starts "
                f"{plural(self.launch['programs'], 'program')} that store at most "
                f"{plural(max(most), 'element')} each: too few for {self.size(0):,} ({self.label})",
                "grid",
            )

    def none_to_spare(self) -> None:
        """grid, where only a sample ran: none of one program for each block has nothing to do."""
        launch, storage = self.launch, self.facts["result"][0]["storage"]
        if len(self.facts["launches"]) > 1 or launch["cut"] or launch["atomics"]:
            return
        one_block = launch["widest"].get(storage, 0) == math.prod(launch["block"])
        if one_block and launch["idle"] and launch["programs"] <= self.programs_needed(launch):
            text = (
                f"the grid {grid_text(launch)} has one program for each block, and some of them store "
                f"nothing ({self.label}), so blocks are left out"
            )
            if max(launch["grid"]) == launch["programs"]:  # no second axis to mix up
                lead = "does the number of each program lead to a block of its own?"
                raise Wrong(f"{text}: {lead}", "offsets")
            axes = "are its axes those that the kernel asks tl.program_id for, and in that order?"
            raise Wrong(f"{text}: {axes}", "grid")

    def own_elements(self) -> None:
        """offsets: every program works on its own part, and together they do everything once."""
        self.kernel_ran()
        if not self.elements:
            return
        blame = self.blame()
        twice = {part: int(((self.coverage(part) & 4) > 0).sum()) for part in self.parts}
        if blame and blame.concept == "offsets":
            if self.one_by_one(blame.part):
                raise Wrong(
                    f"{self.left_out(blame)} ({self.label}): each program stores a single element, "
                    "because its offsets are a single number. Add tl.arange(0, BLOCK_SIZE) to them, "
                    "and they are a block",
                    "offsets",
                    self._store_line(blame.part),
                )
            first = tuple(torch.nonzero(blame.missing)[0].tolist())
            often = twice[blame.part]
            more = f"{often:,} {are(often)} written by more than one program"
            also = f", while {more}" if often else ""
            line = self._store_line(blame.part)
            told = self.stored_elsewhere(blame.part) or self._too_narrow(blame.part)
            stepped = "" if told else self._stepped_over(blame.part)
            if stepped:
                told, line = stepped, self.outline.offsets(line)
            raise Wrong(
                f"{self.left_out(blame)}, the first at {place(first)}{also} ({self.label})"
                + f". {told}" * bool(told),
                "offsets",
                line,
            )
        self.undisturbed()
        for part in self.parts:
            block = max(math.prod(self.writer_of(part)["block"] or [1]), 1)
            if twice[part] > block:
                raise Wrong(
                    f"{self.share(twice[part], part)} are written by more than one program "
                    f"({self.label}): the blocks overlap",
                    "offsets",
                    self._store_line(part),
                )
        if blame is None and self.kata.choice is None:  # what is not chosen need not be read
            self._inputs_read()

    def _too_narrow(self, part: int) -> str:
        """What to say where all programs together have fewer lanes than there are elements, or ""."""
        launch = self.writer_of(part)
        lanes = launch["widest"].get(self.facts["result"][part]["storage"], 0)
        if not lanes or launch["programs"] * lanes >= self.size(part):
            return ""
        due = -(-self.size(part) // launch["programs"])
        return (
            f"A program stores at most {plural(lanes, 'element')} here, and {due:,} are its share: "
            "make its block as wide as that, or let it walk through its share block by block"
        )

    def _stepped_over(self, part: int) -> str:
        """What to say where only every so many elements are written, as with offsets in bytes."""
        at = torch.nonzero((self.coverage(part) & 1).reshape(-1)).flatten().tolist()
        shape, dtype = self.kata.expected(self.arguments)[part]
        step = math.gcd(*at)
        if step < 2 or len(at) < 3 or self.size(part) > 2 * step * len(at):
            return ""
        if len(shape) > 1 and step % shape[-1] == 0:  # a column, rather
            return ""
        text = f"Of {step} elements in a row only the first is written"
        if step == dtype.itemsize:
            text += (
                f", and {step} bytes is the size of an element of {short(dtype)}. Pointers and "
                "offsets count elements, not bytes"
            )
        return text

    def undisturbed(self, cause: str = "offsets") -> None:
        """offsets: no two programs, nor two lanes of one, get in each other's way."""
        self.kernel_ran()
        for part in self.parts if self.elements else ():
            storage = self.facts["result"][part]["storage"]
            buffer = next((b for b in self.facts["buffers"] if b["name"] == storage), None)
            if buffer and buffer["conflicts"]:
                raise Wrong(
                    "two programs store different values to the same element"
                    f"{'' if len(self.parts) == 1 else f' of {self.called(part)}'}, "
                    f"{plural(buffer['conflicts'], 'time')} ({self.label})"
                    f"{f'. {OWN_STRIDES}' if cause == 'layout' else ''}",
                    cause,
                    self._store_line(part),
                )
        for hazard in self.facts["hazards"]:
            if hazard["kind"] == "collision":
                raise Wrong(
                    f"one tl.store writes from several lanes to the same element of {hazard['buffer']} "
                    f"({self.label})",
                    cause,
                    hazard["line"],
                )
            if hazard["kind"] == "race":
                raise Wrong(
                    f"a program reads {plural(hazard['count'], 'element')} of {hazard['buffer']} that "
                    "another program of the same launch writes: on a GPU nobody knows who is first "
                    f"({self.label})",
                    cause,
                    hazard["line"],
                )

    def _inputs_read(self) -> None:
        tensors = [
            (name, a)
            for name, a in zip(self.kata.parameters, self.arguments, strict=False)
            if isinstance(a, torch.Tensor)
        ]
        for name, tensor in tensors:
            buffer = next((b for b in self.facts["buffers"] if b["name"] == name), None)
            if buffer and _dropped(buffer, tensor):
                continue  # see `loads_all`
            if buffer and 0 < buffer["read"] < tensor.numel():
                raise Wrong(
                    f"{tensor.numel() - buffer['read']:,} of {tensor.numel():,} elements of {name} "
                    f"are never read ({self.label})",
                    "offsets",
                    self._load_line(name),
                )

    @property
    def stores_nothing(self) -> bool:
        """Whether programs ran, and none of them came to a store."""
        if self.answer.error is not None or not any(x["ran"] for x in self.facts["launches"]):
            return False
        return all(site["op"] == "load" for site in self.facts["sites"])

    def stores_something(self, concept: str) -> None:
        """What only stores can show waits for one; that there is none is for the values to say."""
        if self.stores_nothing:
            text = "this counts once the kernel stores something (see values)"
            raise Waits(text, concept)

    def nothing_stored(self) -> tuple[str, int | None]:
        """What to say where `stores_nothing`, and the line that is at fault if it can be told."""
        kernel = self.launch["kernel"]
        line = self.outline.returns(kernel)
        cure = "tl.store(out_ptr + offsets, ...) writes a block"
        if line is None:
            return f"No program comes to a tl.store: {cure}", None
        return (
            f"{kernel} returns something, and nobody gets it. A kernel returns nothing: {cure}",
            line,
        )

    @property
    def nothing_ran(self) -> bool:
        """Whether there is a result to write, and all grids hold no program at all."""
        launches = self.facts.get("launches") or []
        return self.answer.error is None and not any(x["programs"] for x in launches)

    @property
    def crowded(self) -> bool:
        """Whether the grid has many times the programs that there are blocks, and they do harm."""
        if self.answer.error is not None or not self.facts["launches"] or not self.elements:
            return False
        if self.launch["programs"] < CROWD * max(self.programs_needed(self.launch), 1):
            return False
        return bool(self.facts["outside"]) or any(
            int(((self.coverage(part) & 4) > 0).sum()) for part in self.parts
        )

    @property
    def past_the_end(self) -> bool:
        """Whether there are lanes without an element: they are off, or they leave their tensor."""
        off = any(site["active"] < site["lanes"] for site in self.facts.get("sites", []))
        return off or bool(self.facts.get("outside"))

    @property
    def meets_the_end(self) -> bool:
        """Whether this call shows what a mask does: lanes are off, or leave, or all is complete."""
        if self.answer.error is not None or not self.elements or not self.facts["launches"]:
            return False
        return self.past_the_end or self.blame() is None

    def in_bounds(self) -> None:
        """mask: no lane outside its tensor, and none switched off that has work to do."""
        self.no_lane_outside()
        if not self.elements:
            return
        blame = self.blame()
        if blame and blame.concept == "mask":
            first = tuple(torch.nonzero(blame.missing)[0].tolist())
            where = "" if len(self.parts) == 1 else f" of {self.called(blame.part)}"
            raise Wrong(
                f"the mask drops {plural(int(blame.missing.sum()), 'element')} of "
                f"{self.size(blame.part):,}{where}, the first at {place(first)} ({self.label})",
                "mask",
                self._store_line(blame.part),
            )
        for hazard in self.facts["hazards"]:
            if hazard["kind"] == "uninitialised":
                raise Wrong(
                    f"the kernel reads {plural(hazard['count'], 'element')} of {hazard['buffer']} "
                    f"that nothing has written yet ({self.label})",
                    "values",
                    hazard["line"],
                )

    def no_lane_outside(self, cause: str = "mask") -> None:
        """mask: no load and no store leaves its tensor."""
        self.kernel_ran()
        events = self.facts["outside"]
        if events:
            # Reads first: the store that follows from a bad offset says less.
            text = f"{outside_text(events[0])} ({self.label})"
            if cause == "mask" and self._led_astray(events[0]):
                text += (
                    ". As many lanes are on as there are elements, so the mask is not at fault: "
                )
                text += "offsets lead them to wrong places"
                cause = "offsets"
            elif self.outline.unmasked(events[0]["line"]) and events[0]["count"] > 1:
                text += f". This tl.{events[0]['op']} is given no mask"
            raise Wrong(text, cause, events[0]["line"])

    def loads_all(self) -> None:
        """mask: no load is switched off for elements that nothing else reads."""
        if self.kata.choice is not None or not self.elements or self.blame() is not None:
            return
        for name, tensor in zip(self.kata.parameters, self.arguments, strict=False):
            buffer = next((b for b in self.facts["buffers"] if b["name"] == name), None)
            if buffer and isinstance(tensor, torch.Tensor) and _dropped(buffer, tensor):
                raise Wrong(
                    f"the mask of a tl.load drops {plural(buffer['dropped'], 'element')} of "
                    f"{tensor.numel():,} of {name}, which nothing else reads ({self.label})",
                    "mask",
                    self._load_line(name),
                )

    def _led_astray(self, event: dict) -> bool:
        """Whether lanes leave a tensor though just as many of them are on as it has elements.

        Without a mask there would be more, with most wrong ones fewer. Those outside are missed
        inside: of the result some are never written, of an input some are never read.
        """
        results = {fact.get("storage") for fact in self.facts["result"]}
        tensor = next((b for b in self.facts["buffers"] if b["name"] == event["buffer"]), None)
        if tensor is None or event["op"] == "atomic":
            return False
        here = (event["line"], event["op"])
        on = sum(s["active"] for s in self.facts["sites"] if (s["line"], s["op"]) == here)
        blame = self.blame()
        if on != tensor["elements"] or (blame and blame.concept == "grid"):
            return False
        if event["op"] == "load":
            whole = all(x["ran"] == x["programs"] for x in self.facts["launches"])
            return whole and tensor["kind"] == "input" and tensor["read"] < tensor["elements"]
        return event["buffer"] in results and blame is not None

    def stays_inside(self) -> None:
        """mask, on a card: nothing was stored into the guard bands around the tensors."""
        self.kernel_ran()
        for event in self.facts["outside"]:
            name = event["buffer"] or "a tensor"
            side = "past the end of" if event["side"] == "after" else "before the start of"
            raise Wrong(
                f"the kernel writes {plural(event['count'], 'element')} {side} {name} "
                f"({plural(event['elements'], 'element')}; {self.label})",
                "mask",
            )

    def _store_line(self, part: int) -> int | None:
        """The line that stores a result, or else the last line that stores at all."""
        storage = self.facts["result"][part]["storage"]
        line = self.writer_of(part)["lines"].get(storage) if self.facts["launches"] else None
        return line or self._site_line("store")

    def _load_line(self, name: str) -> int | None:
        """The first line that loads, if it can be told from this argument."""
        lines = [s["line"] for s in self.facts["sites"] if s["op"] == "load"]
        own = [n for n in lines if name and re.search(rf"\b{name}(?:_|\b)", self.outline.line(n))]
        return next(iter(own + lines), None)

    def _site_line(self, op: str) -> int | None:
        lines = [s["line"] for s in self.facts["sites"] if s["op"] == op]
        return lines[-1] if lines else None

    def tiles_needed(self) -> list[tuple[int, int, int]] | None:
        """Where a sample ran of a product of two matrices: what do neighbours load together?

        (n, different tiles of both operands that the first n programs load, the same for n programs
        along one row or one column of tiles), from n = 4 on. Each program needs a tile of either
        operand: n in a line make n + 1, and n in a block as few as 2 sqrt(n). None where that
        cannot be told, since few programs share all tiles, say, or take them from a counter.
        """
        self.kernel_ran()
        size = {b["name"]: b["elements"] for b in self.facts["buffers"]}
        for launch in reversed(self.facts["launches"]):
            gathered = launch["gathered"]
            operands = sorted(gathered[0] if gathered else (), key=lambda b: -gathered[0][b])[:2]
            if len(operands) < 2:
                continue
            if launch["cut"] or launch["atomics"] or launch["programs"] <= len(gathered):
                return None
            tile = [max(gathered[0][b], 1) for b in operands]
            sides = [math.ceil(size[b] / t) for b, t in zip(operands, tile, strict=True)]
            rows = []
            for n, counts in enumerate(gathered, 1):
                needed = sum(math.ceil(counts[b] / t) for b, t in zip(operands, tile, strict=True))
                rows.append((n, needed, min(math.ceil(n / side) + min(n, side) for side in sides)))
            return rows[3:]
        return None

    def shares(self) -> bool:
        """Whether neighbours load far fewer tiles together than along one line, or it cannot be told."""
        rows = self.tiles_needed()
        return rows is None or any(needed <= SHARED * line for _, needed, line in rows)

    # ---- values ------------------------------------------------------------------------------

    def mismatch(self, part: int = 0, written_only: bool = False) -> oracle.Mismatch | None:
        """Where the result is wrong; with `written_only`, of the elements that were written."""
        got = self.got(part)
        _, dtype = self.kata.expected(self.arguments)[part]
        return self.compare(got if got.dtype == dtype else got.to(dtype), part, written_only)

    def compare(self, got, part=0, written_only=False, slack=1.0) -> oracle.Mismatch | None:
        """Hold some tensor against the reference, with `slack` times the usual bound."""
        where = self.written(part) if written_only else None
        return oracle.compare(got, self.want[part], slack * self.bounds[part], where)

    def right(
        self, written_only: bool = False, cause: str = "values", part: int | None = None
    ) -> None:
        """values: every element (that was written) is what the formula gives; of one result or all."""
        self.kernel_ran()
        # What is updated in place comes first: the other results may follow from it.
        order = sorted(self.parts, key=lambda part: self.updated(part) is None)
        for number in order if part is None else [part]:
            wrong = self.mismatch(number, written_only)
            if wrong is not None:
                self.wrong_values(wrong, number, cause)
        unlikely = "" if self.kata.choice is None else self.kata.choice(*self.asked)
        if unlikely:
            line = self._store_line(0) if self.lane == "trace" else None
            raise Wrong(f"{unlikely} ({self.label})", cause, line)

    def wrong_values(self, wrong: oracle.Mismatch, part: int, cause: str) -> None:
        first = "; ".join(
            f"at {place(index)} {got_and_want(got, want)}" for index, got, want in wrong.first(2)
        )
        text = f"{self.share(wrong.count, part)} are wrong ({self.label}): {first}"
        if self.lane == "gpu" and "coverage" in self.facts["result"][part]:
            unwritten = ((self.coverage(part) & 1) == 0) & wrong.wrong
            if bool(unwritten.any()):
                first = place(tuple(torch.nonzero(unwritten)[0].tolist()))
                raise Wrong(
                    f"{self.left_out(Blame(cause, unwritten, part))} ({self.label}), the first at "
                    f"{first}",
                    cause,
                )
        changed, other = self.changed_input(), self._returned_instead(part)
        told = ("robust", f"The input {changed} is changed too.") if changed else None
        told = ("robust", f"{self.kata.launcher} returns {other} in its place.") if other else told
        told = told or guesses.suspect(self, part)
        line = self._store_line(part) if self.lane == "trace" else None
        misread, whose = ("", "") if told else guesses.misread(self, part)
        if misread:
            told = "layout", misread
            if self.lane == "trace":
                line = self.outline.offsets(self._load_line(whose))
        pattern = None if told else guesses.pattern(self, wrong, part)
        kind = Known if told or (pattern and pattern[0] == cause) else Wrong
        if pattern and (cause in OPEN_CAUSES or pattern[0] == cause):
            told = pattern
        elif pattern and pattern[0] == "offsets" and cause == "layout":
            told = cause, f"{pattern[1]} {OWN_STRIDES}"
            line = self.outline.offsets(line)
        elif pattern and pattern[0] == "precision":
            told = cause, pattern[1]
        if told:
            cause, sentence = told
            text += f". {sentence}"
        raise kind(text, cause, line)

    def padding(self) -> tuple[str | None, int | None]:
        """What a load puts into lanes that are off, as text ("": nothing certain), and its line.

        None where it is unknown, or not the same in all of them.
        """
        sites = [s for s in self.facts["sites"] if s["op"] == "load" and s["active"] < s["lanes"]]
        unset = [s for s in sites if s.get("other") == ""]
        if unset and any(self.nan_appears(part) for part in self.parts):
            sites = unset  # where it comes from, whatever other loads hold
        other = sites[0].get("other") if sites else None
        return (other[:20], sites[0]["line"]) if isinstance(other, str) else (None, None)

    def held_past_the_end(self) -> tuple[str, int | None]:
        """The same in words; "" where it is unknown."""
        other, line = self.padding()
        if other is None:
            return "", None
        return f"line {line} puts {other or 'nothing certain'} (other=)", line

    def nan_appears(self, part: int) -> bool:
        """Whether a result has a NaN where the formula gives a number."""
        got, want = self.got(part), self.want[part]
        return got.is_floating_point() and bool((got.isnan() & ~want.isnan()).any())

    # ---- the contract ------------------------------------------------------------------------

    def keeps_contract(self) -> None:
        """robust: dtype, contiguity, a new tensor, and inputs left as they were.

        A result that is updated in place is that very tensor instead, and some kernel wrote it.
        """
        self.kernel_ran()
        for part, (_, dtype) in enumerate(self.kata.expected(self.arguments)):
            self.got(part)
            fact, called = self.facts["result"][part], self.called(part)
            if fact["dtype"] != short(dtype):
                raise Wrong(
                    f"{called} is {fact['dtype']}, not {short(dtype)} ({self.label})", "robust"
                )
            if self.updated(part) is not None:
                self.is_the_argument(part)
                if self.lane == "trace" and self.size(part) and not self.wrote(part):
                    raise Wrong(f"no kernel writes {called} ({self.label})", "robust")
                continue
            if not fact["contiguous"]:
                raise Wrong(
                    f"{called} is not contiguous: strides {fact['strides']} for shape "
                    f"{fact['shape']} ({self.label})",
                    "layout",
                )
            if fact.get("reused"):
                raise Wrong(
                    "a second call returns the memory of the first: both results change together. "
                    "Allocate a new tensor in every call",
                    "robust",
                )
            kept = self.lane == "trace" and fact["device"] == "cpu" and fact["storage"] is None
            if kept and self.size(part):
                raise Wrong(
                    f"{called} lies in memory that was not allocated in this call. Allocate a new "
                    "tensor in every call, with torch.empty_like(x) for instance",
                    "robust",
                )
            if fact.get("kind") == "input":
                raise Wrong(
                    f"{called} is the input {fact['storage']} itself; return a new tensor",
                    "robust",
                )
        self.inputs_unchanged()

    def is_the_argument(self, part: int) -> None:
        """robust: a result is the argument that the contract names, and no other tensor."""
        fact, name = self.facts["result"][part], self.called(part)
        if 0 in fact["shape"]:
            return
        if fact.get("kind") != "input" or fact["storage"] != name:
            what = f"the input {fact['storage']}" if fact.get("kind") == "input" else "a new tensor"
            other = self._returned_instead(part)
            raise Wrong(
                f"{name} is to be updated in place and returned; {self.kata.launcher} returns "
                f"{other or what} in its place ({self.label})",
                "robust",
            )

    def _returned_instead(self, part: int) -> str:
        """The other result that is returned where an updated argument belongs, "" for none."""
        places = {}
        for other in self.parts:
            if self.updated(other) is not None:
                places[self.kata.returns[other]] = other
        for at, fact in enumerate(self.facts["result"][: len(self.parts)]):
            home = places.get(fact.get("storage")) if fact.get("kind") == "input" else None
            if home is not None and home != at and part in (at, home):
                return self.called(at if part == home else home)
        return ""

    def inputs_unchanged(self) -> None:
        name = self.changed_input()
        if name:
            raise Wrong(f"the input {name} is changed ({self.label})", "robust")

    def changed_input(self) -> str | None:
        """The first input whose memory is not what it was before the call."""
        tensors = [
            (name, a)
            for name, a in zip(self.kata.parameters, self.arguments, strict=False)
            if isinstance(a, torch.Tensor)
        ]
        for (name, tensor), place_ in zip(tensors, self.facts["inputs"], strict=True):
            if place_ is None or tensor.numel() == 0:
                continue
            before, after = storage_bytes(tensor), bytes(self.answer.blobs[place_])
            if name in self.kata.updates:  # but what lies between its elements stays
                before = storage_bytes(updated_from(after, tensor))
            if after != before:
                return name
        return None


def _dropped(buffer: dict, tensor: torch.Tensor) -> bool:
    """Whether masks of loads, and not offsets, are why some of an input is never read.

    Lanes that would have read all of it are there, but off; little is missing; and the rest is read
    equally often: offsets that lead astray read something twice for what they leave out. (Lanes
    past the end of a row often point to the next one.)
    """
    unread, count = tensor.numel() - buffer["read"], buffer["loaded_bytes"] // buffer["itemsize"]
    few = 0 < 4 * unread <= buffer["read"]
    return few and buffer["dropped"] == unread and count % buffer["read"] == 0
