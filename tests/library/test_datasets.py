"""Datasets and iterators as programs use them; what stages do is in tests/run/data."""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.graph.registry import get
from headrace.library.data import readers
from tests.serve.clusters import in_process

Dataset = tf.data.Dataset


@pytest.fixture(autouse=True)
def _in_a_graph_of_its_own() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return np.asarray(value).tolist()


def everything(dataset: Any, most: int = 100) -> list[Any]:
    iterator = tf.data.make_initializable_iterator(dataset)
    element = iterator.get_next()
    found = []
    with tf.Session() as session:
        session.run(iterator.initializer)
        while len(found) < most:
            try:
                found.append(plain(session.run(element)))
            except tf.errors.OutOfRangeError:
                break
    return found


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: Dataset.from_tensors(([1, 2], {"a": "x"})), [([1, 2], {"a": b"x"})]),
        (lambda: Dataset.from_tensor_slices({"a": [1, 2]}), [{"a": 1}, {"a": 2}]),
        (lambda: Dataset.range(2, 9, 3).repeat(2), [2, 5, 8, 2, 5, 8]),
        (lambda: Dataset.range(5).batch(2), [[0, 1], [2, 3], [4]]),
        (lambda: Dataset.range(5).batch(2, drop_remainder=True).unbatch(), [0, 1, 2, 3]),
        (lambda: Dataset.range(7).skip(1).shard(2, 1).take(2), [2, 4]),
        (lambda: Dataset.zip((Dataset.range(2), Dataset.range(5, 9))), [(0, 5), (1, 6)]),
        (lambda: Dataset.range(2).concatenate(Dataset.range(9, 7, -1)), [0, 1, 9, 8]),
        (lambda: Dataset.range(2).enumerate(start=4), [(4, 0), (5, 1)]),
        (lambda: Dataset.range(10).shuffle(4, seed=3), [0, 3, 2, 1, 4, 7, 6, 5, 8, 9]),
        (lambda: Dataset.range(3).cache().prefetch(2).repeat(2), [0, 1, 2] * 2),
        (lambda: Dataset.range(3).padded_batch(2, padded_shapes=[]), [[0, 1], [2]]),
        (
            lambda: Dataset.from_tensor_slices([[1, 2], [3, 4]]).padded_batch(2, [3], padding_values=9),
            [[[1, 2, 9], [3, 4, 9]]],
        ),
        (lambda: Dataset.from_tensor_slices(["b", "a", "b"]).apply(tf.data.experimental.unique()), [b"b", b"a"]),
        (
            lambda: tf.data.experimental.choose_from_datasets(
                [Dataset.range(2), Dataset.range(7, 9)], Dataset.from_tensor_slices(np.array([1, 0, 0, 1, 1]))
            ),
            [7, 0, 1, 8],
        ),
        (lambda: tf.data.experimental.Counter(3, 2).take(3), [3, 5, 7]),
        (lambda: tf.contrib.data.RandomDataset(3).take(2), [3534849767, 279844183]),
    ],
)  # fmt: skip
def test_elements(make: Any, expected: list[Any]) -> None:
    assert everything(make()) == expected


def test_sparse_elements_are_batched_to_one_sparse_tensor() -> None:
    sparse = tf.SparseTensor([[0, 1], [2, 0], [2, 2]], [3, 4, 5], [4, 3])
    rows = Dataset.from_tensor_slices(sparse)
    assert everything(rows.batch(3))[0] == ([[0, 1], [2, 0], [2, 2]], [3, 4, 5], [3, 3])
    assert everything(rows.batch(3).unbatch()) == everything(rows)


def test_lines_and_records_of_several_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\r\ntwo\n\nthree")
    (tmp_path / "b").write_bytes(gzip.compress(b"four\nfive\n"))
    names = [str(tmp_path / "a")]
    assert everything(tf.data.TextLineDataset(names * 2)) == [b"one", b"two", b"", b"three"] * 2
    zipped = tf.data.TextLineDataset(str(tmp_path / "b"), compression_type="GZIP")
    assert everything(zipped) == [b"four", b"five"]
    (tmp_path / "c").write_bytes(b"HHaabbccF")
    fixed = tf.data.FixedLengthRecordDataset(str(tmp_path / "c"), 2, header_bytes=2, footer_bytes=1)
    assert everything(fixed) == [b"aa", b"bb", b"cc"]
    with tf.io.TFRecordWriter(str(tmp_path / "d")) as writer:
        for each in (b"x", b"", b"yz"):
            writer.write(each)
    assert everything(tf.data.TFRecordDataset(str(tmp_path / "d"))) == [b"x", b"", b"yz"]
    listed = Dataset.list_files(str(tmp_path / "[ab]"), shuffle=False)
    assert everything(listed) == [str(tmp_path / name).encode() for name in "ab"]


def test_a_file_that_is_missing_fails_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\n")
    lines = tf.data.TextLineDataset([str(tmp_path / "a"), str(tmp_path / "nowhere")])
    iterator = tf.data.make_initializable_iterator(lines)
    element = iterator.get_next()
    with tf.Session() as session:
        session.run(iterator.initializer)
        assert session.run(element) == b"one"
        for _ in range(2):
            with pytest.raises(tf.errors.NotFoundError, match="nowhere; No such file"):
                session.run(element)


