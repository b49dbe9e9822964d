"""Lookup tables in sessions, in checkpoints and on clusters of processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from tests.serve.clusters import processes


def vocabulary() -> Any:
    return tf.contrib.lookup.index_table_from_tensor(
        ["emerson", "lake", "palmer"], num_oov_buckets=1
    )


def mutable(name: str = "scores", **more: Any) -> Any:
    return tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, -1, name=name, **more)


def inserted(table: Any, words: list[str], numbers: list[int]) -> Any:
    return table.insert(tf.constant(words), tf.constant(numbers, tf.int64))


def found(session: tf.Session, table: Any, words: list[str]) -> list[int]:
    listed: list[int] = session.run(table.lookup(tf.constant(words))).tolist()
    return listed


def test_words_of_a_vocabulary_have_ids_and_others_a_bucket() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        table = vocabulary()
        session.run(tf.tables_initializer())
        assert found(session, table, ["lake", "and", "palmer"]) == [1, 3, 2]
        assert session.run(table.size()) == 4


def test_sparse_words_have_sparse_ids() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        table = vocabulary()
        words = tf.SparseTensorValue([[0, 1], [2, 0]], ["palmer", "emerson"], [3, 2])
        ids = table.lookup(tf.SparseTensor.from_value(words))
        session.run(tf.tables_initializer())
        value = session.run(ids)
        assert value.values.tolist() == [2, 0]
        assert value.indices.tolist() == [[0, 1], [2, 0]]


def test_a_table_that_was_not_initialized_says_what_to_run() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        table = vocabulary()
        with pytest.raises(tf.errors.FailedPreconditionError, match="tables_initializer"):
            found(session, table, ["lake"])


def test_words_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_bytes(b"one\r\ntwo\n \nfour")
    with tf.Graph().as_default(), tf.Session() as session:
        ids = tf.contrib.lookup.index_table_from_file(str(file))
        words = tf.contrib.lookup.index_to_string_table_from_file(str(file), default_value="?")
        session.run(tf.tables_initializer())
        assert found(session, ids, ["four", " ", "two", "five"]) == [3, 2, 1, -1]
        numbers = tf.constant([0, 3, 9], tf.int64)
        assert session.run(words.lookup(numbers)).tolist() == [b"one", b"four", b"?"]
        assert tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS)


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "no lines"), (b"a\n\nb", "empty line.*position 3")]
)
def test_files_without_words_are_refused(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "words.txt"
    file.write_bytes(content)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.contrib.lookup.index_table_from_file(str(file))
        with pytest.raises(tf.errors.InvalidArgumentError, match=said):
            session.run(tf.tables_initializer())


def test_a_table_of_no_words_is_refused_and_can_have_some_later() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        words = tf.placeholder_with_default(tf.constant([], tf.string), [None])
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(words, tf.ones_like(words, tf.int64)), -1
        )
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"cannot be empty.*MutableHashTable"
        ):
            session.run(table.initializer)
        session.run(table.initializer, {words: ["a"]})
        assert found(session, table, ["a", "b"]) == [1, -1]


@pytest.mark.parametrize("dense", [False, True])
def test_a_saver_keeps_a_mutable_table(tmp_path: Path, dense: bool) -> None:
    def made() -> Any:
        if dense:
            return tf.contrib.lookup.MutableDenseHashTable(
                tf.string,
                tf.int64,
                -1,
                empty_key="",
                deleted_key="~",
                initial_num_buckets=4,
                name="t",
            )
        return mutable("t")

    with tf.Graph().as_default(), tf.Session() as session:
        table = made()
        session.run(inserted(table, ["a", "b", "c", "d", "e"], [1, 2, 3, 4, 5]))
        session.run(table.remove(tf.constant(["b"])))
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
    names = dict(tf.train.list_variables(path))
    assert set(names) == {"t-keys", "t-values"}
    with tf.Graph().as_default(), tf.Session() as session:
        table = made()
        saver = tf.train.Saver()
        session.run(inserted(table, ["z"], [26]))
        saver.restore(session, path)
        assert found(session, table, ["a", "b", "e", "z"]) == [1, -1, 5, -1]
        assert session.run(table.size()) == 4


def test_many_keys_are_found_at_once() -> None:
    keys = np.arange(200_000)
    with tf.Graph().as_default(), tf.Session() as session:
        init = tf.lookup.KeyValueTensorInitializer(keys, keys * 2)
        table = tf.lookup.StaticHashTable(init, -1)
        session.run(tf.tables_initializer())
        wanted = tf.placeholder(tf.int64)
        values = session.run(table.lookup(wanted), {wanted: keys[::-1] - 5})
    assert np.array_equal(values, np.where(keys[::-1] < 5, -1, (keys[::-1] - 5) * 2))


def test_tables_of_a_cluster_are_shared_by_its_sessions() -> None:
    with processes({"ps": 1, "worker": 2}) as cluster:
        with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
            words, scores = vocabulary(), mutable(shared_name="scores")
            put = inserted(scores, ["lake"], [7])
            ready = tf.tables_initializer()
            with tf.device("/job:worker/task:1"):
                doubled = scores.lookup(tf.constant(["lake", "sea"])) * 2
            with tf.Session(cluster.target("worker:0")) as first:
                first.run([ready, put])
            with tf.Session(cluster.target("worker:1")) as second:
                assert second.run(doubled).tolist() == [14, -2]
                assert found(second, words, ["palmer", "and"]) == [2, 3]
        with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
            again = mutable("another", shared_name="scores", checkpoint=False)
            other = mutable("scores", checkpoint=False)
            with tf.Session(cluster.target("worker:0")) as third:
                assert found(third, again, ["lake"]) == [7]
                assert found(third, other, ["lake"]) == [-1]
            tf.Session.reset(cluster.target("ps:0"))
            with tf.Session(cluster.target("worker:0")) as third:
                assert found(third, again, ["lake"]) == [-1]
