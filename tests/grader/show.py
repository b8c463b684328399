"""A picture of a kernel at work: `python -m grader.show N [--root=DIR] [--out=FILE] [--open]`.

`picture` collects what is to be seen, as plain data; show.html, a template that needs no server and
nothing from elsewhere, draws it. A picture is no verdict: nothing is passed or failed here.
"""

from __future__ import annotations

import argparse
import html
import json
import sys
import webbrowser
from pathlib import Path
from typing import NoReturn

from . import progress
from .judge import Nursery
from .loading import uncollected
from .progress import command, shown
from .scorecard import PROJECT, SUITE
from .words import speak, wrapped

FOLDER = PROJECT / ".katas" / "show"
TEMPLATE = Path(__file__).with_name("show.html")


def page(data: dict) -> str:
    """The page: the template with the record in it. What stands in the record is text, never HTML."""
    text = json.dumps(data, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":  # nothing in it can end the script element that holds it
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    out = TEMPLATE.read_text(encoding="utf-8")
    out = out.replace("@TITLE@", html.escape(data["title"]), 1)
    return out.replace("@RECORD@", text, 1)


def summary(data: dict) -> str:
    """The picture in one line, for a terminal."""
    if data["notes"]:
        more = len(data["notes"]) - 1
        return data["notes"][0]["text"] + (f" ({more} more on the page)" if more else "")
    return "Every element is written, no lane leaves its tensor, and the numbers are right."


def stop(message: str) -> NoReturn:
    """Wrong use: one clear line, exit code 2."""
    sys.stderr.write(f"show: {message}\n")
    raise SystemExit(2)


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message):
        stop(message)


def main(words: list[str] | None = None) -> int:
    parser = Parser(prog="show", description="A picture of a kernel at work, as one HTML page.")
    parser.add_argument("kata", help="its number")
    parser.add_argument("--root", default=progress.EXERCISES, help="folder of NN_slug/kernel.py")
    parser.add_argument("--out", help="the page to write (default: .katas/show/NN_slug.html)")
    parser.add_argument("--seed", default="katas", help="seed of the inputs")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    asked = parser.parse_args(words)
    suites = sorted(m[1] for p in PROJECT.glob("tests/test_*.py") if (m := SUITE.search(p.name)))
    kata = next((k for k in suites if asked.kata in (k, k[:2], str(int(k[:2])))), None)
    if kata is None:
        stop(
            f"there is no kata {asked.kata}; there are {', '.join(str(int(k[:2])) for k in suites)}"
        )
    file = Path(asked.root) / kata / "kernel.py"
    if not file.is_file() and asked.root == progress.EXERCISES:
        back = f"{command()} -s reset-{int(kata[:2])} brings it back"
        stop(f"there is no {shown(file)}; {back}")
    if not file.is_file():
        stop(f"there is no {file}; --root names the folder that holds {kata}/kernel.py")
    out = Path(asked.out) if asked.out else FOLDER / f"{kata}.html"
    if out.is_dir():
        stop(f"{out} is a folder; --out names the page to write, such as {out / 'page.html'}")
    nursery = Nursery()  # loads torch while this process does
    try:
        with uncollected():
            from .grading import kernels
            from .picture import collect
        if kata not in kernels():
            stop(f"kata {int(kata[:2])} asks for no kernel: there is nothing to draw")
        data = collect(kata, file, nursery, asked.seed)
    except Exception as error:
        stop(
            f"the picture itself fails, which is no fault of the kernel: {type(error).__name__}: {error}"
        )
    finally:
        nursery.close()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page(data), encoding="utf-8")
    except OSError as error:
        stop(f"cannot write {out}: {error.strerror or error}")
    print(wrapped(f"{data['title']} at {data['case']}: {summary(data)}"))
    print(wrapped(f"The picture: {out.resolve()}"))
    if not asked.open:
        print(f"{command()} -s show-{int(kata[:2])} -- --open shows it in a browser.")
    elif not webbrowser.open(out.resolve().as_uri()):
        print("No browser is found from here: open the file above in yours.")
    return 0


if __name__ == "__main__":
    try:
        speak(main)
    except KeyboardInterrupt:
        sys.exit(130)
