"""One run of the class grader: what is to be done, by which engine, and every result into the store."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

from ..sandbox import Limits
from ..words import plural
from .intake import Submission
from .local import Local, default_jobs
from .marks import Find
from .progress import Progress
from .store import Store
from .units import Unit, next_unit


def engine(options, settings: dict, store: Store) -> Any:
    """The engine that was asked for, not started yet. Ray is imported for its own engine alone."""
    limits = dataclasses.asdict(Limits()) | {
        "seconds": settings["seconds"],
        "memory": settings["memory"],
    }
    for_jobs = {
        "sandbox": settings["sandbox"],
        "hidden": [str(path.resolve()) for path in (options.submissions, options.out)],
        "seconds": settings["seconds"],
        "limits": limits,
    }
    if options.engine == "ray":
        from .cluster import Cluster

        return Cluster(for_jobs, settings["seed"], store.source, options.address, options.jobs)
    cores = default_jobs()
    jobs = options.jobs or cores
    if jobs > cores:
        text = f"--jobs {jobs}: there {'is' if cores == 1 else 'are'} {plural(cores, 'core')}"
        print(f"{text}, and each job needs one of its own", file=sys.stderr, flush=True)
    return Local(for_jobs, settings["seed"], store.source, min(jobs, cores))


def conditions(settings: dict) -> str:
    """What a result depends on besides the file and the suite."""
    return f"{settings['seed']}|{settings['seconds']:g} s|{settings['memory']} bytes"


def finder(store: Store, suites: dict[str, str], settings: dict) -> Find:
    """Looks up records for the table."""

    def find(sha: str, kata: str, part: str) -> dict | None:
        return store.get(Unit(sha, kata, part), suites[kata], conditions(settings))

    return find


def grade(
    engine,
    store: Store,
    submissions: Sequence[Submission],
    katas: Sequence[str],
    suites: dict[str, str],
    settings: dict,
) -> str:
    """Judge all that is not in the store yet.

    A unit that took down its job may be the victim of another one beside it: it is tried once more,
    alone, when all others are done.
    """
    find = finder(store, suites, settings)
    wanted = dict.fromkeys(
        Unit(sha, kata, "cpu")
        for each in submissions
        for kata, sha in sorted(each.works.items())
        if kata in katas
    )
    outlines = store.outlines(suites)
    fresh = [unit for unit in wanted if open_(find(*unit.key))]
    follow = [unit for unit in wanted if unit not in set(fresh)] if engine.cards else []
    if not fresh and not follow and set(katas) <= outlines.keys():
        return ""
    engine.start(max(len(fresh), 1))
    before = store.settings().get("environments", [])
    seen = [*before, *(place for place in engine.environments if place not in before)]
    store.set({"environments": seen})
    for kata, outline in engine.outlines([k for k in katas if k not in outlines]).items():
        store.outline(kata, suites[kata], outline)
    agents = {kata for kata, outline in store.outlines(suites).items() if outline["agent"]}
    todo = [*fresh]
    for unit in follow:
        after = next_unit(unit, find(*unit.key) or {}, agents)
        todo += [after] if after and open_(find(*after.key)) else []
    used = store.settings().get("sandboxes", [])
    if todo and engine.sandbox not in used:
        store.set({"sandboxes": [*used, engine.sandbox]})
    safe = engine.sandbox["text"] if engine.sandbox else "none; submissions run with your rights"
    print(f"sandbox: {safe}", file=sys.stderr, flush=True)
    progress = Progress(len(todo), len(wanted) - len(fresh))
    suspects: list[Unit] = []

    def settled(unit: Unit, record: dict) -> list[Unit]:
        store.put(unit, suites[unit.kata], conditions(settings), record)
        progress.done(record["status"])
        after = next_unit(unit, record, agents) if engine.cards else None
        if after is None or not open_(find(*after.key)):
            return []
        progress.more(1)
        return [after]

    try:
        for unit in todo:
            engine.submit(unit)
        under_way = len(todo)
        while under_way:
            unit, record = engine.wait()
            under_way -= 1
            if record["status"] == "crashed":
                suspects.append(unit)
                continue
            for more in settled(unit, record):
                engine.submit(more)
                under_way += 1
        while suspects:
            engine.submit(suspects.pop(0))
            suspects += settled(*engine.wait())
    finally:
        progress.close()
    return ""


def open_(record: dict | None) -> bool:
    """Whether there is still something to judge: nothing is known, or only the grader's own fault."""
    return record is None or record["status"] == "error"


def facts(store: Store, suites: dict[str, str], card: bool) -> dict:
    """What the results say about how they came about."""
    known = store.settings()
    return {
        "settings": {name: known[name] for name in ("seed", "seconds", "memory")},
        "lanes": {"trace": True, "compile": True, "gpu": card},
        "sandboxes": known.get("sandboxes", []),  # several if OUT was gone on with in another one
        "environments": known.get("environments", []),
        "suites": suites,
    }
