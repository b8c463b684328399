"""Speed as a ratio inside one run: the launcher, the reference, PyTorch and the card itself.

`Bench` lives in the worker and measures: the others first, before the file under test is imported;
then round by round each contender once on the same fresh values, in an order drawn anew, with the
cache emptied in between, and every result of the launcher checked. `judge` turns the times into a
verdict, on the judge's side: the median of the per-round ratios, and an interval around it that
decides when enough has been measured. Nothing is ever held against an absolute time.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import math
import os
import random
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch

from . import oracle
from .kata import Draw, Kata, size_text
from .words import plural

# ---- the verdict -----------------------------------------------------------------------------

ROUNDS = 20  # rounds before the first look at the interval, and between two looks
SECONDS = 15.0  # of measuring, after which the median alone decides
DOUBT = 0.001  # chance that the true median lies outside the interval
# No figure beyond this share of the best rate seen in the run is believed. (An H200 reads 1.08 times
# as fast as it copies, and the reference solution of a kata that mostly reads comes to 1.04.)
ABOVE_CEILING = 1.05
UNSEEN_MS, UNSEEN_SHARE = 0.03, 0.03  # time the card may be busy outside the launcher's stream
SLOWED = 1.15  # times as long as before the import, held against the card's own rate
KEPT_WAITING = 3.0  # times as long as before the import, for what waits for the host anyway
HELD_UP = 1.5  # times as long as before the import, whatever the card itself does now


def interval(values: list[float], doubt: float = DOUBT) -> tuple[float, float]:
    """Where the median of the distribution behind `values` lies, whatever its shape.

    Order statistics: of n values, the number below the true median is binomial (n, 1/2). Returns
    (-inf, inf) when there are too few values to say anything with so little doubt.
    """
    ordered, n = sorted(values), len(values)
    below, k = 0.0, 0  # chance that fewer than k + 1 values lie below the median
    while k < n // 2:
        below += math.comb(n, k) / 2**n
        if below > doubt / 2:
            break
        k += 1
    if k == 0:
        return -math.inf, math.inf
    return ordered[k - 1], ordered[n - k]


@dataclass(frozen=True)
class Speed:
    """A measured launcher. Ratios are other / launcher: above 1, the launcher is the faster one.

    rate     bytes or floating-point operations a second, at the median time
    share    of the card's own rate in this run (a copy, or a large matrix product)
    ratio, low, high   of the reference solution, with its interval
    torch    of PyTorch's operation
    decided  False when time ran out with a mark still inside the interval
    sizes    what was measured, as text
    late     of the rounds, the share in which the card had to wait for the launcher's Python
    """

    kind: str  # memory | matrix
    rate: float
    share: float
    ratio: float
    low: float
    high: float
    torch: float
    rounds: int
    marks: tuple[float, float]
    decided: bool
    sizes: str = ""
    late: float = 0.0

    @property
    def passed(self) -> bool:
        return self.ratio >= self.marks[0]

    @property
    def distinction(self) -> bool:
        """As fast as the better of the reference and PyTorch, to the second mark."""
        return min(self.ratio, self.torch) >= self.marks[1]

    @property
    def text(self) -> str:
        """One line: the rate, its share of what the card can do, and both ratios."""
        if self.kind == "matrix":
            rate, what = f"{self.rate / 1e12:,.0f} TFLOP/s", "this card's matrix rate"
        else:
            rate, what = f"{self.rate / 1e9:,.0f} GB/s", "what this card copies"
        line = (
            f"{rate} at {self.sizes}, {self.share:.0%} of {what}; {self.ratio:.2f} of the reference "
            f"({self.low:.2f} to {self.high:.2f}), {self.torch:.2f} of PyTorch"
        )
        if not self.decided:
            line += f" (close to the mark after {self.rounds} rounds: the median decides)"
        return line + ("; distinction" if self.passed and self.distinction else "")


@dataclass
class Times:
    """What the worker measured: milliseconds by contender, one a round, and what they stand for.

    unseen   ms by which the wall clock ran on after the stream was done, by contender
    early    median ms of the others before the file under test was imported
    by_host  those of them for which the card had to wait even then: their Python takes longer than
             the card does, so that their figures say how busy the host is
    late     for each round, whether the card had to wait for the launcher's Python
    sizes    what is measured, as text
    work     bytes (kind "memory") or operations (kind "matrix") of one call; `ceiling_work` those
             of the ceiling's call
    """

    kind: str
    work: float
    ceiling_work: float
    ms: dict[str, list[float]]
    unseen: dict[str, list[float]]
    early: dict[str, float]
    late: list[bool]
    sizes: str = ""
    by_host: tuple[str, ...] = ()

    @classmethod
    def empty(cls, facts: dict) -> Times:
        work, ceiling = float(facts["work"]), float(facts["ceiling_work"])
        early = {name: float(ms) for name, ms in facts["early"].items()}
        sizes, by_host = str(facts["sizes"]), tuple(map(str, facts["by_host"]))
        return cls(str(facts["kind"]), work, ceiling, {}, {}, early, [], sizes, by_host)

    def add(self, facts: dict) -> None:
        """Take in one batch of rounds. Raises ValueError for anything but positive numbers."""
        for mine, name in ((self.ms, "ms"), (self.unseen, "unseen")):
            for contender, values in facts[name].items():
                mine.setdefault(contender, []).extend(values)
        self.late += facts["late"]
        rounds = {len(values) for values in self.ms.values()}
        flat = [x for values in self.ms.values() for x in values]
        if len(rounds) != 1 or not all(isinstance(x, float) and 0 < x < 1e7 for x in flat):
            raise ValueError("times that cannot be")

    @property
    def rounds(self) -> int:
        return len(self.ms["launcher"])

    def ratios(self, other: str) -> list[float]:
        """other / launcher, round by round."""
        return [a / b for a, b in zip(self.ms[other], self.ms["launcher"], strict=True)]

    def rate(self, contender: str) -> float:
        work = self.ceiling_work if contender == "ceiling" else self.work
        return work / (statistics.median(self.ms[contender]) * 1e-3)


def refusal(times: Times) -> str:
    """Why these figures are not to be believed; "" when they are."""
    median = statistics.median
    allowed = UNSEEN_MS + UNSEEN_SHARE * median(times.ms["reference"])
    mine, usual = (median(times.unseen[x]) for x in ("launcher", "reference"))
    if mine - usual > allowed:
        return (
            f"the card is busy for {mine:.2f} ms that the launcher's stream does not show: launch "
            "on the current stream, so that whoever uses the result waits for it"
        )
    slower = {name: median(times.ms[name]) / early for name, early in times.early.items()}
    for name, told in (("reference", "the reference solution"), ("torch", "PyTorch's operation")):
        told = (
            f"since this file was imported, {told} takes {slower[name]:.1f} times as long as before"
        )
        if name in times.by_host:
            if slower[name] > KEPT_WAITING:
                return f"{told}: something else keeps this machine busy; try again alone"
            continue
        if slower[name] > SLOWED * max(slower["ceiling"], 1.0):
            return f"{told}: a file must leave hooks, modes and PyTorch's settings alone"
        if slower[name] > HELD_UP:
            return (
                f"{told}, and so does a copy: something else keeps the card busy; try again alone"
            )
    best = max(times.rate(x) for x in ("ceiling", "torch", "reference"))
    if times.rate("launcher") > ABOVE_CEILING * best:
        return (
            f"the figure is {times.rate('launcher') / best:.2f} times what this card can do, so "
            "the timed call cannot have done all of the work. Does every call compute its whole result?"
        )
    return ""


def judge(times: Times, marks: tuple[float, float], out_of_time: bool) -> Speed | None:
    """The verdict, or None while a mark lies inside its interval and there is time left.

    The first mark is held against the reference; the second, once the first is passed, against the
    better of the reference and PyTorch.
    """
    ratios, torch_ratios = times.ratios("reference"), times.ratios("torch")
    low, high = interval(ratios)
    decided = high < marks[0]
    if low > marks[0]:
        (low_torch, high_torch) = interval(torch_ratios)
        decided = min(low, low_torch) > marks[1] or min(high, high_torch) < marks[1]
    if not decided and not out_of_time:
        return None
    return Speed(
        times.kind,
        times.rate("launcher"),
        times.rate("launcher") / times.rate("ceiling"),
        statistics.median(ratios),
        low,
        high,
        statistics.median(torch_ratios),
        times.rounds,
        marks,
        decided,
        times.sizes,
        statistics.mean(times.late),
    )


@contextlib.contextmanager
def card_lock(alone: bool) -> Iterator[None]:
    """Share the card with other runs of the grader, or have it alone (for timing).

    A run that sees some of the cards only, as each job of a class does, leaves the others alone.
    """
    mode = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    seen = re.sub(r"[^\w,-]", "_", os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    with _lock_file("").open("w") as every:
        fcntl.flock(every, fcntl.LOCK_SH if seen else mode)
        if not seen:
            yield  # closing the file lets go of the lock
            return
        with _lock_file(f"-{seen[:80]}").open("w") as own:
            fcntl.flock(own, mode)
            yield


def _lock_file(which: str) -> Path:
    return Path(tempfile.gettempdir()) / f"katas-card-{os.getuid()}{which}.lock"


# ---- the worker's side -----------------------------------------------------------------------

BATCH_SECONDS = 8.0  # a batch of rounds ends early after this
MOST_STALLS = 3  # rounds of a batch thrown away because the launcher compiled or tuned in them
CHUNK = 1 << 25  # elements compared at a time
FEW = 2.0**-10  # the share of elements up to which it is asked whether they are wrong at all
RARE = 2.0**-20  # the share of elements that may lie up to four times as far off as is usual
FLUSH_MS = 0.4  # of emptying the cache before a timed call: the host launches meanwhile
MOST_FLUSH_MS = 4.0  # for a host that takes longer than that
EXACTLY = 0.1  # chance that a result is held against fp64 too; a batch's first one always is
LATE = 4096  # elements of each input that get their values when the cache is empty, not before
SHIFT = 64  # places, 256 bytes apart, at which an input may begin in its memory
MATRIX = 50  # operations a byte from which a kata is held against the matrix rate
RESTLESS = "the launcher compiles or tunes in every call; does a key change from call to call?"


class Refused(Exception):
    """The figures of this file are not to be believed, and why."""


class Timed(NamedTuple):
    """One timed call.

    ms       on the card
    unseen   ms by which the wall clock ran on after the stream was done
    late     had the card to wait for the host?
    noisy    was anything compiled or tuned?
    """

    ms: float
    unseen: float
    late: bool
    noisy: bool


class CardDraw(Draw):
    """Inputs drawn where they are used: `device` is "cuda", or "meta" to learn sizes alone."""

    def __init__(self, seed: int, device: str):
        self.device = device
        self.generator = torch.Generator("cpu" if device == "meta" else device).manual_seed(seed)
        self.places = random.Random(seed)

    def empty(self, shape, dtype: torch.dtype) -> torch.Tensor:
        """Memory at an address that no call has seen, as well aligned as PyTorch's own."""
        if self.device == "meta":
            return torch.empty(shape, dtype=dtype, device=self.device)
        size, step = math.prod(shape), 256 // dtype.itemsize
        room = torch.empty(size + SHIFT * step, dtype=dtype, device=self.device)
        start = self.places.randrange(SHIFT) * step
        return room[start : start + size].view(shape)

    def normal(self, shape, dtype=torch.float32, mean=0.5, std=1.0, layout="contiguous"):
        values = self.empty(shape, dtype)
        if self.device != "meta":
            values.normal_(mean, std, generator=self.generator)
        return values

    def integers(self, shape, dtype=torch.int32, low=-4, high=5, layout="contiguous"):
        values = self.empty(shape, dtype)
        if self.device != "meta":
            values.random_(low, high, generator=self.generator)
        return values

    def number(self, low: int, high: int) -> int:
        return low if self.device == "meta" else int(self.integers((), torch.int64, low, high))


