"""HEADRACE_LOG=json: what headrace logs goes to stderr as one JSON object a line.

Loaded by `import headrace` where the environment asks for it, and never otherwise.  The handler takes the records of
the loggers `headrace` and `tensorflow` (as which programs for TensorFlow know it), which then go nowhere else.
Called by: headrace, tests.  Threads: any.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from typing import Any, Final, TextIO

from headrace.base.log_fields import FIELDS

LOGGERS: Final = ("headrace", "tensorflow")


class JsonFormatter(logging.Formatter):
    """A record as a line: `time` (RFC 3339, UTC), `level`, `logger`, `message`, `pid`, `thread`; `error` with a
    traceback; and what the record has as FIELDS.
    """

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`.  No field of a record's own takes the place of one that all have."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        found: dict[str, Any] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
            "thread": record.threadName,
        }
        if record.exc_info:
            found["error"] = self.formatException(record.exc_info)
        return json.dumps({**getattr(record, FIELDS, {}), **found}, default=str)


def install(file: TextIO | None = None) -> logging.Handler:
    """Have the loggers write JSON to `file`, stderr by default."""
    handler = logging.StreamHandler(file)
    handler.setFormatter(JsonFormatter())
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.propagate = False
    return handler


def install_if_asked(asked: str) -> None:
    """asked: the value of HEADRACE_LOG.  One that is not understood is told on stderr, and changes nothing."""
    kind = asked.strip().lower()
    if kind == "json":
        install()
    elif kind not in ("", "text"):
        sys.stderr.write(f"HEADRACE_LOG={asked!r} is not understood: say json or text\n")


install_if_asked(os.environ.get("HEADRACE_LOG", ""))
