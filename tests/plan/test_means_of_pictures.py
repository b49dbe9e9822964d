"""Means of normalized pictures, and what spreads the gradients of means over them, in the groups of normalizations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.ops._kernels.channels import Units
from headrace.plan.explain import explaining
from headrace.plan.rules import normalizations
from headrace.run.exec.kernel import Runtime
from headrace.run.exec.worker_pool import WorkerPool
from tests.plan.programs import (
    DEVICE,
    compiled,
    looped_and_one_by_one,
    run,
    small_pictures,
    together_and_apart,
)

Array = np.ndarray[Any, Any]
KERNELS = "headrace.ops._kernels."


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    small_pictures(monkeypatch)
    monkeypatch.setattr(f"{KERNELS}channels._FEWEST", 64)
    with tf.Graph().as_default():
        yield


def random(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def given(value: Array, *shape: int | None) -> Any:
    return tf.placeholder_with_default(value, list(shape or value.shape))


def layer(x: Any, channels: int = 4, act: Any = tf.nn.relu, name: str | None = None) -> Any:
    """Convolution, normalization and an activation."""
    taken = x.shape.as_list()[3]
    made = tf.nn.conv2d(x, given(random(3, 3, taken, channels)), [1, 1, 1, 1], "SAME")
    scale, offset = given(random(channels) + 1), given(random(channels))
    return act(tf.nn.fused_batch_norm(made, scale, offset)[0], name=name)


def same(fetches: list[Any], runtime: Runtime, feeds: dict[Any, Any] | None = None) -> str:
    """Compare bits of nodes together and one by one; what is said of the groups."""
    said: list[str] = []
    with explaining(said.append):
        found, apart, _ = together_and_apart(fetches, feeds or {}, runtime)
    for one, other in zip(found, apart, strict=True):
        np.testing.assert_array_equal(one, other)
    return "".join(said)


SHAPES = [
    (6, 9, 8, 3),
    (7, 8, 8, 4),
    (12, 3, 3, 4),  # several pictures are a unit
    (2, 24, 20, 4),  # a picture is several
    (1, 9, 9, 1),
    (40, 1, 1, 4),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_a_mean_and_what_spreads_its_gradient_are_in_the_groups(
    shape: tuple[int, ...], keep: bool, known: bool, runtime: Runtime
) -> None:
    n, *size, _ = shape
    x = given(random(*shape), n if known else None, *shape[1:])
    pictures = layer(x)
    mean = tf.reduce_mean(pictures, [1, 2], keep_dims=keep)
    dy = given(random(n, 1, 1, 4) if keep else random(n, 4))
    gradients = tf.gradients(mean, [x, *pictures.op.inputs[0].op.inputs[1:3]], [dy])
    for fetches in ([mean, *gradients], [mean, pictures, *gradients]):
        said = same(fetches, runtime)
        assert "normalization [Conv2D FusedBatchNormV3 Relu Mean](" in said
        if size != [1, 1]:
            spreads = "Tile" if known else "BroadcastTo"
            assert f"[{spreads} RealDiv ReluGrad FusedBatchNormGradV3" in said


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("keep", [False, True])
def test_they_run_with_the_pictures(
    shape: tuple[int, ...], keep: bool, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mean of each picture is found when that is made; a mean's gradient is never as large as the pictures."""
    x = given(random(*shape), None, *shape[1:])
    mean = tf.reduce_mean(layer(x), [-2, 1], keep_dims=keep)
    gradients = tf.gradients(mean, [x], [given(random(shape[0], *([1, 1] * keep), 4))])
    program = compiled([mean, *gradients], [])
    found: list[str] = []

    def noted(what: str, function: Any) -> Any:
        return lambda *given: (found.append(what), function(*given))[1]

    means, repeated = normalizations.mean_of_sums, Units.lines_of_same
    monkeypatch.setattr(normalizations, "mean_of_sums", noted("mean", means))
    monkeypatch.setattr(Units, "lines_of_same", noted("gradient", repeated))
    run(program, runtime, [])
    units = Units(shape[0], shape[1] * shape[2], 4)
    wanted = ["mean"] * (units.in_picture == 1)
    if units.in_picture and shape[1:3] != (1, 1):
        wanted.append("gradient")
    assert found == wanted


