"""What a launch prints: its tasks' lines, each behind the task's name, and a table below them on a terminal.

Called by: supervisor, command.  Threads: one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TextIO

_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92)
_BREAK = re.compile(rb"\r\n|\n|\r")
MOST_LINE_BYTES = 65_536


class Console:
    """Lines go to `out` and `err`; a table that is set is kept below them, if `out` is a terminal."""

    def __init__(self, out: TextIO, err: TextIO, names: Sequence[str]) -> None:
        self._out, self._err = out, err
        self._width = max(map(len, names), default=0)
        self._colours = {name: _COLOURS[n % len(_COLOURS)] for n, name in enumerate(names)}
        self.is_terminal = out.isatty()
        self._coloured = {
            stream: stream.isatty() and not os.environ.get("NO_COLOR") for stream in (out, err)
        }
        self._table: list[str] = []
        self._shown = 0

    def line(self, name: str, text: str, is_error: bool = False) -> None:
        """A line of a task's.  A stream that nobody reads any more is given up; the tasks go on."""
        stream = self._err if is_error else self._out
        prefix = f"[{name}]".ljust(self._width + 2)
        if self._coloured[stream]:
            prefix = f"\x1b[{self._colours.get(name, 1)}m{prefix}\x1b[0m"
        self._write(stream, f"{prefix} {text}\n")

    def say(self, text: str) -> None:
        """A line of the launch's own."""
        self._write(self._err, f"headrace launch: {text}\n")

    def table(self, text: str) -> None:
        """Show it below all lines, in place of the one before."""
        self._table = text.splitlines()
        self._write(self._out, "")

    def _write(self, stream: TextIO, text: str) -> None:
        try:
            if self._shown:
                self._out.write(f"\x1b[{self._shown}A\r\x1b[J")
                self._shown = 0
                if stream is not self._out:
                    self._out.flush()
            if text:
                stream.write(text)
                stream.flush()
            if self._table:
                self._out.write("".join(f"{line}\n" for line in self._table))
                self._out.flush()
                self._shown = len(self._table)
        except (OSError, ValueError):
            self._table, self._shown = [], 0


class Lines:
    """Cuts what a task writes into lines; a carriage return ends one, too, so that progress bars are seen."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """The lines that are whole now.  One of more than 64 KiB is cut."""
        text = self._rest + data
        held = b""
        if text.endswith(b"\r"):  # a newline may follow
            text, held = text[:-1], b"\r"
        *whole, rest = _BREAK.split(text)
        while len(rest) > MOST_LINE_BYTES:
            whole.append(rest[:MOST_LINE_BYTES])
            rest = rest[MOST_LINE_BYTES:]
        self._rest = rest + held
        return [each.decode(errors="replace") for each in whole]

    def end(self) -> list[str]:
        """What was left without an end."""
        rest, self._rest = self._rest.rstrip(b"\r"), b""
        return [rest.decode(errors="replace")] if rest else []
