"""Segments of sequences in batches, with states that go on from one to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf

training = tf.contrib.training
LENGTHS = {b"a": 5, b"b": 2, b"c": 8}


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as made:
        yield made


def source() -> tuple[Any, Any, Any]:
    """(key, length, sequence [length, 2]) of one sequence after another; the numbers say which, and which step."""
    key, length = tf.train.slice_input_producer(
        [tf.constant(list(LENGTHS)), tf.constant(list(LENGTHS.values()))],
        num_epochs=1,
        shuffle=False,
    )
    steps = tf.cast(tf.range(length), tf.float32)
    first = tf.cast(tf.decode_raw(key, tf.uint8)[0], tf.float32)
    return key, length, tf.stack([steps, tf.fill([length], first)], 1)


def batches(build: Any) -> list[Any]:
    """What each step gives until the input has ended."""
    wanted = build()
    found = []
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        while not coordinator.should_stop():
            try:
                found.append(session.run(wanted))
            except tf.errors.OutOfRangeError:
                coordinator.request_stop()
        coordinator.join(threads)
    return found


def summed(batch_size: int, **options: Any) -> Any:
    """A state that is the sum of all steps so far."""
    key, length, sequence = source()
    batch = training.batch_sequences_with_states(
        key, {"steps": sequence}, {"twice": length * 2}, length,
        {"sum": tf.zeros([2]), "count": tf.constant(0)}, 3, batch_size, num_threads=1, **options,
    )  # fmt: skip
    assert batch.sequences["steps"].shape.as_list() == [
        None if options.get("allow_small_batch", True) else batch_size,
        3,
        2,
    ]
    total = batch.state("sum") + tf.reduce_sum(batch.sequences["steps"], 1)
    count = batch.state("count") + batch.length
    saved = [batch.save_state("sum", total), batch.save_state("count", count)]
    with tf.control_dependencies(saved):
        return {
            "key": tf.identity(batch.key), "next": batch.next_key, "length": batch.length, "at": batch.sequence,
            "of": batch.sequence_count, "total": batch.total_length, "twice": batch.context["twice"],
            "sum": tf.identity(total), "count": tf.identity(count), "size": batch.batch_size,
            "index": batch.insertion_index,
        }  # fmt: skip


@pytest.mark.parametrize("batch_size", [1, 2, 5])
@pytest.mark.parametrize("more", [0, 1000])
def test_states_go_on_from_segment_to_segment(batch_size: int, more: int) -> None:
    found = batches(lambda: summed(batch_size, capacity=batch_size + more))
    rows = [
        {name: each[name][row] for name in each if name != "size"}
        for each in found
        for row in range(each["size"])
    ]
    assert len(rows) == 2 + 1 + 3
    for key, length in LENGTHS.items():
        mine = [row for row in rows if row["key"].endswith(b":" + key)]
        count = -(-length // 3)
        assert [row["at"] for row in mine] == list(range(count))
        assert [row["key"] for row in mine] == [
            b"%05d_of_%05d:%s" % (at, count, key) for at in range(count)
        ]
        assert [row["next"] for row in mine] == [*[row["key"] for row in mine[1:]], b"STOP:" + key]
        assert {(row["of"], row["total"], row["twice"]) for row in mine} == {
            (count, length, 2 * length)
        }
        assert [row["length"] for row in mine] == [min(3, length - 3 * at) for at in range(count)]
        assert [row["count"] for row in mine] == [min(length, 3 * at + 3) for at in range(count)]
        assert mine[-1]["sum"].tolist() == [length * (length - 1) / 2, length * key[0]]


def test_full_batches_alone_are_given_if_asked_for() -> None:
    found = batches(lambda: summed(2, allow_small_batch=False))
    assert {each["size"] for each in found} == {2}


def test_a_recurrent_network_goes_on_where_it_was() -> None:
    def build() -> Any:
        key, length, sequence = source()
        cell = tf.nn.rnn_cell.BasicRNNCell(2)
        batch = training.batch_sequences_with_states(
            key, {"steps": sequence}, {}, length, {"h": tf.zeros([2])}, 3, 1, num_threads=1
        )
        inputs = tf.unstack(batch.sequences["steps"], axis=1)
        outputs, _ = tf.nn.static_state_saving_rnn(cell, inputs, batch, "h", batch.length)
        return (
            batch.key,
            tf.stack(outputs, 1),
            [v.read_value() for v in tf.global_variables() if "cell" in v.op.name],
        )

    found = batches(build)
    kernel, bias = found[0][2]
    for key, length in LENGTHS.items():
        made = np.concatenate([out[0] for name, out, _ in found if name[0].endswith(b":" + key)])[
            :length
        ]
        h = np.zeros(2)
        for step in range(length):
            h = np.tanh(np.hstack([[step, key[0]], h]) @ kernel + bias)
            np.testing.assert_allclose(made[step], h, rtol=1e-4, atol=1e-5)


def test_keys_can_be_made_unique() -> None:
    def build() -> Any:
        batch = training.batch_sequences_with_states(
            tf.constant("same"), {"x": source()[2]}, {}, None, {"s": tf.constant(0.0)}, 3, 1, num_threads=1,
            make_keys_unique=True, make_keys_unique_seed=3,
        )  # fmt: skip
        with tf.control_dependencies([batch.save_state("s", batch.state("s") + 1.0)]):
            return tf.identity(batch.key), batch.state("s")

    found = batches(build)
    assert len({key[0].partition(b":")[2] for key, _ in found}) == 3
    assert sorted(float(s[0]) for _, s in found) == [0, 0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"initial_states": {}}, ValueError, "at least one state"),
        ({"capacity": 1, "batch_size": 2}, ValueError, "so many must be under way"),
        ({"num_unroll": 0}, ValueError, "num_unroll must be at least 1"),
        ({"input_sequences": {}}, ValueError, "at least one sequence"),
        ({"input_context": {"c": "unknown"}}, ValueError, "shape of context 'c' must be known"),
        ({"input_sequences": {"s": "sparse"}}, NotImplementedError, "SparseTensor"),
    ],
)
def test_what_cannot_be_cut_is_refused(change: dict[str, Any], error: Any, message: str) -> None:
    made = {
        "unknown": lambda: tf.placeholder(tf.float32, [None]),
        "sparse": lambda: tf.SparseTensor([[0]], [1.0], [3]),
    }
    change = {
        name: {key: made[each]() for key, each in value.items()}
        if isinstance(value, dict)
        else value
        for name, value in change.items()
    }
    given: dict[str, Any] = {
        "input_key": "k", "input_sequences": {"x": tf.zeros([4, 1])}, "input_context": {}, "input_length": 4,
        "initial_states": {"s": tf.zeros([1])}, "num_unroll": 2, "batch_size": 1, **change,
    }  # fmt: skip
    with pytest.raises(error, match=message):
        training.batch_sequences_with_states(**given)


def test_steps_that_do_not_fit_are_an_error_of_the_step() -> None:
    saver = training.SequenceQueueingStateSaver(
        1,
        2,
        3,
        "k",
        {"x": tf.placeholder_with_default(tf.zeros([3, 1]), [None, 1])},
        {},
        {"s": tf.zeros([1])},
    )
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match="no multiple of num_unroll"),
    ):
        session.run(saver.prefetch_op)
    with pytest.raises(KeyError, match="not declared: t"):
        saver.next_batch.state("t")
