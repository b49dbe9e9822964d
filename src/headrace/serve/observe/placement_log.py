"""The log of `log_device_placement`: one line a node, as TensorFlow writes them.

A master logs what it places, and so does a client whose master is in another process.
Called by: client.local, client.remote, serve.master.master_session.  Threads: any.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

CLIENT = logging.getLogger("headrace")
MASTER = logging.getLogger("headrace.master")


def log_placement(
    nodes: Iterable[tuple[str, str, str]], logged: set[str], log: logging.Logger = CLIENT
) -> None:
    """Log (name, op, device) of the nodes that are not in `logged`, and add them to it."""
    for name, op, device in nodes:
        if name not in logged:
            logged.add(name)
            log.warning("%s: (%s): %s", name, op, device)
