"""The same unit of work as tasks of a Ray cluster: a CPU each, or a card each for the gpu lane.

Nodes need Python with torch, triton and ray; the repository travels to them. A task asks a job in its
own node, which outlives the task, so a submission can take down that job and never Ray's worker. What
Ray loses itself, with a node for one, it does again elsewhere.
"""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict

from ..scorecard import PROJECT
from .job import Dead, Job, Late, NoStart
from .local import RENEWED, crashed, timed_out
from .store import Trouble
from .units import Unit

RETRIES = 5  # times that Ray does a task again whose node or worker is gone
MOST_LOSSES = 3  # times that it is handed to Ray anew after that
AHEAD = 3  # tasks for each CPU of the cluster that are handed in at a time
LEFT_BEHIND = (
    ".git", ".venv", ".nox", ".katas", ".github", ".mypy_cache", ".ruff_cache", ".pytest_cache",
    "**/__pycache__", "tests/mutants", "tests/honest", "tests/hostile", "tests/selftest",
)  # fmt: skip
REACH_SECONDS = 5.0  # for a connection to the head of the cluster


# ---- on a node -------------------------------------------------------------------------------

_jobs: dict[str, Job] = {}  # of this process of Ray's: at most one, by its card


def work(settings: dict, seed: str, what: dict, content: bytes) -> dict:
    """Do one thing here: a unit's record (`what` is a Unit), an outline, or a hello."""
    card = os.environ.get("CUDA_VISIBLE_DEVICES", "") if what.get("part") == "gpu" else ""
    try:
        if card not in _jobs:
            for other in list(_jobs):
                _jobs.pop(other).end()
            _jobs[card] = Job(settings, card)
        job = _jobs[card]
        if "outline" in what:
            return {"answer": job.outline(what["outline"]), "hello": job.hello}
        if "sha" in what:
            return {"answer": job.judge(Unit(**what), content, seed), "hello": job.hello}
        return {"answer": {}, "hello": job.hello}
    except (ValueError, NoStart) as error:
        return {"refused": f"{error} (on {socket.gethostname()})"}
    except Late:
        _jobs.pop(card)
        return {"answer": timed_out(settings["seconds"])}
    except Dead:
        _jobs.pop(card, None)
        return {"answer": crashed()}


# ---- the engine ------------------------------------------------------------------------------


class Cluster:
    """The engine on a Ray cluster; used as `local.Local` is.

    Raises ValueError, one line, if the cluster cannot be reached.
    """

    def __init__(
        self,
        settings: dict,
        seed: str,
        source: Callable[[str], bytes],
        address: str | None = None,
        jobs: int | None = None,
        function: Callable | None = None,
    ):
        self.settings, self.seed, self.source = settings, seed, source
        self.environments: list[dict] = []
        self.sandbox: dict | None = None
        self.losses: Counter[Unit] = Counter()
        self._pending: dict = {}  # Ray's reference -> the unit
        self._waiting: list[Unit] = []
        self._ray = connect(address)
        resources = self._ray.cluster_resources()
        self.cards = int(resources.get("GPU", 0))
        self._most = jobs or AHEAD * max(int(resources.get("CPU", 1)) + self.cards, 1)
        self._task = self._ray.remote(max_retries=RETRIES, max_calls=RENEWED)(
            function or travelling()
        )

    def start(self, units: int) -> None:
        """See that a node can work. Raises ValueError if it cannot."""
        self._ask({})

    def _ask(self, what: dict) -> dict:
        return self._answer(self._get(self._send(what, b"", num_cpus=1)))

    def _get(self, reference) -> dict:
        """What a task gave. Raises Trouble for a fault in it; what Ray lost is a RayError."""
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            reason = (str(error).strip().splitlines() or ["?"])[-1][:200]
            raise Trouble(f"a task fails on the cluster: {reason}", 1) from None

    def _send(self, what: dict, content: bytes, **resources):
        task = self._task.options(**resources)
        return task.remote(self.settings, self.seed, what, content)

    def _answer(self, told: dict) -> dict:
        if "refused" in told:
            raise ValueError(told["refused"])
        hello = told.get("hello")
        if hello:
            if hello["environment"] not in self.environments:
                self.environments.append(hello["environment"])
            self.sandbox = hello["sandbox"]
        return told["answer"]

    def outlines(self, katas: list[str]) -> dict[str, dict]:
        """What the suites of these katas ask for."""
        return {kata: self._ask({"outline": kata}) for kata in katas}

    def submit(self, unit: Unit) -> None:
        self._waiting.append(unit)

    def wait(self) -> tuple[Unit, dict]:
        """The next unit that is done, and its record. Raises Trouble if the cluster keeps losing it."""
        while True:
            self._hand_in()
            (done, *_), _ = self._ray.wait(list(self._pending), num_returns=1)
            unit = self._pending.pop(done)
            try:
                return unit, self._answer(self._get(done))
            except self._ray.exceptions.RayError as error:
                self.losses[unit] += 1
                if self.losses[unit] >= MOST_LOSSES:
                    text = f"the cluster loses its tasks ({type(error).__name__})"
                    there = "what is graded so far is kept: --resume"
                    raise Trouble(f"{text}; {there}", 1) from None
                self._waiting.append(unit)

    def _hand_in(self) -> None:
        """Keep the cluster busy, without all the files of a course in its memory."""
        while self._waiting and len(self._pending) < self._most:
            unit = self._waiting.pop(0)
            resources = {"num_cpus": 1} | ({"num_gpus": 1} if unit.part == "gpu" else {})
            reference = self._send(asdict(unit), self.source(unit.sha), **resources)
            self._pending[reference] = unit

    def close(self) -> None:
        """Leave the cluster; what is under way there ends."""
        self._ray.shutdown()


def connect(address: str | None):
    """The ray module, connected. Raises ValueError."""
    import ray

    address = address or os.environ.get("RAY_ADDRESS") or "auto"
    advice = "start one with `ray start --head`, or name it with --address HOST:PORT"
    host, _, port = address.rpartition(":")
    if port.isdigit() and "://" not in address:  # asking Ray would take a minute
        try:
            socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS).close()
        except OSError as error:
            reason = error.strerror or error
            raise ValueError(
                f"no Ray cluster can be reached at {address} ({reason}); {advice}"
            ) from None
    try:
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level="ERROR",
            runtime_env={"working_dir": str(PROJECT), "excludes": [*LEFT_BEHIND]},
        )
    except Exception as error:  # what Ray raises here is no closed list
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise ValueError(
            f"no Ray cluster can be reached at {address} ({reason}); {advice}"
        ) from None
    return ray


def travelling() -> Callable:
    """`work`, as Ray can carry it to where grader is not on the path yet: a function within one."""

    def task(settings, seed, what, content):
        import importlib
        import os
        import sys

        tests = os.path.join(os.getcwd(), "tests")  # of the repository that has travelled
        if tests not in sys.path:
            sys.path.insert(0, tests)
        module = importlib.import_module("grader.classroom.cluster")
        return module.work(settings, seed, what, content)

    return task
