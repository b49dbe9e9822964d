"""Convolutions with what follows them, and the way back: what the nodes give one by one, whatever is fed or refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.ops._kernels import layouts
from headrace.plan.rules import convolution_gradients, convolutions
from headrace.run.exec.kernel import Runtime
from headrace.run.exec.worker_pool import WorkerPool
from tests.plan.programs import DEVICE, compiled, nodes, run, together_and_apart

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is large here is small elsewhere, and has several parts."""
    for module in (convolutions, convolution_gradients):
        monkeypatch.setattr(module, "LARGE", 100)
    monkeypatch.setattr("headrace.plan.rules.elementwise.LARGE", 100)
    monkeypatch.setattr("headrace.ops._kernels.windows.SMALL", 64)
    monkeypatch.setattr("headrace.ops.nn.pooling.LEAST_BYTES", 64)
    monkeypatch.setattr("headrace.ops._kernels.convolving.ROWS_AT_LEAST", 1)
    with tf.Graph().as_default():
        yield


def random(*shape: int, kind: Any = np.float32) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(kind)


def network(
    x: Any, filters: Any, bias: Any, *, bias_first: bool = False, activation: Any = tf.nn.relu, pool: int = 2,
    step: int = 2, padding: str = "SAME", strides: int = 1,
) -> Any:  # fmt: skip
    """Convolution, bias, activation, pooling; None: without."""
    made = tf.nn.conv2d(x, filters, [1, strides, strides, 1], padding, name="convolution")
    if bias is not None:
        made = bias + made if bias_first else tf.nn.bias_add(made, bias, name="biased")
    if activation is not None:
        made = activation(made, name="active")
    if pool:
        made = tf.nn.max_pool(made, [1, pool, pool, 1], [1, step, step, 1], padding, name="pooled")
    return made