AXES = [
    [1, 2], [2, 1], [-2, -3], [1, -2], [0, 1, 2], [0, 1, 2, 3], [1], [3], [0, 3], [], 2,
    np.array([1, 2], np.int64), np.array([-2, 1], np.int64),
]  # fmt: skip


@pytest.mark.parametrize("axes", AXES, ids=repr)
@pytest.mark.parametrize("fed", [False, True])
def test_axes_in_any_order_and_of_any_dimensions(axes: Any, fed: bool, runtime: Runtime) -> None:
    x = given(random(6, 9, 8, 3))
    feeds: dict[Any, Any] = {}
    axis: Any = axes
    if fed:
        value = np.asarray(axes, getattr(axes, "dtype", np.int32))
        axis = tf.placeholder(value.dtype, value.shape)
        feeds = {axis: value}
    for keep in (False, True):
        mean = tf.reduce_mean(layer(x), axis, keep_dims=keep)
        said = same([mean, *tf.gradients(tf.square(mean), [x])], runtime, feeds)
        assert np.size(axes) == 0 or "Relu Mean](" in said


def test_axes_that_are_none_fail_by_the_name_of_the_mean(runtime: Runtime) -> None:
    axis = tf.placeholder(tf.int32, [None])
    mean = tf.reduce_mean(layer(given(random(6, 9, 8, 3))), axis, name="mean")
    program = compiled([mean], [axis])
    for wrong in ([1, 1], [4], [1, -5]):
        with pytest.raises(errors.InvalidArgumentError) as caught:
            run(program, runtime, [np.array(wrong, np.int32)])
        assert caught.value.node == "mean"
    assert run(program, runtime, [np.array([1, 2], np.int32)])[0].shape == (6, 4)


def test_means_of_the_same_and_of_other_things(runtime: Runtime) -> None:
    x = given(random(6, 9, 8, 3))
    pictures = layer(x)
    normed = tf.nn.fused_batch_norm(layer(pictures), given(random(4)), given(random(4)))
    active = tf.nn.elu(normed[0])
    means = [tf.reduce_mean(each, [1, 2]) for each in (active, active, normed[0], pictures)]
    means.append(tf.reduce_mean(active, [0, 1, 2]))
    total = sum(tf.reduce_sum(tf.square(each)) for each in means)
    gradients = tf.gradients(total, [x, pictures])
    for fetches in (
        means, means[:1], means[2:3], [*means, *gradients], gradients, [means[0], normed[1]],
        [means[0] + means[0] * means[0]], [means[0], active], [means[3], means[0]],
    ):  # fmt: skip
        same(fetches, runtime)


ACTIVATIONS = {
    "relu6": tf.nn.relu6,
    "elu": tf.nn.elu,
    "sigmoid": tf.sigmoid,
    "tanh": tf.tanh,
    "identity": tf.identity,
    "sum": lambda x, name: x + given(random(6, 9, 8, 4)),
    "numbers": lambda x, name: x * 3.0 - given(np.float32(2)),
    "softplus": tf.nn.softplus,
    "square": tf.square,
}


@pytest.mark.parametrize("act", ACTIVATIONS)
def test_activations_between(act: str, runtime: Runtime) -> None:
    x = given(random(6, 9, 8, 3))
    pictures = layer(layer(x, act=ACTIVATIONS[act]), act=ACTIVATIONS[act])
    mean = tf.reduce_mean(pictures, [1, 2])
    said = same([mean, *tf.gradients(mean, [x], [given(random(6, 4))])], runtime)
    if act not in ("elu", "softplus", "square"):
        assert "Mean](" in said


