"""HEADRACE_LOG=json: what is logged, one JSON object a line."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from headrace.base.log_fields import FIELDS
from headrace.base.structured_log import LOGGERS, install, install_if_asked


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    file = io.StringIO()
    handler = install(file)
    yield file
    for name in LOGGERS:
        logging.getLogger(name).removeHandler(handler)
        logging.getLogger(name).propagate = True


def test_a_record_is_a_line_with_its_fields(lines: io.StringIO) -> None:
    log = logging.getLogger("headrace")
    log.warning("step %d\nwaits", 7, extra={FIELDS: {"step": 7, "message": "not this one"}})
    (line,) = lines.getvalue().splitlines()
    found = json.loads(line)
    assert (found["level"], found["logger"], found["message"]) == (
        "warning",
        "headrace",
        "step 7\nwaits",
    )
    assert found["step"] == 7
    assert found["time"].endswith("Z")
    assert len(found["time"]) == len("2026-01-01T00:00:00.000Z")


def test_errors_are_told_with_their_traceback(lines: io.StringIO) -> None:
    try:
        raise ValueError("what is wrong")
    except ValueError:
        logging.getLogger("headrace.master").exception("it failed")
    (line,) = lines.getvalue().splitlines()
    found = json.loads(line)
    assert found["logger"] == "headrace.master"
    assert found["error"].endswith("ValueError: what is wrong")


def test_a_word_that_is_not_understood_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    before = [list(logging.getLogger(name).handlers) for name in LOGGERS]
    install_if_asked("xml")
    assert "HEADRACE_LOG='xml' is not understood: say json or text" in capsys.readouterr().err
    install_if_asked("text")
    assert [list(logging.getLogger(name).handlers) for name in LOGGERS] == before


def test_a_process_that_asks_for_it_writes_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADRACE_LOG", "json")
    source = (
        "import headrace as tf, logging\n"
        "tf.logging.warning('by the program')\n"
        "logging.getLogger('headrace').warning('by %s', 'headrace')"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True
    )
    said = [json.loads(line)["message"] for line in done.stderr.splitlines()]
    assert said == ["by the program", "by headrace"]
