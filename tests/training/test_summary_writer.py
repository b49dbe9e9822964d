"""Event files: what is added is in them, in order, however the program ends, and no step waits for the disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.run import event_files
from headrace.training.summary_writer import EventFileWriter
from tests.serve.clusters import in_process


def events(directory: Path) -> list[Any]:
    """Of all files of a directory, in the order of their names, without those that tell the version."""
    found = []
    for path in sorted(directory.glob("*tfevents*")):
        first, *rest = tf.train.summary_iterator(str(path))
        assert first.file_version == "brain.Event:2"
        found += rest
    return found


def scalar(tag: str, value: float, described: str = "") -> tf.Summary:
    summary = tf.Summary()
    each = summary.value.add(tag=tag, simple_value=value)
    if described:
        each.metadata.summary_description = described
    return summary


def test_what_is_added_is_in_the_file_in_order(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        tf.constant(1.0, name="one")
    with tf.summary.FileWriter(tmp_path / "new" / "run", graph, filename_suffix=".mine") as writer:
        writer.add_summary(scalar("a", 1.5), 3)
        writer.add_summary(scalar("a", 2.5).SerializeToString(), np.int64(4))
        writer.add_summary(b"")
        writer.add_session_log(tf.SessionLog(status=tf.SessionLog.START), 5)
        writer.add_run_metadata(tf.RunMetadata(), "traced", 6)
        writer.add_meta_graph(tf.MetaGraphDef(), -1)
        writer.add_event(tf.Event(wall_time=7, step=7, summary=scalar("b", 1)))
    (path,) = (tmp_path / "new" / "run").iterdir()
    assert path.name.startswith("events.out.tfevents.")
    assert path.name.endswith(".mine")
    found = events(tmp_path / "new" / "run")
    assert [each.WhichOneof("what") for each in found] == [
        "graph_def", "meta_graph_def", "summary", "summary", "summary",
        "session_log", "tagged_run_metadata", "meta_graph_def", "summary",
    ]  # fmt: skip
    assert [each.step for each in found] == [0, 0, 3, 4, 0, 5, 6, -1, 7]
    drawn = tf.GraphDef.FromString(found[0].graph_def)
    assert [node.name for node in drawn.node] == ["one"]
    assert "_output_shapes" in drawn.node[0].attr
    assert [found[n].summary.value[0].simple_value for n in (2, 3)] == [1.5, 2.5]
    assert found[6].tagged_run_metadata.tag == "traced"


def test_the_metadata_of_a_tag_is_written_once(tmp_path: Path) -> None:
    given = scalar("a", 1, "what a is")
    with tf.summary.FileWriter(tmp_path) as writer:
        for summary in (given, given.SerializeToString(), scalar("b", 1, "what b is")):
            writer.add_summary(summary)
    said = [each.summary.value[0].metadata.summary_description for each in events(tmp_path)]
    assert said == ["what a is", "", "what b is"]
    assert given.value[0].HasField("metadata")  # the caller's own is as it was


def test_a_closed_writer_drops_what_is_added_and_goes_on_in_another_file(tmp_path: Path) -> None:
    writer = tf.summary.FileWriter(str(tmp_path))
    writer.add_summary(b"", 1)
    writer.close()
    writer.close()
    for use in (lambda: writer.add_summary(b"", 2), writer.flush):
        with pytest.warns(UserWarning, match="closed FileWriter"):
            use()
    writer.reopen()
    writer.reopen()
    writer.add_summary(b"", 3)
    writer.close()
    assert len(list(tmp_path.iterdir())) == 2  # in the same second
    assert [each.step for each in events(tmp_path)] == [1, 3]


REFUSED = [
    (lambda w: w.add_summary("text"), AttributeError, "value"),
    (lambda w: w.add_summary(b"", "a"), ValueError, "int"),
    (lambda w: w.add_session_log("x"), TypeError, "SessionLog"),
    (lambda w: w.add_meta_graph("x"), TypeError, "must be type MetaGraphDef"),
    (lambda w: w.add_graph(None), TypeError, "must be an instance of `Graph`"),
    (lambda w: w.add_graph(tf.Graph(), graph_def=tf.GraphDef()), ValueError, "not both"),
    (lambda w: [w.add_run_metadata(tf.RunMetadata(), "t") for _ in "ab"], ValueError, "already used"),
    (lambda w: tf.summary.FileWriter("/proc/x/y"), tf.errors.NotFoundError, "/proc/x"),
    (lambda w: tf.summary.FileWriter(__file__ + "/x"), tf.errors.FailedPreconditionError, "test_summary_writer"),
]  # fmt: skip


@pytest.mark.parametrize(("use", "kind", "says"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_event_is_refused(tmp_path: Path, use: Any, kind: Any, says: str) -> None:
    with tf.summary.FileWriter(str(tmp_path)) as writer, pytest.raises(kind, match=says):
        use(writer)


def test_a_directory_has_one_writer_in_the_cache(tmp_path: Path) -> None:
    cache = tf.summary.FileWriterCache
    with tf.Graph().as_default():
        first = cache.get(str(tmp_path))
        assert cache.get(str(tmp_path)) is first
        cache.clear()
        second = cache.get(str(tmp_path))
        assert second is not first
        cache.clear()
    with pytest.warns(UserWarning, match="closed"):
        first.flush()


def test_the_thread_writes_when_the_oldest_event_is_old_enough(tmp_path: Path) -> None:
    writer = EventFileWriter(tmp_path, flush_secs=0)
    writer.add_event(tf.Event(step=1))
    (path,) = tmp_path.iterdir()
    size, limit = 0, threading.Event()
    while len(list(tf.train.summary_iterator(path))) < 2:
        assert not limit.wait(0.001)
        size = path.stat().st_size
    writer.close()
    assert path.stat().st_size >= size


def test_a_writer_that_is_dropped_writes_what_it_has(tmp_path: Path) -> None:
    writer = tf.summary.FileWriter(str(tmp_path))
    writer.add_summary(b"", 1)
    thread = writer.event_writer._file._writing._group._running.copy().pop()  # type: ignore[union-attr]
    del writer
    thread.join()
    assert [each.step for each in events(tmp_path)] == [1]


class Slow:
    """A file whose writes wait until they may go on, and may fail."""

    def __init__(self, error: OSError | None = None) -> None:
        self.may = threading.Event()
        self.written: list[int] = []
        self.error = error

    def write(self, content: Any) -> int:
        assert self.may.wait(60)
        if self.error is not None:
            raise self.error
        self.written.append(len(content))
        return len(content)

    def close(self) -> None:
        pass


def test_nobody_waits_for_the_disk_until_memory_is_full(tmp_path: Path) -> None:
    slow = Slow()
    writing = event_files._Writing("f", slow, 10, 0)  # type: ignore[arg-type]
    for _ in range(100):  # far more than max_queue, but little
        writing.add(b"x" * 1000)
    full = threading.Thread(target=lambda: [writing.add(b"x" * 1_000_000) for _ in range(30)])
    full.start()
    full.join(0.2)
    assert full.is_alive()
    with writing._lock:
        assert writing._bytes < 20_000_000
    slow.may.set()
    full.join()
    writing.close()
    assert sum(slow.written) > 30_100_000


def test_an_error_of_the_disk_is_raised_by_who_comes_next(tmp_path: Path) -> None:
    slow = Slow(OSError(28, "No space left on device"))
    writing = event_files._Writing("/logs/f", slow, 10, 0)  # type: ignore[arg-type]
    writing.add(b"x")
    slow.may.set()
    for use in (writing.flush, lambda: writing.add(b"y"), writing.close):
        with pytest.raises(tf.errors.ResourceExhaustedError, match="/logs/f"):
            use()


ENDING = """
import os, signal, sys, time
import headrace as tf
writer = tf.summary.FileWriter(sys.argv[1])
for step in range(1, 1001):
    writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="a", simple_value=1)]), step)
    if step == 500: writer.flush()