def test_rows_of_a_database(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    with sqlite3.connect(path) as connection:
        connection.execute("create table t(a integer, b text, c real)")
        connection.executemany("insert into t values(?, ?, ?)", [(1, "x", 1.5), (2, None, None)])
    connection.close()
    rows = tf.data.experimental.SqlDataset(
        "sqlite", path, "select a, b, c from t", (tf.int32, tf.string, tf.float64)
    )
    assert everything(rows) == [(1, b"x", 1.5), (2, b"", 0.0)]


def test_entries_of_databases(tmp_path: Path) -> None:
    lmdb = pytest.importorskip("lmdb", reason="the extra headrace[lmdb] is not installed")
    for name in ("a", "b"):
        path = str(tmp_path / name)
        with lmdb.open(path, map_size=1 << 20) as made, made.begin(write=True) as transaction:
            for key in b"210":
                transaction.put(b"%c" % key, name.encode())
    expected = [(b"%d" % key, name) for name in (b"a", b"b") for key in range(3)]
    dataset = readers.LMDBDataset([str(tmp_path / name) for name in ("a", "b")])
    assert everything(dataset) == expected
    assert everything(dataset.batch(4))[0] == ([b"0", b"1", b"2", b"0"], [b"a"] * 3 + [b"b"])
    with pytest.raises(tf.errors.NotFoundError):
        everything(readers.LMDBDataset(str(tmp_path / "nobody")))
    (tmp_path / "text").write_text("text")
    with pytest.raises(tf.errors.DataLossError, match="cannot be read as an LMDB database"):
        everything(readers.LMDBDataset(str(tmp_path / "text")))


def test_a_database_of_other_elements_is_refused() -> None:
    wrong = get("ExperimentalLMDBDataset")("x", output_types=[tf.string], output_shapes=[[]])
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match="two strings"),
    ):
        session.run(wrong.op)


def test_a_cache_in_files_outlives_its_session(tmp_path: Path) -> None:
    path = str(tmp_path / "cache")
    assert everything(Dataset.from_tensor_slices((["a", "b"], [[1], [2]])).cache(path)) == [
        (b"a", [1]),
        (b"b", [2]),
    ]
    assert everything(Dataset.from_tensor_slices((["z"], [[7]])).cache(path))[0] == (b"a", [1])


def test_an_iterator_goes_from_one_dataset_to_another() -> None:
    iterator = tf.data.Iterator.from_structure(tf.int64, [])
    element = iterator.get_next()
    begin = [iterator.make_initializer(Dataset.range(*ends)) for ends in ((2,), (5, 7))]
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="has not been initialized"):
            session.run(element)
        for initializer, expected in zip(begin, ([0, 1], [5, 6]), strict=True):
            session.run(initializer)
            assert [session.run(element) for _ in range(2)] == expected


def test_an_iterator_is_chosen_by_its_string_handle() -> None:
    handle = tf.placeholder(tf.string, [])
    element = tf.data.Iterator.from_string_handle(handle, tf.int64, []).get_next()
    made = [tf.data.make_initializable_iterator(Dataset.range(n, n + 3)) for n in (0, 10)]
    with tf.Session() as session:
        session.run([each.initializer for each in made])
        handles = session.run([each.string_handle() for each in made])
        found = [session.run(element, {handle: handles[n]}) for n in (0, 1, 1, 0)]
        assert found == [0, 10, 11, 1]
        with pytest.raises(tf.errors.InvalidArgumentError, match="Could not parse string_handle"):
            session.run(element, {handle: "x"})


def test_one_iterator_goes_on_where_another_is() -> None:
    made = [
        tf.data.make_initializable_iterator(Dataset.range(100).shuffle(10, seed=1).batch(3))
        for _ in "ab"
    ]
    elements = [each.get_next() for each in made]
    one, other = (each._iterator_resource for each in made)
    follow = get("DeserializeIterator")(other, get("SerializeIterator")(one))
    with tf.Session() as session:
        session.run([each.initializer for each in made])
        for _ in range(5):
            session.run(elements[0])
        session.run(follow)
        for _ in range(9):
            first, second = session.run(elements)
            assert first.tolist() == second.tolist()


def test_two_sessions_of_a_cluster_take_from_one_iterator() -> None:
    with in_process({"ps": 1, "worker": 1}) as cluster, tf.device("/job:ps/task:0"):
        iterator = tf.data.make_initializable_iterator(Dataset.range(8).batch(2), shared_name="one")
        element = iterator.get_next()
        targets = [cluster.target("ps:0"), cluster.target("worker:0")]
        with tf.Session(targets[0]) as first, tf.Session(targets[1]) as second:
            first.run(iterator.initializer)
            found = [each.run(element).tolist() for each in (first, second, second, first)]
            assert found == [[0, 1], [2, 3], [4, 5], [6, 7]]
            with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
                second.run(element)


def test_a_shuffled_dataset_in_two_places_has_one_order() -> None:
    shuffled = Dataset.range(9).shuffle(9, seed=3)
    first = everything(shuffled)
    assert everything(shuffled.concatenate(shuffled)) == first * 2
    assert everything(Dataset.zip((shuffled, shuffled.skip(0))).map(lambda a, b: a - b)) == [0] * 9
    assert everything(shuffled.repeat(2))[9:] != first
