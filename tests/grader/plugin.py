"""The pytest side: options, the fixture `kernel`, verdicts, the report and the exit code.

A suite is a module tests/test_NN_slug.py with a `KATA` and functions marked by `check`. Everything
here is thin: evidence comes from `evidence`, judgement from `checks`, words from `report`.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from . import progress
from .judge import TESTS, Nursery
from .loading import uncollected
from .report import first_line, render, shown
from .scorecard import (
    LEFT_OUT,
    PROJECT,
    SUITE,
    Check,
    Scorecard,
    environment,
    something_else,
)

# What imports torch is imported when it is needed: the nursery loads it at the same time.
if TYPE_CHECKING:
    from .evidence import Collected

LANES = ("trace", "compile", "gpu")


def stop(message: str):
    """Wrong use: one clear line, exit code 2."""
    sys.stderr.write(f"katas: {message}\n")
    sys.stderr.flush()
    os._exit(2)


def pytest_addoption(parser):
    group = parser.getgroup("katas")
    group.addoption("--root", default=None, help="folder that holds NN_slug/kernel.py")
    group.addoption("--lanes", default=None, help="trace,compile,gpu (default: all that work here)")
    group.addoption("--scorecard", default=None, help="write the verdict as JSON to this file")
    group.addoption("--seed", default="katas", help="seed of the inputs")
    group.addoption("--kata", default=None, help="of tests/bench.py: the kata to measure")
    group.addoption(
        "--show-compiled", action="store_true", help="of tests/bench.py: what torch.compile writes"
    )


class Judge:
    """State of one pytest session: the nursery and a scorecard for each suite."""

    def __init__(self, config):
        self.config = config
        self.nursery: Nursery | None = None
        self.cards: dict[str, Scorecard] = {}
        self.files: dict[str, Path] = {}
        self.evidence: dict[str, Collected] = {}
        self.verdicts: dict[str, Check] = {}
        self.root = root_of(config)
        self.lanes, self.off, self.gpu = choose_lanes(config.getoption("lanes"))
        self.scorecard = config.getoption("scorecard")

    def collect(self, items) -> None:
        """Make a scorecard for each suite, all of it still in error, and write it.

        It holds every check of the suite; one that was not asked for is not judged.
        """
        from .grading import open_check

        opened: dict[str, dict[str, Check]] = {}
        for item in items:
            match = SUITE.search(item.path.name)
            if match is None or not hasattr(getattr(item, "function", None), "graded"):
                continue
            kata = match[1]
            if kata not in self.cards:
                self._open(kata)
                functions = [f for f in vars(item.module).values() if hasattr(f, "graded")]
                opened[kata] = {f.__name__: open_check(f) for f in functions}
                self.cards[kata].checks = list(opened[kata].values())
                asked_of = {verdict.lane for verdict in self.cards[kata].checks}
                for lane in self.lanes.keys() - asked_of:  # nothing in it for this suite
                    self.cards[kata].lanes[lane] = False
            self.verdicts[item.nodeid] = opened[kata][item.function.__name__]
        asked = {id(verdict) for verdict in self.verdicts.values()}
        for card in self.cards.values():
            for verdict in card.checks:
                if id(verdict) not in asked:
                    verdict.decide("not-judged", LEFT_OUT)
        if self.scorecard and len(self.cards) > 1 and not Path(self.scorecard).is_dir():
            stop("--scorecard FILE holds one kata; for several give a folder")
        self.write_all()
        name = self.gpu["name"] if self.gpu else None
        for kata, card in self.cards.items():
            sys.stdout.write(first_line(self.files[kata], card.lanes, name, self.off) + "\n")
        sys.stdout.flush()

    def _open(self, kata: str) -> None:
        self.files[kata] = file = find_file(self.root, kata)
        self.cards[kata] = Scorecard(kata, str(file), dict(self.lanes), environment(self.gpu), [])

    def leave_out(self, items) -> None:
        """These were not asked for (-k and its like)."""
        for item in items:
            if item.nodeid in self.verdicts:
                self.verdicts.pop(item.nodeid).decide("not-judged", LEFT_OUT)
        self.write_all()

    def write_all(self) -> None:
        for kata in self.cards:
            self.write(kata)

    def write(self, kata: str) -> None:
        if not self.scorecard:
            return
        path = Path(self.scorecard)
        if path.is_dir():
            path = path / f"{kata}.json"
        try:
            self.cards[kata].write(path)
        except OSError as error:
            stop(f"cannot write the scorecard {path}: {error.strerror or error}")

    def evidence_for(self, kata: str, statement) -> Collected:
        from .grading import collect

        if kata not in self.evidence:
            if self.nursery is None:
                self.nursery = Nursery()
            file = self.files[kata].resolve()
            self.evidence[kata] = collect(
                statement, file, self.nursery, self.lanes, self.config.getoption("seed")
            )
        return self.evidence[kata]

    def close(self) -> None:
        for evidence in self.evidence.values():
            evidence.close()
        if self.nursery is not None:
            self.nursery.close()


def root_of(config) -> Path:
    """The folder that holds the file under test, one folder down."""
    return Path(config.getoption("root") or PROJECT / "exercises")


def find_file(root: Path, kata: str) -> Path:
    """The file under test; bad input ends the run."""
    if root.exists() and not root.is_dir():
        stop(f"--root must be a folder that holds {kata}/kernel.py; {root} is a file")
    file = root / kata / "kernel.py"
    if not file.is_file():
        if root.resolve() == progress.EXERCISES.resolve():
            back = f"{progress.command()} -s reset-{int(kata[:2])} brings it back"
            stop(f"there is no {shown(file)}; {back}")
        stop(f"there is no {file}; --root names the folder that holds {kata}/kernel.py")
    return file


def check_scorecard(path: Path, katas: set[str]) -> None:
    """Whether a scorecard can be written there; bad input ends the run."""
    if len(katas) > 1 and not path.is_dir():
        stop("--scorecard FILE holds one kata; for several give a folder")
    folder = path if path.is_dir() else path.parent
    try:
        tempfile.TemporaryFile(dir=folder).close()
        for file in [path / f"{kata}.json" for kata in katas] if path.is_dir() else [path]:
            if something_else(file):
                stop(f"--scorecard would replace {file}, which is no scorecard: name another file")
    except OSError as error:
        stop(f"cannot write the scorecard {path}: {error.strerror or error}")


def lanes_named(wanted: str | None) -> set[str]:
    """The lanes of --lanes; bad input ends the run."""
    chosen = set(LANES) if wanted is None else {x.strip() for x in wanted.split(",") if x.strip()}
    unknown = chosen - set(LANES)
    if unknown or not chosen:
        stop(f"unknown lane {', '.join(sorted(unknown)) or '(none)'}; lanes are {', '.join(LANES)}")
    return chosen


def choose_lanes(wanted: str | None) -> tuple[dict[str, bool], dict[str, str], dict | None]:
    """Which lanes are on, why a lane is off, and the card's facts."""
    chosen = lanes_named(wanted)
    off: dict[str, str] = {}
    interpreted = os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "yes")
    gpu = find_gpu() if "gpu" in chosen and not interpreted else None
    if "gpu" in chosen and gpu is None:
        off["gpu"] = "TRITON_INTERPRET is set" if interpreted else "no GPU"
    lanes = {lane: lane in chosen and lane not in off for lane in LANES}
    return lanes, off, gpu


