"""What a task remembers of the checkpoints that it has written and read."""

from __future__ import annotations

import pytest

from headrace.base import errors
from headrace.run.checkpoints.log import MERGED, MOST, RESTORED, SAVED, CheckpointLog


@pytest.fixture
def log() -> CheckpointLog:
    return CheckpointLog()


def test_what_was_done_is_there_with_its_size_and_time(log: CheckpointLog) -> None:
    with log.noting(SAVED, b"/tmp/model-1", 3) as note:
        note.nbytes = 100
    with log.noting(MERGED, b"/tmp/model-2") as note:
        note.tensors, note.nbytes = 5, 200
    first, second = log.latest()
    assert (first.number, first.kind, first.prefix) == (1, SAVED, "/tmp/model-1")
    assert (first.tensors, first.nbytes, first.error) == (3, 100, "")
    assert (second.number, second.kind, second.tensors, second.nbytes) == (2, MERGED, 5, 200)
    assert first.began_s <= first.ended_s <= second.began_s <= second.ended_s


def test_a_failure_is_noted_and_raised(log: CheckpointLog) -> None:
    with pytest.raises(errors.ResourceExhaustedError), log.noting(SAVED, b"model", 1):
        raise errors.resource_exhausted("no room on the disk")
    with pytest.raises(KeyboardInterrupt), log.noting(RESTORED, b"model", 1):
        raise KeyboardInterrupt
    assert [note.error for note in log.latest()] == ["no room on the disk", "KeyboardInterrupt"]


def test_nodes_of_one_restore_are_one(log: CheckpointLog) -> None:
    """The ops of the older format read one tensor each."""
    for _ in range(40):
        with log.noting(RESTORED, b"old", 1) as note:
            note.nbytes = 4
    with log.noting(RESTORED, b"another", 1):
        pass
    first, second = log.latest()
    assert (first.number, first.tensors, first.nbytes) == (1, 40, 160)
    assert (second.number, second.prefix) == (2, "another")


def test_a_restore_that_failed_stays_apart(log: CheckpointLog) -> None:
    for _ in range(2):
        with pytest.raises(errors.NotFoundError), log.noting(RESTORED, b"old", 1):
            raise errors.not_found("no such checkpoint")
    assert len(log.latest()) == 2


def test_no_more_is_remembered_than_somebody_would_read(log: CheckpointLog) -> None:
    for number in range(MOST + 5):
        with log.noting(SAVED, f"model-{number}".encode(), 1):
            pass
    kept = log.latest()
    assert (len(kept), kept[0].number, kept[-1].number) == (MOST, 6, MOST + 5)
