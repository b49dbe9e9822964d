"""NumPy's floating-point warnings, off for the time of a step.

`was = suppress_warnings()` before, and `restore_warnings(was)` in a finally after.

The same as ``np.errstate(all="ignore")`` around the step, which takes 1 us: a third of a small step.  NumPy keeps that
setting in a context variable; which one, and what it holds then, is looked up once, with `np.errstate` itself.
Called by: run.exec.program, run.exec.dataflow.  Threads: any; the setting is the thread's own.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from typing import Any

import numpy as np


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
        return copy_context()


def _enter() -> Any:
    state = np.errstate(all="ignore")
    state.__enter__()
    return state


def _leave(state: Any) -> None:
    state.__exit__(None, None, None)


suppress_warnings, restore_warnings = _switch()
