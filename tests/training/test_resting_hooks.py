"""Hooks that are left out while nothing is due: nobody can tell."""

from __future__ import annotations

import itertools
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.training import hooked_session
from headrace.training import logging as tf_logging
from headrace.training.hooks import resting

Told = list[Any]


class Notes(tf.train.SessionRunHook):
    """Fetches what it is told to, and writes down what comes."""

    def __init__(self, wanted: Callable[[int], Any], told: Told) -> None:
        self.wanted, self.told, self.runs = wanted, told, 0

    def before_run(self, run_context: Any) -> Any:
        self.told.append(f"before {self.runs}")
        return self.wanted(self.runs)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.told.append(run_values.results)
        self.runs += 1


@pytest.fixture(autouse=True)
def counters(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is logged the first few times only is logged anew, and event files are closed."""
    monkeypatch.setattr(tf_logging, "_counters", defaultdict(itertools.count))
    yield
    tf.summary.FileWriterCache.clear()


@pytest.fixture(params=["left out", "called"])
def ways(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "called":
        monkeypatch.setattr(hooked_session, "resting", lambda hooks: None)
    return str(request.param)


def _events(directory: Path) -> Told:
    """(step, what) of all that was written there."""
    found: Told = []
    for path in sorted(directory.glob("events*")):
        for event in tf.train.summary_iterator(str(path)):
            what = event.WhichOneof("what")
            found += [
                (event.step, what, value.tag)
                for value in (event.summary.value if what == "summary" else [])
            ] or [(event.step, what)]
    return found


def _training(directory: Path, told: Told, each: Callable[[Any, int], None]) -> None:
    """Two hundred steps with every hook that there is, in the order of a monitored training."""
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        count = tf.assign_add(step, 1)
        tf.summary.scalar("step", step)
        args = tf.train.SessionRunArgs({"twice": step * 2})
        other = tf.train.SessionRunArgs([step])
        hooks = [
            Notes(lambda n: other if n % 60 == 31 else args, told),
            tf.train.StopAtStepHook(last_step=200),
            tf.train.NanTensorHook(tf.constant(1.0)),
            tf.train.LoggingTensorHook({"step": step}, every_n_iter=29, formatter=str),
        ]
        session = tf.train.MonitoredTrainingSession(
            checkpoint_dir=str(directory),
            hooks=hooks,
            save_checkpoint_steps=75,
            save_summaries_steps=47,
            log_step_count_steps=33,
        )
        with session:
            n = 0
            while not session.should_stop():
                each(session, n) if n % 32 == 7 else told.append(session.run(count))
                n += 1


def test_what_is_logged_written_and_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Steps with other fetches, with options and with nothing of the sort, between others."""

    def each(session: Any, n: int) -> None:
        step = tf.train.get_global_step(session.graph)
        if n < 70:
            session.run([step])
        elif n < 140:
            session.run(step, options=tf.RunOptions(trace_level=tf.RunOptions.NO_TRACE))
        else:
            session.run({"a": step}, feed_dict={})

    found = []
    for way in ("left out", "called"):
        caplog.clear()
        tf_logging._counters.clear()
        if way == "called":
            monkeypatch.setattr(hooked_session, "resting", lambda hooks: None)
        told: Told = []
        with caplog.at_level(logging.INFO, "headrace"):
            _training(tmp_path / way, told, each)
        lines = [r.getMessage().split("/sec")[0].split(" into ")[0] for r in caplog.records]
        files = sorted(path.name for path in (tmp_path / way).glob("model*"))
        found.append((told, lines, files, _events(tmp_path / way)))
    for left_out, called in zip(*found, strict=True):
        assert left_out == called


def test_they_are_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Else the other tests compare nothing."""
    ran = []
    end = resting.Resting.end

    def noted(self: resting.Resting) -> None:
        ran.append(self.ran)
        end(self)

    monkeypatch.setattr(resting.Resting, "end", noted)
    _training(tmp_path, [], lambda session, n: None)
    assert sum(ran) > 100


def test_a_step_that_does_not_grow_is_told(caplog: pytest.LogCaptureFixture, ways: str) -> None:
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        counts = [tf.assign_add(step, 1), tf.no_op()]
        hook = tf.train.StepCounterHook(every_n_steps=50)
        with (
            caplog.at_level(logging.WARNING, "headrace"),
            tf.train.MonitoredSession(hooks=[hook]) as session,
        ):
            for n in range(30):
                session.run(counts[n == 20])
    told = [r.getMessage() for r in caplog.records if "has not been increased" in r.getMessage()]
    assert len(told) == 1
    assert "it was 20 before this step and is 20" in told[0]


def test_a_hook_of_a_programs_own_class_is_called(ways: str) -> None:
    class Own(tf.train.StopAtStepHook):
        calls = 0

        def after_run(self, run_context: Any, run_values: Any) -> None:
            Own.calls += 1
            super().after_run(run_context, run_values)

    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        count = tf.assign_add(step, 1)
        with tf.train.MonitoredSession(hooks=[Own(last_step=25)]) as session:
            while not session.should_stop():
                session.run(count)
    assert Own.calls == 25


def test_a_hook_that_takes_its_time_makes_a_later_one_due(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ways: str
) -> None:
    now = [1e9]
    monkeypatch.setattr(time, "time", lambda: now[0])

    class Slow(tf.train.SessionRunHook):
        runs = 0

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self.runs += 1
            now[0] += 60 if self.runs == 20 else 1

    saved: Told = []

    class Listener(tf.train.CheckpointSaverListener):
        def after_save(self, session: Any, global_step_value: int) -> None:
            saved.append(global_step_value)

    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        count = tf.assign_add(step, 1)
        for place in (0, 1):
            saved.clear()
            now[0] = 1e9
            saver = tf.train.CheckpointSaverHook(
                str(tmp_path / str(place)),
                save_secs=50,
                saver=tf.train.Saver(),
                listeners=[Listener()],
            )
            hooks: list[Any] = [Slow()]
            hooks.insert(place, saver)
            with tf.train.MonitoredSession(hooks=hooks) as session:
                for _ in range(30):
                    session.run(count)
            # The first is saved after the step that took its time, or in the very step.
            assert saved == [0, 21 - place, 30]


def test_what_a_failed_step_leaves_is_made_up_for(ways: str) -> None:
    """A session that is made anew finds hooks as if they had been called."""
    told: Told = []
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        count = tf.assign_add(step, 1)
        fails = [False]

        class Fails(tf.train.SessionRunHook):
            def before_run(self, run_context: Any) -> None:
                if fails[0]:
                    fails[0] = False
                    raise tf.errors.AbortedError(None, None, "lost")

        logged = tf.train.LoggingTensorHook(
            {"step": step}, every_n_iter=10, formatter=lambda v: told.append(int(v["step"])) or ""
        )
        with tf.train.MonitoredSession(hooks=[Fails(), logged]) as session:
            for n in range(40):
                fails[0] = n == 17
                session.run(count)
    assert len(told) == 4