class Clock:
    """Timers and the wait for the card, taken before the file under test is imported."""

    def __init__(self) -> None:
        self.now = time.perf_counter
        self.wait = torch._C._cuda_synchronize
        self.stream = torch.cuda.current_stream()
        self._event = torch._C._CudaEventBase
        self._record, self._elapsed = self._event.record, self._event.elapsed_time
        self._query, self._current = self._event.query, torch.cuda.current_stream

    def mark(self):
        """An event, recorded now on the stream that was current at the start."""
        event = self._event(enable_timing=True, blocking=False, interprocess=False)
        self._record(event, self.stream)
        return event

    def passed(self, event) -> bool:
        """Has the card come to this event already?"""
        return self._query(event)

    def strayed(self) -> bool:
        """Is another stream current than at the start?"""
        return self._current() != self.stream

    def between(self, first, second) -> float:
        """Milliseconds on the card from one event to the other."""
        return self._elapsed(first, second)


class Bench:
    """One file's contenders on one card. `request` names the kata's suite and its reference.

    Made before the file under test is imported, it sizes and draws the inputs and measures everybody
    else. `run` answers a request for some rounds; the first also lets the launcher compile and tune.
    """

    device = "cuda"

    def __init__(self, request: dict):
        self.failure: dict | None = None
        self.random = random.Random(0)  # until the judge sends a seed
        self.calls: dict[str, Callable] = {}
        self.noise = [0]  # compilations and tunings so far
        try:
            self.clock = Clock()
            torch.empty(1, device=self.device)
            statement: Kata = load(request["suite"], "suite").KATA
            self.kata = statement.of(request.get("launcher", ""))
            self.reference = vars(load(request["reference"], "reference"))[self.kata.launcher]
            self._count_noise()
        except Exception as error:
            self.failure = no_card(error)
            return
        try:
            self.set_up(request.get("sizes") or self.kata.speed_case)
        except (torch.OutOfMemoryError, MemoryError) as error:
            self.failure = no_card(error)
        except Exception as error:  # nothing of the learner's has run yet
            text = f"{type(error).__name__}: {error}"
            self.failure = {"where": "grader", "type": "", "message": text, "line": None}

    def _count_noise(self) -> None:
        from triton import knobs
        from triton.runtime.autotuner import Autotuner

        noise, bench = self.noise, Autotuner._bench

        def counted(*args, **kwargs):
            noise[0] += 1
            return bench(*args, **kwargs)

        def compiled(*args, **kwargs) -> bool:
            noise[0] += 1
            return False

        Autotuner._bench = counted
        knobs.runtime.jit_post_compile_hook = compiled

    def set_up(self, sizes: dict) -> None:
        """Sizes that fit the card, buffers, and how fast everybody else is without the launcher."""
        properties = torch.cuda.get_device_properties(self.clock.stream.device)
        cache = int(getattr(properties, "L2_cache_size", 0)) or 64 << 20
        flush = max(4 * cache, 256 << 20)
        free = torch.cuda.mem_get_info()[0]
        while True:
            arguments = self.kata.inputs(CardDraw(0, "meta"), **sizes)
            cost = self.kata.cost(*arguments)
            sets = 2 if cost.read > 4 * cache else 4
            moved = cost.read + cost.written
            matrix = cost.flops > MATRIX * moved
            need = flush + sets * cost.read + 4 * cost.written + (0 if matrix else moved)
            need += (sets + 3) * cost.written if self.kata.updates else 0  # what is kept of them
            if need + (1 << 30) < 0.8 * free:
                break
            sizes = smaller(sizes)
        self.sizes, self.flush = sizes, torch.empty(flush, dtype=torch.uint8, device=self.device)
        self.ring: list[list] = [[] for _ in range(sets)]  # the last inputs, kept in memory
        self.calls = {"reference": self.reference, "torch": self.kata.baseline}
        if matrix:
            edge = 8192
            dtype = next(a.dtype for a in arguments if isinstance(a, torch.Tensor))
            a, b = (torch.randn((edge, edge), device=self.device).to(dtype) for _ in "ab")
            self.calls["ceiling"] = lambda *_: torch.mm(a, b)
        else:
            source = torch.empty(moved // 2, dtype=torch.uint8, device=self.device).fill_(1)
            target = torch.empty_like(source)

            def copy(*_) -> None:
                target.copy_(source)

            self.calls["ceiling"] = copy
        self.warm_up()
        for _ in range(2):  # the first time its kernel is loaded
            start = self.clock.mark()
            self.flush.zero_()
            end = self.clock.mark()
            self.clock.wait()
        self.flushes = math.ceil(FLUSH_MS / self.clock.between(start, end))
        self.most_flushes = math.ceil(MOST_FLUSH_MS / self.clock.between(start, end))
        took = [self.round() for _ in range(ROUNDS)]
        early = {name: statistics.median(one[name].ms for one in took) for name in self.calls}
        late = {name: sum(one[name].late for one in took) for name in self.calls}
        self.subject = {
            "kind": "matrix" if matrix else "memory",
            "work": cost.flops if matrix else moved,
            "ceiling_work": 2 * edge**3 if matrix else 2 * (moved // 2),
            "sizes": size_text(sizes),
            "early": early,
            "by_host": [name for name, times in late.items() if times > ROUNDS / 2],
        }

    def warm_up(self) -> None:
        """Two calls of everybody, so that nobody has to compile or to tune later."""
        for _ in range(2):
            arguments, restore = self.fresh()
            for call in self.calls.values():
                restore()
                spoil(call(*arguments))

    def fresh(self) -> tuple[list, Callable[[], None]]:
        """A set of inputs that no call has seen, and what undoes what calls do to them."""
        draw = CardDraw(self.random.getrandbits(40), self.device)
        arguments = self.kata.inputs(draw, **self.sizes)
        return arguments, self.kata.restorer(arguments)

    # ---- one request -------------------------------------------------------------------------

    def run(self, lane, message: dict) -> dict:
        """Facts of a batch: see `Times`; or {"error": ...}, or {"refused": reason}."""
        if self.failure is not None:
            return {"error": self.failure}
        try:
            if "launcher" not in self.calls:
                self.lane, self.random = lane, random.Random(message["seed"])
                self.calls["launcher"] = lane.launcher
                self.warm_up()
            return self.subject | self.rounds(message["rounds"])
        except Refused as reason:
            return {"refused": str(reason)}
        except BaseException as error:
            described = self.broken(lane.describe(error))
            ours = described["line"] is None  # no line of the file under test had a part in it
            if ours and isinstance(error, (torch.OutOfMemoryError, MemoryError)):
                described = no_card(error)
            return {"error": described}

    def broken(self, error: dict) -> dict:
        """The error, or what the card says if its context is lost."""
        try:
            self.clock.wait()
        except Exception as card:
            text = str(card).strip().splitlines()[0].removeprefix("CUDA error: ")
            return error | {"where": "card", "message": text, "fatal": True}
        return error

    def rounds(self, wanted: int) -> dict:
        """Up to so many rounds, fewer when they take long."""
        ms: dict[str, list[float]] = {name: [] for name in self.calls}
        unseen: dict[str, list[float]] = {name: [] for name in self.calls}
        late: list[bool] = []
        began, stalls = self.clock.now(), 0
        while len(late) < wanted and (not late or self.clock.now() - began < BATCH_SECONDS):
            figures = self.round(exact=not late or self.random.random() < EXACTLY)
            stalls += figures["launcher"].noisy
            if stalls > MOST_STALLS:
                raise Refused(RESTLESS)
            if any(one.noisy for one in figures.values()):
                continue
            late_host = any(figures[name].late for name in ("launcher", "reference"))
            if late_host and self.flushes < self.most_flushes:
                self.flushes = min(2 * self.flushes, self.most_flushes)
                continue
            for name, one in figures.items():
                ms[name].append(one.ms)
                unseen[name].append(one.unseen)
            late.append(figures["launcher"].late)
        return {"ms": ms, "unseen": unseen, "late": late}

    def round(self, exact: bool = False) -> dict[str, Timed]:
        """Every contender once on the same fresh inputs, at addresses of their own.

        The launcher's result is held against the reference's before anything else runs.
        """
        self.ring = [*self.ring[1:], []]  # the memory of the oldest is free for the next
        arguments, restore = self.fresh()
        self.ring[-1] = arguments
        want = self.kept(self.reference(*arguments), arguments)
        restore()
        inputs = self.fingerprints(arguments)
        order = list(self.calls)
        self.random.shuffle(order)
        figures: dict[str, Timed] = {}
        for name in order:
            result, figures[name] = self.timed(name, arguments)
            if name == "launcher":
                self.inspect(result, want, arguments, restore, inputs, exact)
            spoil(result)  # the answer must not lie about in memory that is handed out next
            restore()
            del result
        spoil(want)
        return figures

    def inspect(self, result, want, arguments: list, restore, inputs: dict, exact: bool) -> None:
        """Raise Refused for a result that is wrong, or for what the call should have left alone."""
        kept = self.kept(result, arguments)
        restore()
        changed = [k for k, now in self.fingerprints(arguments).items() if now != inputs[k]]
        if changed:
            raise Refused(f"a timed call changes the input {changed[0]}")
        if self.kata.choice is None:
            problem, doubtful = compared(kept, want, self.kata.launcher)
        else:  # the reference solution may choose otherwise
            problem, doubtful = unfit(kept, arguments, self.kata), False
        if doubtful or (exact and not problem):
            against_fp64 = self.exactly(kept, arguments)
            problem = problem if against_fp64 is None else against_fp64
        if problem:
            raise Refused(problem)
        spoil(kept)

    def fingerprints(self, arguments: list) -> dict[str, int]:
        """A number for each input's bytes, equal as long as nobody writes other values there."""
        return {
            name: int(one.reshape(-1).view(torch.uint8)[: one.nbytes & -4].view(torch.int32).sum())
            for name, one in zip(self.kata.parameters, arguments, strict=False)
            if isinstance(one, torch.Tensor)
        }

    def kept(self, result, arguments: list):
        """A result that later calls leave alone, and behind it what became of the arguments."""
        if not self.kata.updates:
            return result
        named = zip(self.kata.parameters, arguments, strict=False)
        updated = [tensor for name, tensor in named if name in self.kata.updates]
        places = {tensor.data_ptr() for tensor in updated}
        own = [part.clone() if part.data_ptr() in places else part for part in parts(result)]
        return own + [tensor.clone() for tensor in updated]

    def watched(self, name: str, arguments: list):
        """One call; the launcher's (and, to be fair, the reference's) with an eye on PyTorch."""
        if name not in ("launcher", "reference") or "launcher" not in self.calls:
            return self.calls[name](*arguments)
        from .watch import Watch, as_written

        watch = Watch(self.lane.file, None, None, self.lane.allowed)
        with watch:
            result = self.calls[name](*arguments)
        if name == "launcher" and watch.foreign:
            names = ", ".join(map(as_written, watch.foreign))
            raise Refused(f"at this size PyTorch does part of the work: {names}")
        return result

    def timed(self, name: str, arguments: list) -> tuple[Any, Timed]:
        """A call behind a flush of the cache, which also hides what the host takes to launch.

        Some elements of each input get their values only behind the flush: whoever starts before
        the current stream is there reads others, and gives a wrong result.
        """
        clock, noise = self.clock, self.noise[0]
        late = [hold_back(a, self.random) for a in arguments if isinstance(a, torch.Tensor)]
        clock.wait()
        wall = clock.now()
        start = clock.mark()
        for _ in range(self.flushes):
            self.flush.zero_()
        for put_right in late:
            put_right()
        before = clock.mark()
        result = self.watched(name, arguments)
        behind = clock.passed(before)
        after = clock.mark()
        clock.wait()
        wall = (clock.now() - wall) * 1e3
        if name == "launcher":
            self.left_alone(result)
        unseen = wall - clock.between(start, after)
        return result, Timed(clock.between(before, after), unseen, behind, self.noise[0] != noise)

    def left_alone(self, result) -> None:
        """Raise Refused for what makes a call's figures, or its result, something else."""
        if self.clock.strayed():
            raise Refused("the launcher leaves another stream current than it was called with")
        for one in result if type(result) in (tuple, list) else [result]:
            if type(one) is not torch.Tensor:
                raise Refused(f"{self.kata.launcher} returns a {type(one).__name__} at this size")
        if self.lane.guard.changed():
            raise Refused(f"the file replaces {', '.join(self.lane.guard.changed())}")

    def exactly(self, result, arguments: list) -> str | None:
        """What is wrong with the launcher's result against fp64; None if memory is short for it."""
        try:
            return self._against_fp64(result, arguments)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            return None

    def _against_fp64(self, result, arguments: list) -> str | None:
        elements = sum(p.numel() for p in parts(result))
        inputs = sum(a.numel() for a in arguments if isinstance(a, torch.Tensor))
        free = torch.cuda.mem_get_info()[0]
        free += torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        if 8 * (16 * elements + 2 * inputs) > free:
            return None
        exact = [
            a.double() if isinstance(a, torch.Tensor) and a.is_floating_point() else a
            for a in arguments
        ]
        wants = self.kata.reference(*self.kata.asked(exact, parts(result)))
        for part, (got, want) in enumerate(zip(parts(result), parts(wants), strict=False)):
            bound = torch.zeros_like(want)
            if got.dtype.is_floating_point:
                bound = oracle.half_ulp(want, got.dtype) * 1.001
                bound += self.kata.allowed_error(part, want, arguments)
            wrong = oracle.compare(got, want, bound)
            if wrong is not None:
                return wrong_result(wrong.count, got.numel())
        return ""


def hold_back(tensor: torch.Tensor, chance: random.Random) -> Callable[[], None]:
    """Put other values of the same tensor into a part of it; a function that puts it right again."""
    flat = tensor.view(-1) if tensor.is_contiguous() else tensor[:0].reshape(-1)
    size = min(LATE, flat.numel() // 2)
    places = flat.numel() // size if size else 1
    here, there = chance.sample(range(places), 2) if places > 1 else (0, 0)
    part = flat[here * size : (here + 1) * size]
    right = part.clone()
    part.copy_(flat[there * size : (there + 1) * size])

    def put_right() -> None:
        part.copy_(right)

    return put_right


def parts(result) -> list[torch.Tensor]:
    """The tensors of a result."""
    several = result if isinstance(result, (tuple, list)) else [result]
    return [part for part in several if isinstance(part, torch.Tensor)]


def spoil(result) -> None:
    """Overwrite a result, so that whoever gets its memory next finds nothing of use."""
    for part in parts(result):
        part.fill_(float("nan") if part.is_floating_point() else 77)


def differs(result, reference, name: str) -> str:
    """What is wrong with a timed result, held against the reference's on the same inputs."""
    return compared(result, reference, name)[0]


def compared(result, reference, name: str) -> tuple[str, bool]:
    """What `differs` says, and whether it is doubtful.

    How far two right results may lie apart is an estimate. If it says that a few elements are wrong,
    the kata's bound can tell whether they are; if many are, some step has lost precision.
    """
    got, want = parts(result), parts(reference)
    if len(got) != len(want):
        return f"{name} returns {plural(len(got), 'tensor')} at this size, not {len(want)}", False
    doubt = ""
    for mine, right in zip(got, want, strict=True):
        if mine.shape != right.shape or mine.dtype != right.dtype or mine.device != right.device:
            text = (
                f"{name} returns {list(mine.shape)} {mine.dtype} on {mine.device} at this size, "
                f"not {list(right.shape)} {right.dtype} on {right.device}"
            )
            return text, False
        wrong = count_wrong(mine.reshape(-1), right.reshape(-1))
        if wrong > right.numel() * FEW:
            return wrong_result(wrong, right.numel()), False
        if wrong:
            doubt = doubt or wrong_result(wrong, right.numel())
    return doubt, bool(doubt)


def unfit(result, arguments: list, kata: Kata) -> str:
    """What is wrong with a timed result where the contract leaves a choice to the kernel."""
    expected = kata.expected(arguments)
    got = parts(result)[: len(expected)]
    like = [torch.empty(shape, dtype=dtype, device="meta") for shape, dtype in expected]
    if [(one.shape, one.dtype) for one in got] != [(one.shape, one.dtype) for one in like]:
        found = ", ".join(f"{list(one.shape)} {one.dtype}" for one in got) or "no tensor"
        return f"{kata.launcher} returns {found} at this size"
    asked = kata.asked(arguments, got)
    wants = parts(kata.reference(*asked))
    wants = [want.to(one.dtype) for want, one in zip(wants, got, strict=True)]
    unlikely = differs(got, wants, kata.launcher) or kata.choice(*asked)  # type: ignore[misc]
    return f"at this size, {unlikely}" if unlikely else ""


def count_wrong(got: torch.Tensor, want: torch.Tensor) -> int:
    """How many elements of two flat tensors differ by more than two right kernels may.

    Where terms cancel, one element in millions may lie somewhat beyond what is usual.
    """
    if not got.dtype.is_floating_point:
        return int((got != want).sum())
    narrow = got.dtype in (torch.float16, torch.bfloat16)
    relative = 8 * oracle.ROUNDOFF[got.dtype] if narrow else 2.0**-16
    some = want[:CHUNK].float().nan_to_num(0.0, 0.0, 0.0)
    absolute = float(some.square().mean().sqrt()) * (2.0**-10 if narrow else 2.0**-16)
    beyond, far_beyond = torch.zeros((2, 1), dtype=torch.int64, device=got.device)
    for start in range(0, got.numel(), CHUNK):
        a, b = got[start : start + CHUNK].float(), want[start : start + CHUNK].float()
        apart, usual = (a - b).abs(), b.abs() * relative + absolute
        same = (a == b) | (a.isnan() & b.isnan())
        finite = a.isfinite() & b.isfinite()
        beyond += (~(same | (finite & (apart <= usual)))).sum()
        far_beyond += (~(same | (finite & (apart <= 4 * usual)))).sum()
    rare = not far_beyond and beyond <= got.numel() * RARE
    return 0 if rare else int(beyond)


def wrong_result(count: int, total: int) -> str:
    return (
        f"a timed call on fresh values gives a wrong result: {count:,} of {total:,} elements. Is "
        "an answer kept from an earlier call, a call left out, work started on a stream that does "
        "not wait for the inputs, or precision lost at large sizes?"
    )


def smaller(sizes: dict) -> dict:
    """The same sizes with the largest halved. Raises MemoryError when nothing is left to halve."""
    whole = {k: v for k, v in sizes.items() if isinstance(v, int) and not isinstance(v, bool)}
    name = max(whole, key=whole.__getitem__)
    if whole[name] < 256:
        raise MemoryError("the card has too little free memory to measure speed")
    return sizes | {name: whole[name] // 2}


def load(path: str, name: str) -> ModuleType:
    """A Python file as a module of its own, known to nobody else."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def no_card(error: BaseException) -> dict:
    """An error that is the machine's and not the file's."""
    text = str(error).strip().splitlines() or [type(error).__name__]
    return {"where": "no-card", "type": "", "message": text[0], "line": None}
