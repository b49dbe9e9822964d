"""What NumPy is told for the time of a step: no floating-point warnings, and buffers that are short.

`was = suppress_warnings()` before, and `restore_warnings(was)` in a finally after.

The same as ``np.errstate(all="ignore")`` and ``np.setbufsize(BUFFER)`` around the step, which take 2 us: half of a
small step.  NumPy keeps both settings in a context variable; which one, and what it holds then, is looked up once, with
`np.errstate` itself.

Where an array is broadcast, or its rows are apart in memory, NumPy's ufuncs put as many elements as the buffer has into
one, row by row, and work on that; rows that are as long as the buffer they read and write as they lie.  So with a
buffer of 1,024 elements what is added to each row of a large matrix takes two thirds of the time that it takes with
NumPy's own choice of 8,192; what has shorter rows, and what is converted, takes as long as before (`ops._kernels.runs`
has those).
Called by: run.exec.program, run.exec.dataflow.  Threads: any; the setting is the thread's own.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Final

import numpy as np

BUFFER: Final = 1024
"""Elements of the buffers of NumPy's ufuncs in a step, and in the threads that help with one."""


def _switch() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    before, quiet = copy_context(), _quiet_context()
    changed = [v for v in quiet if v not in before or quiet[v] is not before[v]]
    if len(changed) != 1:
        return _enter, _leave
    (variable,) = changed
    set_to, value = variable.set, quiet[variable]
    return partial(set_to, value), variable.reset


def _quiet_context() -> Context:
    with np.errstate(all="ignore"):
        np.setbufsize(BUFFER)
        return copy_context()


def _enter() -> Any:
    state = np.errstate(all="ignore")
    state.__enter__()
    np.setbufsize(BUFFER)  # until the state is left
    return state


def _leave(state: Any) -> None:
    state.__exit__(None, None, None)


suppress_warnings, restore_warnings = _switch()
