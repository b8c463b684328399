"""Everything that was seen of one file in all lanes, and the questions that checks ask of it.

`Evidence` runs a kata's cases (in the background, lane beside lane); a `Run` is one call of the
launcher with what came of it. The questions are methods that raise `Wrong` with the message a
learner reads, the cause (a concept) and the line; or `NotJudged` where this machine cannot tell.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, NoReturn

import torch

from . import oracle
from .judge import CARD_SECONDS, SET_UP_SECONDS, Answer, Child, Nursery
from .kata import Case, Draw, Kata, Statement
from .speed import ROUNDS, SECONDS, Speed, Times, card_lock, judge, refusal
from .watch import as_written
from .words import are, plural

MOST_CONFIGS = 32  # configs of an autotuner that are run by themselves in the trace lane
EACH_CONFIG = ("full", "ragged", "order")  # groups that are run with every config
SAMPLES = {"sample": 2, "order": 48}  # programs that run of each launch there, besides the last one
SHARED = 0.85  # of the tiles that neighbours along one line load: so many at most if they share
BLOCK_CEILING = 1 << 17  # lanes; cases are not sized by a block beyond this
OWN_STRIDES = "Each tensor has strides of its own, the result too."
CROWD = 8  # times the programs that there are blocks: so many are too many, if they do harm
DTYPES = (  # that a result may have and that every PyTorch can compare
    "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
).split()
MOST_FLAGS = 30
MOST_DEATHS = 3  # cases of a lane that may cost the card's context before the rest is not tried


# Checks whose numbers can be wrong for many reasons. For the others the case itself is the reason,
# unless the numbers are exactly those of a known mistake.
OPEN_CAUSES = ("values", "robust", "precision")


class Wrong(Exception):
    """A check fails: what was seen, the concept at fault, the learner's line if one is known."""

    def __init__(self, message: str, cause: str, line: int | None = None):
        super().__init__(message)
        self.message, self.cause, self.line = message, cause, line or None


class Waits(Wrong):
    """A check fails because what it builds on is not right yet; that has a check of its own."""


class Unusable(Wrong):
    """The file as a whole cannot be judged: every check fails, for this one reason."""


class Stops(Wrong):
    """The file raises an exception: what is asked behind that line has no answer yet."""


class NotJudged(Exception):
    """This machine cannot tell; never a pass, never a failure."""


class RightOnCard(NotJudged):
    """The trace lane cannot tell, but on the card every case is right: as good as a pass."""