"""


@pytest.mark.parametrize(
    ("end", "steps"),
    [
        ("", 1000),
        ("raise KeyboardInterrupt", 1000),
        ("os.kill(os.getpid(), signal.SIGINT); time.sleep(60)", 1000),
        ("sys.exit(3)", 1000),
        ("if not os.fork(): sys.exit()\nos.wait()", 1000),
        ("os.kill(os.getpid(), signal.SIGKILL)", 500),
    ],
)
def test_however_a_program_ends_its_events_are_there(tmp_path: Path, end: str, steps: int) -> None:
    with warnings.catch_warnings():
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", ENDING + end, str(tmp_path)],
            capture_output=True,
        )
    if not end:
        assert done.returncode == 0, done.stderr.decode()
    found = [each.step for each in events(tmp_path)]
    assert found == list(range(1, len(found) + 1))
    if "SIGKILL" in end:
        assert len(found) >= steps
        assert done.returncode == -signal.SIGKILL
    else:
        assert len(found) == steps


def test_a_graph_is_written_as_text_and_as_bytes(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        tf.constant(1.0, name="one")
    path = tf.train.write_graph(graph, tmp_path / "a", "g.pbtxt")
    assert path == str(tmp_path / "a" / "g.pbtxt")
    assert 'name: "one"' in Path(path).read_text()
    binary = tf.train.write_graph(graph.as_graph_def(), str(tmp_path), "g.pb", as_text=False)
    assert tf.GraphDef.FromString(Path(binary).read_bytes()) == graph.as_graph_def()
    assert sorted(os.listdir(tmp_path)) == ["a", "g.pb"]
    with pytest.raises(TypeError, match="a Graph or a GraphDef"):
        tf.train.write_graph("x", tmp_path, "g")
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"g\.pb"):
        tf.train.write_graph(graph, tmp_path / "g.pb", "g")


def test_a_damaged_file_says_where(tmp_path: Path) -> None:
    with tf.summary.FileWriter(str(tmp_path)) as writer:
        writer.add_summary(scalar("a", 1), 1)
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    content[-6] ^= 1
    path.write_bytes(content)
    with pytest.raises(tf.errors.DataLossError, match="corrupted record at"):
        list(tf.train.summary_iterator(path))
    with pytest.raises(tf.errors.NotFoundError, match="nowhere"):
        tf.train.summary_iterator(tmp_path / "nowhere")


# -- writers within the graph -----------------------------------------------------------------------


def test_a_writer_of_a_session_writes_where_the_task_is(tmp_path: Path) -> None:
    with in_process({"ps": 1, "worker": 1}) as cluster, tf.Graph().as_default():
        with (
            tf.Session(cluster.target("worker:0")) as session,
            tf.summary.FileWriter(tmp_path / "s", session=session) as writer,
        ):
            writer.add_summary(scalar("x", 2), 3)
        with tf.Session(cluster.target("worker:0")) as session:
            other = tf.summary.FileWriter(str(tmp_path / "t"), session=session)
            other.add_summary(scalar("x", 4), 5)
            other.flush()
            assert [each.step for each in events(tmp_path / "t")] == [5]
            tf.Session.reset(cluster.target("worker:0"))
            with pytest.raises(tf.errors.OpError):
                other.add_summary(tf.Summary(), 6)
    assert [each.step for each in events(tmp_path / "s")] == [3]


def test_a_writer_of_a_session_whose_graph_is_final_adds_nothing(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph, tf.Session() as session:
        writer = tf.summary.FileWriter(str(tmp_path), session=session)
        graph.finalize()
        count = len(graph.get_operations())
        writer.add_summary(scalar("x", 2), 3)
        writer.add_graph(graph)
        writer.close()
        with pytest.warns(UserWarning, match="closed FileWriter"):
            writer.add_summary(tf.Summary(), 4)
        writer.reopen()
        writer.close()
        writer.close()
        with pytest.raises(RuntimeError, match="finalized"):
            tf.summary.FileWriter(str(tmp_path), session=session)
        assert len(graph.get_operations()) == count
    assert len(list(tmp_path.iterdir())) == 2


def test_steps_write_their_summaries_every_so_many_steps(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        step = tf.train.get_or_create_global_step()
        writer = tf.contrib.summary.create_file_writer(str(tmp_path))
        with writer.as_default(), tf.contrib.summary.record_summaries_every_n_global_steps(2):
            tf.contrib.summary.scalar("x", tf.cast(step, tf.float32))
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                tf.summary.initialize(graph, session)
                count = step.assign_add(1)
                recorded = []
                for _ in range(4):
                    recorded += session.run(tf.summary.all_v2_summary_ops())
                    session.run(count)
                session.run(tf.contrib.summary.flush())
                session.run(writer.close())
    assert recorded == [True, False, True, False]
    found = events(tmp_path)
    assert found[0].HasField("graph_def")
    assert [(each.step, each.summary.value[0].simple_value) for each in found[1:]] == [
        (0, 0),
        (2, 2),
    ]
    with pytest.raises(RuntimeError, match="set_as_default"):
        tf.summary.initialize()
    with pytest.raises(tf.errors.UnimplementedError, match="create_file_writer"):
        tf.contrib.summary.create_db_writer("db")
