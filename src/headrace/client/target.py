"""What a session's target names: the master that it is made on.

Called by: client.remote, client.resetting.  Threads: any.
"""

from __future__ import annotations

from headrace.base import errors
from headrace.serve.peers import Peer, connect
from headrace.serve.pool import GrowingPool
from headrace.serve.security import Security


def address_of(target: str) -> str:
    """host:port of ``grpc://host:port``.  Raises NotFound for a target that is none."""
    if not target.startswith("grpc://") or ":" not in target[len("grpc://") :]:
        raise errors.not_found(
            f"No session factory registered for the given session options: target {target!r} is not understood; "
            "use '' for this process or 'grpc://host:port'"
        )
    return target[len("grpc://") :].rstrip("/")


def master_at(target: str, pool: GrowingPool, security: Security | None) -> Peer:
    """The master at ``grpc://host:port``.  Raises NotFound for a target that is none."""
    address = address_of(target)
    return connect(address, "master", pool, "the server", security)
