"""Which transports this process uses: gRPC at servers' addresses, the lane beside it, or what a program chooses.

Called by: serve.server (listens), serve.connect (connects), client.remote.  Threads: any; they are chosen before there
is any server or session.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from headrace.base import errors
from headrace.base.imports import collects_nothing
from headrace.serve.rpc.transport import Transport


class Transports(NamedTuple):
    """main: over which servers listen at their addresses.  beside: a better one, where a server offers it.

    local: servers of this process are called without any.
    """

    main: Transport
    beside: Transport | None
    local: bool = True


_chosen: Transports | None = None


def transports() -> Transports:
    """Those in use."""
    global _chosen
    if _chosen is None:
        with collects_nothing():
            from headrace.serve.grpc.transport import TRANSPORT as GRPC
            from headrace.serve.lane.transport import TRANSPORT as LANE

        _chosen = Transports(GRPC, LANE)
    return _chosen


def calls_local_servers() -> bool:
    """Whether servers of this process are called without any transport.  Loads none."""
    return _chosen is None or _chosen.local


@contextmanager
def using(chosen: Transports) -> Iterator[None]:
    """Servers and sessions of this process that are made inside use these."""
    global _chosen
    before, _chosen = _chosen, chosen
    try:
        yield
    finally:
        _chosen = before


def direct_steps() -> bool:
    """Whether clients ask tasks for steps without their master: ``HEADRACE_DIRECT``, on or off.

    Not without a transport beside the main one.  Raises InvalidArgument.
    """
    text = os.environ.get("HEADRACE_DIRECT", "").strip().lower() or "on"
    if text not in ("on", "off"):
        raise errors.invalid_argument(f"HEADRACE_DIRECT={text!r} is not understood: say on or off")
    if text == "off":
        return False
    beside = transports().beside
    return beside is not None and beside.on
