"""Sizes that the graph does not know: what is said of them before a step holds in every step."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace as tf
from headrace.ops._kernels import symbolic_sizes as sizes
from headrace.plan.explain import explaining
from headrace.run.exec.kernel import Runtime
from tests.plan.programs import (
    compiled,
    looped_and_one_by_one,
    nodes,
    run,
    together_and_apart,
)

BATCHES = st.sampled_from([0, 1, 3])


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


# -- sizes ------------------------------------------------------------------------------------------------------------

TWO: list[Callable[..., Any]] = [
    sizes.product,
    sizes.total,
    sizes.quotient,
    sizes.remainder,
    sizes.largest,
    sizes.smallest,
    sizes.exact_quotient,
]
MEANT: dict[Any, Callable[[int, int], int]] = {
    sizes.product: lambda a, b: a * b,
    sizes.total: lambda a, b: a + b,
    sizes.quotient: lambda a, b: a // b,
    sizes.exact_quotient: lambda a, b: a // b,
    sizes.remainder: lambda a, b: a % b,
    sizes.largest: max,
    sizes.smallest: min,
}


class _Like:
    """What has a shape."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_what_is_made_of_sizes_is_what_they_make_in_every_step(data: Any) -> None:
    steps = [{1: _Like(*data.draw(st.tuples(*[st.integers(0, 4)] * 3)))} for _ in range(4)]
    made = [sizes.axis(1, at) for at in range(3)] + [0, 1, 2, 6]
    meant = [[sizes.number(size, step) for size in made] for step in steps]
    for _ in range(data.draw(st.integers(1, 8))):
        function = data.draw(st.sampled_from(TWO))
        a, b = (data.draw(st.integers(0, len(made) - 1)) for _ in range(2))
        try:
            found = function(made[a], made[b])
        except OverflowError:
            continue
        if found is None:
            continue
        made.append(found)
        for step, numbers in zip(steps, meant, strict=True):
            numbers.append(MEANT[function](numbers[a], numbers[b]))
            assert sizes.number(found, step) == numbers[-1]
    for one, ours in enumerate(made):
        for other, theirs in enumerate(made):
            if ours == theirs:
                assert all(numbers[one] == numbers[other] for numbers in meant)


def test_sizes_that_are_the_same_are_known_to_be() -> None:
    s, t = sizes.axis(1, 0), sizes.axis(2, 0)
    assert sizes.product(s, t) == sizes.product(t, s) != sizes.product(s, s)
    assert sizes.quotient(sizes.product(12, s), 4) == sizes.product(3, s)
    assert sizes.product(s, sizes.quotient(s, sizes.largest(s, 1))) == s
    assert sizes.total(s, s) == sizes.product(2, s)
    assert sizes.largest(s, 0) == s
    assert sizes.quotient(s, t) is None
    assert sizes.exact_quotient(sizes.product(s, t), t) is None
    assert sizes.broadcast((s, 3), (3,)) == sizes.broadcast((s, 1), (s, 3)) == (s, 3)
    assert sizes.broadcast((s,), (t,)) == sizes.broadcast((t,), (s,)) != (s,)


# -- graphs -----------------------------------------------------------------------------------------------------------


def test_what_arrays_that_broadcast_become_together_does_not_depend_on_their_order() -> None:
    a, b, c = (sizes.axis(value, 0) for value in range(3))
    one, other = (
        sizes.stretched(sizes.stretched(a, b), c),
        sizes.stretched(a, sizes.stretched(c, b)),
    )
    assert one == other == sizes.stretched(one, sizes.stretched(b, a))
    for lengths in ([1, 1, 1], [1, 4, 1], [4, 1, 4], [4, 4, 4]):
        arrays = {value: np.zeros(length) for value, length in enumerate(lengths)}
        assert sizes.number(one, arrays) == max(lengths)


def test_what_would_take_too_long_to_say_is_not_said() -> None:
    """It would double each time."""
    size: Any = sizes.axis(0, 0)
    for _ in range(6):
        size = sizes.largest(sizes.total(size, 1), sizes.product(size, 2))
    with pytest.raises(OverflowError):
        sizes.total(sizes.largest(size, 7), size)


