"""Polling: how a long kernel learns that its step is to end.

A step polls its scope before a kernel, never in one (`plan.cost_model`).  A kernel whose work is not bounded by the
size of its arrays (`POLLS` among its traits) calls `poll` between pieces of it.  The program that runs such kernels
makes its step's scope the current one of the thread; where there is none, `poll` does nothing.
Called by: run.exec.program, run.exec.dataflow (`current`, `use`), ops (`poll`).  Threads: each has a scope of its own.
"""

from __future__ import annotations

import threading

from headrace.base import errors
from headrace.run.scope import Scope
from headrace.run.uninterrupted import changes


class _Current(threading.local):
    scope: Scope | None = None


_current = _Current()


def current() -> Scope | None:
    """The scope that kernels on this thread poll; to be set back by `use`, so that Ctrl-C in between leaves it."""
    return _current.scope


@changes
def use(scope: Scope | None) -> None:
    """Make `scope` the one that kernels on this thread poll."""
    _current.scope = scope


def poll() -> None:
    """Raise an error like that of the step's scope (Cancelled, DeadlineExceeded, Unavailable, …) if it has ended."""
    poll_for(_current.scope)


def poll_for(scope: Scope | None) -> None:
    """`poll`, of a thread that works for the step of another: `scope` is what that had current."""
    if scope is not None and (error := scope.error) is not None:
        raise errors.make(
            error.error_code, f"{error.message}; the step was stopped in the middle of an operation"
        ) from error
