"""Datasets with Python functions as programs use them; what stages do is in tests/run/data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from tests.serve.clusters import in_process

Dataset = tf.data.Dataset
experimental = tf.data.experimental


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


def everything(dataset: Any, passes: int = 1, first: Any = ()) -> Any:
    """The elements; of several passes a list for each."""
    iterator = tf.data.make_initializable_iterator(dataset)
    element = iterator.get_next()
    found: list[list[Any]] = []
    with tf.Session() as session:
        session.run(list(first))
        for _ in range(passes):
            session.run(iterator.initializer)
            found.append([])
            while len(found[-1]) < 100:
                try:
                    found[-1].append(plain(session.run(element)))
                except tf.errors.OutOfRangeError:
                    break
    return found if passes > 1 else found[0]


def five() -> Any:
    return Dataset.range(5)


def tens(x: Any) -> Any:
    return Dataset.range(10 * x, 10 * x + 2)


SUM = experimental.Reducer(lambda key: key * 100, lambda state, x: state + x, lambda state: state)
IN_TURN = [0, 10, 1, 11, 20, 30, 21, 31, 40, 41]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: five().map(lambda x: x * 2), [0, 2, 4, 6, 8]),
        (lambda: five().map(lambda x: x * 2, num_parallel_calls=3), [0, 2, 4, 6, 8]),
        (lambda: five().map(lambda x: {"a": (x, -x)}).map(lambda d: d["a"][1]).take(2), [0, -1]),
        (lambda: Dataset.from_tensors((1, 2)).map(lambda a, b: (b, a, "x")), [(2, 1, b"x")]),
        (lambda: Dataset.from_tensors([3, 4]).map(lambda x: [x[0], x[1]]), [(3, 4)]),
        (lambda: five().filter(lambda x: x > 2), [3, 4]),
        (lambda: five().flat_map(tens).take(4), [0, 1, 10, 11]),
        (lambda: five().interleave(tens, cycle_length=2), IN_TURN),
        (lambda: five().interleave(tens, cycle_length=2, num_parallel_calls=2), IN_TURN),
        (lambda: five().apply(experimental.parallel_interleave(tens, cycle_length=2)), IN_TURN),
        (lambda: five().window(2).flat_map(lambda w: w.batch(2)), [[0, 1], [2, 3], [4]]),
        (
            lambda: five().apply(
                experimental.scan(np.int64(1), lambda state, x: (state + x, state))
            ),
            [1, 1, 2, 4, 7],
        ),
        (lambda: five().apply(experimental.take_while(lambda x: x < 2)), [0, 1]),
        (
            lambda: five().apply(
                experimental.map_and_batch(lambda x: x + 1, 2, drop_remainder=True)
            ),
            [[1, 2], [3, 4]],
        ),
        (lambda: five().apply(experimental.map_and_batch(lambda x: x, 3, 2)), [[0, 1, 2], [3, 4]]),
        (
            lambda: five().apply(
                experimental.group_by_window(
                    lambda x: x % 2, lambda key, w: w.map(lambda x: (key, x)), window_size=2
                )
            ),
            [(0, 0), (0, 2), (1, 1), (1, 3), (0, 4)],
        ),
        (
            lambda: five().apply(
                experimental.group_by_window(
                    lambda x: x % 2, lambda _, w: w.batch(9), window_size_func=lambda k: k + 1
                )
            ),
            [[0], [2], [1, 3], [4]],
        ),
        (lambda: five().apply(experimental.group_by_reducer(lambda x: 1 - x % 2, SUM)), [4, 106]),
        (
            lambda: Dataset.from_generator(
                lambda: iter([(1, "a"), (2, "b")]), (tf.int64, tf.string)
            ),
            [(1, b"a"), (2, b"b")],
        ),
        (lambda: Dataset.from_generator(range, tf.int32, [], args=(3,)).repeat(2), [0, 1, 2] * 2),
        (
            lambda: Dataset.from_generator(
                lambda: iter([([], np.float64(2.7)), ([1], np.array(3))]), (tf.int32, tf.int64)
            ),
            [([], 2), ([1], 3)],
        ),
        (
            lambda: Dataset.from_generator(
                lambda: iter([{"a": [1, 2], "b": 3}]), {"a": tf.int32, "b": tf.float32}
            ),
            [{"a": [1, 2], "b": 3.0}],
        ),
        (
            lambda: experimental.sample_from_datasets(
                [five(), Dataset.range(10, 15)], [0.5, 0.5], seed=3
            ),
            [10, 11, 12, 0, 13, 14, 1, 2, 3, 4],
        ),
        (
            lambda: experimental.sample_from_datasets([five(), Dataset.range(9)], [1.0, 0.0]),
            [0, 1, 2, 3, 4],
        ),
        (
            lambda: (
                five()
                .apply(experimental.prefetch_to_device("/cpu:0"))
                .apply(experimental.copy_to_device("/cpu:0"))
            ),
            [0, 1, 2, 3, 4],
        ),
    ],
)
def test_elements(make: Any, expected: list[Any]) -> None:
    assert everything(make()) == expected


def test_sequences_alike_in_length_are_batched() -> None:
    lengths = Dataset.from_tensor_slices(np.array([1, 5, 2, 4, 9, 3], np.int64))
    sequences = lengths.map(lambda n: tf.fill(tf.expand_dims(n, 0), n))

    def buckets(**given: Any) -> list[Any]:
        made = experimental.bucket_by_sequence_length(
            lambda x: tf.shape(x)[0], [3, 6], [2, 2, 1], **given
        )
        return everything(sequences.apply(made))

    assert buckets() == [
        [[1, 0], [2, 2]],
        [[5, 5, 5, 5, 5], [4, 4, 4, 4, 0]],
        [[9] * 9],
        [[3, 3, 3]],
    ]
    assert buckets(padded_shapes=[9], padding_values=np.int64(7))[3] == [[3] * 3 + [7] * 6]
    sequences = sequences.filter(lambda x: tf.shape(x)[0] < 6)
    assert buckets(pad_to_bucket_boundary=True)[2] == [[3, 3, 3, 0, 0]]


def test_examples_are_parsed() -> None:
    features = {"a": tf.FixedLenFeature([], tf.int64), "b": tf.VarLenFeature(tf.int64)}
    numbers = [tf.train.Feature(int64_list=tf.train.Int64List(value=[n] * n)) for n in (1, 2)]
    example = tf.train.Example(
        features=tf.train.Features(feature={"a": numbers[0], "b": numbers[1]})
    )
    rows = Dataset.from_tensors([example.SerializeToString()] * 2)
    (found,) = everything(rows.apply(experimental.parse_example_dataset(features)))
    assert found["a"] == [1, 1]
    assert found["b"] == ([[0, 0], [0, 1], [1, 0], [1, 1]], [2, 2, 2, 2], [2, 2])


def test_sparse_elements_go_through_functions() -> None:
    sparse = tf.SparseTensor([[0, 1], [1, 0]], [3, 4], [2, 2])
    rows = Dataset.from_tensor_slices(sparse).map(
        lambda s: tf.SparseTensor(s.indices, s.values * 2, s.dense_shape)
    )
    assert rows.output_classes is tf.SparseTensor
    assert everything(rows) == [([[1]], [6], [2]), ([[0]], [8], [2])]


def test_what_functions_capture_is_what_it_was_when_the_iterator_was_made() -> None:
    size = tf.placeholder(tf.int64, [])
    variable = tf.Variable(np.int64(10))
    made = five().map(lambda x: (x * size, size, variable + x)).take(2)
    iterator = tf.data.make_initializable_iterator(made)
    element = iterator.get_next()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(iterator.initializer, {size: 3})
        assert plain(session.run(element)) == (0, 3, 10)
        session.run(iterator.initializer, {size: 5})
        assert [plain(session.run(element)) for _ in range(2)] == [(0, 5, 10), (5, 5, 11)]


def test_resource_variables_are_read_when_the_function_is_called() -> None:
    with tf.variable_scope("", use_resource=True):
        variable = tf.get_variable("v", initializer=np.int64(1))
    iterator = tf.data.make_initializable_iterator(five().map(lambda x: variable + x))
    element, more = iterator.get_next(), variable.assign(100)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(iterator.initializer)
        assert session.run(element) == 1
        session.run(more)
        assert session.run(element) == 101


def test_random_numbers_with_seeds_begin_anew_with_each_iteration() -> None:
    drawn = five().map(lambda x: tf.random_uniform([], seed=3))
    one, other = everything(drawn, passes=2)
    assert one == other
    assert len(set(one)) == 5
    assert everything(five().shuffle(5, seed=1).flat_map(tens), passes=1)[0] in range(50)


def test_the_failure_of_an_element_names_its_function_and_the_next_one_comes() -> None:
    def inverse(x: Any) -> Any:
        return tf.check_numerics(1.0 / tf.cast(x - 1, tf.float32), "bad")

    iterator = tf.data.make_initializable_iterator(five().map(inverse))
    element = iterator.get_next()
    with tf.Session() as session:
        session.run(iterator.initializer)
        assert session.run(element) == -1
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match=r"bad : .*\n  in function \S*inverse\S* .* for \(1\)",
        ):
            session.run(element)
        assert session.run(element) == 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: five().map(lambda x: None), TypeError, "Unsupported return value"),
        (lambda: five().flat_map(lambda x: x), TypeError, "must return a `Dataset` object"),
        (lambda: five().filter(lambda x: x), ValueError, "must return a `tf.bool` scalar"),
        (
            lambda: five().reduce(np.int64(0), lambda s, x: tf.cast(s, tf.int32)),
            TypeError,
            "element types",
        ),
        (
            lambda: five().apply(experimental.scan(0, lambda s, x: s)),
            TypeError,
            "pair consisting of new state",
        ),
        (
            lambda: experimental.group_by_window(lambda x: x, lambda k, w: w),
            ValueError,
            "must be specified",
        ),
        (
            lambda: five().apply(experimental.group_by_window(lambda x: x, lambda k, w: k, 2)),
            TypeError,
            "must return a `Dataset` object",
        ),
        (
            lambda: five().apply(experimental.group_by_reducer(lambda x: "a", SUM)),
            ValueError,
            "must return a single `tf.int64`",
        ),
        (
            lambda: experimental.map_and_batch(lambda x: x, 2, 2, num_parallel_calls=2),
            ValueError,
            "only one of",
        ),
        (
            lambda: experimental.sample_from_datasets([five()], [1.0, 2.0]),
            ValueError,
            "Invalid `weights`",
        ),
        (
            lambda: experimental.sample_from_datasets([five(), five()], [1, 2]),
            TypeError,
            "Invalid `weights`",
        ),
        (
            lambda: experimental.bucket_by_sequence_length(lambda x: 1, [3], [2]),
            ValueError,
            "must equal",
        ),
        (lambda: Dataset.from_generator([1], tf.int32), TypeError, "must be a Python callable"),
        (
            lambda: tf.data.make_one_shot_iterator(
                five().map(lambda x: x + tf.placeholder_with_default(x, []) + P())
            ),
            ValueError,
            "Cannot capture a placeholder",
        ),
    ],
)
def test_what_is_refused_when_it_is_built(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def P() -> Any:
    with tf.init_scope():
        return tf.placeholder(tf.int64, [])


def test_a_one_shot_iterator_needs_no_initializer() -> None:
    element = tf.data.make_one_shot_iterator(five().map(lambda x: x + 1)).get_next()
    with tf.Session() as session:
        assert [session.run(element) for _ in range(5)] == [1, 2, 3, 4, 5]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(element)


def test_a_one_shot_iterator_leaves_out_what_its_dataset_waits_for(tmp_path: Path) -> None:
    files = Dataset.list_files(f"{tmp_path}/nothing*", shuffle=False)
    element = tf.data.make_one_shot_iterator(files).get_next()
    with tf.Session() as session, pytest.raises(tf.errors.OutOfRangeError):
        session.run(element)


def test_names_of_files_may_come_from_a_dataset(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in "ab"]
    for path in paths:
        Path(path).write_text(f"1{path[-1]}\n2{path[-1]}\n")
    names = Dataset.from_tensor_slices(paths)
    in_order, in_turn = [b"1a", b"2a", b"1b", b"2b"], [b"1a", b"1b", b"2a", b"2b"]
    assert everything(tf.data.TextLineDataset(names)) == in_order
    assert everything(tf.data.TextLineDataset(names.batch(2))) == in_order
    assert everything(tf.data.TextLineDataset(paths, num_parallel_reads=2)) == in_turn
    fixed = tf.data.FixedLengthRecordDataset(names, 3, num_parallel_reads=1)
    assert everything(fixed) == [each + b"\n" for each in in_order]
    with pytest.raises(TypeError, match=r"must contain `tf\.string`"):
        tf.data.TFRecordDataset(five())


def test_two_workers_take_from_a_map_on_the_parameter_server() -> None:
    with in_process({"ps": 1, "worker": 2}) as cluster, tf.device("/job:ps/task:0"):
        made = Dataset.range(40).map(lambda x: x * 2).filter(lambda x: x % 3 > 0)
        iterator = tf.data.make_initializable_iterator(made.batch(2), shared_name="one")
        element = iterator.get_next()
        targets = [cluster.target(f"worker:{n}") for n in (0, 1)]
        expected = [x * 2 for x in range(40) if x * 2 % 3]
        with tf.Session(targets[0]) as first, tf.Session(targets[1]) as second:
            first.run(iterator.initializer)
            found: list[int] = []
            for n in range(len(expected) // 2):
                found += (first, second)[n % 2].run(element).tolist()
            assert found == expected[: len(found)]


def test_a_deadline_while_a_function_waits_leaves_no_element_lost() -> None:
    queue = tf.FIFOQueue(9, tf.int64, [[]])
    put, value = queue.enqueue(7), tf.RunOptions(timeout_in_ms=50)
    iterator = tf.data.make_initializable_iterator(five().map(lambda x: queue.dequeue() + x))
    element = iterator.get_next()
    with tf.Session() as session:
        session.run(iterator.initializer)
        for expected in range(3):
            with pytest.raises(tf.errors.DeadlineExceededError):
                session.run(element, options=value)
            session.run(put)
            assert session.run(element) == 7 + expected