@pytest.mark.parametrize("how", ["stretched", "reshaped"])
def test_sizes_that_are_made_of_others_again_and_again_take_no_time(how: str) -> None:
    fed = [tf.placeholder(tf.float32, [None]) for _ in range(100)]
    found = fed[0]
    for one, other in itertools.pairwise(fed):
        if how == "stretched":
            found = (found + one) * (found + other)
        else:
            rows = tf.shape(found)[0] + tf.shape(one)[0] // 2 + tf.shape(found)[0] // 2
            found = tf.reduce_mean(tf.reshape(tf.tile(found, [rows]), [-1, rows]), 0)[:1] + other
    with tf.Session() as session:
        ones = dict.fromkeys(fed, np.ones(1, np.float32))
        assert session.run([tf.shape(found), found[0] > 0], ones)[1]


def _rows_of(x: tf.Tensor, y: tf.Tensor, k: int) -> tf.Tensor:
    """Of as many rows as y has, where x has one, or as many."""
    return x + tf.zeros([tf.shape(y)[0], 1])


def _flat_and_back(x: tf.Tensor, y: tf.Tensor, k: int) -> tf.Tensor:
    return tf.reshape(tf.reshape(x, [-1]), tf.shape(x)) * 2.0


def _as_the_other(x: tf.Tensor, y: tf.Tensor, k: int) -> tf.Tensor:
    return tf.reshape(x, tf.shape(y))


def _back_from_wide(x: tf.Tensor, y: tf.Tensor, k: int) -> tf.Tensor:
    wide = tf.tile(x, [k, 1])
    return tf.reshape(wide, tf.stack([tf.shape(x)[0] * k, 4]))[: tf.shape(x)[0]]


def _joined(x: tf.Tensor, y: tf.Tensor, k: int) -> tf.Tensor:
    both = tf.concat([x, y], 1)
    return tf.reshape(both, [-1, 2, 4])[:, k % 2]


def _of_mean(x: tf.Tensor, y: tf.Tensor, k: int) -> tf.Tensor:
    return x - tf.reduce_mean(x, [k % 2], keepdims=True)


