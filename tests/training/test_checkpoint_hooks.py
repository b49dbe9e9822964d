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
from headrace.training.hooks.checkpoints import SaveOnSigtermHook


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
        assert self.may_end.acquire(timeout=60)
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
    assert saver.begun.acquire(timeout=60)
    return session, train


def test_steps_go_on_while_a_checkpoint_is_written(tmp_path: Path) -> None:
    saver = SlowSaver()
    session, train = session_with(saver, tmp_path, save_steps=2)
    for _ in range(2):
        session.run(train)
    assert saver.begun.acquire(timeout=60)
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
        assert saver.begun.acquire(timeout=60)
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


def tell() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


class TellingSaver(tf.train.Saver):
    """Is told to end in its second save, before anything is written or when all is."""

    def __init__(self, moment: str) -> None:
        super().__init__(defer_build=True)
        self.moment, self.saves = moment, 0

    def save(self, *args: Any, **options: Any) -> str:
        self.saves += 1
        if (self.moment, self.saves) == ("a save begins", 2):
            tell()
        path: str = super().save(*args, **options)
        if (self.moment, self.saves) == ("a save ends", 2):
            tell()
        return path


class Telling(tf.train.SessionRunHook):
    """SIGTERM at a moment of the fourth step; or the third finds the session lost, and the next is told to end."""

    def __init__(self, moment: str) -> None:
        self.moment, self.runs, self.sessions = moment, 0, 0

    def after_create_session(self, session: Any, coord: Any) -> None:
        self.sessions += 1
        if self.sessions == 2:
            tell()

    def before_run(self, run_context: Any) -> None:
        self.runs += 1
        if self.moment == "recovery" and self.runs == 3:
            raise tf.errors.AbortedError(None, None, "a task was lost")
        if self.moment == "before_run" and self.runs == 4:
            tell()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self.moment == "after_run" and self.runs == 4:
            tell()


MOMENTS = ["before_run", "after_run", "a save begins", "a save ends", "recovery"]


@pytest.mark.parametrize("saves", [True, False], ids=["saves anyway", "saves when told"])
@pytest.mark.parametrize("first", [True, False], ids=["before others", "after others"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_sigterm_at_any_moment_loses_no_step_of_the_last_session(
    tmp_path: Path, moment: str, first: bool, saves: bool
) -> None:
    """As the chief's, whose checkpoints are saved at the end anyway, and as a worker's, who saves when it is told."""
    train = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    before = signal.getsignal(signal.SIGTERM)
    scaffold = tf.train.Scaffold(saver=TellingSaver(moment))
    directory = str(tmp_path)
    ending = SaveOnSigtermHook(directory, scaffold=scaffold, save=not saves)
    hooks: list[tf.train.SessionRunHook] = [Telling(moment), ending]
    if saves or "save" in moment:
        hooks.append(tf.train.CheckpointSaverHook(directory, save_steps=2, scaffold=scaffold))
    creator = tf.train.ChiefSessionCreator(scaffold, checkpoint_dir=directory)
    steps = []
    with tf.train.MonitoredSession(creator, hooks if first else hooks[::-1]) as session:
        while not session.should_stop():
            steps.append(int(session.run(train)))
    assert len(steps) < 8
    assert tf.train.latest_checkpoint(directory).endswith(f"-{steps[-1]}")
    assert signal.getsignal(signal.SIGTERM) is before
    tf.summary.FileWriterCache.clear()


def test_sigterm_before_there_is_a_session_is_as_it_would_be_without_the_hook(
    tmp_path: Path,
) -> None:
    """Who waits for the chief, say, ends at once."""
    tf.train.get_or_create_global_step()

    def ends(number: int, frame: Any) -> None:
        raise SystemExit(number)

    before = signal.signal(signal.SIGTERM, ends)
    try:
        scaffold = tf.train.Scaffold(init_fn=lambda scaffold, session: tell())
        with pytest.raises(SystemExit):
            tf.train.MonitoredTrainingSession(
                checkpoint_dir=str(tmp_path), scaffold=scaffold, save_on_sigterm=True
            )
        assert signal.getsignal(signal.SIGTERM) is ends
    finally:
        signal.signal(signal.SIGTERM, before)
    tf.summary.FileWriterCache.clear()


def test_saving_at_sigterm_needs_a_directory() -> None:
    with pytest.raises(ValueError, match="checkpoint_dir"):
        tf.train.MonitoredTrainingSession(save_on_sigterm=True)
