"""Images of summaries have TensorFlow's pixels; writers write the same events, and each reads the other's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr

NAN, INF = float("nan"), float("inf")
ROWS = [
    [0, 0.5, 1, 2], [-1, 0.5, 1, 2], [-3, 0.5, 1, 2], [0, 0, 0, 0], [1e-7, 0, 0, 0], [-1e-7, 0, 0, 0], [NAN, 1, 2, 3],
    [INF, -1, 2, 3], [-INF, 1, NAN, 3], [NAN] * 4, [255, 100, 3, 7], [300, 100, 3, 7], [0.1, 0.2, 0.3, 0.7],
    [1e-5, 2e-5, 0, 0], [-2e4, 6e4, 1, 0],
]  # fmt: skip
RANDOM = np.random.RandomState(1)
IMAGES = [
    np.array(row, kind).reshape(1, 2, 2, 1)
    for row in ROWS
    for kind in (np.float16, np.float32, np.float64)
] + [
    RANDOM.randn(4, 5, 6, 3).astype(np.float32),
    RANDOM.rand(2, 5, 6, 4).astype(np.float64),
    RANDOM.randint(0, 256, (5, 7, 3, 4)).astype(np.uint8),
    RANDOM.randint(0, 256, (1, 1, 1, 1)).astype(np.uint8),
    np.array([[NAN, 1, 2, 7], [4, 5, 6, 8]], np.float32).reshape(1, 1, 2, 4),
    np.array([[-9e9, NAN, 2], [4, 5, 6]], np.float32).reshape(1, 1, 2, 3),
]

PIXELS = """
def pixels(images):
    found = []
    for index, image in enumerate(images):
        made = tf.summary.image("i", tf.constant(image), 3 if index % 2 else 1)
        with tf.Session() as session:
            for value in tf.Summary.FromString(session.run(made)).value:
                picture = value.image
                decoded = tf.image.decode_png(picture.encoded_image_string, 0)
                sizes = picture.height, picture.width, picture.colorspace
                found.append((value.tag, sizes, session.run(decoded).tolist()))
    return found
result = pixels(images)
"""


def test_images_have_the_same_pixels(oracle: Any) -> None:
    pytest.importorskip("PIL.Image")
    names = {"tf": hr, "images": IMAGES}
    with hr.Graph().as_default():
        exec(PIXELS, names)
    theirs = oracle.run(PIXELS, images=IMAGES)
    for mine, other in zip(names["result"], theirs, strict=True):  # type: ignore[call-overload]
        assert mine == other


WRITE = """
def write(directory):
    graph = tf.Graph()
    with graph.as_default():
        tf.constant(1.0, name="one")
    def scalar(tag, value, **described):
        metadata = tf.SummaryMetadata(**described) if described else None
        return tf.Summary(value=[tf.Summary.Value(tag=tag, simple_value=value, metadata=metadata)])
    writer = tf.summary.FileWriter(directory, graph, filename_suffix=".mine")
    writer.add_summary(scalar("a", 1.5), 3)
    writer.add_summary(scalar("b", 1.5, display_name="d").SerializeToString(), np.int64(4))
    writer.add_summary(scalar("b", 2.5, display_name="e"))
    writer.add_summary(scalar("b", 2.5, display_name="e").SerializeToString(), 2.7)
    writer.add_summary(b"", -3)
    writer.add_session_log(tf.SessionLog(status=tf.SessionLog.START, msg="m"), 5)
    writer.add_run_metadata(tf.RunMetadata(), "t", 6)
    writer.add_meta_graph(tf.MetaGraphDef(), 6)
    writer.add_graph(graph, 7)
    writer.add_event(tf.Event(wall_time=7, step=9))
    writer.flush()
    writer.close()
    writer.close()
    return [[tried(use, writer), writer.get_logdir()] for use in (
        lambda w: w.add_summary(b"", 1), lambda w: w.flush(), lambda w: w.add_summary("text"),
        lambda w: w.add_summary(b"\\xff\\xff"), lambda w: w.add_graph("x"), lambda w: w.add_graph(None),
        lambda w: w.add_summary(b"", "a"), lambda w: w.add_run_metadata(tf.RunMetadata(), "t"),
        lambda w: w.add_session_log("x"), lambda w: w.add_meta_graph("x"),
    )]
def tried(function, *args):
    import warnings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*args)
        except Exception as error:
            return "raises " + type(error).__name__
"""
READ = """
def read(directory):
    import glob
    found = []
    for path in sorted(glob.glob(directory + "/*")):
        for event in tf.train.summary_iterator(path):
            what = event.WhichOneof("what")
            if what == "graph_def":
                nodes = tf.GraphDef.FromString(event.graph_def).node
                found.append((event.step, [(node.name, node.op, sorted(node.attr)) for node in nodes]))
                continue
            if what == "meta_graph_def":
                nodes = tf.MetaGraphDef.FromString(event.meta_graph_def).graph_def.node
                found.append((event.step, what, [(node.name, sorted(node.attr)) for node in nodes]))
                continue
            event.wall_time = 0
            event.source_metadata.Clear()
            found.append((what, event.SerializeToString(deterministic=True)))
    return found
"""


def test_writers_write_the_same_events_and_read_each_others(tmp_path: Path, oracle: Any) -> None:
    mine, theirs = str(tmp_path / "mine" / "new"), str(tmp_path / "theirs" / "new")
    names: dict[str, Any] = {"tf": hr, "np": np}
    exec(WRITE + READ, names)
    said = names["write"](mine)
    other = oracle.run(WRITE + "result = write(directory)", directory=theirs)
    assert [kind for kind, _ in said] == [kind for kind, _ in other]
    wanted = oracle.run(READ + "result = read(directory)", directory=theirs)
    assert oracle.run(READ + "result = read(directory)", directory=mine) == wanted
    assert names["read"](mine) == names["read"](theirs) == wanted
    (name,) = (path.name.partition(".tfevents.") for path in Path(mine).iterdir())
    (their_name,) = (path.name.partition(".tfevents.") for path in Path(theirs).iterdir())
    assert name[0] == their_name[0]
    assert name[2].partition(".")[2] == their_name[2].partition(".")[2]
