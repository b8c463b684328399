"""Everything that was seen of one file in all lanes.

`Evidence` runs a kata's cases (in the background, lane beside lane) and keeps each call of the
launcher as a `Run`, of which checks ask their questions.
"""

from __future__ import annotations

import functools
import math
import re
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from .explain import explain
from .judge import CARD_SECONDS, SET_UP_SECONDS, Child, Nursery
from .kata import Case, Drawn, Kata, Statement
from .reasons import NotJudged, Wrong
from .run import Run
from .sandbox import source_of
from .speed import ROUNDS, SECONDS, Speed, Times, card_lock, judge, refusal
from .tensors import describe_arguments

MOST_CONFIGS = 32  # configs of an autotuner that are run by themselves in the trace lane
EACH_CONFIG = ("full", "ragged", "order")  # groups that are run with every config
SAMPLES = {"sample": 2, "order": 48}  # programs that run of each launch there, besides the last one
BLOCK_CEILING = 1 << 17  # lanes; cases are not sized by a block beyond this
MOST_FLAGS = 30
DRAWN = Drawn(64 << 20)  # bytes: all cases of any kata
MOST_FACES = 3  # kernels that the compile lane is asked for once more
DEF = re.compile(r"\s*(async\s+)?def\s")
MOST_DEATHS = 3  # cases of a lane that may cost the card's context before the rest is not tried


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
        self._stops_accepted: dict[tuple, bool] = {}  # where a trace stops: can it be compiled?
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
        return DRAWN.arguments(self.kata.of(case.launcher), self.seed, case, salt)

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
        if blame.concept == "grid" or (own != grid and math.prod(own) == math.prod(grid)):
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
        if len(block) == 1 and self.kata.tiled:
            return self.kata.usual_block  # a vector does not say how tall and wide its share is
        for place, name in enumerate(self.kata.parameters):
            load = launches[-1]["loads"].get(name)
            if not load or not block[0]:
                break
            block += (math.prod(load) // (1 if place else block[0]),)
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

    def two_faces(self) -> str:
        """A kernel that a call launches where kernels run, and not where they are compiled; "" if none.

        Neither lane sees what the other one is shown. A kernel that the compiled cases do not come to
        may be one for other sizes: so the compile lane is asked for the very call that launched it.
        """
        if not {"trace", "compile"} <= self.lanes_on:
            return ""
        ran: dict[tuple, Run] = {}
        for run in self._futures["trace"].result():
            if run.answer.error is None and run.case.group not in SAMPLES:
                for kernel in self._launched(run.facts):
                    ran.setdefault(kernel, run)
        compiled = {kernel for answer in self.compiled() for kernel in self._launched(answer)}
        unseen = [kernel for kernel in ran if kernel not in compiled][:MOST_FACES]
        child = self._child("compile")
        try:
            for kernel in unseen:
                run = ran[kernel]
                answer = self._compile(child, run.case, [self.kata.targets[0]])
                if kernel not in self._launched(answer):
                    where = f"{kernel[0]} (line {kernel[1]}) does the work"
                    return f"{where} ({run.label}), and is not launched by this call where it is compiled"
        finally:
            child.stop()
        return ""

    def _launched(self, facts: dict) -> set[tuple[str, int | None]]:
        """The kernels of an answer, by name and line."""
        if "error" in facts:
            return set()
        return {(x["kernel"], self._line_of_def(x.get("defined"))) for x in facts["launches"]}

    def _line_of_def(self, line) -> int | None:
        """Of a function that begins at this line, maybe with a decorator, the line of its `def`."""
        rest = self._lines[line - 1 :] if isinstance(line, int) and line > 0 else []
        found = (at for at, text in enumerate(rest, line) if DEF.match(text))
        return next(found, None)

    @functools.cached_property
    def _lines(self) -> list[str]:
        return source_of(self.file).decode(errors="replace").splitlines()

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
                explain(Run(self, "speed", case, None, [], answer), answer.error)
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

    def compiler_accepts(self, run: Run) -> bool:
        """True when the real compiler takes every launch (for NVIDIA: PTX inside is legal).

        Also those of this run, which stops where it is traced: the line at which it does may be in a
        branch that is not compiled for the cases of group "compile".
        """
        if "compile" not in self._futures or not all(map(self._accepted, self.compiled() or [{}])):
            return False
        error = run.answer.error or {}
        stop = run.case.launcher, error.get("line"), error.get("type")
        if stop not in self._stops_accepted:
            child = self._child("compile")
            try:
                answer = self._compile(child, run.case, [self.kata.targets[0]])
            finally:
                child.stop()
            self._stops_accepted[stop] = self._accepted(answer)
        return self._stops_accepted[stop]

    @staticmethod
    def _accepted(answer: dict) -> bool:
        launches = answer.get("launches")
        nvidia = [x for x in launches or [] if x["target"].startswith("sm_")]
        return bool(
            "error" not in answer and launches and all(x["ok"] is not False for x in nvidia)
        )


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