def find_gpu() -> dict | None:
    """Name and architecture of the card, or None. Does not start CUDA in this process."""
    import torch

    if not torch.cuda.is_available():
        return None
    major, minor = torch.cuda.get_device_capability()
    return {"name": torch.cuda.get_device_name(), "capability": f"{major}.{minor}"}


# ---- hooks -----------------------------------------------------------------------------------


def pytest_plugin_registered(plugin, manager):
    """Keep pytest from running a conftest.py outside tests/.

    `--root DIR` looks like a test path to pytest for as long as it does not know the option, and
    DIR/conftest.py would then run in the judge's own process.
    """
    if plugin is sys.modules[__name__]:
        manager._is_in_confcutdir = lambda path: path == TESTS or TESTS in path.parents


def refuse_strangers(config) -> None:
    """End the run if pytest took a conftest.py or its settings from somewhere else.

    That happens where `--root DIR` stands ahead of the suite.
    """
    advice = "name the suite first, or write --root=DIR"
    plugins = [module for _, module in config.pluginmanager.list_name_plugin()]
    for module in plugins:
        file = getattr(module, "__file__", None) or ""
        if Path(file).name == "conftest.py" and TESTS not in Path(file).parents:
            stop(f"pytest has run {file}, which is no part of the grader; {advice}")
    if not config.option.inifilename and config.inipath != PROJECT / "pyproject.toml":
        stop(f"pytest took its settings from {config.inipath}; {advice}")


def refuse_bare_python() -> None:
    """End the run if this Python lacks what a kernel runs on."""
    missing = " ".join(n for n in ("torch", "triton", "numpy") if find_spec(n) is None)
    if missing:
        stop(f"this Python lacks {missing}: {sys.executable} -m pip install {missing}")


class Interrupts:
    """Ctrl-C, also where something swallows it: an import within a bare `except`, for one."""

    def __init__(self) -> None:
        self.heard = False
        self.before = signal.signal(signal.SIGINT, self._hear)

    def _hear(self, number, frame) -> None:
        self.heard = True
        raise KeyboardInterrupt

    def say(self) -> None:
        """Raise KeyboardInterrupt if there was one, which should have ended the run by now."""
        if self.heard:
            raise KeyboardInterrupt

    def close(self) -> None:
        signal.signal(signal.SIGINT, self.before)


