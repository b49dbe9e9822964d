"""Datasets and iterators on the ps: every op that makes them, functions of elements, sharing, ends and failures."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tests.interop.scripts.table import PS, WORKER, Here, Table

TABLE = Table()


def elements(tf: Any, here: Here, make: Any, most: int = 50) -> Any:
    """All elements of the dataset that `make()` builds on the ps, up to so many."""
    with tf.device(PS):
        iterator = tf.data.make_initializable_iterator(make())
        element = iterator.get_next()
    found: list[Any] = []
    with tf.Session(here.worker) as session:
        session.run(iterator.initializer)
        while len(found) < most:
            try:
                found.append(session.run(element))
            except tf.errors.OutOfRangeError:
                break
    return found


@TABLE.gives([[0, 2], [4, 6], [8]])
def elements_are_mapped_and_batched(tf: Any, here: Here) -> Any:
    return elements(tf, here, lambda: tf.data.Dataset.range(5).map(lambda x: x * 2).batch(2))


@TABLE.gives([[0, 0, 1], [0, 0, 1, 0, 1]])
def datasets_of_elements_are_joined(tf: Any, here: Here) -> Any:
    def some(x: Any) -> Any:
        return tf.data.Dataset.range(x)

    def together() -> Any:
        return tf.data.Dataset.range(4).flat_map(some).take(3)

    def apart() -> Any:
        ranges = tf.data.Dataset.range(1, 4)
        return ranges.interleave(some, cycle_length=2, block_length=1).take(5)

    return [elements(tf, here, together), elements(tf, here, apart)]


@TABLE.gives([4, 5, 6, 7, 8, 9])
def some_elements_are_left_out(tf: Any, here: Here) -> Any:
    def some() -> Any:
        some = tf.data.Dataset.range(20).filter(lambda x: x > 2).skip(1)
        return some.apply(tf.data.experimental.take_while(lambda x: x < 10))

    return elements(tf, here, some)


@TABLE.gives([[0, 5, 3, 6, 7, 4, 9, 8, 2, 1], [0, 2, 1, 3, 5, 4, 2, 0, 4, 5, 1, 3]])
def a_seed_gives_an_order(tf: Any, here: Here) -> Any:
    def twice() -> Any:
        tf.set_random_seed(3)
        return tf.data.Dataset.range(6).shuffle(3, seed=5).repeat(2)

    return [
        elements(tf, here, lambda: tf.data.Dataset.range(10).shuffle(5, seed=1)),
        elements(tf, here, twice),
    ]


@TABLE.gives([[0, 1, 2, 0, 1, 2], [[0, 7], [1, 8], [2, 9]], [3, 4, 5]])
def datasets_are_repeated_kept_and_put_together(tf: Any, here: Here) -> Any:
    def three() -> Any:
        return tf.data.Dataset.range(3)

    def others() -> Any:
        return tf.data.Dataset.range(7, 10)

    def in_turn() -> Any:
        return three().concatenate(others()).enumerate().map(lambda n, x: n).skip(3)

    return [
        elements(tf, here, lambda: three().cache().repeat(2)),
        elements(tf, here, lambda: tf.data.Dataset.zip((three(), others()))),
        elements(tf, here, in_turn),
    ]


@TABLE.gives([[[1, 0, 0], [2, 2, 0]], [[3, 3, 3]]])
def rows_of_different_lengths_are_padded(tf: Any, here: Here) -> Any:
    def rows() -> Any:
        return tf.data.Dataset.range(1, 4).map(lambda x: tf.fill([x], x)).padded_batch(2, [3])

    return elements(tf, here, rows)


@TABLE.gives([[0, 3], [1, 4], [2, 5], [[0, 1, 2], [3, 4]]])
def groups_windows_and_buckets(tf: Any, here: Here) -> Any:
    experimental = tf.data.experimental
    groups = experimental.group_by_window(lambda x: x % 3, lambda _, group: group.batch(2), 2)

    def windows() -> Any:
        return tf.data.Dataset.range(5).window(3).flat_map(lambda window: window.batch(3))

    return [
        *elements(tf, here, lambda: tf.data.Dataset.range(6).apply(groups)),
        elements(tf, here, windows),
    ]


@TABLE.gives([[[1, 1], [2, 2]], [[3, 3, 3, 3], [4, 4, 4, 4]]])
def sequences_of_like_lengths_are_batched(tf: Any, here: Here) -> Any:
    buckets = tf.data.experimental.bucket_by_sequence_length(
        lambda x: tf.shape(x)[0], [3, 6], [2, 2, 2]
    )

    def rows() -> Any:
        return tf.data.Dataset.range(1, 5).map(lambda x: tf.fill([(x + 1) // 2 * 2], x))

    return elements(tf, here, lambda: rows().apply(buckets))


@TABLE.gives([10, [0, 1, 3, 6]])
def a_state_goes_along(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        zero = tf.constant(0, tf.int64)
        total = tf.data.Dataset.range(5).reduce(zero, lambda state, x: state + x)
    with tf.Session(here.worker) as session:
        found = session.run(total)
    scan = tf.data.experimental.scan(np.int64(0), lambda s, x: (s + x, s + x))
    return [found, elements(tf, here, lambda: tf.data.Dataset.range(4).apply(scan))]


@TABLE.gives([[b"a", 1], [b"b", 2], [b"", -1]])
def lines_of_files_are_parsed_in_a_function(tf: Any, here: Here) -> Any:
    path = os.path.join(here.directory, "lines.csv")
    with open(path, "w") as file:
        file.write("name,number\na,1\nb,2\n,\n")

    def rows() -> Any:
        lines = tf.data.TextLineDataset(path).skip(1)
        return lines.map(lambda line: tuple(tf.decode_csv(line, [[""], [-1]])))

    return elements(tf, here, rows)


@TABLE.gives([[[1, 2], [[0, 0], [0, 1]], [5, 6]], [[7], [], []]])
def examples_are_parsed(tf: Any, here: Here) -> Any:
    def example(**values: list[int]) -> bytes:
        features = {
            k: tf.train.Feature(int64_list=tf.train.Int64List(value=v)) for k, v in values.items()
        }
        made: bytes = tf.train.Example(
            features=tf.train.Features(feature=features)
        ).SerializeToString()
        return made  # fmt: skip

    serialized = [example(dense=[1], sparse=[5, 6]), example(dense=[2]), example()]
    parse = tf.data.experimental.parse_example_dataset(
        {"dense": tf.FixedLenFeature([], tf.int64, 7), "sparse": tf.VarLenFeature(tf.int64)}
    )
    found = elements(
        tf, here, lambda: tf.data.Dataset.from_tensor_slices(serialized).batch(2).apply(parse)
    )
    return [[each["dense"], each["sparse"].indices, each["sparse"].values] for each in found]


@TABLE.gives([0, 1, 2, 3])
def sessions_of_two_masters_take_from_one_iterator(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(9), shared_name="one")
        element = iterator.get_next()
    with tf.Session(here.worker) as first, tf.Session(here.ps) as second:
        first.run(iterator.initializer)
        return [session.run(element) for session in (first, second, second, first)]


@TABLE.gives([0, 1, 5, 10, 6])
def an_iterator_goes_from_one_dataset_to_another_and_is_chosen_in_the_step(
    tf: Any, here: Here
) -> Any:
    with tf.device(PS):
        iterator = tf.data.Iterator.from_structure(tf.int64, [])
        first, second = (
            iterator.make_initializer(tf.data.Dataset.range(start, start + 3)) for start in (0, 5)
        )
        other = tf.data.make_initializable_iterator(tf.data.Dataset.range(10, 12))
        handle = tf.placeholder(tf.string, [])
        chosen = tf.data.Iterator.from_string_handle(handle, tf.int64, []).get_next()
        element, handles = iterator.get_next(), [iterator.string_handle(), other.string_handle()]
    with tf.Session(here.worker) as session:
        session.run([first, other.initializer])
        texts = session.run(handles)
        found = [session.run(element), session.run(element)]
        session.run(second)
        return found + [session.run(chosen, {handle: texts[which]}) for which in (0, 1, 0)]


@TABLE.gives([[3.0, 6.0], [6.0, 8.0]])
def elements_of_the_ps_are_used_on_the_worker(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        numbers = tf.data.Dataset.from_tensor_slices([[1.0, 2.0], [3.0, 4.0]])
        iterator = tf.data.make_initializable_iterator(numbers.prefetch(1))
        factor = tf.get_variable("factor", [], initializer=tf.constant_initializer(3.0))
    with tf.device(WORKER):
        product = iterator.get_next() * factor
        more = factor.assign_sub(1.0)
    with tf.Session(here.worker) as session:
        session.run([iterator.initializer, factor.initializer])
        first = session.run(product)
        session.run(more)
        return [first, session.run(product)]


@TABLE.gives([0, "InvalidArgumentError", 2, "OutOfRangeError", 0])
def a_failed_element_is_one_error_and_the_end_another(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        texts = tf.data.Dataset.from_tensor_slices(["0", "one", "2"])
        numbers = texts.map(lambda text: tf.string_to_number(text, tf.int64))
        iterator = tf.data.make_initializable_iterator(numbers)
        element = iterator.get_next()
    found: list[Any] = []
    with tf.Session(here.worker) as session:
        session.run(iterator.initializer)
        for _ in range(4):
            try:
                found.append(session.run(element))
            except tf.errors.OpError as error:
                found.append(type(error).__name__)
        session.run(iterator.initializer)
        return [*found, session.run(element)]


@TABLE.raises("FailedPreconditionError", node="next")
def an_iterator_that_was_not_initialized(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(3))
        element = iterator.get_next(name="next")
    with tf.Session(here.worker) as session:
        return session.run(element)


@TABLE.gives([0, 1, 2])
def an_iterator_begins_by_itself(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        element = tf.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next()
    with tf.Session(here.worker) as session:
        return [session.run(element) for _ in range(3)]


@TABLE.gives([[0, 1], [[1, 10], [2, 20]], [2, 3]])
def optional_elements_single_elements_and_counts(tf: Any, here: Here) -> Any:
    experimental = tf.data.experimental
    with tf.device(PS):
        pairs = tf.data.Dataset.from_tensor_slices(([1, 2], [10, 20])).batch(2)
        single = experimental.get_single_element(pairs.map(lambda a, b: tf.stack([a, b], 1)))
        count = experimental.cardinality(tf.data.Dataset.range(2))
        iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(2))
        element = iterator.get_next()
        three = experimental.cardinality(tf.data.Dataset.range(6).batch(2))
    with tf.Session(here.worker) as session:
        session.run(iterator.initializer)
        found = [session.run(element), session.run(element)]
        return [found, session.run(single), session.run([count, three])]
