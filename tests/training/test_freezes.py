"""docs/blocked_steps.md: its programs stand still, and headrace prints what the page says."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.run import long_waits

PAGE = Path(__file__).resolve().parents[2] / "docs" / "blocked_steps.md"
FREEZES = {
    title: (program, printed.strip().splitlines())
    for title, program, printed in re.findall(
        r"^### (.+?)\n```python\n(.+?)```\n\n```text\n(.+?)```",
        PAGE.read_text(),
        re.MULTILINE | re.DOTALL,
    )
}

CHANGES = [
    (r"\b[\d.]+ (?:s|min)\b", "N s"),
    (r"\bstep \d+\b", "step N"),
    (r"session [0-9a-f]{16} \([^)]*\)", "session S (PROGRAM)"),
]
"""What is not the same each time: how long, which, and who."""


def normal(line: str) -> str:
    for pattern, instead in CHANGES:
        line = re.sub(pattern, instead, line)
    return line


class Log(logging.Handler):
    """Lines of the log, as they come."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        with self._changed:
            self._lines += record.getMessage().splitlines()
            self._changed.notify_all()

    def until(self, wanted: list[str]) -> None:
        """Block until all of the lines that are wanted have come, in whatever order."""
        missing = {normal(line) for line in wanted}
        with self._changed:
            there = self._changed.wait_for(
                lambda: missing <= {normal(line) for line in self._lines}, 60
            )
            assert there, "\n".join(["these came:", *self._lines])


@pytest.fixture
def log() -> Iterator[Log]:
    before, log = long_waits.threshold_s, Log()
    long_waits.report_after(0.02)
    logging.getLogger("headrace").addHandler(log)
    yield log
    logging.getLogger("headrace").removeHandler(log)
    long_waits.report_after(before)


class Program:
    """A program of the page, in a thread of its own; leaving the block ends it."""

    def __init__(self, source: str) -> None:
        self.names: dict[str, Any] = {}
        self.error: BaseException | None = None
        self._code = compile(source, "train.py", "exec")
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            with tf.Graph().as_default():
                exec(self._code, self.names)
        except BaseException as error:
            self.error = error

    def __enter__(self) -> Program:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        for name in ("sess", "server"):
            if name in self.names:
                getattr(self.names[name], "close" if name == "sess" else "stop")()
        runners = [t for t in threading.enumerate() if t.name.startswith("QueueRunnerThread-")]
        for thread in (self._thread, *runners):
            thread.join(60)
            assert not thread.is_alive(), thread.name


def test_the_page_has_six_freezes() -> None:
    assert len(FREEZES) == 6


@pytest.mark.parametrize("title", FREEZES)
def test_a_freeze_is_explained(title: str, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)  # a QueueRunner's thread may fail
    program, printed = FREEZES[title]
    with Program(program) as running:
        log.until(printed)
    assert isinstance(running.error, tf.errors.OpError), "it did not stand still"
