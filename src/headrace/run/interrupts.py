"""Interrupts: Ctrl-C does not land inside a change of a queue, a variable or the like; it completes, or never began.

Python raises KeyboardInterrupt between any two instructions of the main thread.  With `install`, one that comes while
that thread changes what steps share is put off until it is out of there, which is a matter of microseconds.  A wait is
no change; the beginning of a call over gRPC is treated as one.  It costs nothing but at Ctrl-C, when the stack is
looked at.  A program that has a handler of its own for SIGINT keeps that.

Who would have a handler of their own only in the place of Python's (asyncio.run, trio.run) compares with
`signal.default_int_handler`, and puts that back afterwards.  So that name stands for this handler, too, which does what
Python's does, only now and then a moment later.
Called by: client.session.  Threads: the main one; others are not interrupted.
"""

from __future__ import annotations

import _thread
import os
import signal
import threading
import time
from types import FrameType

from headrace.run.pending import Pending

_SOON_S = 0.001

_RUN = (
    "accumulators", "barrier", "closing", "columns", "fifo_queue", "lines", "padding_queue", "pending",
    "priority_queue", "pump", "queues", "rendezvous", "resources", "shuffle_queue", "sparse_maps", "stacks", "staging",
    "tensor_arrays", "variable",
)  # fmt: skip
_OPS = (
    "adaptive_ops", "assigning", "proximal_ops", "resource_scatter", "resource_variable_ops", "slicing", "state",
    "training_ops", "update_rules",
)  # fmt: skip
_SERVE = ("grpc_client",)  # a call that has begun is noted; and grpcio's locks are not made for it
_HERE = os.path.dirname(__file__)
CHANGING = frozenset(
    [os.path.join(_HERE, f"{name}.py") for name in _RUN]
    + [os.path.join(os.path.dirname(_HERE), "ops", f"{name}.py") for name in _OPS]
    + [os.path.join(os.path.dirname(_HERE), "serve", f"{name}.py") for name in _SERVE]
)
"""Source files of which everything that runs counts as a change."""

TAKING = frozenset(
    (os.path.join(_HERE, f"{name}.py"), function)
    for name, functions in (
        ("program", ("Program._execute", "Program._run_straight", "_Execution._start", "_Execution._take_over")),
        ("dataflow", ("_Execution._executed", "_Execution._started")),
    )
    for function in (*functions, "_Execution.run", "_Execution._abandon")
)  # fmt: skip
"""Functions between the start of what may wait and the note of it, or between the end of a step and the withdrawal of
what it notes.  Not what they call."""

_WAITS = Pending.wait.__code__

PYTHONS_OWN = signal.default_int_handler

_put_off = False


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
    if not _changes(frame):
        PYTHONS_OWN(number, frame)
    elif not _put_off:
        _put_off = True
        _thread.start_new_thread(
            _again, (number,)
        )  # threading's locks may be held by who is interrupted


def _changes(frame: FrameType | None) -> bool:
    """Whether what is interrupted there changes what steps share, or has just begun to."""
    if frame is not None and (frame.f_code.co_filename, frame.f_code.co_qualname) in TAKING:
        return True
    while frame is not None and frame.f_code is not _WAITS:
        if frame.f_code.co_filename in CHANGING:
            return True
        frame = frame.f_back
    return False


def _again(number: int) -> None:
    global _put_off
    time.sleep(_SOON_S)
    _put_off = False
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, number)
