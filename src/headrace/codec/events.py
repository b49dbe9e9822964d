"""Events, the records of event files: encoded by hand, since there may be one a step.

An event file is a TFRecord file of Event messages, the first of which tells the version; readers go by ``tfevents`` in
its name and read those of a directory in the order of their names.
Called by: run.event_files, training.summary_writer.  Threads: pure functions.
Source: TF 1.15 core/util/event.proto, core/util/events_writer.cc, for behaviour
"""

from __future__ import annotations

import struct
from typing import Final

from headrace.codec.varints import packed

FILE_VERSION: Final = 3
GRAPH_DEF: Final = 4
SUMMARY: Final = 5
SESSION_LOG: Final = 7
TAGGED_RUN_METADATA: Final = 8
META_GRAPH_DEF: Final = 9
"""Fields of Event, of which an event has one."""

_WALL_TIME: Final = struct.Struct("<Bd")
_TIME_KEY: Final = 1 << 3 | 1
_STEP_KEY: Final = b"\x10"
_BYTES: Final = 2
_WRITER: Final = b"headrace"
_SOURCE: Final = bytes([10 << 3 | _BYTES, len(_WRITER) + 2, 1 << 3 | _BYTES, len(_WRITER)])


def event(wall_time_s: float, step: int | None, what: int, content: bytes) -> bytes:
    """An Event.  wall_time_s: since 1970; what: a field, whose message or bytes are `content`."""
    start = _WALL_TIME.pack(_TIME_KEY, wall_time_s)
    if step:
        start += _STEP_KEY + packed(step & 0xFFFF_FFFF_FFFF_FFFF)
    return b"".join((start, bytes((what << 3 | _BYTES,)), packed(len(content)), content))


def first_event(wall_time_s: float) -> bytes:
    """What an event file begins with."""
    return event(wall_time_s, None, FILE_VERSION, b"brain.Event:2") + _SOURCE + _WRITER


def file_name(wall_time_s: float, host: str, suffix: str) -> str:
    """Of an event file that begins at that time."""
    return f"events.out.tfevents.{int(wall_time_s):010d}.{host}{suffix}"
