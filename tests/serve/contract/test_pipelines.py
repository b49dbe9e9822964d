"""Input pipelines on a cluster, over every transport: readers, sparse batches and errors live on their tasks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.ops.io.readers import ReaderBase, text_line_reader_v2
from tests.serve.clusters import Cluster
from tests.serve.conftest import Background

Start = Callable[[Callable[[], Any]], Background]

PS = "/job:ps/task:0"


def shared_reader() -> ReaderBase:
    """A reader that every session of the cluster finds under its name."""
    return ReaderBase(text_line_reader_v2(shared_name="the reader"))


def test_sessions_on_different_servers_share_a_reader(
    cluster: Cluster, tmp_path: Path, background: Start
) -> None:
    path = tmp_path / "lines"
    path.write_text("".join(f"{n}\n" for n in range(40)))
    with tf.device(PS):
        names = tf.FIFOQueue(9, tf.string, shared_name="names")
        reader = shared_reader()
        read, produced = reader.read(names), reader.num_records_produced()
    seen: list[int] = []

    def drain(target: str) -> None:
        with tf.Session(target, graph=read.key.graph) as session:
            try:
                while True:
                    seen.append(int(session.run(read.value)))
            except tf.errors.OutOfRangeError:
                return

    with tf.Session(cluster.target("worker:0")) as session:
        session.run(names.enqueue(str(path)))
        session.run(names.close())
        targets = [cluster.target(f"worker:{n}") for n in (0, 1)]
        for each in [background(partial(drain, target)) for target in targets]:
            each.value()
        assert sorted(seen) == list(range(40))
        assert session.run(produced) == 40


def test_records_become_batches_on_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    path = str(tmp_path / "records")
    with tf.python_io.TFRecordWriter(path, "GZIP") as writer:
        for n in range(10):
            numbers = tf.train.Feature(int64_list=tf.train.Int64List(value=range(n)))
            features = tf.train.Features(feature={"n": numbers})
            writer.write(tf.train.Example(features=features).SerializeToString())
    with tf.device(PS):
        names = tf.train.string_input_producer([path], num_epochs=1)
        _, record = tf.TFRecordReader(options="GZIP").read(names)
    with tf.device("/job:worker/task:1"):
        parsed = tf.parse_single_example(record, {"n": tf.VarLenFeature(tf.int64)})
        batch = tf.train.batch([parsed["n"]], 4, allow_smaller_final_batch=True)
    shapes, total = [], 0
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.local_variables_initializer())
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        with coordinator.stop_on_exception():
            while True:
                found = session.run(batch)
                shapes.append(found.dense_shape.tolist())
                total += int(found.values.sum())
        coordinator.join(threads, stop_grace_period_secs=60)
    assert shapes == [[4, 3], [4, 7], [2, 9]]
    assert total == sum(sum(range(n)) for n in range(10))


def test_a_corrupt_record_is_named_to_the_client(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "records"
    with tf.python_io.TFRecordWriter(str(path)) as writer:
        writer.write(b"first")
        writer.write(b"second")
    content = bytearray(path.read_bytes())
    content[-6] ^= 1
    path.write_bytes(content)
    with tf.device(PS):
        names = tf.FIFOQueue(9, tf.string)
        read = tf.TFRecordReader().read(names)
    with tf.Session(cluster.target("worker:1")) as session:
        session.run(names.enqueue(str(path)))
        assert session.run(read) == (f"{path}:0".encode(), b"first")
        with pytest.raises(tf.errors.DataLossError, match=f"corrupted record at 21.*{path}"):
            session.run(read)
