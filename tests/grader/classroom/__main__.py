"""The command line: `python -m grader.classroom SUBMISSIONS --out OUT`.

Exit code 0 when every row has its marks, 1 when some could not be graded (a fault of the grader, an
interruption), 2 for bad input, with one line that says what to do.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import io
import re
import secrets
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import NoReturn

from ..sandbox import Limits, choose
from ..stubs import SHIPPED
from ..words import plural, speak
from . import grading, intake, marks, outputs
from .job import NoStart
from .store import Store, Trouble
from .units import known_katas, suite_version

LEAST_MEMORY = 256 << 20  # in less the inputs of some kata have no room
MOST_MEMORY = 1 << 50  # beyond it the system cannot count
LEAST_SECONDS = 30  # right kernels of the larger katas take nearly as long
INTERRUPTED = "interrupted: what is graded so far is kept; go on with --resume"
NEEDS = {
    "jinja2": "jinja2",
    "yaml": "PyYAML",
    "rich": "rich",
    "junitparser": "junitparser",
    "matplotlib": "matplotlib",
}


def stop(text: str, code: int = 2) -> NoReturn:
    """One line, and the end."""
    print(f"grade: {text}", file=sys.stderr, flush=True)
    raise SystemExit(code)


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        stop(f"{message}; --help lists the options")


def size(text: str) -> int:
    """Bytes, of a text such as 4G or 500M."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", text.strip(), re.I)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write 4G or 500M")
    number = float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ")
    if number > MOST_MEMORY:
        raise argparse.ArgumentTypeError(f"{text[:20]} is more than any machine has")
    if number < LEAST_MEMORY:
        least = f"{LEAST_MEMORY >> 20}M"
        raise argparse.ArgumentTypeError(f"in {text} no kernel can be judged; give {least} or more")
    return int(number)


def seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not LEAST_SECONDS <= number < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r}; give seconds, {LEAST_SECONDS} or more")
    return number


