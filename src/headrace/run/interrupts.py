"""Interrupts: Ctrl-C does not land inside a change of a queue, a variable or the like; it completes, or never began.

Python raises KeyboardInterrupt between any two instructions of the main thread.  With `install`, one that comes while
that thread changes what steps share is put off until it is out of there, which is a matter of microseconds.  What does
that says so (`run.uninterrupted`).  A wait is no change; the beginning of a call over gRPC is treated as one.  It costs
nothing but at Ctrl-C, when the stack is looked at.  A program that has a handler of its own for SIGINT keeps that.

Python tells nobody but `sys.unraisablehook` of what is raised in a `__del__`, in a callback of the garbage collector or
of a weak reference, which run in the middle of anything.  A KeyboardInterrupt that lands there is sent again, too.
A `__del__` may also swallow it (that of a gRPC channel does), so it is put off there: for a while, since one that hangs
is to end.

Who would have a handler of their own only in the place of Python's (asyncio.run, trio.run) compares with
`signal.default_int_handler`, and puts that back afterwards.  So that name stands for this handler, too, which does what
Python's does, only now and then a moment later.
Called by: client.session.  Threads: the main one; others are not interrupted.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from types import FrameType, TracebackType

from headrace.run.pending import Pending
from headrace.run.uninterrupted import CHANGING, TAKING, changes

_SOON_S = 0.001
_SELDOM_S = 0.05
_FINALIZER_S = 1.0

_WAITS = Pending.wait.__code__

PYTHONS_OWN = signal.default_int_handler


class _PutOff:
    """What stands for one that is put off."""

    def __init__(self) -> None:
        self.since = time.monotonic()


_put_off: _PutOff | None = None
_ignores = False  # what is left of one that has been heard
_sending = _thread.RLock()  # the main thread may hear another one while it has it


def _begin_anew() -> None:
    """In a fork's child nobody sends anything again."""
    global _put_off, _sending
    _put_off, _sending = None, _thread.RLock()


os.register_at_fork(after_in_child=_begin_anew)


def install() -> None:
    """See the module header.  For the main thread, as long as it has Python's own handler; else nothing happens."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is PYTHONS_OWN:
        signal.signal(signal.SIGINT, _handle)
        signal.default_int_handler = _handle  # type: ignore[assignment]
    elif signal.getsignal(signal.SIGINT) is not _handle:
        return
    if not isinstance(sys.unraisablehook, _Hook):
        sys.unraisablehook = _Hook()


@changes
class _Hook:
    """A `sys.unraisablehook` that is told of no KeyboardInterrupt of ours, but has it sent again."""

    def __init__(self) -> None:
        self._before = sys.unraisablehook

    def __call__(self, told: sys.UnraisableHookArgs) -> None:
        if told.exc_type is KeyboardInterrupt and _is_ours(told.exc_traceback):
            _send_again(signal.SIGINT)
        else:
            self._before(told)


def _is_ours(trace: TracebackType | None) -> bool:
    """Whether it is `_handle` that has raised."""
    raised_by = None
    while trace is not None:
        raised_by, trace = trace.tb_frame.f_code, trace.tb_next
    return raised_by is _handle.__code__


def _handle(number: int, frame: FrameType | None) -> None:
    global _put_off
    if _ignores:
        return
    if is_changing(frame):
        _send_again(number)
    elif _finalizes(frame):
        if time.monotonic() - _send_again(number).since > _FINALIZER_S:
            PYTHONS_OWN(number, frame)
    else:
        if _put_off is not None:
            with _sending:  # from now on nothing is
                _put_off = None
            _let_the_last_one_come()
        PYTHONS_OWN(number, frame)


@changes  # what is sent by then is not to land in who is interrupted, by way of this
def _send_again(number: int) -> _PutOff:
    global _put_off
    known = _put_off
    if known is None:
        known = _put_off = _PutOff()
        _thread.start_new_thread(
            _again, (number, known)
        )  # threading's locks may be held by who is interrupted
    return known


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


def _finalizes(frame: FrameType | None) -> bool:
    """Whether a `__del__` runs there."""
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


def _again(number: int, put_off: _PutOff) -> None:
    """Send it once more, until it is heard: one that comes just before the thread begins to wait does not wake it."""
    global _put_off
    main = threading.main_thread().ident
    assert main is not None
    pause = _SOON_S
    while _put_off is put_off:
        time.sleep(pause)
        with _sending:
            if _put_off is put_off:
                signal.pthread_kill(main, number)
                if signal.getsignal(number) is not _handle:  # it is somebody else's from now on
                    _put_off = None
        pause = min(2 * pause, _SELDOM_S)
