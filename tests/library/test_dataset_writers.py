"""Datasets that are written to files of records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.graph.registry import get

Dataset = tf.data.Dataset
Writer = tf.data.experimental.TFRecordWriter


@pytest.fixture(autouse=True)
def _in_a_graph_of_its_own() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def written(path: Path, kind: str = "") -> list[bytes]:
    return list(tf.io.tf_record_iterator(str(path), tf.io.TFRecordOptions(kind)))


@pytest.mark.parametrize("kind", [None, "", "GZIP", "ZLIB"])
def test_the_records_of_a_dataset(tmp_path: Path, kind: str | None) -> None:
    path = tmp_path / "file"
    values = [b"a", b"", b"x" * 100_000]
    write = Writer(str(path), kind).write(Dataset.from_tensor_slices(values))
    with tf.Session() as session:
        for _ in range(2):
            assert session.run(write) is None
            assert written(path, kind or "") == values


def test_an_empty_dataset_makes_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with tf.Session() as session:
        session.run(Writer(str(path)).write(Dataset.from_tensors("a").take(0)))
    assert path.read_bytes() == b""


def test_nothing_is_compressed_for_a_kind_that_nobody_knows(tmp_path: Path) -> None:
    with tf.Session() as session:
        session.run(Writer(str(tmp_path / "file"), "X").write(Dataset.from_tensors("a")))
    assert written(tmp_path / "file") == [b"a"]


@pytest.mark.parametrize("kind", ["", "GZIP"])
def test_what_comes_before_a_failure_is_written(tmp_path: Path, kind: str) -> None:
    def checked(x: Any) -> Any:
        with tf.control_dependencies([tf.Assert(tf.not_equal(x, "c"), ["bad"])]):
            return tf.identity(x)

    path = tmp_path / "file"
    write = Writer(str(path), kind).write(Dataset.from_tensor_slices(["a", "b", "c"]).map(checked))
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="bad"):
        session.run(write)
    assert written(path, kind) == [b"a", b"b"]


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    dataset = Dataset.from_tensors("a")
    with tf.Session() as session:
        with pytest.raises(tf.errors.NotFoundError, match="No such file"):
            session.run(Writer(str(tmp_path / "no" / "file")).write(dataset))
        with pytest.raises(tf.errors.FailedPreconditionError, match="Is a directory"):
            session.run(Writer(str(tmp_path)).write(dataset))
        with pytest.raises(tf.errors.InvalidArgumentError, match="filename must be a scalar"):
            session.run(Writer([str(tmp_path / "file")]).write(dataset))


@pytest.mark.parametrize("dataset", [3, ["a"]], ids=["a number", "a list"])
def test_what_is_no_dataset_is_refused(dataset: Any) -> None:
    with pytest.raises(TypeError, match="Expected a"):
        Writer("file").write(dataset)


def test_other_elements_than_scalar_strings_are_refused(tmp_path: Path) -> None:
    text = Dataset.from_tensors("a")
    for dataset in (Dataset.range(3), text.batch(1), Dataset.zip((text, text))):
        with pytest.raises(TypeError, match="that produces scalar"):
            Writer("file").write(dataset)


def test_ops_refuse_other_elements_when_they_run(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    text = Dataset.from_tensors(["a"])
    cases = {
        "currently only supports DT_STRING dataypes, but got int64": Dataset.range(3),
        "datasets of 1 single column, but got 2": Dataset.zip((text, text)),
        "scalar string, and the element has shape": Dataset.from_tensors(["a", "b"]),
    }
    with tf.Session() as session:
        for message, dataset in cases.items():
            write = get("ExperimentalDatasetToTFRecord")(dataset._variant_tensor, path, "")
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                session.run(write)
        session.run(get("DatasetToTFRecord")(text._variant_tensor, path, ""))
    assert written(tmp_path / "file") == [b"a"]
