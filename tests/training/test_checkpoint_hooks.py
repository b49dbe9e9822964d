"""Checkpoints that are written while steps go on, and what SIGTERM saves."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace as tf


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as fresh:
        yield fresh


class SlowSaver:
    """Saves when it may."""

    saver_def = None

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.saved: list[int] = []
        self.fails: Exception | None = None

    def build(self) -> None:
        """See `tf.train.Saver`."""

    def save(self, session: Any, path: str, global_step: int = 0, **options: Any) -> str:
        """See `tf.train.Saver`."""
        self.begun.release()
        assert self.may_end.acquire(timeout=30)
        if self.fails is not None:
            raise self.fails
        self.saved.append(int(global_step))
        return path


def session_with(
    saver: SlowSaver, directory: Path, **options: Any
) -> tuple[tf.train.MonitoredSession, Any]:
    train = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    hook = tf.train.CheckpointSaverHook(str(directory), saver=saver, in_background=True, **options)
    saver.may_end.release()  # the first, which is waited for
    creator = tf.train.ChiefSessionCreator(tf.train.Scaffold(saver=saver))
    session = tf.train.MonitoredSession(creator, [hook])
    assert saver.begun.acquire(timeout=30)
    return session, train


def test_steps_go_on_while_a_checkpoint_is_written(tmp_path: Path) -> None:
    saver = SlowSaver()
    session, train = session_with(saver, tmp_path, save_steps=2)
    for _ in range(2):
        session.run(train)
    assert saver.begun.acquire(timeout=30)
    steps = [int(session.run(train)) for _ in range(5)]
    assert steps == [3, 4, 5, 6, 7]
    assert saver.saved == [0]
    for _ in range(3):
        saver.may_end.release()
    session.close()
    assert saver.saved == [0, 2, 7]
    tf.summary.FileWriterCache.clear()


def test_what_a_background_save_raises_ends_the_training(tmp_path: Path) -> None:
    saver = SlowSaver()
    session, train = session_with(saver, tmp_path, save_steps=2)
    saver.fails = tf.errors.DataLossError(None, None, "the disk is full")
    for _ in range(2):
        session.run(train)
    saver.may_end.release()
    with pytest.raises(tf.errors.DataLossError, match="the disk is full"):
        session.close()
    tf.summary.FileWriterCache.clear()


def test_a_session_that_was_lost_takes_its_save_with_it(tmp_path: Path) -> None:
    saver = SlowSaver()
    lost = [False]

    class Loses(tf.train.SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            if saver.begun.acquire(blocking=False) and not lost[0]:
                lost[0] = True
                saver.fails = tf.errors.UnavailableError(None, None, "the task has gone")
                saver.may_end.release()
                raise tf.errors.AbortedError(None, None, "the task has gone")

    train = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    hook = tf.train.CheckpointSaverHook(
        str(tmp_path), saver=saver, in_background=True, save_steps=2
    )
    saver.may_end.release()

    class Creator(tf.train.ChiefSessionCreator):
        def create_session(self) -> Any:
            found = super().create_session()
            if lost[0]:
                saver.fails = None
                saver.may_end.release()
                saver.may_end.release()
            return found

    with tf.train.MonitoredSession(
        Creator(tf.train.Scaffold(saver=saver)), [hook, Loses()]
    ) as session:
        assert saver.begun.acquire(timeout=30)
        while not lost[0]:
            session.run(train)
        for _ in range(30):
            saver.may_end.release()
    tf.summary.FileWriterCache.clear()


def test_sigterm_ends_the_training_after_the_step_that_runs(tmp_path: Path) -> None:
    train = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    before = signal.getsignal(signal.SIGTERM)
    steps = []
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(tmp_path), save_checkpoint_secs=1000, save_on_sigterm=True
    ) as session:
        while not session.should_stop():
            steps.append(int(session.run(train)))
            if len(steps) == 3:
                os.kill(os.getpid(), signal.SIGTERM)
    assert steps == [1, 2, 3, 4]
    assert signal.getsignal(signal.SIGTERM) is before
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("-4")
    tf.summary.FileWriterCache.clear()


def test_saving_at_sigterm_needs_a_directory() -> None:
    with pytest.raises(ValueError, match="checkpoint_dir"):
        tf.train.MonitoredTrainingSession(save_on_sigterm=True)
