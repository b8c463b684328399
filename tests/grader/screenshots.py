"""The README's pictures: `python -m grader.screenshots` (`nox -s pictures`).

Both are of a kata 1 whose mask is still to do, checked in a copy of the project as it is handed out:
tests/pictures/report.svg is the report as a terminal shows it, tests/pictures/show.png the page of
show-1 as a browser does. No word in them is typed by hand. Needs rich, and Chromium or Chrome.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .examples import partly_solved, without_closing_line
from .progress import stop
from .scorecard import PROJECT
from .stubs import as_shipped

FOLDER = PROJECT / "tests" / "pictures"
KATA, SOLVED = "01_vector_add", ("grid", "offsets", "values")
COLUMNS, WINDOW = 88, "1200,960"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", flags=re.S)


def environment(house: Path) -> dict[str, str]:
    """That of a learner without a GPU, in a terminal with colours."""
    mine = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "KATAS_NOX")}
    return mine | {
        "PYTHONPATH": str(house / "tests"),
        "KATAS_PROGRESS": str(house / ".katas" / "progress.json"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "COLUMNS": str(COLUMNS),
        "FORCE_COLOR": "1",
    }


def unfinished(house: Path) -> Path:
    """A copy of the project in which all of kata 1 is solved but its mask."""
    as_shipped(house)
    shutil.rmtree(house / "exercises" / KATA)
    partly_solved(KATA, SOLVED, house / "exercises")
    shutil.copy(PROJECT / "exercises" / KATA / "README.md", house / "exercises" / KATA)
    return house


def report(house: Path) -> str:
    """What `nox -s check-1` prints there, with its colours."""
    command = [sys.executable, "-m", "pytest", f"tests/test_{KATA}.py"]
    done = subprocess.run(
        command, cwd=house, env=environment(house), capture_output=True, text=True, check=False
    )
    if done.returncode != 1:
        stop(f"the check of an unfinished kata 1 ended with {done.returncode}: {done.stderr}")
    return without_closing_line(done.stdout)


def svg(text: str, title: str) -> str:
    """A terminal that shows this text. It asks for no font from elsewhere: it works offline."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=COLUMNS, file=io.StringIO(), highlight=False)
    console.print(Text.from_ansi(text), no_wrap=True, overflow="ignore")
    return FONT_FACE.sub("", console.export_svg(title=title, unique_id="report"))


def browser() -> str:
    """Chromium or Chrome; without one, one line and exit code 2."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        stop("the picture of a page needs Chromium or Chrome: install one, such as chromium")
    return found


def photograph(page: Path, out: Path, program: str, folder: Path) -> None:
    """What a browser shows of a page, as PNG."""
    command = [program, "--headless", "--disable-gpu", "--hide-scrollbars", "--disable-extensions"]
    command += ["--no-sandbox"] if os.geteuid() == 0 else []  # which Chromium refuses to root
    command += [f"--user-data-dir={folder / 'browser'}", f"--window-size={WINDOW}"]
    command += [f"--screenshot={out}", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode or not out.is_file():
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        stop(f"{program} took no picture: {last}")


def main() -> int:
    program = browser()
    try:
        import rich  # noqa: F401
    except ImportError:
        stop(f"the picture of a report needs rich: {sys.executable} -m pip install rich")
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        house, page = unfinished(folder / "house"), folder / "page.html"
        (FOLDER / "report.svg").write_text(svg(report(house), "nox -s check-1"), encoding="utf-8")
        command = [sys.executable, "-m", "grader.show", "1", "--out", str(page)]
        subprocess.run(command, cwd=house, env=environment(house), check=True, capture_output=True)
        photograph(page, FOLDER / "show.png", program, folder)
    for picture in ("report.svg", "show.png"):
        size = (FOLDER / picture).stat().st_size / 1000
        print(f"written: {(FOLDER / picture).relative_to(PROJECT)}, {size:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
