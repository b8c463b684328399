"""Speed as a ratio inside one run: the launcher, the reference, PyTorch and the card itself.

`Bench` lives in the worker and measures: round by round, each contender once on the same fresh
values, in an order drawn anew, with the cache emptied in between, and every result of the launcher
checked. `judge` turns the times into a verdict, on the judge's side: the median of the per-round
ratios, and an interval around it that decides when enough has been measured. Nothing is ever held
against an absolute time.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import itertools
import math
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch

from . import oracle
from .kata import Draw, Kata

# ---- the verdict -----------------------------------------------------------------------------

ROUNDS = 20  # rounds before the first look at the interval, and between two looks
SECONDS = 15.0  # of measuring, after which the median alone decides
DOUBT = 0.001  # chance that the true median lies outside the interval
ABOVE_CEILING = 1.05  # no figure beyond this share of the best rate seen in the run is believed
UNSEEN_MS, UNSEEN_SHARE = 0.1, 0.05  # time the card may be busy outside the launcher's stream


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
    decided  False when time ran out with the mark still inside the interval
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
            f"{rate}, {self.share:.0%} of {what}; {self.ratio:.2f} of the reference, "
            f"{self.torch:.2f} of PyTorch"
        )
        if not self.decided:
            line += f" (close to the mark: {self.low:.2f} to {self.high:.2f} after "
            line += f"{self.rounds} rounds)"
        return line + ("; distinction" if self.passed and self.distinction else "")


@dataclass
class Times:
    """What the worker measured: milliseconds by contender, one a round, and what they stand for.

    bare     (event, host, wall) ms of calls with nothing queued before them, by contender
    unseen   ms by which the wall clock ran on after the stream was done, by contender
    work     bytes (kind "memory") or operations (kind "matrix") of one call; `ceiling_work` those
             of the ceiling's call
    """

    kind: str
    work: float
    ceiling_work: float
    ms: dict[str, list[float]]
    bare: dict[str, list[list[float]]]
    unseen: dict[str, list[float]]

    @classmethod
    def empty(cls, facts: dict) -> Times:
        work, ceiling = float(facts["work"]), float(facts["ceiling_work"])
        return cls(str(facts["kind"]), work, ceiling, {}, {}, {})

    def add(self, facts: dict) -> None:
        """Take in one batch of rounds. Raises ValueError for anything but positive numbers."""
        for mine, name in ((self.ms, "ms"), (self.bare, "bare"), (self.unseen, "unseen")):
            for contender, values in facts[name].items():
                mine.setdefault(contender, []).extend(values)
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
    allowed = UNSEEN_MS + UNSEEN_SHARE * statistics.median(times.ms["launcher"])
    mine, usual = (statistics.median(times.unseen[x]) for x in ("launcher", "reference"))
    if times.bare:
        # A call by itself takes at most what the host takes and then what the card takes.
        bare = [
            statistics.median(wall - host - event for event, host, wall in times.bare[x])
            for x in ("launcher", "reference")
        ]
        mine, usual = max((mine, usual), tuple(bare), key=lambda pair: pair[0] - pair[1])
    if mine - usual > allowed:
        return (
            f"the card is busy for {mine:.2f} ms that the launcher's stream does not show: launch "
            "on the current stream, so that whoever uses the result waits for it"
        )
    best = max(times.rate(x) for x in ("ceiling", "torch", "reference"))
    if times.rate("launcher") > ABOVE_CEILING * best:
        return (
            f"the figure is {times.rate('launcher') / best:.2f} times what this card can do: the "
            "work is not done in the timed call"
        )
    return ""


def judge(times: Times, marks: tuple[float, float], out_of_time: bool) -> Speed | None:
    """The verdict, or None while the mark lies inside the interval and there is time left."""
    ratios = times.ratios("reference")
    low, high = interval(ratios)
    decided = low > marks[0] or high < marks[0]
    if not decided and not out_of_time:
        return None
    return Speed(
        times.kind,
        times.rate("launcher"),
        times.rate("launcher") / times.rate("ceiling"),
        statistics.median(ratios),
        low,
        high,
        statistics.median(times.ratios("torch")),
        times.rounds,
        marks,
        decided,
    )


@contextlib.contextmanager
def card_lock(alone: bool) -> Iterator[None]:
    """Share the card with other runs of the grader, or have it alone (for timing)."""
    path = Path(tempfile.gettempdir()) / f"katas-card-{os.getuid()}.lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield  # closing the file lets go of the lock


# ---- the worker's side -----------------------------------------------------------------------

BATCH_SECONDS = 8.0  # a batch of rounds ends early after this
BARE_EVERY = 4  # rounds from one bare call to the next
MOST_STALLS = 3  # rounds thrown away because something was compiled or tuned in them
CHUNK = 1 << 25  # elements compared at a time
FLUSH_MS = 0.4  # of emptying the cache before a timed call: the host launches meanwhile
MATRIX = 50  # operations a byte from which a kata is held against the matrix rate
RESTLESS = "the launcher compiles or tunes in every call; does a key change from call to call?"


class Refused(Exception):
    """The figures of this file are not to be believed, and why."""


class CardDraw(Draw):
    """Inputs drawn where they are used: `device` is "cuda", or "meta" to learn sizes alone."""

    def __init__(self, seed: int, device: str):
        self.device = device
        self.generator = torch.Generator("cpu" if device == "meta" else device).manual_seed(seed)

    def normal(self, shape, dtype=torch.float32, mean=0.5, std=1.0, layout="contiguous"):
        values = torch.empty(shape, dtype=dtype, device=self.device)
        if self.device != "meta":
            values.normal_(mean, std, generator=self.generator)
        return values

    def integers(self, shape, dtype=torch.int32, low=-4, high=5, layout="contiguous"):
        values = torch.empty(shape, dtype=dtype, device=self.device)
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

    def mark(self):
        """An event, recorded now on the stream that was current at the start."""
        event = self._event(enable_timing=True, blocking=False, interprocess=False)
        self._record(event, self.stream)
        return event

    def between(self, first, second) -> float:
        """Milliseconds on the card from one event to the other."""
        return self._elapsed(first, second)


class Bench:
    """One file's contenders on one card. `request` names the kata's suite and its reference.

    `run` answers a request for some rounds. The first also sizes and draws the inputs, lets
    everything compile and tune, and tells what is being measured.
    """

    device = "cuda"

    def __init__(self, request: dict):
        self.failure: dict | None = None
        self.ready = False
        self.round_number = 0
        self.stalls = 0
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

    # ---- one request -------------------------------------------------------------------------

    def run(self, lane, message: dict) -> dict:
        """Facts of a batch: see `Times`; or {"error": ...}, or {"refused": reason}."""
        if self.failure is not None:
            return {"error": self.failure}
        self.lane = lane
        try:
            facts: dict = {}
            if not self.ready:
                self.random = random.Random(message["seed"])
                self.set_up()
                self.exact_at = self.random.randrange(min(message["rounds"], 5))
            facts |= self.subject
            facts |= self.rounds(message["rounds"])
            return facts
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

    def set_up(self) -> None:
        """Sizes that fit the card, buffers, first calls of everybody."""
        properties = torch.cuda.get_device_properties(self.clock.stream.device)
        cache = int(getattr(properties, "L2_cache_size", 0)) or 64 << 20
        flush = max(4 * cache, 256 << 20)
        free = torch.cuda.mem_get_info()[0]
        sizes = dict(self.kata.speed_case)
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
        self.ring = [self.fresh() for _ in range(sets)]  # arguments, and how they are restored
        self.calls = {"reference": self.reference, "torch": self.kata.baseline}
        if matrix:
            edge = 8192
            dtype = self.ring[0][0][0].dtype
            a, b = (torch.randn((edge, edge), device=self.device).to(dtype) for _ in "ab")
            self.calls["ceiling"] = lambda *_: torch.mm(a, b)
        else:
            source = torch.empty(moved // 2, dtype=torch.uint8, device=self.device).fill_(1)
            target = torch.empty_like(source)

            def copy(*_) -> None:
                target.copy_(source)

            self.calls["ceiling"] = copy
        self.calls["launcher"] = self.lane.launcher
        self.subject = {
            "kind": "matrix" if matrix else "memory",
            "work": cost.flops if matrix else moved,
            "ceiling_work": 2 * edge**3 if matrix else 2 * (moved // 2),
            "sizes": {k: str(v) for k, v in sizes.items()},
        }
        for _, (arguments, restore) in itertools.product(range(2), self.ring):
            for call in self.calls.values():
                restore()
                spoil(call(*arguments))
            restore()
        start = self.clock.mark()
        self.flush.zero_()
        end = self.clock.mark()
        self.clock.wait()
        self.flushes = math.ceil(FLUSH_MS / self.clock.between(start, end))
        self.ready = True

    def fresh(self) -> tuple[list, Callable[[], None]]:
        """A set of inputs that no call has seen, and what undoes what calls do to them."""
        draw = CardDraw(self.random.getrandbits(40), self.device)
        arguments = self.kata.inputs(draw, **self.sizes)
        return arguments, self.kata.restorer(arguments)

    # ---- rounds ------------------------------------------------------------------------------

    def rounds(self, wanted: int) -> dict:
        """Up to so many rounds, fewer when they take long."""
        ms: dict[str, list[float]] = {name: [] for name in self.calls}
        bare: dict[str, list[list[float]]] = {"launcher": [], "reference": []}
        unseen: dict[str, list[float]] = {name: [] for name in self.calls}
        began, done = self.clock.now(), 0
        while done < wanted and (done < 1 or self.clock.now() - began < BATCH_SECONDS):
            noise = self.noise[0]
            figures = self.round()
            self.round_number += 1
            if self.noise[0] != noise:
                self.stalls += 1
                if self.stalls > MOST_STALLS:
                    raise Refused(RESTLESS)
                continue
            for name, (took, idle) in figures.items():
                ms[name].append(took)
                unseen[name].append(idle)
            if done % BARE_EVERY == 0:
                for name in bare:
                    bare[name].append(self.bare(name, ms[name][-1]))
            done += 1
        return {"ms": ms, "bare": bare, "unseen": unseen}

    def round(self) -> dict[str, tuple[float, float]]:
        """Every contender once on the same fresh inputs: its ms, and ms its stream did not show."""
        place = self.round_number % len(self.ring)
        self.ring[place] = [], lambda: None  # so that its memory is free for the next
        arguments, restore = self.ring[place] = self.fresh()
        order = list(self.calls)
        self.random.shuffle(order)
        figures: dict[str, tuple[float, float]] = {}
        kept = None
        for name in order:
            restore()
            result, figures[name] = self.timed(name, arguments)
            if name == "launcher":
                kept = self.kept(result, arguments)
            else:  # the answer must not lie about in memory that is handed out next
                spoil(result)
            del result
        restore()
        want = self.kept(self.reference(*arguments), arguments)
        restore()
        if self.kata.choice is None:
            problem = differs(kept, want, self.kata.launcher)
        else:  # the reference solution may choose otherwise
            problem = unfit(kept, arguments, self.kata)
        if not problem and self.round_number == self.exact_at:
            problem = self.exactly(kept, arguments)
        if problem:
            raise Refused(problem)
        spoil(kept)
        spoil(want)
        return figures

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
        if name not in ("launcher", "reference"):
            return self.calls[name](*arguments)
        from .watch import Watch

        watch = Watch(self.lane.file, None, None, self.lane.allowed)
        with watch:
            result = self.calls[name](*arguments)
        if name == "launcher" and watch.foreign:
            names = ", ".join(watch.foreign)
            raise Refused(f"at this size PyTorch does part of the work: {names}")
        return result

    def timed(self, name: str, arguments: list):
        """A call behind a flush of the cache, which also hides what the host takes to launch."""
        clock = self.clock
        clock.wait()
        wall = clock.now()
        start = clock.mark()
        for _ in range(self.flushes):
            self.flush.zero_()
        before = clock.mark()
        result = self.watched(name, arguments)
        after = clock.mark()
        clock.wait()
        wall = (clock.now() - wall) * 1e3
        return result, (clock.between(before, after), wall - clock.between(start, after))

    def bare(self, name: str, event: float) -> list[float]:
        """A call with nothing before it: [event, host, wall] in ms, `event` from the timed call."""
        clock = self.clock
        arguments, restore = self.ring[(self.round_number + 1) % len(self.ring)]
        restore()
        self.flush.zero_()
        clock.wait()
        began = clock.now()
        result = self.watched(name, arguments)
        host = clock.now() - began
        clock.wait()
        wall = clock.now() - began
        spoil(result)
        restore()
        return [event, host * 1e3, wall * 1e3]

    def exactly(self, result, arguments: list) -> str:
        """The launcher's result against fp64, where the card has the memory for it."""
        elements = sum(p.numel() for p in parts(result))
        inputs = sum(a.numel() for a in arguments if isinstance(a, torch.Tensor))
        free = torch.cuda.mem_get_info()[0]
        free += torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        if 8 * (16 * elements + 2 * inputs) > free:
            return ""
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
    got, want = parts(result), parts(reference)
    if len(got) != len(want):
        return f"{name} returns {len(got)} tensors at this size, not {len(want)}"
    for mine, right in zip(got, want, strict=True):
        if mine.shape != right.shape or mine.dtype != right.dtype or mine.device != right.device:
            return (
                f"{name} returns {list(mine.shape)} {mine.dtype} on {mine.device} at this size, "
                f"not {list(right.shape)} {right.dtype} on {right.device}"
            )
        wrong = count_wrong(mine.reshape(-1), right.reshape(-1))
        if wrong:
            return wrong_result(wrong, right.numel())
    return ""


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
    """How many elements of two flat tensors differ by more than two right kernels may."""
    if not got.dtype.is_floating_point:
        return int((got != want).sum())
    narrow = got.dtype in (torch.float16, torch.bfloat16)
    relative = 8 * oracle.ROUNDOFF[got.dtype] if narrow else 2.0**-16
    some = want[:CHUNK].float().nan_to_num(0.0, 0.0, 0.0)
    absolute = float(some.square().mean().sqrt()) * (2.0**-10 if narrow else 2.0**-16)
    wrong = torch.zeros((), dtype=torch.int64, device=got.device)
    for start in range(0, got.numel(), CHUNK):
        a, b = got[start : start + CHUNK].float(), want[start : start + CHUNK].float()
        near = ((a - b).abs() <= b.abs() * relative + absolute) & a.isfinite() & b.isfinite()
        wrong += (~(near | (a == b) | (a.isnan() & b.isnan()))).sum()
    return int(wrong)


def wrong_result(count: int, total: int) -> str:
    return (
        f"a timed call on fresh values gives a wrong result: {count:,} of {total:,} elements. Is "
        "an answer kept from an earlier call, a call left out, or precision lost at large sizes?"
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