class Blame(NamedTuple):
    """Elements that no kernel wrote: the concept at fault, where they are, of which result."""

    concept: str
    missing: torch.Tensor
    part: int


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
        return decode(self.answer.blobs[fact["data"]], fact["dtype"], shape)

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
        return decode(self.answer.blobs[fact["coverage"]], "uint8", tuple(fact["shape"]))

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
            self._explain(self.answer.error)
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
            self._returns_what_was_written()

    @property
    def nothing_to_do(self) -> bool:
        """No kernel was started, and none had to be.

        An empty sum: the result is all zeros, and the launcher allocated it so. An update that
        changes nothing. What an argument holds, copied.
        """
        if self.facts["launches"]:
            return False
        kinds = {fact.get("kind") for fact in self.facts["result"]}
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

    def _explain(self, error: dict) -> None:
        """Raise what an error of the file under test means for the learner."""
        name, line = self.kata.launcher, error.get("line")
        where, kind = error["where"], error.get("type", "")
        text = f"{kind}: {error.get('message', '')}".strip().rstrip(":")
        asserted = kind == "AssertionError" and where != "kernel" and self._says(line, "cuda")
        said = ("not compiled with CUDA", "NVIDIA driver", "No CUDA GPUs", "No HIP GPUs")
        no_card = asserted or any(words in text for words in said)
        if no_card and self.lane in ("trace", "compile"):
            text += ". Here the tensors are on the CPU: write device=x.device, and leave out "
            text += "assertions about the device"
        if where == "limit":
            raise Unusable(f"{name} is not judged to its end: {error['message']}", "robust")
        if where == "import":
            raise Unusable(f"the file does not import. {text}", "robust", line)
        if "missing" in error:
            name, found = error["missing"], ", ".join(error["defined"]) or "nothing"
            if error.get("found"):
                raise Unusable(f"{name} is no function but of type {error['found']}", "robust")
            raise Unusable(f"the file has no function {name}(...); it defines {found}", "robust")
        if where == "tampering":
            names = ", ".join(error["names"]) or "the grader"
            raise Unusable(
                f"the file replaces {names} while it is judged. No kernel needs that, and nothing "
                "else about it can be judged",
                "robust",
            )
        if where == "grader":
            raise RuntimeError(f"the worker fails ({self.label}): {text}")
        if where == "result":
            raise Wrong(f"what {name} returns cannot be read: {text} ({self.label})", "robust")
        if error.get("loading"):
            how = "its import does not end" if where == "hang" else error["message"]
            raise Unusable(f"the file does not import: {how}", "robust", line)
        if where == "hang":
            much = "far too much work"
            if self.lane == "compile":
                much = "too much to compile (many configs, blocks too large for so few warps)"
            many = self._many_programs()
            if many:
                raise Wrong(f"no answer in time ({self.label}): {many}", "grid", line)
            text = f"no answer in time ({self.label}): a loop that never ends, or {much}?"
            raise Wrong(text, "robust", line)
        if where == "crash":
            if error.get("attack"):
                raise Unusable(f"the file {error['message']}", "robust")
            end = "had to be ended" if error.get("alive") else "died"
            raise Wrong(
                f"the process that ran {name} {end} ({self.label}): {error['message']}", "robust"
            )
        if where == "no-card":
            raise NotJudged(f"the card cannot be used: {error['message']}")
        if where == "card":
            raise Wrong(
                f"the card stops {name} ({self.label}): {error['message']}. {card_text(text)}",
                "robust",
                line,
            )
        if "cpu tensor" in text:
            text += ". Allocate where the inputs are: device=x.device, or torch.empty_like(x)"
        if "[CUDA]: invalid argument" in text:
            text += ". A grid's second and third axis hold 65,535 programs at most"
        if "grid_idx" in text:
            raise Wrong(
                "a kernel is called like a function. It is launched with its grid in square "
                "brackets: kernel[grid](...)",
                "grid",
            )
        if kind == "AssertionError" and where == "kernel":
            raise Wrong(
                f"the kernel stops itself: {error['message']} ({self.label})", "robust", line
            )
        beyond = kind == "NotImplementedError" and "compile" not in self.evidence.lanes_on
        if (
            where == "kernel"
            and self.lane == "trace"
            and not error.get("language")
            and (beyond or self.evidence.compiler_accepts())
        ):
            raise NotJudged(
                f"Triton's interpreter cannot run line {line} ({text}), the real compiler accepts "
                "it: only a GPU can judge this"
            )
        place = "the kernel" if where == "kernel" else f"{name}({self.signature})"
        raise Stops(f"{place} raises {text} ({self.label})", _cause_of(text), line)

    def _many_programs(self) -> str:
        """What to say of a call that does not end if its grid has far too many programs, or ""."""
        try:  # facts beside an error have not been looked through
            launch = self.facts["launches"][-1]
            programs = int(launch["programs"])
            block = launch["block"] if math.prod(launch["block"]) > 1 else []
            needed = self.programs_needed({"block": block})
            grid = grid_text(launch)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError):
            return ""
        if self.lane != "trace" or programs < CROWD * max(needed, 1):
            return ""
        return (
            f"the grid {grid} starts {plural(programs, 'program')}, where {needed:,} would do, one "
            "a block. A grid counts blocks, not elements"
        )

    def _says(self, line: int | None, word: str) -> bool:
        """Whether this line of the file under test holds a word."""
        lines = self.evidence.file.read_text(errors="replace").splitlines()
        return 0 < (line or 0) <= len(lines) and word in lines[(line or 1) - 1]

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

    def programs_reach(self) -> None:
        """grid, where only a sample of the programs ran: would all of them cover the result?"""
        self.kernel_ran()
        launches, storage = self.facts["launches"], self.facts["result"][0]["storage"]
        most = [launch["widest"].get(storage, 0) for launch in launches]
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
            elsewhere = self.stored_elsewhere(blame.part)
            also += f". {elsewhere}" if elsewhere else ""
            raise Wrong(
                f"{self.left_out(blame)}, the first at {place(first)}{also} ({self.label})",
                "offsets",
                self._store_line(blame.part),
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
            if buffer and 0 < buffer["read"] < tensor.numel():
                raise Wrong(
                    f"{tensor.numel() - buffer['read']:,} of {tensor.numel():,} elements of {name} "
                    f"are never read ({self.label})",
                    "offsets",
                    self._site_line("load"),
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
    def meets_the_end(self) -> bool:
        """Whether this call shows what a mask does: lanes are off, or leave, or all is complete."""
        if self.answer.error is not None or not self.elements or not self.facts["launches"]:
            return False
        off = any(site["active"] < site["lanes"] for site in self.facts["sites"])
        return off or bool(self.facts["outside"]) or self.blame() is None

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
                    "that nothing has written yet",
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
            raise Wrong(text, cause, events[0]["line"])

    def _led_astray(self, event: dict) -> bool:
        """Whether a store leaves the result though no more lanes are on than it has elements.

        Without a mask there would be more. Those outside are missed inside.
        """
        facts = self.facts["result"]
        parts = [i for i in self.parts if facts[i].get("storage") == event["buffer"]]
        if event["op"] != "store" or not parts:
            return False
        stores = [
            s for s in self.facts["sites"] if (s["line"], s["op"]) == (event["line"], "store")
        ]
        blame = self.blame()
        return (
            sum(site["active"] for site in stores) <= self.size(parts[0])
            and blame is not None
            and blame.concept != "grid"
        )

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
        told = told or self._suspect(part)
        pattern = None if told else self._pattern(wrong, part)
        if pattern and (cause in OPEN_CAUSES or pattern[0] == cause):
            told = pattern
        elif pattern and pattern[0] == "offsets" and cause == "layout":
            told = cause, f"{pattern[1]} {OWN_STRIDES}"
        if told:
            cause, sentence = told
            text += f". {sentence}"
        raise Wrong(text, cause, self._store_line(part) if self.lane == "trace" else None)

    def _suspect(self, part: int) -> tuple[str, str] | None:
        """A mistake that gives exactly these numbers, from the kata's list of usual suspects."""
        got = self.got(part)
        if got.numel() > 1 and bool((got == got.flatten()[0]).all()):
            return None  # one number all over, zero for instance, can come from anywhere
        for cause, sentence, formula in self.kata.suspects:
            try:
                other = formula(*self.asked)
            except (RuntimeError, IndexError, ValueError, ArithmeticError):
                continue  # some formulas fit some arguments only
            other = other[part] if isinstance(other, tuple) else other
            if other is None or other.shape != got.shape or torch.equal(other, self.want[part]):
                continue
            written = self.written(part) if self.lane == "trace" else None
            if written is not None and not bool(written.any()):
                return None  # where nothing is looked at, every formula fits
            bound = self.bounds[part].nan_to_num(0.0, 0.0) + 1e-3 * other.abs()
            if oracle.compare(got, other, bound, written) is None:
                return cause, sentence
        return None

    def _pattern(self, wrong: oracle.Mismatch, part: int) -> tuple[str, str] | None:
        """What the way in which the numbers are wrong gives away, whatever the kata."""
        got, want = wrong.got.double(), wrong.want.double()
        seen = torch.ones_like(wrong.wrong)
        if self.lane == "trace":
            seen = self.written(part)
        if bool((got[seen].isnan() & ~want[seen].isnan()).any()):
            return None
        finite = seen & want.isfinite() & got.isfinite()
        if not bool(finite.any()):
            return None
        scale = want[finite].abs().clamp(min=1e-30)
        relative = float((wrong.error[finite] / scale).median())
        worst = float(wrong.error[finite].max() / scale.max())
        if not wrong.got.dtype.is_floating_point and worst < 2**-20:
            return "precision", "Whole numbers lost their last bits on the way through fp32."
        if wrong.got.dtype.is_floating_point and 3e-5 < relative < 2**-7 and worst < 2**-6:
            return (
                "precision",
                f"They are off by about {worst:.0e} of the largest: some step is done in a lower "
                "precision than fp32.",
            )
        if wrong.got.dtype == torch.float32 and 2**-20 < relative <= 3e-5 and worst < 3e-5:
            return (
                "precision",
                f"They are off by about {worst:.0e} of the largest, more than any order of an fp32 "
                "sum would be: some step keeps fewer digits than fp32.",
            )
        if got.numel() > 2 and got.numel() == int(seen.sum()) and wrong.count > 1:
            off = wrong.wrong & finite
            a, b = got[wrong.wrong].sort().values, want[wrong.wrong].sort().values
            spread = (
                self.bounds[part][off].amax() + 1e-6 * want[off].abs().amax() if off.any() else 0
            )
            moved = bool((wrong.error[off] > spread).any())  # more than a last bit or two
            if moved and bool(((a == b) | ((a - b).abs() <= spread)).all()):
                return "offsets", "The right numbers stand in the wrong places."
        return None

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


class Collected:
    """What the judge collects about one file. Lanes run beside each other in the background.

    `without`: groups of cases that are not traced; checks that need only those are not judged.
    `traced`: answers of the trace lane for this very file and seed, by what was asked. What is
    there is not asked again; what is asked is put there.
    `drawn_sizes`: whether the sizes of cases are drawn too (see `kata.drawn_size`).
    """

    def __init__(
        self,
        statement: Statement,
        file: Path,
        nursery: Nursery,
        lanes: dict[str, bool],
        seed: str,
        without: frozenset[str] = frozenset(),
        traced: dict | None = None,
        drawn_sizes: bool = False,
    ):
        self.size_seed = seed if drawn_sizes else ""
        self.statement, self.file, self.nursery = statement, file, nursery
        self.lanes, self.seed, self.without = lanes, seed, without
        self.traced = traced
        self.note = ""  # what a check that passed has to say
        self.printed = ""  # the first thing that the file printed in the trace lane
        self.flags: list[dict] = []  # what looks like deceit: {"flag", "evidence"}
        limits = nursery.limits
        self._until = None if limits is None else time.monotonic() + limits.seconds
        self.speeds: list[float] = []  # of each launcher measured: its share of the reference's
        self._children: list[Child] = []
        self._abandoned = False
        self._pool = ThreadPoolExecutor(3, thread_name_prefix="lane")
        self._futures: dict[str, Future] = {}
        for lane, collect in self.collectors().items():
            if lanes.get(lane):  # a lane may look for those that were begun before it
                self._futures[lane] = self._pool.submit(collect)

    def collectors(self) -> dict[str, Callable[[], list]]:
        """What is run for each lane that has something to say, in the background."""
        raise NotImplementedError

    @property
    def lanes_on(self) -> set[str]:
        return set(self._futures)

    def finished(self, lane: str) -> bool:
        """Whether this lane has been seen to its end, so that asking it takes no time."""
        future = self._futures.get(lane)
        return future is not None and future.done() and not future.cancelled()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def abandon(self) -> None:
        """Break off all that is under way, from any thread: nobody wants to know any more."""
        self._abandoned = True
        self.close()
        for child in self._children:
            child.cancel()

    def _child(self, lane: str, **more) -> Child:
        request = {"file": str(self.file), "launcher": self.statement.launcher} | more
        child = Child(self.nursery, lane, request, self._until, self.flag)
        self._children.append(child)
        if self._abandoned:
            child.cancel()
        return child

    def flag(self, flag: str, evidence: str) -> None:
        """Note what an instructor should look at; it costs no points by itself."""
        noted = {"flag": flag, "evidence": evidence}
        if noted not in self.flags and len(self.flags) < MOST_FLAGS:
            self.flags.append(noted)


class Evidence(Collected):
    """What the judge collected about one file that holds a kernel."""

    def __init__(self, kata: Kata, *arguments, **named):
        self.kata = kata
        self.configs, self.base = 1, 0
        self.config_values: list[str] = []  # what tells each config from the others, in words
        self.crowd: Run | None = None  # the probe, if its grid is far too large (see `_thinned`)
        self._blocks: Future = Future()  # block of each config, as the trace lane's probe saw it
        super().__init__(kata, *arguments, **named)

    def config_text(self, number: int, of: bool = False) -> str:
        """A config in a message, with its values: "config 2 (BLOCK_SIZE=256)"; `of`: of how many."""
        values = self.config_values[number] if number < len(self.config_values) else ""
        return f"config {number + 1}" + f" of {self.configs}" * of + f" ({values})" * bool(values)

    # ---- collecting --------------------------------------------------------------------------

    def collectors(self) -> dict[str, Callable[[], list]]:
        """Each lane runs the kernel in its own way."""
        return {
            "trace": self._collect_trace,
            "compile": self._collect_compile,
            "gpu": self._collect_gpu,
        }

    def _child(self, lane: str, **more) -> Child:
        more["allowed"] = list(self.kata.allowed)
        more["launchers"] = list(self.kata.launchers)
        if lane == "speed":
            suite = Path(self.kata.inputs.__code__.co_filename).resolve()
            name = suite.stem.removeprefix("test_")
            reference = suite.parents[1] / "solutions" / name / "kernel.py"
            more |= {"suite": str(suite), "reference": str(reference)}
        return super()._child(lane, **more)

    def arguments(self, case: Case, salt: str = "") -> list:
        """Fresh seeded arguments for a case."""
        kata = self.kata.of(case.launcher)
        label = f"{kata.launcher}|{case.group}|{case.name}|{salt}"
        return kata.inputs(Draw(self.seed, label), **case.sizes)

    def _collect_trace(self) -> list[Run]:
        child = self._child("trace")
        try:
            return self._trace(child)
        finally:
            child.stop()
            self.printed = child.printed
            if not self._blocks.done():
                self._blocks.set_result([self.kata.usual_block])

    def _trace(self, child: Child) -> list[Run]:
        stated = next(c for c in self.kata.cases if c.group == "probe")
        probe = stated.settled(self.kata.usual_block, self.size_seed)
        runs: list[Run] = []
        first = self._call(child, probe, 0)
        tuners = first.facts.get("tuners") or []
        configs = len(tuners[0]["configs"]) if tuners else 1
        self.configs = configs
        self.config_values = told_apart(tuners[0]["configs"]) if tuners else []
        probes = [first] + [
            self._call(child, probe, config) for config in range(1, min(configs, MOST_CONFIGS))
        ]
        # What a kernel does is judged with the first config that runs at all; whether the others
        # do the same is a question of its own (see checks.tuning).
        self.base = next((r.config for r in probes if r.answer.error is None), 0)
        self._blocks.set_result([self._block(r) for r in probes])
        for asked in probes:
            config, block = asked.config, self._block(asked)
            shown, thin = self._thinned(child, asked, block)
            shown.wide = self._wide(child, shown, block)
            runs.append(shown)
            for case in self.kata.cases:
                if case.group in ("probe", "compile") or case.group in self.without:
                    continue
                if config != self.base and case.group not in EACH_CONFIG:
                    continue
                if case.group == "order" and self._some_config_shares(runs):
                    continue
                settled = case.settled(block, self.size_seed)
                chosen = None if case.tuned else config
                drawn = self.arguments(settled) if thin else None
                grid = list(self.kata.of(case.launcher).widen(block, *drawn)) if drawn else None
                more = {"instead": True} if thin else {}
                run = self._call(child, settled, chosen, case.again, grid, drawn, **more)
                if case.group == "order":
                    run = self._reaching(child, run, block)
                run.wide = self._wide(child, run, block)
                runs.append(run)
                if config == self.base and case.group == "full":
                    runs += self._widened(child, run, block)
            if config == self.base:
                runs += self._widened_to_the_end(child, runs, block)
        return runs

    def _thinned(self, child: Child, run: Run, block) -> tuple[Run, bool]:
        """The probe on the grid that it should have, if its own has far too many programs.

        That is so if they get in each other's way or leave the tensors, and on the other grid they
        do not. All other cases are then run on such grids: so the rest of the kernel is judged by
        itself, in a time that does not follow from the number of programs.
        """
        try:
            if not run.crowded:
                return run, False
            grid = list(run.kata.widen(block, *run.arguments))
            thin = self._call(child, run.case, run.config, grid=grid, instead=True)
            once = not any(bool((thin.coverage(part) & 4).any()) for part in thin.parts)
            if thin.answer.error is not None or thin.blame() is not None or not once:
                return run, False
        except (Wrong, KeyError):  # no usable result: nothing to compare
            return run, False
        self.crowd = self.crowd or run
        return thin, True

    def _wide(self, child: Child, run: Run, block) -> Run | None:
        """The same call on a grid that is large enough, if the launcher's own starts nothing."""
        try:
            if not run.elements or not run.facts.get("launches") or not run.nothing_ran:
                return None
        except Wrong:
            return None
        grid = list(run.kata.widen(block, *run.arguments))
        return self._call(child, run.case, run.config, run.case.again, grid)

    def _widened_to_the_end(self, child: Child, runs: list[Run], block) -> list[Run]:
        """A ragged case on a grid that is large enough, where no program gets as far as the end."""
        try:
            ragged = [r for r in runs if r.case.group in ("probe", "ragged")]
            ragged = [r for r in ragged if r.config == self.base]
            if any((run.wide or run).meets_the_end for run in ragged):
                return []
            for run in ragged:
                for wide in self._widened(child, run, block, group="widened to the end"):
                    if wide.meets_the_end:
                        return [wide]
        except Wrong:  # no usable result
            pass
        return []

    @staticmethod
    def _some_config_shares(runs: list[Run]) -> bool:
        """Whether that is seen already: to ask the other configs too would take long."""
        try:
            return any(run.shares() for run in runs if run.case.group == "order")
        except (Wrong, NotJudged):
            return False

    def _reaching(self, child: Child, run: Run, block) -> Run:
        """The same call, or if its grid is too small, on one that reaches the whole result."""
        try:
            run.programs_reach()
        except Wrong:
            if run.answer.error is None and run.facts["launches"]:
                grid = list(self.kata.widen(block, *run.arguments))
                return self._call(child, run.case, run.config, grid=grid, arguments=run.arguments)
        except NotJudged:
            pass
        return run

    def _widened(self, child: Child, run: Run, block, group="widened") -> Iterator[Run]:
        """The same case on the grid it should have, if the launcher's own leaves something out."""
        try:
            blame = run.blame()
        except Exception:  # no usable result: nothing to widen
            return
        if blame is None:
            return
        grid = list(run.kata.widen(block, *run.arguments))
        own = run.launch["grid"][: len(grid)]
        if blame.concept == "grid" or (own != grid and sorted(own) == sorted(grid)):
            wide = replace(run.case, group=group)
            yield self._call(child, wide, run.config, grid=grid, arguments=run.arguments)

    def _block(self, run: Run) -> tuple[int, ...]:
        """The block of the largest store; behind it the depth of the first input's load blocks.

        And behind that the elements of the next inputs' load blocks, where a kata asks for them.
        """
        launches = [x for x in run.facts.get("launches") or [] if x["block"]]
        if not launches:
            return self.kata.usual_block
        block = tuple(launches[-1]["block"])
        if math.prod(block) > BLOCK_CEILING or (run.incomplete and run.one_by_one(0)):
            return self.kata.usual_block
        for place_, name in enumerate(self.kata.parameters):
            load = launches[-1]["loads"].get(name)
            if not load or not block[0]:
                break
            block += (math.prod(load) // (1 if place_ else block[0]),)
        return (*block, *self.kata.usual_block[len(block) :])[: len(self.kata.usual_block)]

    def _call(self, child, case, config, again=False, grid=None, arguments=None, **more) -> Run:
        """Run one case; `more`: what else the message to the worker says, for a picture."""
        arguments = self.arguments(case) if arguments is None else arguments
        sizes = repr(case.sizes)
        where = grid and (*grid, more.get("instead", False))
        asked = case.group, sizes, case.name, case.launcher, config, again, where
        if child.lane == "trace" and self.traced is not None and asked in self.traced:
            shown = self.arguments(case, "again") if again else arguments
            return Run(self, child.lane, case, config, shown, self.traced[asked])
        kata = self.kata.of(case.launcher)
        specs, blobs = describe_arguments(kata, arguments)
        message: dict = {"args": specs, "config": config, "grid": grid} | more
        message["launcher"] = kata.launcher
        if case.group in SAMPLES:
            message["sample"] = SAMPLES[case.group]
        if again:
            arguments = self.arguments(case, "again")
            _, second = describe_arguments(kata, arguments)
            message["again"] = [len(blobs) + i for i in range(len(second))]
            blobs += second
        seconds = CARD_SECONDS if child.lane == "gpu" else None
        answer = child.call(message, blobs, seconds)
        if child.lane == "trace" and self.traced is not None:
            self.traced[asked] = answer
        return Run(self, child.lane, case, config, arguments, answer)

    def _collect_compile(self) -> list[dict]:
        child = self._child("compile")
        try:
            cases = [c for c in self.kata.cases if c.group == "compile"]
            main, *others = self.kata.targets
            # One chip for every case; the other chips for the first case, if all went well.
            answers = [self._compile(child, case, [main]) for case in cases]
            if all(a.get("launches") and all(x["ok"] for x in a["launches"]) for a in answers):
                answers.append(self._compile(child, cases[0], others))
            return answers
        finally:
            child.stop()

    def _compile(self, child: Child, case: Case, targets: list[str]) -> dict:
        case = case.settled(self.kata.usual_block)
        kata = self.kata.of(case.launcher)
        specs, blobs = describe_arguments(kata, self.arguments(case))
        message = {"args": specs, "targets": targets, "launcher": kata.launcher}
        answer = child.call(message, blobs)
        return answer.facts | {"case": case.name, "launcher": case.launcher}

    def _collect_gpu(self) -> list[Run]:
        child = self._child("gpu")
        try:
            blocks = self._blocks.result() if "trace" in self._futures else None
            with card_lock(alone=False):
                return list(self._on_card(child, blocks))
        finally:
            child.stop()

    def _on_card(self, child: Child, blocks: list | None) -> Iterator[Run]:
        """Every case with one config, one case with every config, and the tuned call as it is.

        Tuning is what costs on a card: timing every config anew for every shape would take a
        minute and tell nothing more.
        """
        cases = [c for c in self.kata.cases if c.group != "compile"]
        cases.sort(key=lambda c: c.group != "probe")
        deaths = 0
        for case in cases:
            block = blocks[min(self.base, len(blocks) - 1)] if blocks else self.kata.usual_block
            config = None if case.tuned else self.base
            settled = case.settled(block, self.size_seed)
            run = self._call(child, settled, config, case.again)
            yield run
            error = run.answer.error or {}
            deaths += error.get("where") in ("card", "crash")
            if deaths >= MOST_DEATHS or error.get("where") == "no-card":
                return
            if case.group == "probe" and blocks is None:
                tuners = run.facts.get("tuners") or []
                self.configs = len(tuners[0]["configs"]) if tuners else 1
        shape = next((c for c in cases if c.group == "ragged"), cases[0])
        for config in range(min(self.configs, MOST_CONFIGS)):
            if config != self.base:
                block = blocks[config] if blocks and config < len(blocks) else self.kata.usual_block
                yield self._call(child, shape.settled(block, self.size_seed), config)

    # ---- asking ------------------------------------------------------------------------------

    def gpu(self, *groups: str) -> list[Run]:
        """The runs on the card, of these groups or (without any) all; NotJudged without a card."""
        if "gpu" not in self._futures:
            raise NotJudged("needs a GPU")
        runs = self._futures["gpu"].result()
        return [r for r in runs if not groups or r.case.group in groups]

    def speed(self, launcher: str = "") -> Speed:
        """Measure a launcher on the card, alone on it. Raises Wrong for figures of no worth."""
        for future in self._futures.values():
            future.exception()  # wait: the other lanes keep the processor busy
        child = self._child("speed", launcher=launcher or self.kata.launcher)
        try:
            with card_lock(alone=True):
                measured = self.measure(child)
            self.speeds.append(measured.ratio)
            return measured
        finally:
            child.stop()

    def measure(self, child: Child, seconds: float = SECONDS) -> Speed:
        """One verdict from a child of the speed lane, which may be asked for several."""
        times: Times | None = None
        until = None
        while True:
            # Its inputs are drawn there, from a seed that says nothing about those of other lanes.
            message = {"rounds": ROUNDS, "seed": secrets.token_hex(16)}
            answer = child.call(message, [], SET_UP_SECONDS)
            until = time.monotonic() + seconds if until is None else until
            if answer.error is not None:
                name = child.request["launcher"]
                case = Case("speed", {}, "at the size that speed is measured at", name)
                Run(self, "speed", case, None, [], answer)._explain(answer.error)
            if "refused" in answer.facts:
                self._refuse(str(answer.facts["refused"])[:500])
            try:
                if times is None:
                    times = Times.empty(answer.facts)
                times.add(answer.facts)
                refused = refusal(times)
                marks = self.kata.of(child.request["launcher"]).marks
                speed = judge(times, marks, time.monotonic() >= until)
            except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError):
                text = "the process that measures does not answer as it should"
                raise Wrong(text, "speed") from None
            if refused:
                self._refuse(refused)
            if speed is not None:
                return speed

    def _refuse(self, reason: str) -> NoReturn:
        """Figures that are not to be believed fail, and are something for an instructor to see."""
        self.flag("refused speed", reason)
        raise Wrong(reason, "speed")

    def trace(
        self, *groups: str, every_config: bool = False, as_launched: bool = False
    ) -> list[Run]:
        """The traced runs of these groups, of an autotuned kernel with one config or with each.

        Where a launcher's grid held no program at all, it is the run on a grid that is large enough;
        `as_launched`: not so, for who asks about the grid.

        Raises NotJudged where the lane is off.
        """
        if "trace" not in self._futures:
            raise NotJudged("the trace lane is off")
        if self.without >= {*groups}:
            raise NotJudged("these cases were left out")
        runs = [r for r in self._futures["trace"].result() if r.case.group in groups]
        runs = [r for r in runs if every_config or r.config in (self.base, None)]
        return runs if as_launched else [run.wide or run for run in runs]

    def compiled(self) -> list[dict]:
        """The compile lane's answers, one for each case of group "compile"."""
        if "compile" not in self._futures:
            raise NotJudged("the compile lane is off")
        return self._futures["compile"].result()

    def compiler_accepts(self) -> bool:
        """True when the real compiler takes every launch (for NVIDIA: PTX inside is legal)."""
        if "compile" not in self._futures:
            return False
        answers = self.compiled()
        return bool(answers) and all(
            "error" not in a
            and a["launches"]
            and all(x["ok"] is not False for x in a["launches"] if x["target"].startswith("sm_"))
            for a in answers
        )


# ---- bytes and words -------------------------------------------------------------------------


def describe_arguments(kata: Kata, arguments: list) -> tuple[list[dict], list[bytes]]:
    """Arguments as JSON descriptions and storage bytes, for the worker."""
    specs: list[dict] = []
    blobs: list[bytes] = []
    for name, value in zip(kata.parameters, arguments, strict=False):
        if not isinstance(value, torch.Tensor):
            specs.append({"name": name, "value": value})
            continue
        specs.append(
            {
                "name": name,
                "dtype": short(value.dtype),
                "shape": list(value.shape),
                "strides": list(value.stride()),
                "offset": value.storage_offset(),
                "elements": value.untyped_storage().nbytes() // value.element_size(),
                "blob": len(blobs),
                "updated": name in getattr(kata, "updates", ()),
            }
        )
        blobs.append(storage_bytes(value))
    return specs, blobs


def storage_bytes(tensor: torch.Tensor) -> bytes:
    """All bytes of a CPU tensor's storage, gaps included."""
    if tensor.numel() == 0:
        return b""
    flat = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    return flat.numpy().tobytes()


def updated_from(storage: bytes, tensor: torch.Tensor) -> torch.Tensor:
    """A copy of this tensor, gaps included, with its elements as they are in another storage."""
    parts = []
    for data in (storage_bytes(tensor), storage):
        flat = torch.frombuffer(bytearray(data), dtype=tensor.dtype)
        parts.append(flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()))
    return parts[0].copy_(parts[1])


def decode(blob, dtype: str, shape) -> torch.Tensor:
    """Raw bytes as a tensor. Raises Wrong when the worker's bytes do not fit its own words."""
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype) or short(kind) not in DTYPES:
        raise Wrong(f"the result has an unknown dtype {dtype!r}", "robust")
    count = math.prod(shape)
    if len(blob) != count * torch.empty((), dtype=kind).element_size():
        raise Wrong("the result's bytes do not fit its shape", "robust")
    if count == 0:
        return torch.empty(shape, dtype=kind)
    return torch.frombuffer(bytearray(blob), dtype=kind).reshape(shape)


