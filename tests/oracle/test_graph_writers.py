"""Writers within graphs beside TensorFlow's: nodes of FileWriter(session=…), events of all ops, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import protos as pb

SINCE_1_15 = ("_has_manual_control_dependencies", "allowed_devices")
WRITERS = {
    "alone": "with tf.Session() as session: w = tf.summary.FileWriter(folder, session=session)",
    "two, with options": """
with tf.Session() as session:
    w = tf.summary.FileWriter(folder, session=session, max_queue=4, flush_secs=2, filename_suffix=".x")
    with tf.device("/cpu:0"), tf.name_scope("within"), tf.control_dependencies([tf.no_op("before")]):
        w = tf.summary.FileWriter(folder, session=session)
""",
}
BUILT = """
{body}
graph = tf.get_default_graph()
result = graph.as_graph_def().SerializeToString(), [op.name for op in graph.get_collection("_SUMMARY_WRITER_V2")]
"""


def ours(source: str, **names: Any) -> Any:
    inside: dict[str, Any] = {"tf": tf, "np": np, **names}
    with tf.Graph().as_default():
        exec(source, inside)
    return inside["result"]


@pytest.mark.parametrize("case", WRITERS)
def test_a_writer_of_a_session_builds_the_nodes_of_tensorflow(
    oracle: Any, graph_differences: Any, tmp_path: Path, case: str
) -> None:
    source = BUILT.format(body=WRITERS[case])
    found = []
    theirs = oracle.run(source, folder=str(tmp_path))
    mine = ours(source, folder=str(tmp_path))
    assert mine[1] == theirs[1]
    for content, _ in (mine, theirs):
        graph = pb.GraphDef.FromString(content)
        for node in graph.node:
            for attr in SINCE_1_15:
                node.attr.pop(attr, None)
        found.append(graph)
    assert graph_differences(*found) == []


WRITTEN = """
with tf.Session() as session:
    w = tf.summary.FileWriter(folder, session=session)
    tf.summary.scalar("x", tf.constant(2.0))
    everything = tf.summary.merge_all()
    w.add_summary(session.run(everything), 3)
    w.add_graph(tf.get_default_graph())
    w.close()
    w.reopen()
    w.add_summary(session.run(everything), 4)
    w.add_session_log(tf.SessionLog(status=tf.SessionLog.STOP), 5)
    w.flush()
    w.close()
result = None
"""
READ = """
import glob, re
result = []
# The last numbers of a name count the files of a process: the tenth comes after the ninth.
for path in sorted(glob.glob(folder + "/*"), key=lambda path: [int(number) for number in re.findall("[0-9]+", path)]):
    for event in tf.train.summary_iterator(path):
        what = event.WhichOneof("what")
        result.append((event.step, what, "" if what == "graph_def" else str(getattr(event, what))))
"""


@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_what_a_session_writes_is_read_by_the_other(
    oracle: Any, tmp_path: Path, writer: str
) -> None:
    (ours if writer == "ours" else oracle.run)(WRITTEN, folder=str(tmp_path))
    assert len(list(tmp_path.iterdir())) == 2
    for read in (ours, oracle.run):
        found = [tuple(each) for each in read(READ, folder=str(tmp_path))]
        assert [(step, what) for step, what, _ in found] == [
            (0, "file_version"), (3, "summary"), (0, "graph_def"),
            (0, "file_version"), (4, "summary"), (5, "session_log"),
        ]  # fmt: skip
        assert "simple_value: 2" in found[1][2]


OPS = """
made = op("SummaryWriter")(shared_name="w", container="")
number = lambda n: tf.constant(n, tf.int64)
metadata = tf.SummaryMetadata(display_name="q").SerializeToString()
proto = tf.Summary(value=[tf.Summary.Value(tag="r", simple_value=3)]).SerializeToString()
event = tf.Event(wall_time=1, step=9, summary=tf.Summary(value=[tf.Summary.Value(tag="e", simple_value=3)]))
def begun(writer, logdir, suffix=""):
    options = {"max_queue": 3, "flush_millis": 1000, "filename_suffix": suffix}
    return op("CreateSummaryFileWriter")(writer=writer, logdir=logdir, **options)
begin = begun(made, folder, ".x")
flush, close = op("FlushSummaryWriter")(writer=made), op("CloseSummaryWriter")(writer=made)
def scalar(**more):
    return op("WriteScalarSummary")(**{"writer": made, "step": number(1), "tag": "a", "value": 2.0, **more})
images = np.arange(16, dtype=np.float32).reshape(4, 2, 2, 1)
clips = np.zeros([4, 3], np.float32)
colour = np.array([255, 0, 0, 255], np.uint8)
writes = [
    scalar(), scalar(value=3), scalar(value=np.uint8(7)), scalar(step=number(0)),
    op("WriteHistogramSummary")(writer=made, step=number(3), tag="h", values=[1.0, 2.0, 2.5]),
    op("WriteHistogramSummary")(writer=made, step=number(3), tag="hi", values=[[1], [2]]),
    op("WriteHistogramSummary")(writer=made, step=number(3), tag="hb", values=[True, False]),
    op("WriteImageSummary")(writer=made, step=number(4), tag="i", tensor=images, bad_color=colour, max_images=2),
    op("WriteAudioSummary")(writer=made, step=number(5), tag="u", tensor=clips, sample_rate=8000.0, max_outputs=2),
    op("WriteSummary")(writer=made, step=number(6), tag="g", tensor=[1.0, 2.0], summary_metadata=""),
    op("WriteSummary")(writer=made, step=number(6), tag="s", tensor=["x"], summary_metadata=metadata),
    op("WriteGraphSummary")(writer=made, step=number(7), tensor=b""),
    op("WriteRawProtoSummary")(writer=made, step=number(8), tensor=proto),
    op("ImportEvent")(writer=made, event=event.SerializeToString()),
]
fails = [
    op("ImportEvent")(writer=made, event=b"\\xff\\xff"),
    op("WriteRawProtoSummary")(writer=made, step=number(8), tensor=b"\\xff\\xff"),
    op("WriteGraphSummary")(writer=made, step=number(8), tensor=b"\\xff\\xff"),
    op("WriteHistogramSummary")(writer=made, step=number(8), tag="v", values=[np.nan]),
    begun(op("SummaryWriter")(shared_name="x", container=""), "/proc/nope"),
    begun(op("SummaryWriter")(shared_name="y", container=""), ["/tmp"]),
]
def tried(node):
    try:
        session.run(node)
    except Exception as error:
        return type(error).__name__
