"""How far the grading is: a bar with counts and time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time

from ..words import plural

EVERY = 10.0  # seconds between plain lines


class Progress:
    """Counts what is done; `done` says what came of a unit."""

    def __init__(self, total: int, before: int):
        self.total, self.count, self.before = total, 0, before
        self.troubles = 0
        self._started = self._said = time.monotonic()
        self._bar = self._task = None
        if sys.stderr.isatty():
            from rich import progress
            from rich.console import Console

            self._bar = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TextColumn("{task.fields[trouble]}"),
                progress.TimeElapsedColumn(),
                progress.TextColumn("left:"),
                progress.TimeRemainingColumn(elapsed_when_finished=False),
                console=Console(stderr=True),
            )
            self._bar.start()
            self._task = self._bar.add_task("grading", total=total, trouble="")
        else:
            known = f", {before} known from before" if before else ""
            self._say(f"grading {plural(total, 'kernel')}{known}")

    def more(self, units: int) -> None:
        """There is more to do than was known."""
        self.total += units
        if self._bar is not None:
            self._bar.update(self._task, total=self.total)

    def done(self, status: str) -> None:
        self.count += 1
        self.troubles += status != "judged"
        trouble = (
            f"{self.troubles} not judged (crash, time limit, grader's fault)"
            if self.troubles
            else ""
        )
        if self._bar is not None:
            self._bar.update(self._task, advance=1, trouble=trouble)
            return
        now = time.monotonic()
        if now - self._said >= EVERY or self.count == self.total:
            self._said = now
            left = (now - self._started) / self.count * (self.total - self.count)
            extra = f", {trouble}" if trouble else ""
            self._say(f"{self.count} of {self.total} graded{extra}, about {left:,.0f} s left")

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    @staticmethod
    def _say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)