def told_apart(configs: list[dict]) -> list[str]:
    """Of each config of a tuner the values that it does not share with all others, in words.

    For instance "BLOCK_SIZE=1024, num_warps=8". What is there may be forged.
    """
    flat = [dict(config["kwargs"]) for config in configs]
    for values, config in zip(flat, configs, strict=True):
        for name in ("num_warps", "num_stages", "num_ctas", "maxnreg"):
            values[name] = config.get(name)
    names = dict.fromkeys(name for values in flat for name in values)
    differ = [n for n in names if len({str(values.get(n)) for values in flat}) > 1]
    return [", ".join(f"{n}={v[n]}" for n in differ if n in v)[:120] for v in flat]


def short(dtype) -> str:
    return str(dtype).removeprefix("torch.")


def place(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]"


def number(value) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def got_and_want(got, want) -> str:
    """Both numbers, with as many digits as it takes to see that they differ."""
    if number(got) == number(want) and not isinstance(got, int):
        return f"got {got:.9g}, want {want:.9g}"
    return f"got {number(got)}, want {number(want)}"


def grid_text(launch: dict) -> str:
    grid = launch["grid"]
    while len(grid) > 1 and grid[-1] == 1:
        grid = grid[:-1]
    return "(" + ", ".join(map(str, grid)) + ("," if len(grid) == 1 else "") + ")"


def outside_text(event: dict) -> str:
    """One out-of-bounds event as a sentence."""
    name = event["buffer"] or "a tensor"
    verb = {"load": "tl.load reads", "store": "tl.store writes", "atomic": "tl.atomic changes"}
    end = "past the end of" if event["side"] == "after" else "before the start of"
    program = event["program"]
    while len(program) > 1 and program[-1] == 0:
        program = program[:-1]
    number_ = program[0] if len(program) == 1 else tuple(program)
    return (
        f"line {event['line']}: {verb[event['op']]} {plural(event['count'], 'element')} {end} "
        f"{name} ({plural(event['elements'], 'element')}) in program {number_}"
    )


def card_text(text: str) -> str:
    """What to make of an error that costs the card's context."""
    if "misaligned" in text:
        return "An address is not a multiple of its element's size: are offsets counted in bytes?"
    return "Some lane reads or writes far outside its tensor: look at offsets and mask"


def _cause_of(text: str) -> str:
    """The concept behind an exception's text, where the text tells."""
    lower = text.lower()
    if "grid" in lower:
        return "grid"
    return "robust"
