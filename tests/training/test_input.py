"""Input producers, and the classic pipeline from files to batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from tests.support.limits import deadline_that_says


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as fresh:
        yield fresh


def drained(tensor: Any) -> list[Any]:
    """Everything that `tensor` gives until the input ends."""
    seen = []
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        with coordinator.stop_on_exception():
            while not coordinator.should_stop():
                seen.append(session.run(tensor))
        coordinator.join(threads, stop_grace_period_secs=60)
    return seen


def test_strings_come_in_order_as_often_as_there_are_epochs() -> None:
    queue = tf.train.string_input_producer(["a", "b", "c"], num_epochs=2, shuffle=False, capacity=2)
    assert drained(queue.dequeue()) == [b"a", b"b", b"c"] * 2


def test_shuffled_epochs_hold_everything_once() -> None:
    queue = tf.train.string_input_producer([str(n) for n in range(20)], num_epochs=2, seed=4)
    got = drained(queue.dequeue())
    assert sorted(got[:20]) == sorted(got[20:]) == sorted(b"%d" % n for n in range(20))
    assert got[:20] != got[20:]


def test_slices_belong_together() -> None:
    pair = tf.train.slice_input_producer([[1, 2, 3], ["a", "b", "c"]], num_epochs=1, seed=1)
    assert sorted((int(n), s) for n, s in drained(pair)) == [(1, b"a"), (2, b"b"), (3, b"c")]


def test_an_empty_list_of_names_is_refused_at_once_and_an_empty_tensor_in_the_step() -> None:
    with pytest.raises(ValueError, match="non-null"):
        tf.train.string_input_producer([])
    names = tf.placeholder_with_default(tf.zeros([0], tf.string), [None])
    queue = tf.train.string_input_producer(names, shuffle=False)
    with pytest.raises(tf.errors.InvalidArgumentError, match="non-null"):
        drained(queue.dequeue())


def test_limits_of_epochs_are_counted_per_session() -> None:
    limited = tf.train.limit_epochs(tf.constant([7]), 2)
    assert [v.tolist() for v in drained(limited)] == [[7], [7]]
    assert [v.tolist() for v in drained(limited)] == [[7], [7]]
    with pytest.raises(ValueError, match="> 0"):
        tf.train.limit_epochs([7], 0)


def test_file_names_are_matched_when_the_variable_is_initialized(tmp_path: Path) -> None:
    names = tf.train.match_filenames_once(str(tmp_path / "*.csv"))
    for name in ("b.csv", "a.csv", "c.txt"):
        (tmp_path / name).touch()
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        (tmp_path / "late.csv").touch()
        assert [Path(n.decode()).name for n in session.run(names)] == ["a.csv", "b.csv"]


def test_from_csv_files_to_batches(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a,b,label\n1.,2.,0\n4.,5,1\n7.,,0\n")
    names = tf.train.string_input_producer([str(tmp_path / "data.csv")], num_epochs=1)
    _, line = tf.TextLineReader(skip_header_lines=1).read(names)
    a, b, label = tf.decode_csv(line, [[-1.0], [-1.0], [0]])
    queue = tf.FIFOQueue(10, [tf.float32, tf.int32], shapes=[[2], []])
    enqueue = queue.enqueue([tf.stack([a, b]), label])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [enqueue]))
    batches = drained(queue.dequeue_up_to(2))
    assert [(x.tolist(), y.tolist()) for x, y in batches] == [
        ([[1.0, 2.0], [4.0, 5.0]], [0, 1]), ([[7.0, -1.0]], [0]),
    ]  # fmt: skip


@pytest.mark.parametrize("batched", [False, True], ids=["one by one", "batched"])
def test_a_malformed_line_is_named_by_file_and_line(tmp_path: Path, batched: bool) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("1,2\n3,4\n5,x\n7,8\n")
    names = tf.train.string_input_producer([str(path)], num_epochs=1)
    reader = tf.TextLineReader()
    lines = tf.FIFOQueue(10, tf.string, shapes=[[]])
    if batched:
        put = lines.enqueue_many(reader.read_up_to(names, 100).values)
    else:
        put = lines.enqueue(reader.read(names).value)
    tf.train.add_queue_runner(tf.train.QueueRunner(lines, [put]))
    columns = tf.decode_csv(lines.dequeue_many(4) if batched else lines.dequeue(), [[0], [0]])
    record = "record 2" if batched else "record 0"
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        drained(columns)
    assert f"Field 1 in {record} is not a valid int32: x ({path}:3)" in caught.value.message


def test_a_read_that_waits_for_files_holds_up_nothing_else() -> None:
    names = tf.FIFOQueue(10, tf.string)
    key, _ = tf.IdentityReader().read(names)
    with tf.Session() as session:
        with tf.control_dependencies([names.enqueue("late")]):
            done = tf.constant(1)
        assert session.run([key, done]) == [b"late", 1]
        deadline_that_says(
            lambda options: session.run(key, options=options), "read on IdentityReader"
        )
        session.run(names.enqueue("next"))
        assert session.run(key) == b"next", "the read that timed out took nothing"