@pytest.mark.parametrize("bad", [0.0, np.inf, -np.inf, np.nan, -0.0])
def test_gradients_that_are_no_numbers(bad: float, runtime: Runtime) -> None:
    x = given(random(6, 9, 8, 3))
    mean = tf.reduce_mean(layer(layer(x)), [1, 2])
    dy = random(6, 4)
    dy[2, 1] = bad
    same([mean, *tf.gradients(mean, [x], [given(dy)])], runtime)
    same([mean, *tf.gradients(mean, [x], [given(np.full((6, 4), bad, np.float32))])], runtime)


def spread(way: str, small: Any, shape: tuple[int, ...]) -> Any:
    if way == "BroadcastTo":
        return tf.broadcast_to(small, given(np.array(shape, np.int32), None))
    static = small.shape.as_list()
    times = [n // (m or 1) for n, m in zip(shape, static, strict=True)]
    return tf.tile(small, given(np.array(times, np.int32), None))


SPREAD = [(6, 1, 1, 4), (1, 1, 1, 4), (6, 9, 1, 4), (6, 1, 1, 1), (6, 9, 8, 4), (1, 1, 1, 1)]


@pytest.mark.parametrize("way", ["BroadcastTo", "Tile"])
@pytest.mark.parametrize("shape", SPREAD)
@pytest.mark.parametrize("relu", [False, True])
def test_what_is_spread_over_any_dimensions(
    way: str, shape: tuple[int, ...], relu: bool, runtime: Runtime
) -> None:
    x = given(random(6, 9, 8, 3))
    pictures = layer(x, act=tf.nn.relu if relu else tf.identity)
    small = given(random(*shape))
    one = spread(way, small, (6, 9, 8, 4))
    number = given(np.float32(7))
    for made in (
        one / 72.0, one * 3.0 / number, 2.0 - one, tf.exp(-one) + number, one, number / one,
        tf.maximum(one, number) - number * 2.0, one * given(np.array([2], np.float32)),
    ):  # fmt: skip
        made.set_shape([6, 9, 8, 4])
        said = same(tf.gradients(pictures, [x], [made]), runtime)
        assert "FusedBatchNormGradV3" in said
    made = one / 72.0
    gradients = tf.gradients(pictures, [x], [made])
    same([*gradients, made], runtime)
    same([*gradients, made * 2.0], runtime)
    same([*gradients, one], runtime)


def test_what_is_spread_of_another_shape_is_refused(runtime: Runtime) -> None:
    shape = tf.placeholder(tf.int32, [4])
    pictures = layer(given(random(6, 9, 8, 3)))
    made = tf.broadcast_to(given(random(6, 1, 1, 4), *[None] * 4), shape) / 72.0
    made.set_shape([None] * 4)
    program = compiled(tf.gradients(pictures, pictures.op.inputs, [made]), [shape])
    for wrong in ([6, 9, 9, 4], [7, 9, 8, 4]):
        with pytest.raises(errors.InvalidArgumentError):
            run(program, runtime, [np.array(wrong, np.int32)])
    assert run(program, runtime, [np.array([6, 9, 8, 4], np.int32)])[0].shape == (6, 9, 8, 4)


@pytest.mark.parametrize("way", ["BroadcastTo", "Tile"])
@pytest.mark.parametrize("size", [1, 5])
def test_what_a_group_before_makes_is_not_spread_before_it_is_there(
    way: str, size: int, runtime: Runtime
) -> None:
    """The gradient of a convolution's input, spread to its own shape, begins the next normalization's."""
    x, other = (given(random(40, size, size, 4), None, None, None, 4) for _ in range(2))
    pictures = layer(other, act=tf.identity)
    filters = pictures.op.inputs[0].op.inputs[0].op.inputs[1]
    first, of_filters = tf.gradients(pictures, [other, filters], [given(random(40, size, size, 4))])
    sizes = [40, size, size, 4] if way == "BroadcastTo" else [1, 1, 1, 1]
    each = tf.broadcast_to if way == "BroadcastTo" else tf.tile
    made = each(first, given(np.array(sizes, np.int32), None)) / 4.0
    same([of_filters, *tf.gradients(layer(x, act=tf.identity), [x], [made])], runtime)


def test_a_mean_between_two_normalizations(runtime: Runtime) -> None:
    """As where channels are weighed by what they are on average."""
    for size in (1, 6):
        x = given(random(40, size, size, 3), None, size, size, 3)
        pictures = layer(x)
        weights = tf.sigmoid(layer(tf.reduce_mean(pictures, [1, 2], keep_dims=True)))
        made = layer(pictures * weights)
        same([made, *tf.gradients(made, [x], [given(random(40, size, size, 4))])], runtime)


def test_the_number_of_threads_changes_no_bit() -> None:
    for shape in SHAPES:
        x = given(random(*shape))
        mean = tf.reduce_mean(layer(x), [1, 2])
        dy = given(random(shape[0], 4))
        program = compiled([mean, *tf.gradients(mean, [x], [dy])], [])
        results = []
        for size in (1, 2, 5):
            runtime = Runtime(DEVICE, workers=WorkerPool(size))
            results.append(run(program, runtime, []))
            runtime.workers.close()
        for others in results[1:]:
            for one, other in zip(results[0], others, strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("way", ["loop", "branch"])
def test_in_loops_and_branches(way: str) -> None:
    x = given(random(6, 9, 8, 3))
    filters, scale = given(random(3, 3, 3, 3)), given(random(3) + 1)

    def once(pictures: Any) -> Any:
        made = tf.nn.conv2d(pictures, filters, [1, 1, 1, 1], "SAME")
        made = tf.nn.relu(tf.nn.fused_batch_norm(made, scale, scale)[0])
        return tf.reshape(tf.reduce_mean(made, [1, 2]), [6, 1, 1, 3]) + pictures

    if way == "loop":
        _, made = tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, once(v)), [0, x])
    else:
        made = tf.cond(given(np.array(True)), lambda: once(x), lambda: x * 2.0)
    mean = tf.reduce_mean(made, [1, 2])
    total = tf.reduce_sum(tf.square(mean))
    found, wanted, _ = looped_and_one_by_one([mean, *tf.gradients(total, [x, filters, scale])], {})
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_they_wait_for_what_they_depend_on(runtime: Runtime) -> None:
    x = given(random(6, 9, 8, 3))
    pictures = layer(x)
    with tf.control_dependencies([pictures.op]):
        after = given(np.array([1, 2], np.int32)) * 1
    with tf.control_dependencies([tf.identity(after)]):
        mean = tf.reduce_mean(pictures, after)
    with tf.control_dependencies([mean]):
        (slope,) = tf.gradients(mean, [x], [given(random(6, 4))])
        last = tf.identity(slope) + 1.0
    same([mean, last], runtime)
    same([last], runtime)


