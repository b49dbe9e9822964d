"""Imports of many modules at once, when a program first needs them.

Called by: base.lazy, client.session, serve.connect.transports, serve.grpc.transport.  Threads: any.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collects_nothing() -> Iterator[None]:
    """No pass of the garbage collector inside, if they are on.

    What modules consist of stays, and every pass looks at it again: 25 of 86 ms of processor, of a client's first
    session on a cluster.  Not for what makes garbage.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
