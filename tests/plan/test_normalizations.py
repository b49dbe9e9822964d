"""Batch normalization with what comes before and after it, and the way back: the bits that the nodes give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.ops._kernels import layouts
from headrace.plan.explain import explaining
from headrace.run.exec.kernel import Runtime
from headrace.run.exec.worker_pool import WorkerPool
from tests.plan.programs import (
    DEVICE,
    compiled,
    nodes,
    run,
    small_pictures,
    together_and_apart,
)

Array = np.ndarray[Any, Any]
KERNELS = "headrace.ops._kernels."


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    small_pictures(monkeypatch)
    with tf.Graph().as_default():
        yield


@pytest.fixture(params=["", "in tiles of lines", "in tiles of the lines of each picture"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """How convolutions are made, whether of single pictures or not."""
    layouts._layout.cache_clear()
    if request.param:
        gains = lambda self, count, gradient: True  # noqa: E731
        monkeypatch.setattr(f"{KERNELS}line_tiles.LineTiles.gains", gains)
    if "picture" in request.param:
        for module in ("flat", "line_tiles"):
            monkeypatch.setattr(f"{KERNELS}{module}.FEWEST", 1)
    yield
    layouts._layout.cache_clear()


def random(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def residual(x: Any, filters: Any, scale: Any, offset: Any, *, strides: int = 1) -> Any:
    """Convolution, normalization, relu, twice, with a sum across."""
    first = tf.nn.conv2d(x, filters, [1, strides, strides, 1], "SAME", name="first")
    first = tf.nn.fused_batch_norm(first, scale, offset, name="norm_first")[0]
    first = tf.nn.relu(first, name="relu_first")
    weights = tf.constant(random(3, 3, 4, 4))
    second = tf.nn.conv2d(first, weights, [1, 1, 1, 1], "SAME", name="second")
    second = tf.nn.fused_batch_norm(second, scale, offset, name="norm_second")[0]
    return tf.nn.relu(second + first, name="relu_second")


def fed(*shape: int) -> dict[Any, Array]:
    return {
        tf.placeholder(tf.float32, [None, *shape[1:]]): random(*shape),
        tf.placeholder(tf.float32, [3, 3, shape[-1], 4]): random(3, 3, shape[-1], 4),
        tf.placeholder(tf.float32, [4]): random(4),
        tf.placeholder(tf.float32, [4]): random(4) + 1,
    }


SIZES = [
    ((6, 9, 8, 2), 1),
    ((7, 8, 8, 4), 2),  # windows that are laid out
    ((12, 3, 3, 4), 1),  # several pictures are a unit
    ((2, 24, 20, 4), 1),  # a picture is several
]


@pytest.mark.parametrize(("shape", "strides"), SIZES)
def test_values_and_gradients_are_those_of_the_nodes_one_by_one(
    shape: tuple[int, ...], strides: int, runtime: Runtime, one_by_one: list[str]
) -> None:
    feeds = fed(*shape)
    made = residual(*feeds, strides=strides)
    gradients = tf.gradients(tf.reduce_sum(made * made * made), list(feeds))
    for wanted in ([made], [made, *gradients], gradients[1:]):
        found, apart, together = together_and_apart(wanted, feeds, runtime)
        for one, other in zip(found, apart, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
        names = nodes(together)
        inside = {"first", "second", "norm_first", "norm_second"}
        assert not inside & set(names)
        alone = [name for name in names if name.endswith("ReluGrad")]
        assert all("relu_second" in name for name in alone)  # it goes through sums of nothing
    assert not any("normalization" in rule for rule in one_by_one)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("shape", "strides"), SIZES)
def test_bits_are_the_same_together_and_apart(
    shape: tuple[int, ...], strides: int, runtime: Runtime
) -> None:
    feeds = fed(*shape)
    made = residual(*feeds, strides=strides)
    dy = tf.placeholder(tf.float32, made.shape)
    feeds[dy] = random(shape[0], *made.shape.as_list()[1:])
    gradients = tf.gradients(made, list(feeds)[:-1], [dy])
    found, apart, _ = together_and_apart([made, *gradients], feeds, runtime)
    for one, other in zip(found, apart, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("shape", [(6, 9, 8, 4), (12, 3, 3, 4), (2, 24, 20, 4)])
@pytest.mark.parametrize("ends", ["norm", "relu", "sum"])
def test_what_goes_from_one_normalization_to_the_next_is_one_group(
    shape: tuple[int, ...], ends: str, runtime: Runtime
) -> None:
    """There and back; where pictures are several units, and where several are one, too."""
    feeds = fed(*shape)
    x, _, scale, offset = feeds
    said: list[str] = []
    made = x
    filters = [tf.placeholder(tf.float32, [3, 3, 4, 4]) for _ in range(3)]
    feeds |= {each: random(3, 3, 4, 4) + at for at, each in enumerate(filters)}
    for each in filters:
        before = made
        made = tf.nn.conv2d(made, each, [1, 1, 1, 1], "SAME")
        made = tf.nn.fused_batch_norm(made, scale, offset)[0]
        if ends == "sum":
            made = made + before
        if ends != "norm":
            made = tf.nn.relu(made)
    dy = tf.placeholder(tf.float32, made.shape)
    with explaining(said.append):
        found, apart, _ = together_and_apart(
            [made, *tf.gradients(made, [*filters, scale], [dy])],
            {**feeds, dy: random(shape[0], *made.shape.as_list()[1:])},
            runtime,
        )
    for one, other in zip(found, apart, strict=True):
        np.testing.assert_array_equal(one, other)
    text = "".join(said)
    middle = {"norm": "", "relu": "Relu ", "sum": "AddV2 Relu "}[ends]
    assert f"[Conv2D FusedBatchNormV3 {middle}Conv2D FusedBatchNormV3 {middle}Conv2D " in text
    if ends != "sum":
        back = "ReluGrad " if ends == "relu" else ""
        assert f"Conv2DBackpropInput {back}FusedBatchNormGradV3 " in text


def test_at_most_four_normalizations_are_one_group(runtime: Runtime) -> None:
    x = tf.placeholder(tf.float32, [None, 8, 8, 4])
    said: list[str] = []
    made = x
    for _ in range(6):
        made = tf.nn.conv2d(made, tf.constant(random(3, 3, 4, 4)), [1, 1, 1, 1], "SAME")
        made = tf.nn.relu(tf.nn.fused_batch_norm(made, random(4), random(4))[0])
    with explaining(said.append):
        found, apart, _ = together_and_apart(
            [made, *tf.gradients(made, [x])], {x: random(5, 8, 8, 4)}, runtime
        )
    for one, other in zip(found, apart, strict=True):
        np.testing.assert_array_equal(one, other)
    assert "normalization [Conv2D FusedBatchNormV3 Relu Conv2D FusedBatchNormV3 Relu](" in "".join(
        said
    )


@pytest.mark.usefixtures("way")
def test_the_number_of_threads_changes_no_bit() -> None:
    feeds = fed(6, 9, 8, 2)
    made = residual(*feeds)
    program = compiled([made, *tf.gradients(made, list(feeds))], list(feeds))
    results = []
    for size in (1, 2, 5):
        runtime = Runtime(DEVICE, workers=WorkerPool(size))
        results.append(run(program, runtime, list(feeds.values())))
        runtime.workers.close()
    for others in results[1:]:
        for one, other in zip(results[0], others, strict=True):
            np.testing.assert_array_equal(one, other)


def test_what_comes_between_can_be_fetched(runtime: Runtime) -> None:
    feeds = fed(6, 9, 8, 2)
    x, filters, scale, offset = feeds
    convolved = tf.nn.conv2d(x, filters, [1, 1, 1, 1], "SAME")
    normed = tf.nn.fused_batch_norm(convolved, scale, offset)
    active = tf.nn.relu(normed[0])
    twice = convolved * 2.0 + active
    for fetches in (
        [active, convolved], [active, *normed], [normed[0]], [active, normed[1], convolved], [twice],
        [tf.nn.relu(normed[0] + convolved)],
    ):  # fmt: skip
        found, wanted, _ = together_and_apart(fetches, feeds, runtime)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


def test_gradients_of_a_normalization_without_a_convolution(runtime: Runtime) -> None:
    x, scale, offset = (tf.placeholder(tf.float32, shape) for shape in ([5, 6, 6, 4], [4], [4]))
    feeds = {x: random(5, 6, 6, 4) + 100, scale: random(4), offset: random(4)}
    active = tf.nn.relu(tf.nn.fused_batch_norm(x, scale, offset)[0])
    said: list[str] = []
    with explaining(said.append):
        found, wanted, _ = together_and_apart(
            [active, *tf.gradients(active * active, list(feeds))], feeds, runtime
        )
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    assert "normalization gradients" in "".join(said)


def test_moving_averages_are_kept(runtime: Runtime) -> None:
    x, mean, variance = (tf.placeholder(tf.float32, shape) for shape in ([5, 6, 6, 4], [4], [4]))
    scale, offset = tf.constant(random(4)), tf.constant(random(4))
    made = tf.nn.fused_batch_norm(
        x, scale, offset, mean, variance, is_training=True, exponential_avg_factor=0.25
    )
    feeds = {x: random(5, 6, 6, 4), mean: random(4), variance: np.abs(random(4))}
    found, wanted, _ = together_and_apart([tf.nn.relu(made[0]), made[1], made[2]], feeds, runtime)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(
        found[1], 0.75 * feeds[mean] + 0.25 * feeds[x].mean((0, 1, 2)), rtol=1e-5, atol=1e-6
    )


def test_normalization_outside_of_training_is_left_alone(runtime: Runtime) -> None:
    x = tf.placeholder(tf.float32, [5, 6, 6, 4])
    four = [tf.constant(np.abs(random(4)) + 1) for _ in range(4)]
    active = tf.nn.relu(tf.nn.fused_batch_norm(x, *four, is_training=False)[0])
    found, wanted, together = together_and_apart([active], {x: random(5, 6, 6, 4)}, runtime)
    np.testing.assert_array_equal(found[0], wanted[0])
    assert "FusedBatchNormV3" in nodes(together)


def test_failures_name_their_node(runtime: Runtime) -> None:
    shapes: list[Any] = [[None] * 4, [3, 3, None, None], [None], [None]]
    feeds = [tf.placeholder(tf.float32, shape) for shape in shapes]
    x, filters, scale, offset = feeds
    made = tf.nn.conv2d(x, filters, [1, 1, 1, 1], "SAME", name="convolution")
    made = tf.nn.relu(tf.nn.fused_batch_norm(made, scale, offset, name="norm")[0])
    program = compiled([made], feeds)
    assert not {"convolution", "norm"} & set(nodes(program))
    good = [random(5, 8, 8, 2), random(3, 3, 2, 4), random(4), random(4)]
    assert run(program, runtime, good)[0].shape == (5, 8, 8, 4)
    for place, value, name in ((0, random(5, 8, 8, 3), "convolution"), (2, random(5), "norm")):
        with pytest.raises(errors.InvalidArgumentError) as caught:
            run(program, runtime, [value if at == place else one for at, one in enumerate(good)])
        assert caught.value.node == name


def test_empty_batches_and_infinities_are_no_exception(runtime: Runtime) -> None:
    feeds = fed(6, 9, 8, 2)
    made = residual(*feeds)
    gradients = tf.gradients(made, list(feeds)[1:])
    odd = random(6, 9, 8, 2)
    odd[1, 2, 3, 0], odd[4, 0, 0, 1] = np.inf, np.nan
    for value in (np.zeros((0, 9, 8, 2), np.float32), odd):
        given = {**feeds, next(iter(feeds)): value}
        found, wanted, _ = together_and_apart([made, *gradients], given, runtime)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


def test_attrs_are_those_that_were_planned() -> None:
    """Of nodes that run together, and of those that run one by one for the first time: a step keeps what they were."""
    x = tf.placeholder(tf.float32, [None, 16, 16, 8])
    ones, zeros = np.ones(8, np.float32), np.zeros(8, np.float32)
    normed = tf.nn.fused_batch_norm(x, ones, zeros, epsilon=0.5, is_training=True)[0]
    made = tf.nn.relu(normed)
    random = np.random.default_rng(0)
    large, small = (random.standard_normal((n, 16, 16, 8), np.float32) for n in (128, 1))
    with tf.Session() as session:
        run = session.make_callable(made, [x])
        run(large)
        normed.op._set_attr("epsilon", 8.0)
        planned, together, later = run(small), run(large), session.run(made, {x: small})
    for given, got, epsilon in ((small, planned, 0.5), (large, together, 0.5), (small, later, 8)):
        mean, variance = given.mean((0, 1, 2)), given.var((0, 1, 2))
        wanted = np.maximum((given - mean) / np.sqrt(variance + epsilon), 0)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
