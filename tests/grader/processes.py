"""How much processor time a process and its children have had, as Linux tells it."""

from __future__ import annotations

import os
from pathlib import Path

MOST = 200  # processes that are looked at: who starts more need not be told apart from a bomb


def family_time(pid: int | None) -> tuple[float, bool]:
    """Seconds of processor time of a process and all it started, and whether any wants more now.

    (0.0, False) for a process that is gone, or that this one may not see.
    """
    ticks, wants_more = 0, False
    family = [] if pid is None else [pid]
    for one in family:
        folder = Path(f"/proc/{one}")
        try:
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, stat[11:15]))  # its own, and of children that have ended
            wants_more |= stat[0] in "RD"
            for children in folder.glob("task/*/children"):
                family += map(int, children.read_text().split())
        except (OSError, ValueError):
            continue
        del family[MOST:]
    return ticks / os.sysconf("SC_CLK_TCK"), wants_more
