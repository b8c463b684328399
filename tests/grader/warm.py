"""A judge that stays warm: suites and torch are loaded once, then a verdict takes a second.

`nox -s watch` keeps one. A verdict comes in two steps: what a few decisive cases of the trace lane say
at once, then the whole. `begin` breaks off what is under way, as the file has been saved again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .cost import section
from .evidence import Collected
from .grading import grade, suite
from .judge import Nursery
from .kata import Kata, shortened
from .scorecard import TO_COME, Scorecard

# How many cases of which groups decide most: a full block, a ragged one, and what shows the block.
DECISIVE = {"probe": 1, "full": 1, "ragged": 1}


@dataclass
class Verdict:
    """What is known of a file. `whole`: that is all; otherwise some checks are still to come."""

    card: Scorecard
    whole: bool
    printed: str = ""
    cost: list[tuple[str, str]] | None = None
    speed: float | None = None


class WarmJudge:
    """One judge for many checks, one after the other."""

    def __init__(self, lanes: dict[str, bool], nursery: Nursery, seed: str = "katas"):
        self.lanes, self.seed, self.nursery = lanes, seed, nursery
        self._lock = threading.Lock()
        self._turn = 0
        self._running: Collected | None = None

    def begin(self) -> int:
        """The number of the next turn; what was under way in earlier ones ends, from any thread."""
        with self._lock:
            self._turn += 1
            running, self._running = self._running, None
        if running is not None:
            running.abandon()
        return self._turn

    def verdicts(self, kata: str, file: Path, turn: int) -> Iterator[Verdict]:
        """What a few cases say, then the whole; nothing more once another turn has begun."""
        traced: dict = {}
        statement = suite(kata).KATA
        if isinstance(statement, Kata) and self.lanes.get("trace"):
            few = shortened(statement, DECISIVE)
            left_out = frozenset(case.group for case in statement.cases) - DECISIVE.keys()
            only = {lane: lane == "trace" for lane in self.lanes}
            card, _ = self._grade(turn, kata, file, only, left_out, traced, few)
            for check in card.checks:
                # The whole may yet clear these up; and what waits for others says so at the end.
                if check.status in ("not-judged", "error") or check.waits:
                    check.decide("not-judged", TO_COME)
            if turn != self._turn:
                return
            if any(check.status != "not-judged" for check in card.checks):
                yield Verdict(card, whole=False)
        card, evidence = self._grade(turn, kata, file, self.lanes, frozenset(), traced, statement)
        if turn == self._turn:
            speed = min(evidence.speeds, default=None)
            cost = section(evidence, card.checks)
            yield Verdict(card, True, evidence.printed, cost, speed)

    def _grade(
        self, turn: int, kata: str, file: Path, lanes, left_out, traced: dict, statement
    ) -> tuple[Scorecard, Collected]:
        seen: list[Collected] = []

        def began(evidence: Collected) -> None:
            seen.append(evidence)
            with self._lock:
                self._running = evidence
                late = turn != self._turn
            if late:
                evidence.abandon()

        card = grade(
            kata,
            file,
            self.nursery,
            lanes,
            self.seed,
            without=left_out,
            traced=traced,
            statement=statement,
            began=began,
        )
        return card, seen[0]

    def close(self) -> None:
        self.begin()
        self.nursery.close()