with tf.Session() as session:
    said = [tried(each) for each in (scalar(), flush, close, begin, begin)]
    for each in writes:
        session.run(each)
    said += [tried(each) for each in fails]
    said += [tried(each) for each in (flush, close, close, flush, writes[0], begin, writes[1], close)]
result = said
"""
CONTENTS = READ.replace(
    '"" if what == "graph_def" else str(getattr(event, what))', "event.SerializeToString()"
)


def contents(folder: Path) -> list[pb.Event]:
    found = [pb.Event.FromString(content) for *_, content in ours(CONTENTS, folder=str(folder))]
    for event in found:
        event.ClearField("wall_time")
        event.ClearField("source_metadata")
        for value in event.summary.value:
            value.image.encoded_image_string = b""  # compressed otherwise
    return found


def test_events_of_all_ops_and_what_they_refuse_are_those_of_tensorflow(
    oracle: Any, tmp_path: Path
) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "theirs").mkdir()
    raw = "def op(name): return getattr(tf.raw_ops, name)\n"
    theirs = oracle.run(raw + OPS, folder=str(tmp_path / "theirs"))
    registry = "from headrace.graph.registry import get as op\n"
    mine = ours(registry + OPS, folder=str(tmp_path / "ours"))
    assert mine == theirs
    assert contents(tmp_path / "ours") == contents(tmp_path / "theirs")


GRAPHS: dict[str, str] = {
    "always": """
with w.as_default(), s.always_record_summaries():
    s.scalar("sc", tf.constant(1.0), family="fam")
    s.histogram("hi", tf.constant([1.0, 2.0]))
    s.image("im", tf.zeros([1, 2, 2, 1]))
    s.audio("au", tf.zeros([1, 2, 1]), 8000.0, 2)
    s.generic("ge", tf.zeros([2]))
    s.generic("me", tf.zeros([2]), metadata=tf.SummaryMetadata(display_name="x"), step=tf.constant(3, tf.int64))
    s.flush()
""",
    "every other step": """
with w.as_default(), s.record_summaries_every_n_global_steps(2):
    s.scalar("sc", tf.constant(1.0))
    s.histogram("hi", tf.constant([1.0, 2.0]), family="fam")
    s.should_record_summaries()
""",
    "never": """
s.scalar("no", 1.0)
with w.as_default():
    s.scalar("nor", tf.constant(1.0))
with s.never_record_summaries(), w.as_default():
    s.scalar("never", tf.constant(1.0))
w.close()
w.init()
""",
    "with options": """
v = s.create_file_writer(folder, max_queue=4, flush_millis=1000, filename_suffix=".q", name="nm")
with tf.name_scope("within"), v.as_default(), s.always_record_summaries(), tf.device("/cpu:0"):
    s.scalar("sc", tf.constant(1.0))
    s.import_event(tf.constant(b""))
""",
}
GRAPH = """
step = tf.train.get_or_create_global_step()
w = s.create_file_writer(folder)
{body}
graph = tf.get_default_graph()
names = [[each.name for each in listed] for listed in (
    tf.summary.all_v2_summary_ops(), s.summary_writer_initializer_op())]
with tf.Session() as session:
    said = tried(tf.summary.initialize), tried(lambda: tf.summary.initialize(session=session))
    if runs:
        session.run([tf.global_variables_initializer(), s.summary_writer_initializer_op()])
    recorded = []
    count = tf.assign_add(step, 1)
    for _ in range(3):
        if tf.summary.all_v2_summary_ops() and runs:
            try:
                recorded.append([bool(each) for each in session.run(tf.summary.all_v2_summary_ops())])
            except Exception as error:
                recorded.append(type(error).__name__)
        runs and session.run(count)
result = graph.as_graph_def().SerializeToString(), names, said, recorded
"""
TRIED = """
def tried(f):
    try:
        f()
    except Exception as error:
        return type(error).__name__
"""


@pytest.mark.parametrize("case", GRAPHS)
def test_summaries_that_write_themselves_are_built_and_recorded_as_by_tensorflow(
    oracle: Any, graph_differences: Any, tmp_path: Path, case: str
) -> None:
    source = TRIED + GRAPH.format(body=GRAPHS[case])
    runs = "within" not in source
    theirs = oracle.run(
        f"from tensorflow.python.ops import summary_ops_v2 as s\n{source}",
        folder=str(tmp_path),
        runs=runs,
    )
    mine = ours(
        "from headrace.contrib import summary as s\n" + source, folder=str(tmp_path), runs=runs
    )
    assert mine[1:] == theirs[1:]
    found = []
    for content in (mine[0], theirs[0]):
        graph = pb.GraphDef.FromString(content)
        for node in graph.node:
            for attr in SINCE_1_15:
                node.attr.pop(attr, None)
        found.append(graph)
    assert graph_differences(*found) == []
