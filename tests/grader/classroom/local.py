"""Jobs side by side on this machine: one core for each, and one job for each card.

A job keeps to a core of its own, with the children of its nursery: the lanes of one unit would spread
over as many as there are, and two jobs would then be hardly faster than one.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from .job import Dead, Job, Late, NoStart
from .units import PARTS, Unit

RENEWED = 200  # units, after which a job is replaced: what a library keeps does not pile up
CLOSE_SECONDS = 5.0  # for a job that has nothing to do to put its things away
PAUSE = 5.0  # seconds until a job that did not come up is tried again
CARD_CORES = 2  # of a job with a card: what feeds the card should not wait for its judge


def crashed() -> dict:
    return {"status": "crashed", "message": "it ended unexpectedly, also on a second try by itself"}


def timed_out(seconds: float) -> dict:
    return {"status": "timed out", "message": f"it was not done after {seconds:,.0f} seconds"}


def default_jobs() -> int:
    return len(os.sched_getaffinity(0))


def count_cards() -> int:
    """Cards of this machine. PyTorch is asked only where there are signs of one."""
    if not any(Path(path).exists() for path in ("/dev/nvidia0", "/dev/dxg", "/dev/kfd")):
        return 0
    command = [sys.executable, "-c", "import torch; print(torch.cuda.device_count())"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip().isdigit() else 0


def card_names(count: int) -> list[str]:
    """How a job is told which card is its own."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",")[:count] if named else [str(number) for number in range(count)]


def deal_cores(jobs: int, cards: int) -> list[set[int]]:
    """Cores for each job, those with a card last; shared where there are too few."""
    cores = sorted(os.sched_getaffinity(0))
    spare = len(cores) - jobs
    each = CARD_CORES if cards and spare >= CARD_CORES * cards else 1
    shares, at = [], 0
    for width in [1] * jobs + [each] * cards:
        shares.append({cores[(at + i) % len(cores)] for i in range(width)})
        at += width
    return shares


class Local:
    """The engine on this machine. Units go in with `submit`, records come out of `wait`."""

    name = "local"

    def __init__(self, settings: dict, seed: str, source: Callable[[str], bytes], jobs: int):
        self.settings, self.seed, self.source, self.jobs = settings, seed, source, jobs
        self.cards = count_cards()
        self.environments: list[dict] = []
        self.sandbox: dict | None = None
        self._results: queue.Queue = queue.Queue()
        self._queues: dict[str, queue.Queue] = {part: queue.Queue() for part in PARTS}
        self._slots: list[_Slot] = []
        self._stopped = False

    def start(self, units: int) -> None:
        """Start the jobs, no more than there are units. Raises ValueError if they cannot work here."""
        jobs = max(1, min(self.jobs, units))
        shares = deal_cores(jobs, self.cards)
        names = [""] * jobs + card_names(self.cards)
        first = self._open(names[0], shares[0])
        for number, (card, cores) in enumerate(zip(names, shares, strict=True)):
            part = "gpu" if card else "cpu"
            slot = _Slot(self, part, card, cores, first if number == 0 else None)
            self._slots.append(slot)
            slot.start()

    def _open(self, card: str, cores: set[int]) -> Job:
        job = Job(self.settings, card, cores)
        if job.hello["environment"] not in self.environments:
            self.environments.append(job.hello["environment"])
        self.sandbox = job.hello["sandbox"]
        return job

    def outlines(self, katas: list[str]) -> dict[str, dict]:
        """What the suites of these katas ask for. Only before the first unit."""
        job = self._slots[0].job
        assert job is not None
        return {kata: job.outline(kata) for kata in katas}

    def submit(self, unit: Unit) -> None:
        self._queues[unit.part].put(unit)

    def wait(self) -> tuple[Unit, dict]:
        """The next unit that is done, and its record."""
        outcome = self._results.get()
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def close(self) -> None:
        """End all jobs, whatever they are at."""
        self._stopped = True
        for slot in self._slots:
            self._queues[slot.part].put(None)
            if slot.busy and slot.job is not None:
                slot.job.end()
        for slot in self._slots:
            slot.join(CLOSE_SECONDS)


class _Slot(threading.Thread):
    """A place for one job, which is replaced when a unit takes it down."""

    def __init__(self, engine: Local, part: str, card: str, cores: set[int], job: Job | None):
        super().__init__(daemon=True)
        self.engine, self.part, self.card, self.cores, self.job = engine, part, card, cores, job
        self.busy, self.units = False, 0

    def run(self) -> None:
        engine = self.engine
        while True:
            unit = engine._queues[self.part].get()
            if unit is None or engine._stopped:
                break
            self.busy = True
            try:
                engine._results.put((unit, self._judge(unit)))
            except Exception as error:
                engine._results.put(error)
            self.busy = False
            self.units += 1
            if self.job is not None and self.units % RENEWED == 0:
                self.job.end(patience=CLOSE_SECONDS)
                self.job = None
        if self.job is not None:
            self.job.end(patience=CLOSE_SECONDS)

    def _judge(self, unit: Unit) -> dict:
        engine = self.engine
        try:
            if self.job is None:
                self.job = self._open()
            return self.job.judge(unit, engine.source(unit.sha), engine.seed)
        except Late:
            self.job = None
            return timed_out(self.engine.settings["seconds"])
        except Dead:
            self.job = None
            return crashed()

    def _open(self) -> Job:
        """A new job; if the machine has no room for one at the moment, a little later. Raises NoStart."""
        try:
            return self.engine._open(self.card, self.cores)
        except NoStart:
            time.sleep(PAUSE)
            return self.engine._open(self.card, self.cores)
