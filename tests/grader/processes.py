"""What Linux tells of a process: the processor time of its family, and whether it is ending."""

from __future__ import annotations

import os
import signal

EXITING = 0x4  # of a task's flags, PF_EXITING
MOST = 200  # processes that are looked at: who starts more need not be told apart from a bomb


def family_time(pid: int | None) -> tuple[float, bool]:
    """Seconds of processor time of a process and all it started, and whether any wants more now.

    (0.0, False) for a process that is gone, or that this one may not see.
    """
    ticks, wants_more = 0, False
    family = [] if pid is None else [pid]
    for one in family:
        try:
            stat = _stat(one)
            ticks += sum(map(int, stat[11:15]))  # its own, and of children that have ended
            wants_more |= stat[0] in "RD"
            for thread in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{thread}/children") as children:
                    family += map(int, children.read().split())
        except (OSError, ValueError):
            continue
        del family[MOST:]
    return ticks / os.sysconf("SC_CLK_TCK"), wants_more


def is_ending(pid: int) -> bool:
    """Whether a process is gone, or has been killed and is not gone yet: a large one takes a while."""
    try:
        stat = _stat(pid)
    except OSError:
        return True
    flags, pending = int(stat[6]), int(stat[28])
    return stat[0] in "ZX" or bool(flags & EXITING) or bool(pending >> (signal.SIGKILL - 1) & 1)


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third one, the state, on."""
    with open(f"/proc/{pid}/stat", errors="replace") as file:
        return file.read().rpartition(")")[2].split()
