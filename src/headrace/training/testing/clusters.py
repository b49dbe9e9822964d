"""Clusters of tests, in their own process.

A file of its own: most tests need no servers, and do not import them.
Called by: programs.  Threads: those of the servers.
"""

from __future__ import annotations

import socket
from typing import Any

from headrace.serve.cluster import ClusterSpec
from headrace.serve.server import Server

__all__ = ["create_local_cluster"]


def create_local_cluster(
    num_workers: int,
    num_ps: int,
    protocol: str = "grpc",
    worker_config: Any = None,
    ps_config: Any = None,
) -> tuple[list[Server], list[Server]]:
    """Start jobs "worker" and "ps" as servers of this process, at ports of localhost that the system chooses.

    Returns the servers of both; `Server.stop` ends each, or the end of the process.
    Raises as Server does.
    """
    free = [socket.create_server(("localhost", 0)) for _ in range(num_workers + num_ps)]
    hosts = [f"localhost:{each.getsockname()[1]}" for each in free]
    for each in free:
        each.close()
    jobs = {"worker": hosts[:num_workers], "ps": hosts[num_workers:]}
    cluster = ClusterSpec({job: tasks for job, tasks in jobs.items() if tasks})
    made = {
        job: [
            Server(cluster, job, index, protocol, config=config) for index in range(len(jobs[job]))
        ]
        for job, config in (("worker", worker_config), ("ps", ps_config))
    }
    return made["worker"], made["ps"]
