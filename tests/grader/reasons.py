"""Why a check does not pass: what a question of `run` or `evidence` raises in place of an answer."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Wrong(Exception):
    """A check fails: what was seen, the concept at fault, the learner's line if one is known.

    `gist`: the message, or what of it is the same in every case.
    """

    def __init__(self, message: str, cause: str, line: int | None = None):
        super().__init__(message)
        self.message, self.cause, self.line = message, cause, line or None
        self.gist = message


class Known(Wrong):
    """A check fails, and the numbers are those of a mistake that has been seen before."""


class Waits(Wrong):
    """A check fails because what it builds on is not right yet; that has a check of its own."""


class Unusable(Wrong):
    """The file as a whole cannot be judged: every check fails, for this one reason."""


class Stops(Wrong):
    """The file raises an exception in a case: what is asked behind that line has no answer yet."""

    def __init__(self, message: str, cause: str, line: int | None, case: str):
        super().__init__(f"{message} ({case})", cause, line)
        self.gist = message


class NotJudged(Exception):
    """This machine cannot tell; never a pass, never a failure."""


class RightOnCard(NotJudged):
    """The trace lane cannot tell, but on the card every case is right: as good as a pass."""


class Blame(NamedTuple):
    """Elements that no kernel wrote: the concept at fault, where they are, of which result."""

    concept: str
    missing: torch.Tensor
    part: int
