"""tf.python_io: files of records written and read without a graph, and read by a graph."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import headrace as tf

KIND = tf.python_io.TFRecordCompressionType
OPTIONS = [
    None, "", "ZLIB", "GZIP", KIND.NONE, KIND.ZLIB, KIND.GZIP,
    tf.python_io.TFRecordOptions("GZIP", compression_level=1, mem_level=9, window_bits=12),
    tf.python_io.TFRecordOptions(tf.python_io.TFRecordOptions(KIND.ZLIB), compression_strategy=2),
]  # fmt: skip
RECORDS = [b"one", b"", b"x" * 300_000]


@pytest.mark.parametrize("options", OPTIONS, ids=range(len(OPTIONS)))
def test_what_is_written_is_read(tmp_path: Path, options: Any) -> None:
    path = tmp_path / "f"
    with tf.python_io.TFRecordWriter(path, options) as writer:
        for record in RECORDS:
            writer.write(record)
    assert list(tf.python_io.tf_record_iterator(str(path), options)) == RECORDS
    packed = bool(tf.python_io.TFRecordOptions.get_compression_type_string(options))
    assert (path.stat().st_size < 40_000) == packed


def test_a_graph_reads_it(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("a", "b")]
    for path in paths:
        with tf.python_io.TFRecordWriter(path, "GZIP") as writer:
            writer.write(path.encode())
    with tf.Graph().as_default(), tf.Session() as session:
        queue = tf.FIFOQueue(9, tf.string)
        reader = tf.TFRecordReader(options=tf.python_io.TFRecordOptions(KIND.GZIP))
        read, count = reader.read(queue), reader.num_records_produced()
        session.run(queue.enqueue_many([paths]))
        for path in paths:
            assert session.run(read) == (f"{path}:0".encode(), path.encode())
        assert session.run(count) == 2


@pytest.mark.parametrize("options", [None, "ZLIB", "GZIP"])
def test_flush_lets_others_read_what_was_written(tmp_path: Path, options: Any) -> None:
    path = str(tmp_path / "f")
    with tf.python_io.TFRecordWriter(path, options) as writer:
        writer.write("text is written as UTF-8: é")
        writer.flush()
        assert list(tf.python_io.tf_record_iterator(path, options)) == [
            "text is written as UTF-8: é".encode()
        ]
        with pytest.raises(TypeError):
            writer.write(3)


def test_a_closed_writer_says_so(tmp_path: Path) -> None:
    writer = tf.python_io.TFRecordWriter(str(tmp_path / "f"))
    writer.close()
    writer.close()
    with pytest.raises(tf.errors.FailedPreconditionError, match="f is closed"):
        writer.write(b"x")
    with pytest.raises(tf.errors.FailedPreconditionError, match="f is closed"):
        writer.flush()
    assert list(tf.python_io.tf_record_iterator(tmp_path / "f")) == []


def test_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(tf.errors.NotFoundError, match="nobody"):
        tf.python_io.TFRecordWriter(str(tmp_path / "nobody" / "f"))
    with pytest.raises(tf.errors.NotFoundError, match="nobody"):
        next(tf.python_io.tf_record_iterator(str(tmp_path / "nobody")))
    (tmp_path / "text").write_text("this is no file of records")
    with pytest.raises(tf.errors.DataLossError, match=r"corrupted record at 0 .*, in .*text"):
        next(tf.python_io.tf_record_iterator(str(tmp_path / "text")))
    for options in ("LZ4", 7):
        with pytest.raises(ValueError, match="compression_type"):
            tf.python_io.TFRecordOptions(options)
    with pytest.raises(ValueError):  # noqa: PT011  (zlib's own)
        tf.python_io.TFRecordWriter(
            str(tmp_path / "f"), tf.python_io.TFRecordOptions("ZLIB", compression_level=99)
        )


def test_an_iterator_that_is_dropped_leaves_no_file_open(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    with tf.python_io.TFRecordWriter(path) as writer:
        writer.write(b"x")
        writer.write(b"y")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        first = tf.python_io.tf_record_iterator(path)
        assert next(first) == b"x"
        del first