def pytest_configure(config):
    names = [str(a).split("::")[0] for a in config.args]
    katas = [match[1] for name in names if (match := SUITE.search(name))]
    config.katas_grading = bool(katas)
    config.katas = None
    config.katas_interrupts = Interrupts() if katas else None
    if any(Path(name).resolve() == TESTS / "bench.py" for name in names):
        from . import bench

        reason = bench.trouble(config.getoption("--kata"), config.pluginmanager)
        if reason:
            stop(reason)
        kata = bench.named(config.getoption("--kata"))
        config.katas_benched = find_file(root_of(config), kata or "")
    if config.katas_grading:
        refuse_bare_python()
        refuse_strangers(config)
        for name in ("root", "scorecard", "seed"):
            if config.getoption(name) == "":
                stop(f"--{name} is empty; give it a value or leave it out")
        lanes_named(config.getoption("lanes"))
        for kata in katas:
            find_file(root_of(config), kata)
        if config.getoption("scorecard"):
            check_scorecard(Path(config.getoption("scorecard")), set(katas))
        config.option.verbose = -1
        config.option.no_header = True
        config.option.tbstyle = "no"
        config.option.reportchars = ""
        config.option.disable_warnings = True
        nursery = Nursery()  # loads torch while this process does
        with uncollected():
            config.katas = Judge(config)
        config.katas.nursery = nursery


def pytest_collection_modifyitems(session, config, items):
    if config.katas is None:
        config.katas = Judge(config)
    config.katas.collect(items)


def pytest_deselected(items):
    if items and items[0].config.katas is not None:
        items[0].config.katas.leave_out(items)


@pytest.fixture
def kernel(request) -> Collected:
    """The evidence about the file under test, collected once for all checks of the suite."""
    kata = request.path.stem.removeprefix("test_")
    return request.config.katas.evidence_for(kata, request.module.KATA)


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """Turn what a check raised into its verdict."""
    from .evidence import Collected
    from .grading import settle

    if pyfuncitem.config.katas_interrupts is not None:
        pyfuncitem.config.katas_interrupts.say()
    judge: Judge = pyfuncitem.config.katas
    verdict = judge.verdicts.get(pyfuncitem.nodeid)
    evidence = pyfuncitem.funcargs.get("kernel")
    if isinstance(evidence, Collected):
        evidence.note = ""
    outcome = yield
    if verdict is None or (outcome.excinfo and outcome.excinfo[0] is KeyboardInterrupt):
        return
    note = evidence.note if isinstance(evidence, Collected) else ""
    settle(verdict, outcome.excinfo[1] if outcome.excinfo else None, judge.lanes, note)
    if verdict.status == "passed" and outcome.excinfo:
        outcome.force_result(None)
    if verdict.status == "not-judged":
        if judge.off.get(verdict.lane, "no GPU") != "no GPU":
            verdict.message = judge.off[verdict.lane]
        outcome.force_exception(pytest.skip.Exception(verdict.message))


def pytest_report_teststatus(report, config):
    graded = config.katas is not None and report.nodeid in config.katas.verdicts
    if graded and (report.when == "call" or report.outcome != "passed"):
        return (report.outcome, "", "")
    return ("", "", "") if graded else None


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session, exitstatus):
    judge = session.config.katas
    if judge is None:
        return
    judge.write_all()
    if exitstatus in (0, 1):
        for kata, card in judge.cards.items():
            speeds = judge.evidence[kata].speeds if kata in judge.evidence else []
            progress.record(card, min(speeds, default=None))
    judge.close()
    if judge.cards and exitstatus in (0, 1, 5):  # 5: nothing was selected
        good = all(card.success for card in judge.cards.values())
        session.exitstatus = 0 if good and exitstatus == 0 else 1


def pytest_unconfigure(config):
    if config.katas_interrupts is not None:
        config.katas_interrupts.close()
    if config.katas is not None:
        gc.freeze()  # pytest collects garbage several times at its end, a quarter second with torch


def pytest_terminal_summary(terminalreporter, exitstatus, config):
    judge = config.katas
    if judge is None or not judge.cards:
        return
    if exitstatus == pytest.ExitCode.INTERRUPTED:
        terminalreporter.write_line("Interrupted before the verdict.")
        return
    from .cost import section

    for kata, card in judge.cards.items():
        lesson = PROJECT / "exercises" / kata / "README.md"
        cost = section(judge.evidence.get(kata), card.checks)
        printed = judge.evidence[kata].printed if kata in judge.evidence else ""
        report = render(card, judge.files[kata], lesson, printed, cost)
        terminalreporter.write_line(report + "\n")