def _counted(x: tf.Tensor, y: tf.Tensor, k: int) -> tf.Tensor:
    return x / tf.cast(tf.maximum(tf.size(y) // 4, k), tf.float32)


def _turned(x: tf.Tensor, y: tf.Tensor, k: int) -> tf.Tensor:
    turned = tf.transpose(x)
    return tf.transpose(turned + tf.fill(tf.shape(turned), float(k)))


def _in_parts(x: tf.Tensor, y: tf.Tensor, k: int) -> tf.Tensor:
    first, second = tf.split(x, 2, 1)
    return tf.concat([second * 2.0, first], 1)


def _picked(x: tf.Tensor, y: tf.Tensor, k: int) -> tf.Tensor:
    shape = tf.gather(tf.shape(x), [1, 0])
    return tf.reshape(tf.broadcast_to(tf.ones([4, 1]), shape), [-1, 4]) + x


def _spread(x: tf.Tensor, y: tf.Tensor, k: int) -> tf.Tensor:
    return tf.broadcast_to(tf.expand_dims(tf.reduce_sum(x, 1), 1), tf.shape(x))


def _where(x: tf.Tensor, y: tf.Tensor, k: int) -> tf.Tensor:
    return tf.where_v2(x > 0.0, x, tf.zeros_like(y))


LINKS: list[Callable[[tf.Tensor, tf.Tensor, int], tf.Tensor]] = [
    lambda x, y, k: x + y,
    lambda x, y, k: x * y,
    lambda x, y, k: tf.nn.relu(x),
    lambda x, y, k: tf.matmul(x, tf.constant(np.eye(4, dtype=np.float32) * k)),
    lambda x, y, k: tf.nn.softmax(x),
    lambda x, y, k: tf.square(x - y),
    _as_the_other,
    _back_from_wide,
    _counted,
    _flat_and_back,
    _in_parts,
    _joined,
    _of_mean,
    _picked,
    _rows_of,
    _spread,
    _turned,
    _where,
]


def _outcome(program: Any, runtime: Runtime, values: list[Any]) -> list[Any] | str:
    """What it gives, or the class of its error."""
    try:
        return [np.array(each) for each in run(program, runtime, values)]
    except tf.errors.OpError as error:
        return type(error).__name__


@given(data=st.data())
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_any_graph_gives_what_its_nodes_give_one_by_one(data: Any, runtime: Runtime) -> None:
    with tf.Graph().as_default():
        feeds = [tf.placeholder(tf.float32, [None, 4]) for _ in range(2)]
        feeds.append(tf.placeholder(tf.float32, [None, None]))
        made: list[tf.Tensor] = [*feeds[:2], feeds[2] + tf.zeros([1, 4])]
        for _ in range(data.draw(st.integers(2, 6))):
            link = data.draw(st.sampled_from(LINKS))
            x, y = (made[data.draw(st.integers(0, len(made) - 1))] for _ in range(2))
            made.append(link(x, y, data.draw(st.integers(1, 3))))
        loss = tf.reduce_sum(made[-1] * made[data.draw(st.integers(0, len(made) - 1))])
        wanted = [loss, made[-1], tf.shape(made[-1])]
        wanted += [each for each in tf.gradients(loss, feeds) if each is not None]
        programs = [compiled(wanted, feeds, fold=fold) for fold in (True, False)]
        for _ in range(4):
            rows = [data.draw(BATCHES) for _ in feeds]
            fed = [np.arange(4 * n, dtype=np.float32).reshape(n, 4) / 8 - 0.5 for n in rows]
            together, apart = (_outcome(program, runtime, fed) for program in programs)
            if isinstance(apart, str) or isinstance(together, str):
                assert together == apart
                continue
            for one, other in zip(together, apart, strict=True):
                assert one.dtype == other.dtype
                np.testing.assert_array_equal(one, other)


def test_a_batch_that_is_fed_is_the_same_everywhere(runtime: Runtime) -> None:
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    hidden = tf.nn.relu(tf.matmul(x, tf.ones([4, 3])), name="hidden")
    back = tf.reshape(hidden * 2.0, tf.shape(hidden), name="back")
    drawn = tf.fill(tf.shape(back), 2.0, name="drawn")
    said: list[str] = []
    with explaining(said.append):
        for rows in (0, 1, 3):
            fed = np.ones((rows, 4), np.float32)
            found, wanted, program = together_and_apart([back + drawn], {x: fed}, runtime)
            np.testing.assert_array_equal(found[0], wanted[0])
    assert "back" not in nodes(program)
    last = "".join(said).split("sizes: ")[1].split("idle then: ")[0]
    assert "Reshape" not in last
    assert "made_of_shapes(v1)" in last


def test_sizes_of_two_feeds_are_never_taken_for_one(runtime: Runtime) -> None:
    x, y = (tf.placeholder(tf.float32, [None, 2]) for _ in range(2))
    gradients = tf.gradients(tf.reduce_sum(x * y), [x, y])
    together = compiled(gradients, [x, y])
    for one, other in ((3, 3), (1, 3), (3, 1), (1, 1), (0, 1)):
        fed = [np.full((n, 2), n + 1.0, np.float32) for n in (one, other)]
        dx, dy = run(together, runtime, fed)
        assert (dx.shape, dy.shape) == ((one, 2), (other, 2))
        np.testing.assert_array_equal(dx, (other + 1.0) * (max(one, other) if one == 1 else 1))


def test_what_changes_something_comes_after_what_it_came_after() -> None:
    x = tf.placeholder(tf.float32, [None, 2])
    count, seen = tf.Variable(0, use_resource=False), tf.Variable(0, use_resource=False)
    with tf.control_dependencies([count.assign_add(1)]):
        later = tf.identity(x) * 2.0
    kept = seen.assign(tf.shape(later)[0] + 0 * count)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for rows in (3, 1):
            assert session.run([kept, later], {x: np.ones((rows, 2))})[0] == rows
        assert session.run([count, seen]) == [2, 1]


def test_an_error_of_a_shape_is_that_of_its_node(runtime: Runtime) -> None:
    x, y = (tf.placeholder(tf.float32, [None, 2]) for _ in range(2))
    wrong = tf.reshape(x, tf.shape(y), name="wrong")
    with tf.Session() as session:
        for _ in range(2):
            session.run(wrong, {x: np.ones((2, 2)), y: np.ones((2, 2))})
            with pytest.raises(tf.errors.InvalidArgumentError, match="wrong"):
                session.run(wrong, {x: np.ones((2, 2)), y: np.ones((3, 2))})


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_loops_keep_what_stays_the_same(rows: int) -> None:
    x = tf.placeholder(tf.float32, [None, 3])

    def body(i: Any, y: Any, z: Any) -> Any:
        y = tf.reshape(tf.tanh(y) + tf.zeros_like(x), tf.shape(x))
        return i + 1, y, tf.concat([z, y], 0)

    start = tf.fill(tf.shape(x), 0.5)
    shapes = [tf.TensorShape([]), tf.TensorShape([None, 3]), tf.TensorShape([None, 3])]
    _, y, z = tf.while_loop(lambda i, *_: i < 3, body, [0, start, x], shapes)
    gradient = tf.gradients(tf.reduce_sum(y) + tf.reduce_sum(z * z), [x])[0]
    fed = {x: np.linspace(-1, 1, 3 * rows).reshape(rows, 3).astype(np.float32)}
    found, wanted, said = looped_and_one_by_one([y, z, gradient, tf.shape(z)], fed)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    loop = said.split("sizes: ")[1].split("\nidle")[0].split("while")[1].split("tail:")[0]
    assert "Reshape" not in loop


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("yes", [True, False])
def test_branches_look_for_themselves(rows: int, yes: bool) -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    way = tf.placeholder(tf.bool, [])

    def first() -> Any:
        made = tf.boolean_mask(x, x[:, 0] < 10.0)
        return tf.reshape(made + 1.0, tf.shape(made)), tf.fill(tf.shape(x)[:1], 1.0)

    made, filled = tf.cond(way, first, lambda: (x, tf.zeros([tf.shape(x)[0]])))
    fed = {x: np.ones((rows, 3), np.float32), way: yes}
    found, wanted, _ = looped_and_one_by_one([made, filled, tf.shape(made)], fed)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("rows", [1, 3])
def test_recurrent_networks_of_any_batch(rows: int) -> None:
    x = tf.placeholder(tf.float32, [None, 5, 3])
    cell = tf.nn.rnn_cell.LSTMCell(4, initializer=tf.constant_initializer(0.1))
    outputs, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    gradients = tf.gradients(tf.reduce_mean(outputs), [x, *tf.trainable_variables()])
    fed = {x: np.linspace(-1, 1, rows * 15).reshape(rows, 5, 3).astype(np.float32)}
    values = [each.initialized_value() for each in tf.trainable_variables()]
    assert values
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    found = []
    for each in (None, config):
        with tf.Session(config=each) as session:
            session.run(tf.global_variables_initializer())
            found.append([session.run([outputs, *gradients], fed) for _ in range(2)][-1])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_dropout_draws_what_it_drew_before(runtime: Runtime) -> None:
    """Its numbers are made for the shape that is fed, not for the one of what is dropped."""
    x = tf.placeholder(tf.float32, [None, 6])
    hidden = tf.nn.relu(x + 1.0)
    kept = tf.nn.dropout(hidden, 0.5, seed=3)
    said: list[str] = []
    with explaining(said.append):
        together = compiled([kept], [x])
    apart = compiled([kept], [x], fold=False)
    assert "= ahead" not in "".join(said)
    for rows in (3, 0, 1, 5):
        fed = [np.ones((rows, 6), np.float32)]
        one, other = run(together, runtime, fed)[0], run(apart, runtime, fed)[0]
        assert one.shape == other.shape
        assert set(np.unique(one)) <= {0.0, 4.0}


@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 4)])
def test_how_many_dimensions_there_are_may_be_unknown(
    shape: tuple[int, ...], runtime: Runtime
) -> None:
    x = tf.placeholder(tf.float32, None)
    sizes = tf.cast(tf.shape(x), tf.int64)
    ones = tf.fill([tf.size(sizes)], 2.0)
    filled = tf.fill(tf.concat([tf.shape(sizes), [2]], 0), 1.0)
    fed = {x: np.ones(shape, np.float32)}
    found, wanted, _ = together_and_apart([ones * 3.0, filled, sizes], fed, runtime)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
