"""Limits that an operator sets: what a few bytes of a graph or a file may ask a process to make, or to do.

A message is bounded where it is received.  What is bounded here is what grows on the way: text that is padded or
repeated, compressed data, images, patterns.  Each limit is a variable of the environment, read when it is needed, so a
program may set it for itself; an error names the limit and how to raise it.
Called by: codec, run, ops, serve.server.  Threads: any.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from headrace.base import errors


class Limit(NamedTuple):
    """One setting: a variable of the environment and what holds without it."""

    variable: str
    default: int
    unit: str

    def value(self) -> int:
        """What the environment says, else the default.  Raises InvalidArgument: no whole number above 0."""
        text = os.environ.get(self.variable, "").strip()
        if not text:
            return self.default
        if not (text.isascii() and text.isdecimal() and int(text) > 0):
            raise errors.invalid_argument(
                f"{self.variable}={text!r} is not a number of {self.unit} above 0"
            )
        return int(text)

    def exceeded(self, what: str, limit: int) -> errors.OpError:
        """The ResourceExhausted of `what`, which would be more than `limit`."""
        return errors.resource_exhausted(
            f"{what}, more than the {limit} {self.unit} that {self.variable} allows in this process; whoever runs it "
            f"may set {self.variable} higher"
        )

    def check(self, size: int, what: str) -> None:
        """Raises ResourceExhausted if `size` is above the limit; `what` goes before the number, as "it has"."""
        limit = self.value()
        if size > limit:
            raise self.exceeded(f"{what} {size} {self.unit}", limit)


EXPANDED_BYTES: Final = Limit("HEADRACE_MAX_EXPANDED_BYTES", 1 << 30, "bytes")
"""What one operation may make beyond the bytes that it was given; one record of a compressed file; one image."""
PATTERN_BYTES: Final = Limit("HEADRACE_MAX_PATTERN_BYTES", 1 << 14, "bytes")
"""A regular expression, of which RE2 may make twice as many instructions.  Its binding holds the interpreter's lock
while it compiles: for 0.4 s at worst with 16 KiB, and for up to four times as long with twice as much."""
PATTERN_STEPS: Final = Limit("HEADRACE_MAX_PATTERN_STEPS", 10**11, "steps")
"""What one search may take at worst: instructions of the compiled pattern times bytes of the string."""
UNCLAIMED_BYTES: Final = Limit("HEADRACE_MAX_UNCLAIMED_BYTES", 1 << 32, "bytes")
"""What other tasks may have sent to a task for steps that nobody has begun there."""
PARTIAL_RUNS: Final = Limit("HEADRACE_MAX_PARTIAL_RUNS", 1000, "partial runs")
"""Those of one session that have begun and not ended."""
_ALL: Final = (EXPANDED_BYTES, PATTERN_BYTES, PATTERN_STEPS, UNCLAIMED_BYTES, PARTIAL_RUNS)


def check_settings() -> None:
    """Raises InvalidArgument if the environment sets a limit to something that is none."""
    for limit in _ALL:
        limit.value()


class Growth:
    """How many bytes one operation may still make beyond those that it was given."""

    __slots__ = ("_limit", "_made", "_what")

    def __init__(self, what: str) -> None:
        """what: what grows, as the beginning of a sentence: "the strings that are joined here"."""
        self._what = what
        self._limit = EXPANDED_BYTES.value()
        self._made = 0

    def add(self, size: int) -> None:
        """Count `size` bytes that are about to be made.  Raises ResourceExhausted."""
        self._made += size
        if self._made > self._limit:
            raise EXPANDED_BYTES.exceeded(
                f"{self._what} would take {self._made} bytes or more", self._limit
            )
