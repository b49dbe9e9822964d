"""Ctrl-C as people press it: at any moment, and once more after a while if nobody hears.

Once is not enough where the handler is Python's own: what lands in a callback of the garbage collector (hypothesis has
one) or in a `__del__` Python tells nobody of, and of what comes right before a call of the system begins it hears late.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

AGAIN_AFTER_S = 10.0  # long enough for a busy machine to have heard of it


@contextmanager
def ctrl_c_when(when: Callable[[], object]) -> Iterator[None]:
    """Inside, Ctrl-C is pressed as soon as `when` has returned, on a thread of its own; it has to end the block."""
    lock, over = threading.Lock(), threading.Event()

    def press() -> None:
        when()
        while not over.is_set():
            with lock:
                if not over.is_set():
                    os.kill(os.getpid(), signal.SIGINT)
            over.wait(AGAIN_AFTER_S)

    presser = threading.Thread(target=press, name="presses Ctrl-C")
    presser.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        with lock:  # nothing is pressed from now on
            over.set()
        presser.join()


def ctrl_c_ends(process: subprocess.Popen[str], within_s: float) -> tuple[str, str]:
    """Press it in a process until that has ended; the rest of its stdout and stderr."""
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        try:
            return process.communicate(timeout=within_s / 2)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError(f"{process.args} goes on in spite of Ctrl-C")