NETWORKS: list[dict[str, Any]] = [
    {},
    {"padding": "VALID"},
    {"pool": 3},
    {"pool": 3, "step": 1, "padding": "VALID"},
    {"strides": 2},
    {"pool": 0},
    {"activation": None},
    {"activation": tf.tanh},
    {"bias_first": True},
]
ALONE = NETWORKS[-2:]  # whose gradients come from other nodes, or go to others


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("attrs", NETWORKS)
def test_values_and_gradients_are_those_of_the_nodes_one_by_one(
    attrs: dict[str, Any], kind: Any, runtime: Runtime, one_by_one: list[str]
) -> None:
    feeds = {
        tf.placeholder(kind, [None, 9, 8, 3]): random(7, 9, 8, 3, kind=kind),
        tf.placeholder(kind, [3, 3, 3, 5]): random(3, 3, 3, 5, kind=kind),
        tf.placeholder(kind, [5]): random(5, kind=kind),
    }
    made = network(*feeds, **attrs)
    gradients = tf.gradients(tf.reduce_sum(made * made), list(feeds))
    for wanted in ([made], [made, *gradients], [made, *gradients[1:]]):
        found, apart, together = together_and_apart(wanted, feeds, runtime)
        names = nodes(together)
        np.testing.assert_array_equal(found[0], apart[0])
        for one, other in zip(found, apart, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
        assert "convolution" not in names
        if len(wanted) > 1 and attrs not in ALONE:
            assert not any(name.endswith(("MaxPoolGrad", "ReluGrad")) for name in names)
    assert not any(rule.startswith("convolution") for rule in one_by_one)


@pytest.fixture(params=["", "in tiles", "in tiles of lines"])
def tiles(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whichever way a convolution is made."""
    layouts._layout.cache_clear()
    monkeypatch.setattr(
        "headrace.ops._kernels.winograd.Tiles.gains",
        lambda self, count: request.param == "in tiles",
    )
    monkeypatch.setattr(
        "headrace.ops._kernels.line_tiles.LineTiles.gains",
        lambda self, count, gradient: request.param == "in tiles of lines",
    )
    monkeypatch.setattr("headrace.ops._kernels.winograd.AT_ONCE", 1)
    yield
    layouts._layout.cache_clear()


@pytest.mark.usefixtures("tiles")
def test_both_gradients_of_a_convolution_have_the_same_bits(runtime: Runtime) -> None:
    feeds = {
        tf.placeholder(tf.float32, [11, 10, 10, 4]): random(11, 10, 10, 4),
        tf.placeholder(tf.float32, [3, 3, 4, 6]): random(3, 3, 4, 6),
        tf.placeholder(tf.float32, [6]): random(6),
    }
    made = network(*feeds)
    gradients = tf.gradients(made, list(feeds))
    found, wanted, _ = together_and_apart(gradients[:2], feeds, runtime)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.usefixtures("tiles")
def test_the_number_of_threads_changes_no_bit() -> None:
    feeds = {
        tf.placeholder(tf.float32, [11, 10, 10, 4]): random(11, 10, 10, 4),
        tf.placeholder(tf.float32, [3, 3, 4, 6]): random(3, 3, 4, 6),
        tf.placeholder(tf.float32, [6]): random(6),
    }
    made = network(*feeds)
    program = compiled([made, *tf.gradients(made, list(feeds))], list(feeds))
    results = []
    for size in (1, 2, 5):
        runtime = Runtime(DEVICE, workers=WorkerPool(size))
        results.append(run(program, runtime, list(feeds.values())))
        runtime.workers.close()
    for others in results[1:]:
        for one, other in zip(results[0], others, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("known", [True, False], ids=["shapes known", "shapes unknown"])
def test_two_convolutions_that_are_added_up_do_not_both_take_the_sum(
    known: bool, runtime: Runtime
) -> None:
    shape = [None, 8, 8, 2] if known else None
    x, others = tf.placeholder(tf.float32, shape), [random(3, 3, 2, 4), random(1, 1, 2, 4)]
    branches = [tf.nn.conv2d(x, tf.constant(f), [1, 1, 1, 1], "SAME") for f in others]
    found, wanted, _ = together_and_apart(
        [tf.nn.relu(branches[0] + branches[1])], {x: random(5, 8, 8, 2)}, runtime
    )
    np.testing.assert_array_equal(found[0], wanted[0])


@pytest.mark.parametrize("known", [True, False], ids=["shapes known", "shapes unknown"])
def test_the_gradient_of_relu_goes_back_and_not_on(known: bool, runtime: Runtime) -> None:
    shapes: list[Any] = [[7, 8, 8, 2], [3, 3, 2, 4], [4], [7, 8, 8, 4]]
    feeds = {
        tf.placeholder(tf.float32, shape if known else None): random(*shape) for shape in shapes
    }
    *inputs, given = feeds
    active = network(*inputs, pool=0)
    gradients = tf.gradients(active, inputs[1:], grad_ys=[given])
    found, wanted, together = together_and_apart(gradients, feeds, runtime)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    assert not known or not any(name.endswith("ReluGrad") for name in nodes(together))


def test_what_comes_between_can_be_fetched(runtime: Runtime) -> None:
    x, filters = tf.placeholder(tf.float32, [None, 8, 8, 2]), tf.constant(random(3, 3, 2, 4))
    pooled = network(x, filters, tf.constant(random(4)))
    active = pooled.op.inputs[0]
    biased = active.op.inputs[0]
    for fetches, alone in (([pooled, active], False), ([pooled, biased], True), ([active], False)):
        found, wanted, together = together_and_apart(fetches, {x: random(5, 8, 8, 2)}, runtime)
        names = nodes(together)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)
        assert ("pooled" in names and "active" in names) == alone
        assert "convolution" not in names


def test_a_value_that_is_wanted_before_it_is_pooled_is_there_in_time(runtime: Runtime) -> None:
    x, filters = tf.placeholder(tf.float32, [None, 8, 8, 2]), tf.constant(random(3, 3, 2, 4))
    active = network(x, filters, None, pool=0)
    scale = tf.reduce_max(active)
    pooled = tf.nn.max_pool(active, [1, 2, 2, 1], [1, 2, 2, 1], "SAME") / scale
    found, wanted, _ = together_and_apart([pooled, scale], {x: random(5, 8, 8, 2)}, runtime)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_variable_is_read_before_it_is_changed(runtime: Runtime) -> None:
    x = tf.placeholder(tf.float32, [None, 8, 8, 2])
    bias = tf.Variable(np.zeros(4, np.float32), use_resource=False)
    made = tf.nn.conv2d(x, tf.constant(random(3, 3, 2, 4)), [1, 1, 1, 1], "SAME")
    biased = tf.nn.bias_add(made, bias)
    with tf.control_dependencies([biased]):
        later = tf.assign_add(bias, tf.ones([4]))
    with tf.control_dependencies([later]):
        pooled = tf.nn.max_pool(tf.nn.relu(biased), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    value = random(5, 8, 8, 2)
    with tf.Session() as session:
        session.run(bias.initializer)
        first = session.run(pooled, {x: value})
        np.testing.assert_array_equal(session.run(bias), np.ones(4))
        session.run(bias.initializer)
        np.testing.assert_array_equal(first, session.run(pooled, {x: value}))


def test_failures_name_their_node(runtime: Runtime) -> None:
    x = tf.placeholder(tf.float32, [None, None, None, None])
    filters = tf.placeholder(tf.float32, [3, 3, None, None])
    bias = tf.placeholder(tf.float32, [None])
    pooled = network(x, filters, bias)
    program = compiled([pooled], [x, filters, bias])
    assert "convolution" not in nodes(program)
    good = [random(5, 8, 8, 2), random(3, 3, 2, 4), random(4)]
    assert run(program, runtime, good)[0].shape == (5, 4, 4, 4)
    for place, value, name in (
        (0, random(5, 8, 8, 3), "convolution"), (1, random(3, 3, 3, 4), "convolution"), (2, random(5), "biased"),
    ):  # fmt: skip
        with pytest.raises(errors.InvalidArgumentError) as caught:
            run(program, runtime, [value if at == place else one for at, one in enumerate(good)])
        assert caught.value.node == name


def test_gradients_that_do_not_fit_name_their_node(runtime: Runtime) -> None:
    x, dy = (
        tf.placeholder(tf.float32, [None, 8, 8, 2]),
        tf.placeholder(tf.float32, [None, None, None, None]),
    )
    made = network(x, tf.constant(random(3, 3, 2, 4)), None)
    (gradient,) = tf.gradients(made, [made.op.inputs[0].op.inputs[0].op.inputs[1]], [dy])
    program = compiled([gradient], [x, dy])
    assert not any(name.endswith(("MaxPoolGrad", "ReluGrad")) for name in nodes(program))
    run(program, runtime, [random(5, 8, 8, 2), random(5, 4, 4, 4)])
    with pytest.raises(errors.InvalidArgumentError) as caught:
        run(program, runtime, [random(5, 8, 8, 2), random(5, 4, 4, 3)])
    assert str(caught.value.node).endswith("MaxPoolGrad")


def test_empty_batches_and_infinities_are_no_exception(runtime: Runtime) -> None:
    x, filters = (
        tf.placeholder(tf.float32, [None, 8, 8, 2]),
        tf.placeholder(tf.float32, [3, 3, 2, 4]),
    )
    made = network(x, filters, tf.constant(random(4)))
    gradient = tf.gradients(made, [filters])[0]
    odd = random(5, 8, 8, 2)
    odd[1, 2, 3, 0], odd[4, 0, 0, 1] = np.inf, np.nan
    for value in (np.zeros((0, 8, 8, 2), np.float32), odd):
        found, wanted, _ = together_and_apart(
            [made, gradient], {x: value, filters: random(3, 3, 2, 4)}, runtime
        )
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


def test_what_follows_may_have_no_output() -> None:
    x = tf.placeholder(tf.float32, [2, 8, 8, 3])
    kept = tf.Variable(np.zeros((2, 8, 8, 4), np.float32), use_resource=True)
    made = tf.nn.conv2d(x, tf.constant(random(3, 3, 3, 4)), [1, 1, 1, 1], "SAME")
    assigned = kept.assign(made).op
    with tf.Session() as session:
        session.run(assigned, {x: random(2, 8, 8, 3)})
        found, wanted = session.run([kept, made], {x: random(2, 8, 8, 3)})
    np.testing.assert_array_equal(found, wanted)
