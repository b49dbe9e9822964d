"""Interrupts: Ctrl-C does not land inside a change of a queue, a variable or the like; it completes, or never began.

Python raises KeyboardInterrupt between any two instructions of the main thread.  With `install`, one that comes while
that thread changes what steps share is put off until it is out of there, which is a matter of microseconds.  What does
that says so (`run.uninterrupted`).  A wait is no change; the beginning of a call over gRPC is treated as one.  It costs
nothing but at Ctrl-C, when the stack is looked at.  A program that has a handler of its own for SIGINT keeps that.

Who would have a handler of their own only in the place of Python's (asyncio.run, trio.run) compares with
`signal.default_int_handler`, and puts that back afterwards.  So that name stands for this handler, too, which does what
Python's does, only now and then a moment later.
Called by: client.session.  Threads: the main one; others are not interrupted.
"""

from __future__ import annotations

import _thread
import signal
import threading
import time
from types import FrameType

from headrace.run.pending import Pending
from headrace.run.uninterrupted import CHANGING, TAKING

_SOON_S = 0.001
_SELDOM_S = 0.05

_WAITS = Pending.wait.__code__

PYTHONS_OWN = signal.default_int_handler

_put_off: object | None = None  # what stands for the one that is put off
_ignores = False  # what is left of one that has been heard


def install() -> None:
    """See the module header.  For the main thread, as long as it has Python's own handler; else nothing happens."""
    if (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is PYTHONS_OWN
    ):
        signal.signal(signal.SIGINT, _handle)
        signal.default_int_handler = _handle  # type: ignore[assignment]


def _handle(number: int, frame: FrameType | None) -> None:
    global _put_off
    if _ignores:
        return
    if not is_changing(frame):
        if _put_off is not None:
            _put_off = None
            _let_the_last_one_come()
        PYTHONS_OWN(number, frame)
    elif _put_off is None:
        _put_off = object()
        _thread.start_new_thread(
            _again, (number, _put_off)
        )  # threading's locks may be held by who is interrupted


def waits() -> bool:
    """Whether this thread, which is in a change, is to come out of it for a Ctrl-C that is put off."""
    return _put_off is not None and threading.current_thread() is threading.main_thread()


def _let_the_last_one_come() -> None:
    """One may have been sent again just before this one was heard: it is the same Ctrl-C."""
    global _ignores
    _ignores = True
    try:
        time.sleep(
            0
        )  # what was sent to this thread comes at the latest when a call of the system returns
    finally:
        _ignores = False


def is_changing(frame: FrameType | None) -> bool:
    """Whether what is interrupted there changes what steps share, or has just begun to."""
    if frame is not None and frame.f_code in TAKING:
        return True
    while frame is not None and frame.f_code is not _WAITS:
        if frame.f_code in CHANGING:
            return True
        frame = frame.f_back
    return False


def _again(number: int, put_off: object) -> None:
    """Send it once more, until it is heard: one that comes just before the thread begins to wait does not wake it."""
    global _put_off
    main = threading.main_thread().ident
    assert main is not None
    pause = _SOON_S
    while _put_off is put_off:
        time.sleep(pause)
        if _put_off is put_off:
            signal.pthread_kill(main, number)
        if signal.getsignal(number) is not _handle:  # it is somebody else's from now on
            _put_off = None
        pause = min(2 * pause, _SELDOM_S)
