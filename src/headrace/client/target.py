"""What a session's target names: the master that it is made on.

Called by: client.remote, client.reset.  Threads: any.
"""

from __future__ import annotations

from headrace.base import errors
from headrace.serve.connect.peers import connect
from headrace.serve.rpc.peer import Peer
from headrace.serve.rpc.pool import GrowingPool
from headrace.serve.rpc.security import Security


def address_of(target: str) -> str:
    """host:port of ``grpc://host:port``.

    Raises NotFound for a target of another kind, InvalidArgument for one that lacks the host or the port.
    """
    kind, found, address = target.partition("grpc://")
    if kind or not found:
        raise errors.not_found(
            f"No session factory registered for the given session options: target {target!r} is not understood; "
            "use '' for this process or 'grpc://host:port'"
        )
    address = address.rstrip("/")
    if ":" not in address:
        raise errors.invalid_argument(
            f'Could not interpret "{address}" as a host-port pair: target {target!r} is not grpc://HOST:PORT'
        )
    return address


def master_at(target: str, pool: GrowingPool, security: Security | None) -> Peer:
    """The master at ``grpc://host:port``.  Raises as `address_of` does."""
    address = address_of(target)
    return connect(address, "master", pool, "the server", security)
