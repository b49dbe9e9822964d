"""tf.contrib.data, and what tf.data.experimental, tf.distribute and tf.lookup.experimental got late in 1.x."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf

DATA = tf.contrib.data
RANGE = tf.data.Dataset.range


def elements(dataset: Any) -> list[Any]:
    one, found = dataset.make_one_shot_iterator().get_next(), []
    with tf.Session() as session:
        while True:
            try:
                found.append(tf.nest.map_structure(lambda each: each.tolist(), session.run(one)))
            except tf.errors.OutOfRangeError:
                return found


@pytest.fixture(autouse=True)
def _graph() -> Any:
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize(
    ("transformation", "expected"),
    [
        (DATA.batch_and_drop_remainder(2), [[0, 1], [2, 3]]),
        (DATA.padded_batch_and_drop_remainder(2, []), [[0, 1], [2, 3]]),
        (DATA.sliding_window_batch(3), [[0, 1, 2], [1, 2, 3], [2, 3, 4]]),
        (DATA.sliding_window_batch(2, stride=2), [[0, 1], [2, 3]]),
        (DATA.sliding_window_batch(2, window_shift=2, window_stride=2), [[0, 2], [2, 4]]),
        (DATA.sloppy_interleave(lambda x: RANGE(x, x + 2), 1), [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]),
        (DATA.assert_element_shape([]), [0, 1, 2, 3, 4]),
    ],
)
def test_transformations(transformation: Any, expected: list[Any]) -> None:
    assert elements(RANGE(5).apply(transformation)) == expected


def test_windows_slide_over_structures() -> None:
    rows = tf.data.Dataset.zip((RANGE(4), {"a": RANGE(4).map(lambda x: x * x)}))
    found = elements(rows.apply(DATA.sliding_window_batch(3)))
    assert found == [([0, 1, 2], {"a": [0, 1, 4]}), ([1, 2, 3], {"a": [1, 4, 9]})]
    with pytest.raises(ValueError, match="Cannot specify both `stride` and `window_shift`"):
        DATA.sliding_window_batch(3, 1, 1)


def test_shapes_of_elements_are_checked_now_and_when_they_come() -> None:
    known = RANGE(4).map(lambda x: tf.fill([2], x))
    assert DATA.assert_element_shape([2])(known).output_shapes.as_list() == [2]
    with pytest.raises(ValueError, match="are incompatible"):
        DATA.assert_element_shape([3])(known)
    with pytest.raises(ValueError, match="same nested structure"):
        DATA.assert_element_shape(([2], [2]))(known)
    grows = RANGE(1, 4).map(lambda x: (tf.fill([x], x), x))
    checked = grows.apply(DATA.assert_element_shape((tf.TensorShape([1]), tf.TensorShape([]))))
    assert checked.output_shapes[0].as_list() == [1]
    following = checked.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert session.run(following)[0].tolist() == [1]
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(following)


def test_a_dataset_is_reduced() -> None:
    reducer = DATA.Reducer(
        lambda key: (tf.constant(0, tf.int64), key),
        lambda state, x: (state[0] + x, state[1] + 1),
        lambda state: state[0] * 100 + state[1],
    )
    with tf.Session() as session:
        assert session.run(DATA.reduce_dataset(RANGE(5), reducer)) == 1005


def test_what_is_measured_goes_to_the_aggregator() -> None:
    aggregator = DATA.StatsAggregator()
    dataset = RANGE(3).apply(DATA.latency_stats("took"))
    dataset = dataset.apply(DATA.set_stats_aggregator(aggregator, "reader"))
    iterator = dataset.make_initializable_iterator()
    following, summary = iterator.get_next(), aggregator.get_summary()
    with tf.Session() as session:
        session.run(iterator.initializer)
        for _ in range(3):
            session.run(following)
        found = tf.Summary.FromString(session.run(summary))
    (value,) = [each for each in found.value if each.tag.endswith("took")]
    assert value.histo.num == 3
    assert value.tag.startswith("reader")


def test_batches_of_examples_are_read(tmp_path: Path) -> None:
    path = str(tmp_path / "examples")
    with tf.python_io.TFRecordWriter(path) as writer:
        for number in range(4):
            made = tf.train.Example()
            made.features.feature["n"].int64_list.value.append(number)
            writer.write(made.SerializeToString())
    batch = DATA.read_batch_features(
        path,
        2,
        {"n": tf.FixedLenFeature([], tf.int64)},
        randomize_input=False,
        num_epochs=1,
        reader=tf.data.TFRecordDataset,
    )
    with tf.Session() as session:
        assert session.run(batch["n"]).tolist() == [0, 1]
        assert session.run(batch["n"]).tolist() == [2, 3]


def test_input_contexts_divide_batches() -> None:
    context = tf.distribute.InputContext(4, 1, 2)
    assert (context.num_input_pipelines, context.input_pipeline_id) == (4, 1)
    assert context.get_per_replica_batch_size(8) == 4
    with pytest.raises(ValueError, match="not divisible"):
        context.get_per_replica_batch_size(7)
    assert not tf.distribute.has_strategy()
    assert not tf.distribute.in_cross_replica_context()
    assert tf.distribute.Server is tf.train.Server


def test_a_dense_hash_table_of_tf_lookup() -> None:
    table = tf.lookup.experimental.DenseHashTable(
        tf.int64, tf.int64, default_value=-1, empty_key=0, deleted_key=-7
    )
    with tf.Session() as session:
        session.run(table.insert([1, 2], [10, 20]))
        assert session.run(table.lookup([1, 2, 3])).tolist() == [10, 20, -1]
        session.run(table.erase(tf.constant([2], tf.int64)))
        assert session.run(table.size()) == 1


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_function_is_computed_again_for_its_gradient(use_resource: bool) -> None:
    """The second call is of the gradient, has the first one's variables, and gives the same gradients."""
    calls = []

    def layer(x: Any) -> Any:
        calls.append(x)
        shape = tf.ones_initializer()
        w = tf.get_variable("w", [2, 3], initializer=shape, use_resource=use_resource)
        return tf.tanh(tf.sin(tf.matmul(x, w))), x * 2

    x = tf.constant([[0.1, 0.2]])
    one, two = tf.recompute_grad(layer)(x)
    (w,) = tf.trainable_variables()
    assert len(calls) == 1
    found = tf.gradients([one, two], [x, w])
    assert len(calls) == 2
    assert calls[1] is not x
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        plain = tf.gradients(list(layer(x)), [x, w])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        mine, others = session.run([found, plain])
    for own, other in zip(mine, others, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-6)
    assert tf.trainable_variables() == [w]


def test_a_recomputed_function_that_uses_no_variables() -> None:
    x = tf.constant([1.0, 2.0])
    y = tf.recompute_grad(lambda a, b: tf.sin(a) * b)(x, x)
    with tf.Session() as session:
        found = session.run(tf.gradients(y, x)[0])
    np.testing.assert_allclose(found, np.cos([1.0, 2.0]) * [1, 2] + np.sin([1.0, 2.0]), rtol=1e-6)
