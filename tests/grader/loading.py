"""Loading torch and triton in half the time."""

from __future__ import annotations

import contextlib
import gc
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Import in here without garbage collection; what is alive afterwards is exempt from it for good.

    torch and triton make a quarter of a million objects that stay for as long as the process runs. Every
    collection while they load, in a forked child or at the end visits all of them for nothing.
    """
    gc.disable()
    try:
        with ended_by_interrupts():
            yield
    finally:
        gc.freeze()
        gc.enable()


@contextlib.contextmanager
def ended_by_interrupts() -> Iterator[None]:
    """Let Ctrl-C end this process at once, where it is not ignored.

    Raised within an import it may be swallowed by a bare `except`, which leaves half a module behind,
    or come out of C++ as an abort.
    """
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
