"""The log of `log_device_placement`: one line a node, as TensorFlow writes them.

Called by: client.local, client.remote.  Threads: any.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

_log = logging.getLogger("headrace")


def log_placement(nodes: Iterable[tuple[str, str, str]], logged: set[str]) -> None:
    """Log (name, op, device) of the nodes that are not in `logged`, and add them to it."""
    for name, op, device in nodes:
        if name not in logged:
            logged.add(name)
            _log.warning("%s: (%s): %s", name, op, device)
