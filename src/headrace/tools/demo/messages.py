"""What the demo's programs tell their parent: one JSON object a line on stdout.

Every message has `event` (its kind) and `time` (seconds since the epoch, so that lines of several
processes of one machine can be put on one axis).

Called by: loader, trainer (emit); collect, run (parse).
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

Message = dict[str, Any]


def emit(event: str, **fields: Any) -> None:
    """Write one message and flush it, so that the parent sees it now."""
    sys.stdout.write(json.dumps({"event": event, "time": time.time(), **fields}) + "\n")
    sys.stdout.flush()


def parse(line: str) -> Message | None:
    """The message in a line, or None if the line is something else that was printed."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) and "event" in message else None
