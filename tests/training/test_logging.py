"""tf.logging on Python's logging."""

from __future__ import annotations

import logging as python_logging
from collections.abc import Iterator

import pytest

from headrace.training import logging


@pytest.fixture(autouse=True)
def verbosity() -> Iterator[None]:
    """The logger as it was before the test."""
    logger = python_logging.getLogger("headrace")
    before = logger.level, logger.handlers[:], logging._counters.copy()
    logging._counters.clear()
    yield
    logger.setLevel(before[0])
    logger.handlers[:] = before[1]
    logging._counters.clear()
    logging._counters.update(before[2])


def test_levels_and_messages(caplog: pytest.LogCaptureFixture) -> None:
    logging.set_verbosity(logging.DEBUG)
    logging.debug("d")
    logging.info("step %d of %d", 3, 10)
    logging.warn("w")
    logging.warning("w")
    logging.error("e")
    logging.fatal("f")
    logging.log(logging.INFO, "l")
    logging.vlog(15, "v")
    logging.TaskLevelStatusMessage("100%")
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (10, "d"), (20, "step 3 of 10"), (30, "w"), (30, "w"), (40, "e"), (50, "f"), (20, "l"),
        (15, "v"), (40, "100%"),
    ]  # fmt: skip
    assert {record.filename for record in caplog.records} == {"test_logging.py"}


def test_the_verbosity_decides_what_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    logging.set_verbosity(logging.ERROR)
    assert logging.get_verbosity() == 40
    logging.warn("no")
    logging.error("yes")
    assert [record.getMessage() for record in caplog.records] == ["yes"]


def test_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    logging.set_verbosity(logging.INFO)
    for step in range(5):
        logging.log_every_n(logging.INFO, "every %d", 2, step)
        logging.log_first_n(logging.INFO, "first %d", 2, step)
        logging.log_if(logging.INFO, "if %d", step == 3, step)
    assert [record.getMessage() for record in caplog.records] == [
        "every 0", "first 0", "first 1", "every 2", "if 3", "every 4",
    ]  # fmt: skip


def test_it_is_the_line_that_is_counted_and_shown(caplog: pytest.LogCaptureFixture) -> None:
    logging.set_verbosity(logging.INFO)
    for step in range(5):
        logging.log_every_n(logging.INFO, f"every {step}", 2)
        logging.log_first_n(logging.INFO, f"first {step}", 2)
    logging.info("deeper", stacklevel=1)
    assert [record.getMessage() for record in caplog.records] == [
        "every 0", "first 0", "first 1", "every 2", "every 4", "deeper",
    ]  # fmt: skip
    assert {record.filename for record in caplog.records} == {"test_logging.py"}


def test_a_program_that_has_set_up_no_logging_gets_a_handler(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(python_logging.getLogger(), "handlers", [])
    logging.set_verbosity(logging.INFO)
    logging.info("shown")
    logging.flush()
    assert capsys.readouterr().err == "INFO:headrace:shown\n"


def test_a_program_that_has_set_up_logging_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = python_logging.NullHandler()
    monkeypatch.setattr(python_logging.getLogger(), "handlers", [own])
    monkeypatch.setattr(python_logging.getLogger("headrace"), "handlers", [])
    assert logging.get_logger().handlers == []
