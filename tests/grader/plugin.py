"""The pytest side: options, the fixture `kernel`, verdicts, the report and the exit code.

A suite is a module tests/test_NN_slug.py with a `KATA` and functions marked by `check`. Everything
here is thin: evidence comes from `evidence`, judgement from `checks`, words from `report`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from .evidence import Evidence
from .grading import PROJECT, SUITE, open_check, settle
from .judge import Nursery
from .report import first_line, render
from .scorecard import Check, Scorecard, environment

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


class Judge:
    """State of one pytest session: the nursery and a scorecard for each suite."""

    def __init__(self, config):
        self.config = config
        self.nursery: Nursery | None = None
        self.cards: dict[str, Scorecard] = {}
        self.files: dict[str, Path] = {}
        self.evidence: dict[str, Evidence] = {}
        self.verdicts: dict[str, Check] = {}
        self.root = (config.getoption("root") and Path(config.getoption("root"))) or (
            PROJECT / "exercises"
        )
        self.lanes, self.off, self.gpu = choose_lanes(config.getoption("lanes"))
        self.scorecard = config.getoption("scorecard")

    def collect(self, items) -> None:
        """Make a scorecard for each suite, all of it still in error, and write it."""
        for item in items:
            graded = getattr(getattr(item, "function", None), "graded", None)
            match = SUITE.search(item.path.name)
            if graded is None or match is None:
                continue
            kata = match[1]
            if kata not in self.cards:
                self._open(kata)
            verdict = open_check(item.function)
            self.cards[kata].checks.append(verdict)
            self.verdicts[item.nodeid] = verdict
        if self.scorecard and len(self.cards) > 1 and not Path(self.scorecard).is_dir():
            stop("--scorecard FILE holds one kata; for several give a folder")
        for kata in self.cards:
            self.write(kata)
        for kata in self.cards:
            sys.stdout.write(
                first_line(self.files[kata], self.lanes, self.gpu and self.gpu["name"], self.off)
                + "\n"
            )
        sys.stdout.flush()

    def _open(self, kata: str) -> None:
        file = self.root / kata / "kernel.py"
        if self.root.exists() and not self.root.is_dir():
            stop(f"--root must be a folder that holds {kata}/kernel.py; {self.root} is a file")
        if not file.is_file():
            stop(f"there is no {file}; --root names the folder that holds {kata}/kernel.py")
        self.files[kata] = file
        self.cards[kata] = Scorecard(kata, str(file), dict(self.lanes), environment(self.gpu), [])

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

    def evidence_for(self, kata: str, statement) -> Evidence:
        if kata not in self.evidence:
            if self.nursery is None:
                self.nursery = Nursery()
            file = self.files[kata].resolve()
            self.evidence[kata] = Evidence(
                statement, file, self.nursery, self.lanes, self.config.getoption("seed")
            )
        return self.evidence[kata]

    def close(self) -> None:
        for evidence in self.evidence.values():
            evidence.close()
        if self.nursery is not None:
            self.nursery.close()


def choose_lanes(wanted: str | None) -> tuple[dict[str, bool], dict[str, str], dict | None]:
    """Which lanes are on, why a lane is off, and the card's facts."""
    chosen = set(LANES) if wanted is None else {x.strip() for x in wanted.split(",") if x.strip()}
    unknown = chosen - set(LANES)
    if unknown or not chosen:
        stop(f"unknown lane {', '.join(sorted(unknown)) or '(none)'}; lanes are {', '.join(LANES)}")
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


def pytest_configure(config):
    names = [str(a) for a in config.args]
    config.katas_grading = any(SUITE.search(name.split("::")[0]) for name in names)
    config.katas = None
    if config.katas_grading:
        config.option.verbose = -1
        config.option.no_header = True
        config.option.tbstyle = "no"
        config.option.reportchars = ""
        config.option.disable_warnings = True
        nursery = Nursery()  # loads torch while this process does
        config.katas = Judge(config)
        config.katas.nursery = nursery


def pytest_collection_modifyitems(session, config, items):
    if config.katas is None:
        config.katas = Judge(config)
    config.katas.collect(items)


@pytest.fixture
def kernel(request) -> Evidence:
    """The evidence about the file under test, collected once for all checks of the suite."""
    kata = SUITE.search(request.path.name)[1]
    return request.config.katas.evidence_for(kata, request.module.KATA)


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """Turn what a check raised into its verdict."""
    judge: Judge = pyfuncitem.config.katas
    verdict = judge.verdicts.get(pyfuncitem.nodeid)
    evidence = pyfuncitem.funcargs.get("kernel")
    if isinstance(evidence, Evidence):
        evidence.note = ""
    outcome = yield
    if verdict is None:
        return
    note = evidence.note if isinstance(evidence, Evidence) else ""
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
    for kata in judge.cards:
        judge.write(kata)
    judge.close()
    if judge.cards and exitstatus in (0, 1):
        good = all(card.success for card in judge.cards.values())
        session.exitstatus = 0 if good and exitstatus == 0 else 1


def pytest_terminal_summary(terminalreporter, config):
    judge = config.katas
    if judge is None:
        return
    for kata, card in judge.cards.items():
        lesson = PROJECT / "exercises" / kata / "README.md"
        terminalreporter.write_line(render(card, judge.files[kata], lesson))
    if judge.cards:
        terminalreporter.write_line("")
