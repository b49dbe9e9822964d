"""The end of the interpreter, as sessions see it.

Sessions that a program leaves open are closed then, on servers too.  Daemon threads may still be in steps of theirs;
such a thread is stopped at its next step of the interpreter anyway, so it stays where it is, and nobody reads in its
last moment that its session was closed.  Other threads have ended by then, or are the one that ends the interpreter.
Called by: client.remote (`begin`), client.session.  Threads: any.
"""

from __future__ import annotations

import threading

_begun = threading.Event()


def begin() -> None:
    """The interpreter is about to end; non-daemon threads have ended."""
    _begun.set()


def stay() -> None:
    """Never return, if the interpreter ends and this is one of the threads that it does not wait for."""
    if _begun.is_set() and threading.current_thread().daemon:
        threading.Event().wait()
