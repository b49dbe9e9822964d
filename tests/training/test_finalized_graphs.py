"""Nothing adds nodes to a graph that is final: what savers, sessions, hooks and writers need is made before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf

Use = Callable[["Program"], object]


class Program:
    """A training whose graph is final, and what works with it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(folder)
        self.fed = tf.placeholder(tf.float32, [None], name="fed")
        self.x = tf.get_variable("x", [2], initializer=tf.ones_initializer())
        self.held = tf.get_variable(
            "held", [2], initializer=tf.ones_initializer(), use_resource=True
        )
        self.cut = tf.get_variable("cut", [4], partitioner=tf.fixed_size_partitioner(2))
        self.step = tf.train.get_or_create_global_step()
        self.loss = tf.reduce_sum(self.x * self.held) + tf.reduce_sum(self.fed)
        self.optimizer = tf.train.AdamOptimizer(0.1)
        self.train = self.optimizer.minimize(self.loss, global_step=self.step)
        tf.summary.scalar("loss", self.loss)
        self.summary = tf.summary.merge_all()
        self.init = tf.global_variables_initializer()
        self.saver = tf.train.Saver(sharded=True)
        self.objects = tf.train.Checkpoint(x=self.x, optimizer=self.optimizer, held=self.held)
        self.session = tf.Session()
        self.session.run(self.init)
        self.path = self.objects.save("./objects", self.session)
        self.objects.restore(self.path)
        self.manager = tf.train.CheckpointManager(self.objects, "managed", 2)
        with self.session.as_default():
            self.manager.save()
        self.writer = tf.summary.FileWriter("events")
        self.inside = tf.summary.FileWriter("inside", session=self.session)
        self.graph = tf.get_default_graph()
        self.graph.finalize()

    def run(self) -> Any:
        return self.session.run(
            [self.train, self.loss, self.summary], {self.fed: np.ones(2, np.float32)}
        )

    def partial(self) -> None:
        handle = self.session.partial_run_setup([self.loss], [self.fed])
        self.session.partial_run(handle, self.loss, {self.fed: [1.0]})

    def saved(self) -> None:
        path = self.saver.save(self.session, "./m", self.step)
        self.saver.restore(self.session, path)
        self.saver.save(self.session, "./m")
        self.saver.export_meta_graph("m.meta")
        tf.train.export_meta_graph("n.meta", clear_devices=True)

    def saved_objects(self) -> None:
        path = self.objects.save("./objects", self.session)
        self.objects.restore(path).assert_consumed().run_restore_ops(self.session)
        with self.session.as_default():
            self.manager.save()

    def summaries(self) -> None:
        for writer in (self.writer, self.inside):
            writer.add_summary(self.run()[-1], 1)
            writer.add_graph(self.graph)
            writer.add_run_metadata(tf.RunMetadata(), "step")
            writer.add_session_log(tf.SessionLog(), 2)
            writer.flush()
            writer.close()
            writer.reopen()
            writer.close()
        tf.summary.FileWriter("more", self.graph).close()
        tf.train.write_graph(self.graph, ".", "graph.pb")

    def traced(self) -> None:
        metadata = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        self.session.run(self.loss, {self.fed: [1.0]}, options, metadata)
        assert metadata.step_stats.dev_stats

    def values(self) -> None:
        with self.session.as_default():
            assert self.x.eval().shape == self.held.eval().shape == (2,)
            self.x.load([1.0, 2.0])
            self.init.run()
            assert tf.train.global_step(self.session, self.step) == 0
        self.session.make_callable(self.loss, [self.fed])(np.ones(1, np.float32))
        self.session.run(
            {"a": [self.x, *self.cut], "b": (self.held, self.train)}, {self.fed: [1.0]}
        )
        self.session.list_devices()
        assert tf.train.get_global_step() is self.step
        assert tf.train.get_or_create_global_step() is self.step

    def other_sessions(self) -> None:
        with tf.Session() as session:
            session.run(self.init)
            self.saver.restore(session, self.saver.save(self.session, "./m"))


USES: dict[str, Use] = {
    name: getattr(Program, name)
    for name in ("run partial saved saved_objects summaries traced values other_sessions").split()
}


@pytest.fixture(autouse=True)
def fresh() -> Any:
    with tf.Graph().as_default():
        yield
    tf.summary.FileWriterCache.clear()


@pytest.mark.parametrize("use", USES)
def test_what_is_used_after_it_was_made_adds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    program = Program(tmp_path, monkeypatch)
    count = len(program.graph.get_operations())
    USES[use](program)
    assert len(program.graph.get_operations()) == count
    program.session.close()
    program.writer.close()


