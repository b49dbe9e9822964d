"""`tf.Session.reset`: what is on a cluster is dropped, with the sessions of one master.

Called by: client.session.  Threads: any.
"""

from __future__ import annotations

from headrace.client.target import master_at
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.connect.readiness import wait_for_server
from headrace.serve.rpc import methods
from headrace.serve.rpc.pool import GrowingPool
from headrace.serve.rpc.security import Security


def reset(
    target: str,
    containers: list[str],
    config: pb.ConfigProto | None,
    security: Security | None = None,
) -> None:
    """Empty containers on the cluster and close the sessions of the master at `target`."""
    pool = GrowingPool("headrace reset")
    master = master_at(target, pool, security)
    filters = list(config.device_filters) if config is not None else []
    request = pb.ResetRequest(container=containers, device_filters=filters)
    timeout_ms = config.operation_timeout_in_ms if config is not None else 0
    try:
        with Scope(timeout_ms / 1000 if timeout_ms > 0 else None) as scope:
            wait_for_server(
                master.call(methods.RESET, request, scope, wait_for_ready=True), master, scope, pool
            )
    finally:
        master.close()
        pool.shutdown(wait=False)