def count(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def word(text: str) -> str:
    """Of a variable that is not set the shell leaves nothing: that is no folder, and no seed."""
    if not text.strip():
        raise argparse.ArgumentTypeError("nothing is given")
    return text


def seed(text: str) -> str:
    """A word that can be kept: what a shell hands over may be no text."""
    if not word(text).isprintable():
        raise argparse.ArgumentTypeError("it holds what cannot be printed")
    return text


def folder(text: str) -> Path:
    return Path(word(text))


def arguments(words: list[str]) -> argparse.Namespace:
    usage = "nox -s grade -- SUBMISSIONS --out OUT [options]"
    parser = Parser("grade", usage=usage, description="Grade a folder of submissions.")
    add = parser.add_argument
    add("submissions", type=folder, metavar="SUBMISSIONS", help="folder with one entry a student")
    add("--out", type=folder, metavar="OUT", help="folder for marks, feedback and the database")
    add("--katas", metavar="1,3,7", help="katas that count (default: all that somebody handed in)")
    add(
        "--jobs",
        type=count,
        metavar="N",
        help="kernels graded at a time, one core each (default: all cores)",
    )
    add("--timeout", type=seconds, metavar="SECONDS", help="for one kata of one student")
    add("--memory", type=size, metavar="SIZE", help="for one kata of one student, such as 4G")
    add("--seed", type=seed, metavar="WORD", help="of the inputs (default: a secret one is drawn)")
    add("--sandbox", choices=("auto", "bwrap", "off"), help="default: auto")
    add("--engine", choices=("local", "ray"), default="local", help="default: local")
    add("--address", metavar="ADDRESS", help="of --engine ray: the cluster (default: auto)")
    add("--resume", action="store_true", help="go on with what OUT holds, with its settings")
    add("--dry-run", action="store_true", help="only say what would be graded")
    return parser.parse_args(words)


def chosen_katas(wanted: str | None, known: list[str]) -> list[str] | None:
    """The katas of --katas, by number or name; None if all count."""
    if wanted is None:
        return None
    chosen = []
    for word in filter(None, re.split(r"[,\s]+", wanted)):
        for kata in known:
            if word == kata or word.lstrip("0") == kata[:2].lstrip("0"):
                chosen.append(kata)
                break
        else:
            numbers = ", ".join(str(int(kata[:2])) for kata in known)
            stop(f"there is no kata {word}; katas are {numbers}")
    if not chosen:
        stop("--katas names no kata")
    return sorted(set(chosen))


def check_folders(submissions: Path, out: Path | None) -> None:
    """Bad input ends the run before anything is written."""
    if not submissions.exists():
        stop(f"there is no folder {submissions}")
    if not submissions.is_dir():
        stop(f"{submissions} is a file; unpack it and name the folder that holds the submissions")
    try:
        empty = not any(submissions.iterdir())
    except OSError as error:
        stop(f"cannot read {submissions}: {error.strerror}")
    if empty:
        stop(f"{submissions} is empty: there is nothing to grade")
    if out is None:
        return
    inside = out.resolve()
    if inside == submissions.resolve() or submissions.resolve() in inside.parents:
        stop(f"--out {out} lies inside the submissions; name a folder elsewhere")
    if inside.exists() and not inside.is_dir():
        stop(f"--out {out} is a file; name a folder")


def check_packages(engine: str) -> None:
    """Everything that the outputs need is looked for first, not after an hour of grading."""
    needed = NEEDS | ({"ray": "ray"} if engine == "ray" else {})
    missing = [name for module, name in needed.items() if not importlib.util.find_spec(module)]
    if missing:
        stop(
            f"this Python lacks {' '.join(missing)}: {sys.executable} -m pip install {' '.join(missing)}"
        )


def settle(options: argparse.Namespace, store: Store, asked: list[str] | None) -> dict:
    """The settings of this run: as named, or (with --resume) as OUT has them, or the defaults."""
    before = store.settings()
    limits = dataclasses.asdict(Limits())
    named = {
        "seed": options.seed,
        "sandbox": options.sandbox,
        "seconds": options.timeout,
        "memory": options.memory,
        "katas": asked,
    }
    named = {name: value for name, value in named.items() if value is not None}
    default = {
        "seed": None,
        "sandbox": "auto",
        "seconds": limits["seconds"],
        "memory": limits["memory"],
        "katas": None,
    }
    if options.resume:
        return (
            default | before | named | {"seed": named.get("seed") or before.get("seed") or drawn()}
        )
    wanted = default | named
    other = [name for name in wanted if wanted[name] != before.get(name, wanted[name])]
    if before and store.count() and (other or wanted["seed"] is None):
        what = ", ".join(other) or "seed"
        stop(f"{options.out} holds results of other settings ({what}); add --resume to go on with it, "
             "or name another --out")  # fmt: skip
    return wanted | {"seed": wanted["seed"] or drawn()}


def drawn() -> str:
    """A secret seed: nobody can prepare for the inputs."""
    return secrets.token_hex(16)


def describe(submissions: list[intake.Submission], katas: list[str], ignored: list[str]) -> str:
    """What was understood of the submissions, for --dry-run."""
    lines = []
    for each in submissions:
        words = [kata for kata in katas if kata in each.works]
        words += [f"{kata}: {text}" if kata else text for kata, text in each.problems.items()]
        name = each.student + (f" ({each.ident})" if each.ident != each.student else "")
        lines.append(f"{name}{' LATE' if each.late else ''}: {', '.join(words) or 'nothing'}")
    units = {(kata, sha) for s in submissions for kata, sha in s.works.items() if kata in katas}
    lines.append(
        f"{plural(len(submissions), 'submission')}, {plural(len(katas), 'kata')}, "
        f"{plural(len(units), 'different kernel')}"
    )
    lines += [f"ignored, not submissions: {', '.join(ignored)}"] if ignored else []
    return "\n".join(lines)


def counted(
    submissions: list[intake.Submission], asked: list[str] | None, known: list[str]
) -> list[str]:
    """The columns of the table."""
    if asked is not None:
        return asked
    handed_in = {kata for each in submissions for kata in (*each.works, *each.problems)}
    return [kata for kata in known if kata in handed_in]


def stubs() -> set[str]:
    """Hashes of the files that everybody starts from."""
    return {intake.digest(file.read_bytes()) for file in SHIPPED.glob("*/kernel.py")}


def main(words: list[str] | None = None) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names that a terminal or a locale cannot show are shown all the same.
        sys.stdout.reconfigure(errors="backslashreplace")
    options = arguments(sys.argv[1:] if words is None else words)
    known = known_katas()
    asked = chosen_katas(options.katas, known)
    if options.address and options.engine != "ray":
        stop("--address names a cluster: add --engine ray")
    if options.out is None and not options.dry_run:
        stop("name a folder for the marks with --out OUT")
    check_folders(options.submissions, options.out)
    check_packages(options.engine)
    if options.dry_run:
        found, ignored = intake.take_in(options.submissions, known, asked, lambda data: None)
        print(describe(found, counted(found, asked, known), ignored))
        return 0
    # Slurm, for one, asks like this when the time is up.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run(options, known, asked)
    except Trouble as error:
        stop(str(error), error.code)
    except KeyboardInterrupt:
        stop(INTERRUPTED, 1)
    finally:
        signal.signal(signal.SIGTERM, before)


def run(options: argparse.Namespace, known: list[str], asked: list[str] | None) -> int:
    """Grade, with a store that is open."""
    if options.engine == "local" and options.sandbox == "bwrap":
        try:
            choose("bwrap")
        except ValueError as error:
            stop(str(error))
    store = Store(options.out)
    try:
        settings = settle(options, store, asked)
        store.set(settings)
        if settings["katas"]:
            asked = settings["katas"]
        found, ignored = intake.take_in(
            options.submissions, known, asked, lambda data: store.keep(intake.digest(data), data)
        )
        katas = counted(found, asked, known)
        suites = {kata: suite_version(kata) for kata in katas}
        try:
            engine = grading.engine(options, settings, store)
        except ValueError as error:
            stop(str(error))
        try:
            broken = grading.grade(engine, store, found, katas, suites, settings)
        except ValueError as error:
            stop(str(error))
        except KeyboardInterrupt:
            broken = INTERRUPTED
        except NoStart as error:
            broken = f"{error}; what is graded so far is kept: mend that, and go on with --resume"
        finally:
            engine.close()
        outlines = store.outlines(suites)
        if not outlines.keys() >= {*katas}:
            stop(broken, 1)  # before anything is known of what there was to earn
        rows = marks.table(
            found,
            katas,
            outlines,
            grading.finder(store, suites, settings),
            bool(engine.cards),
            stubs(),
        )
        facts = grading.facts(store, suites, bool(engine.cards))
        try:
            kept = outputs.write_all(options.out, rows, katas, facts, ignored, store)
        except OSError as error:
            raise Trouble(
                f"cannot write to {options.out}: {error.strerror}; the database is sound: free some "
                "space and add --resume",
                1,
            ) from None
        return summary(options.out, rows, kept, broken)
    finally:
        store.close()


def summary(out: Path, rows: list[marks.Row], kept: list[Path], broken: str) -> int:
    """The last lines on the terminal, and the exit code."""
    states = Counter(row.status for row in rows)
    text = ", ".join(f"{number} {status}" for status, number in states.most_common())
    print(f"{plural(len(rows), 'row')}: {text}")
    for path in kept:
        print(f"changed since the last run, and kept: {path}")
    print(f"marks: {out / 'grades.csv'}; what to look at: {out / 'report.html'}")
    if broken:
        print(f"grade: {broken}", file=sys.stderr)
    return 1 if broken or {"error", "pending"} & set(states) else 0


if __name__ == "__main__":
    speak(main)
