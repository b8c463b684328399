"""How long `nox -s watch` takes from a save to the verdict, recorded by hand.

`python tests/selftest/bench_watching.py [N ...]` needs watchfiles. For each kata (1 to 11) the stub
and the solution are saved in turn, and the page is read as a person reads it: "checking...", the
verdict as it stands, the whole verdict; medians of three. The aim is a verdict as it stands within
1 s on two cores that have nothing else to do. No test depends on how fast a machine is.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from terminal import Screen, watch_in

PROJECT = Path(__file__).resolve().parents[2]

ROUNDS = 3
SEEN = {
    "checking": r"^checking\.\.\.",
    "verdict": r"checking the rest|of 100 points",
    "whole": r"of 100 points",
}


def seconds(screen: Screen, file: Path, text: str) -> dict[str, float]:
    """From the save to each of SEEN."""
    file.write_text("")  # so that the same text is another save
    screen.wait("has no function", 600)
    screen.wait(SEEN["whole"], 600)
    screen.forget()
    start = time.monotonic()
    file.write_text(text)
    took = {}
    for name, pattern in SEEN.items():
        screen.wait(f"{pattern}|{SEEN['verdict']}" if name == "checking" else pattern, 600)
        took[name] = time.monotonic() - start
    return took


def main(numbers: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, str(PROJECT / "tests"))
        from grader.stubs import as_shipped

        screen = watch_in(as_shipped(Path(folder)))
        screen.wait(SEEN["whole"], 600)
        print(f"{'':<28}" + "".join(f"{name:>10}" for name in SEEN) + "   seconds")
        for stub in sorted((PROJECT / "tests" / "stubs").glob("*/kernel.py")):
            kata = stub.parent.name
            if int(kata[:2]) not in numbers:
                continue
            solution = PROJECT / "solutions" / kata / "kernel.py"
            for name, source in (("stub", stub), ("solution", solution)):
                file = screen.folder / kata / "kernel.py"
                took = [seconds(screen, file, source.read_text()) for _ in range(ROUNDS)]
                figures = [statistics.median(one[what] for one in took) for what in SEEN]
                label = f"{kata[:2]} {name}"
                print(f"{label:<28}" + "".join(f"{x:>10.2f}" for x in figures), flush=True)
        print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        screen.press("q")
        screen.end()


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or list(range(1, 12)))
