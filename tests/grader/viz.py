"""`nox -s viz-N`: your kernel in triton-viz, step by step: `python -m grader.viz N [--open]`.

It gets the very call that show-N draws. triton-viz is an optional extra that is not ours: it has an
interpreter of its own, so the file under test is imported right here, as in a benchmark, and what
its pages say is no verdict. They are served on this machine alone; the scripts that draw on them
are fetched by the browser.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import sys
import webbrowser
from pathlib import Path
from types import ModuleType

from . import progress
from .progress import command, kata_of
from .words import outside_text, speak, wrapped

PACKAGE = "triton-viz==3.0"


def extra() -> tuple[ModuleType, ModuleType]:
    """triton-viz, and its module with the pages. One clear line ends the run where it does not load."""
    import triton

    try:
        pages = importlib.import_module("triton_viz.visualizer.interface")
        return importlib.import_module("triton_viz"), pages
    except ModuleNotFoundError as error:
        progress.stop(f"{error.name} is missing: {sys.executable} -m pip install {PACKAGE}")
    except Exception as error:
        text = f"{PACKAGE} does not load with Triton {triton.__version__} ({type(error).__name__}: "
        progress.stop(f"{text}{error}); show needs nothing of it")


def example(kata: str, file: Path):
    """The call that show-N draws: its name and its arguments.

    triton-viz reads and writes memory as it is told. A kernel that leaves its tensors would end
    this process without a word, so one line ends it first.
    """
    from .grading import suite
    from .judge import Nursery
    from .picture import Picture

    nursery = Nursery()
    picture = Picture(suite(kata).KATA, file, nursery, {}, "katas")
    try:
        run = picture.example()
        outside = run.facts.get("outside")
        if outside:
            what = outside_text(outside[0])
            progress.stop(
                f"{what}, which triton-viz would do in bare memory: mend that first "
                f"({command()} -s show-{int(kata[:2])} draws it)"
            )
        return run.case.name, run.arguments
    finally:
        picture.close()
        nursery.close()


def record(viz: ModuleType, kata: str, file: Path, arguments: list) -> None:
    """Let triton-viz watch this call. One clear line ends the run where it comes to nothing."""
    from triton.runtime import KernelInterface

    from .grading import suite
    from .speed import load

    try:
        module = load(str(file), "kernel")
        for name, value in list(vars(module).items()):
            if isinstance(value, KernelInterface):
                setattr(module, name, viz.trace("tracer")(value))
        vars(module)[suite(kata).KATA.launcher](*arguments)
    except Exception as error:
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        progress.stop(
            f"the kernel does not come through ({text}); {command()} -s show-{int(kata[:2])} may"
        )


def main(words: list[str]) -> int:
    if words[1:] not in ([], ["--open"]):
        progress.stop("viz-N takes --open and no further words")
    kata = kata_of(words[0])
    file = progress.EXERCISES / kata / "kernel.py"
    if not file.is_file():
        progress.stop(f"there is no exercises/{kata}/kernel.py; {command()} -s reset-{words[0]}")
    from .grading import kernels

    if kata not in kernels():
        progress.stop(f"kata {int(kata[:2])} asks for no kernel: there is nothing to look at")
    viz, pages = extra()
    from werkzeug.serving import make_server

    name, arguments = example(kata, file.resolve())
    record(viz, kata, file.resolve(), arguments)
    server = make_server("127.0.0.1", 0, pages.app, threaded=True)
    address = f"http://127.0.0.1:{server.server_port}/"
    print(f"{address} shows {kata} at {name} in triton-viz.")
    print(wrapped("The browser needs the network for its scripts. Ctrl-C ends it."), flush=True)
    if len(words) > 1:
        webbrowser.open(address)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # or else a line for every request
    try:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()
    return 0


if __name__ == "__main__":
    try:
        speak(main, sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