def test_what_only_is_normalized_is_not_changed(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written over itself once more."""
    steps: list[Any] = []
    init = normalizations.Changing.__init__

    def noted(self: Any, given: Any, units: Units) -> None:
        steps.append(given)
        init(self, given, units)

    monkeypatch.setattr(normalizations.Changing, "__init__", noted)
    made = tf.nn.conv2d(given(random(6, 9, 8, 3)), given(random(3, 3, 3, 4)), [1] * 4, "SAME")
    normed = tf.nn.fused_batch_norm(made, given(random(4)), given(random(4)))[0]
    assert "[Conv2D FusedBatchNormV3](" in same([normed], runtime)
    assert steps == [[]]


def test_what_goes_from_one_normalization_to_the_next_is_rather_one_group(runtime: Runtime) -> None:
    """What a mean's gradient is added to comes from the next normalization."""
    x = given(random(6, 9, 8, 4))
    first = layer(x)
    second = layer(first)
    total = [tf.reduce_sum(tf.square(tf.reduce_mean(each, [1, 2]))) for each in (first, second)]
    filters = [each.op.inputs[0].op.inputs[0].op.inputs[1] for each in (first, second)]
    said = same(tf.gradients(total, [x, *filters]), runtime)
    assert "FusedBatchNormGradV3 Conv2DBackpropInput AddN ReluGrad FusedBatchNormGradV3 " in said
    assert "[Tile RealDiv ReluGrad FusedBatchNormGradV3 Conv2DBackprop" in said
