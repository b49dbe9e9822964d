"""numpy_input_fn and pandas_input_fn: batches, their order, the nodes that make them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

SETUP = """
I = tf.estimator.inputs
x = {"b": np.arange(14, dtype=np.int32).reshape(7, 2), "a": np.arange(7.0)}
y = np.arange(7) * 10
def batches(input_fn, most=20):
    given = input_fn()
    found = []
    with tf.train.MonitoredSession() as session:
        while len(found) < most and not session.should_stop():
            found.append(session.run(given))
    return found
def nodes(input_fn):
    input_fn()
    return [[op.name, op.type] for op in tf.get_default_graph().get_operations()]
"""

BATCHES = [
    "x, y, batch_size=3, shuffle=False",
    "x, y, batch_size=3, shuffle=False, num_epochs=2",
    "x, y, batch_size=20, shuffle=False, num_epochs=2",
    "x, y, batch_size=3, shuffle=False, num_epochs=0",
    "x['a'], y, batch_size=4, shuffle=False",
    "x['a'], batch_size=4, shuffle=False",
    "x, {'r': y, 'q': y * 2}, batch_size=4, shuffle=False",
    "{'s': np.array(['p', 'q', 'r'])}, np.array([b'x', b'y', b'z']), batch_size=2, shuffle=False",
    "{'s': np.array(['p', 'q', 'r'], object)}, None, batch_size=2, shuffle=False, queue_capacity=2",
]


@pytest.mark.parametrize("arguments", BATCHES)
def test_batches_of_arrays_are_the_same(agree: Any, arguments: str) -> None:
    agree(SETUP + f"result = batches(I.numpy_input_fn({arguments}))")


def test_batches_without_end_go_round(agree: Any) -> None:
    agree(SETUP + "result = batches(I.numpy_input_fn(x, y, 3, None, False), 5)")


@pytest.mark.parametrize("threads", [1, 2])
def test_shuffled_each_thread_gives_each_example_once_an_epoch(agree: Any, threads: int) -> None:
    found = agree(
        SETUP
        + f"found = batches(I.numpy_input_fn(x, y, 3, 2, True, num_threads={threads}))\n"
        + "result = [len(found), sorted(sum(([*map(int, labels)] for _, labels in found), []))]"
    )
    assert len(found[1]) == 14 * threads


NODES = [
    "x, y, batch_size=3, shuffle=False",
    "x['a'], batch_size=3, shuffle=False, queue_capacity=10",
    "x, y, batch_size=3, shuffle=True, num_epochs=None",
    "x, {'q': y}, batch_size=3, shuffle=True, num_threads=2, queue_capacity=10",
]


@pytest.mark.parametrize("arguments", NODES)
def test_the_graph_has_the_same_nodes(agree: Any, arguments: str) -> None:
    agree(SETUP + f"result = nodes(I.numpy_input_fn({arguments}))")


REFUSED = [
    ("x, y", "shuffle must be provided and explicitly set as boolean"),
    ("{}, y, shuffle=False", "x cannot be an empty dict"),
    ("[1], y, shuffle=False", "x must be a dict or array; got list"),
    (
        "{'a': np.arange(3)}, y, shuffle=False",
        "Length of tensors in x and y is mismatched. All elements in x and y must have the same length.\n"
        "Shapes in x: {'a': (3,)}\nShapes in y: (7,)\n",
    ),
    ("x, np.arange(3), shuffle=False", "Length of tensors in x and y is mismatched."),
    ("x, {'a': y}, shuffle=False", "1 duplicate keys are found in both x and y: {'a'}"),
    ("x, {}, shuffle=False", "y cannot be empty dict, use None instead."),
    ("x, y, shuffle=False, num_threads=0", "Must provide queue and enqueue_ops"),
]


@pytest.mark.parametrize(("arguments", "phrase"), REFUSED)
def test_arrays_that_make_no_batches_are_refused(agree: Any, arguments: str, phrase: str) -> None:
    agree(SETUP + f"result = attempt(lambda: I.numpy_input_fn({arguments})(), {phrase!r})")


def test_a_model_learns_from_arrays_and_is_asked_of_them(agree: Any) -> None:
    agree(
        SETUP
        + """
def model_fn(features, labels, mode):
    w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    value = features["a"] * tf.cast(w, tf.float64)
    if mode == "infer":
        return tf.estimator.EstimatorSpec(mode, predictions={"value": value})
    loss = tf.reduce_mean(tf.square(value - tf.cast(labels, tf.float64)))
    train_op = tf.train.GradientDescentOptimizer(0.01).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)
one = tf.estimator.Estimator(model_fn, folder)
one.train(I.numpy_input_fn(x, y, batch_size=2, num_epochs=3, shuffle=False))
result = [
    one.get_variable_value("w"), one.evaluate(I.numpy_input_fn(x, y, batch_size=4, shuffle=False)),
    [each["value"] for each in one.predict(I.numpy_input_fn(x, batch_size=3, shuffle=False))],
    files(folder, events=True),
]
"""
    )


TABLES = """
pd = __import__("pandas")
pd.options.future.infer_string = False
table = pd.DataFrame({"a": [1, 2, 3], "b": [1.5, 2.5, 3.5], "s": ["x", "y", "z"]}, index=[10, 11, 12])
labels = pd.Series([7, 8, 9], index=[10, 11, 12])
"""
PANDAS = [
    ("table, labels, 2, shuffle=False", ""),
    ("table, None, 2, shuffle=False", ""),
    ("table, pd.DataFrame({'u': labels, 'a': labels}), 2, shuffle=False", ""),
    ("table, labels", "shuffle must be provided and explicitly set as boolean"),
    (
        "table, pd.Series([1, 2, 3]), shuffle=False",
        "Index for x and y are mismatched.\nIndex for x: ",
    ),
    (
        "table, labels, shuffle=False, target_column='a'",
        "Cannot use name a for target column: DataFrame already has a column with that name: Index(['a', 'b', 's']",
    ),
]


@pytest.mark.parametrize(("arguments", "phrase"), PANDAS)
def test_batches_of_tables_are_the_same(agree: Any, arguments: str, phrase: str) -> None:
    pytest.importorskip("pandas")
    made = f"lambda: batches(I.pandas_input_fn({arguments}))"
    agree(SETUP + TABLES + f"result = attempt({made}, {phrase!r})")