HOOKS: dict[str, Callable[[Program], Any]] = {
    "CheckpointSaverHook": lambda p: tf.train.CheckpointSaverHook("saved", save_steps=2),
    "SummarySaverHook": lambda p: tf.train.SummarySaverHook(
        2, output_dir="s", summary_op=p.summary
    ),
    "StepCounterHook": lambda p: tf.train.StepCounterHook(2, output_dir="s"),
    "StopAtStepHook": lambda p: tf.train.StopAtStepHook(last_step=4),
    "NanTensorHook": lambda p: tf.train.NanTensorHook(p.loss),
    "LoggingTensorHook": lambda p: tf.train.LoggingTensorHook({"loss": p.loss}, every_n_iter=2),
    "LoggingTensorHook at the end": lambda p: tf.train.LoggingTensorHook(["x"], at_end=True),
    "FinalOpsHook": lambda p: tf.train.FinalOpsHook([p.x, p.step]),
    "GlobalStepWaiterHook": lambda p: tf.train.GlobalStepWaiterHook(0),
    "FeedFnHook": lambda p: tf.train.FeedFnHook(lambda: {p.factor: 2.0}),
    "ProfilerHook": lambda p: tf.train.ProfilerHook(save_steps=2, output_dir="p"),
}


class Trained(Program):
    """Its graph is not yet final: a monitored session makes it so."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(folder)
        self.fed = tf.placeholder(tf.float32, [None], name="fed")
        self.x = tf.get_variable("x", [2], initializer=tf.ones_initializer())
        self.step = tf.train.get_or_create_global_step()
        self.factor = tf.placeholder_with_default(1.0, [])
        self.loss = self.factor * tf.reduce_sum(tf.square(self.x)) + tf.reduce_sum(self.fed)
        self.train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(self.loss, self.step)
        tf.summary.scalar("loss", self.loss)
        self.summary = tf.summary.merge_all()
        self.graph = tf.get_default_graph()


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_adds_nothing_once_a_session_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: str
) -> None:
    """`begin` may add nodes; then the monitored session makes the graph final."""
    program = Trained(tmp_path, monkeypatch)
    with tf.train.SingularMonitoredSession(hooks=[HOOKS[hook](program)]) as session:
        assert program.graph.finalized
        count = len(program.graph.get_operations())
        for _ in range(5):
            if not session.should_stop():
                session.run(program.train, {program.fed: [1.0]})
    assert len(program.graph.get_operations()) == count


def test_a_monitored_training_session_and_what_it_resumes_add_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Trained(tmp_path, monkeypatch)
    counts = []
    for _ in range(2):
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir="saved", save_checkpoint_steps=2, save_summaries_steps=2, log_step_count_steps=2
        ) as session:  # fmt: skip
            counts.append(len(program.graph.get_operations()))
            for _ in range(5):
                session.run(program.train, {program.fed: [1.0]})
            session.run_step_fn(lambda step_context: step_context.session.run(program.step))
        counts.append(len(program.graph.get_operations()))
        program.graph._unsafe_unfinalize()
    assert counts[0] == counts[1]
    assert counts[2] == counts[3]


def test_a_supervisor_adds_nothing_once_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Trained(tmp_path, monkeypatch)
    supervisor = tf.train.Supervisor(logdir="saved", save_model_secs=1, summary_op=None)
    program.graph.finalize()
    count = len(program.graph.get_operations())
    done = threading.Event()
    with supervisor.managed_session() as session:
        supervisor.loop(0, done.set)
        for _ in range(3):
            session.run(program.train, {program.fed: [1.0]})
        supervisor.summary_computed(session, session.run(program.summary, {program.fed: [1.0]}))
        supervisor.saver.save(session, supervisor.save_path, supervisor.global_step)
        assert done.wait(60)
    assert len(program.graph.get_operations()) == count


@pytest.mark.parametrize(
    "make",
    [
        lambda p: tf.train.Saver(),
        lambda p: tf.train.Checkpoint(x=p.x).save("./q", p.session),
        lambda p: tf.train.Checkpoint(x=p.x).restore(p.path),
        lambda p: tf.summary.FileWriter("q", session=p.session),
        lambda p: tf.train.MomentumOptimizer(0.1, 0.9).minimize(p.loss),
        lambda p: tf.global_variables_initializer(),
        lambda p: tf.summary.merge_all(),
        lambda p: tf.train.import_meta_graph(tf.train.export_meta_graph()),
        lambda p: p.x.assign([1.0, 2.0]),
        lambda p: tf.train.init_from_checkpoint(p.saver.save(p.session, "./m"), {"x": p.x}),
    ],
)
def test_what_needs_nodes_says_that_the_graph_is_final(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Program], object]
) -> None:
    program = Program(tmp_path, monkeypatch)
    count = len(program.graph.get_operations())
    with pytest.raises(RuntimeError, match="finalized"):
        make(program)
    assert len(program.graph.get_operations()) == count
    program.session.close()
    program.writer.close()
