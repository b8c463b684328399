"""Loading torch and triton in half the time."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Import in here without garbage collection; what is alive afterwards is exempt from it for good.

    torch and triton make a quarter of a million objects that stay for as long as the process runs. Every
    collection while they load, in a forked child or at the end visits all of them for nothing.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
