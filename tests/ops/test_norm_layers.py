"""tf.layers.batch_normalization, and layers as objects: variables, what training changes, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf

RNG = np.random.default_rng(0)
IMAGES = (RNG.normal(size=(6, 4, 5, 3)) * 3 + 1).astype(np.float32)
EPSILON = 0.01


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


def norm(x: Any, training: Any, **more: Any) -> Any:
    return tf.layers.batch_normalization(
        x, training=training, epsilon=EPSILON, momentum=0.9, **more
    )


def by_hand(x: Any, axis: int, unbiased: bool) -> tuple[Any, Any, Any]:
    others = tuple(a for a in range(x.ndim) if a != axis % x.ndim)
    mean, variance = x.mean(others, keepdims=True), x.var(others, keepdims=True)
    y = (x - mean) / np.sqrt(variance + EPSILON)
    count = x.size // x.shape[axis]
    return y, mean.ravel(), variance.ravel() * (count / (count - 1) if unbiased else 1)


@pytest.mark.parametrize(
    ("x", "axis", "fused"),
    [
        (IMAGES, -1, None),
        (IMAGES, 1, None),
        (IMAGES, 3, False),
        (IMAGES, 2, False),
        (IMAGES[0, 0], -1, None),
        (IMAGES[0], [0], None),
    ],
)
def test_training_takes_out_the_statistics_of_the_batch_and_keeps_them(
    x: Any, axis: Any, fused: bool | None
) -> None:
    at = axis[0] if isinstance(axis, list) else axis
    y = norm(x, True, axis=axis, fused=fused)
    is_fused = fused is None and x.ndim == 4
    assert ("FusedBatchNormV3" in {op.type for op in y.graph.get_operations()}) == is_fused
    names = ["gamma", "beta", "moving_mean", "moving_variance"]
    assert [v.op.name for v in tf.global_variables()] == [f"batch_normalization/{n}" for n in names]
    assert [v.op.name for v in tf.trainable_variables()] == [
        f"batch_normalization/{n}" for n in names[:2]
    ]
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert [type(update) for update in updates] == [tf.Operation, tf.Operation]
    wanted, mean, variance = by_hand(x, at, is_fused)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(session.run(y), wanted, rtol=1e-4, atol=1e-4)
        session.run(updates)
        moving = session.run(tf.global_variables()[2:])
    np.testing.assert_allclose(moving[0], 0.1 * mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(moving[1], 0.9 + 0.1 * variance, rtol=1e-4)


@pytest.mark.parametrize("fused", [True, False])
def test_a_placeholder_says_whether_it_is_training(fused: bool) -> None:
    training = tf.placeholder(tf.bool, [])
    y = norm(IMAGES, training, fused=fused)
    gradient = tf.gradients(y**2, tf.trainable_variables())
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert len(updates) == 2
    moving = tf.global_variables()[2:]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        by_moving, slopes, _ = session.run([y, gradient, updates], {training: False})
        np.testing.assert_allclose(by_moving, IMAGES / np.sqrt(1 + EPSILON), rtol=1e-5)
        np.testing.assert_allclose(slopes[0], 2 * (by_moving**2).sum((0, 1, 2)), rtol=1e-4)
        for variable, start in zip(session.run(moving), (0, 1), strict=True):
            np.testing.assert_array_equal(variable, np.full(3, start))
        found, slopes, _ = session.run([y, gradient, updates], {training: True})
        wanted, mean, _ = by_hand(IMAGES, -1, fused)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(slopes[0], 2 * (wanted**2).sum((0, 1, 2)), rtol=1e-4)
        np.testing.assert_allclose(session.run(moving[0]), 0.1 * mean, rtol=1e-4)


@pytest.mark.parametrize("fused", [True, False])
def test_center_and_scale_are_left_out_on_request(fused: bool) -> None:
    y = norm(IMAGES, tf.constant(True), center=False, scale=False, fused=fused)
    assert tf.trainable_variables() == []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(
            session.run(y), by_hand(IMAGES, -1, fused)[0], rtol=1e-4, atol=1e-4
        )


def test_half_precision_has_variables_of_float32() -> None:
    x = IMAGES.astype(np.float16)
    for fused in (True, False):
        y = norm(x, True, fused=fused)
        assert (y.dtype, tf.global_variables()[0].dtype.base_dtype) == (tf.float16, tf.float32)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            wanted = by_hand(x.astype(np.float32), -1, True)[0]
            np.testing.assert_allclose(session.run(y).astype(np.float32), wanted, atol=5e-3)


def test_without_training_nothing_is_updated() -> None:
    norm(IMAGES, False)
    norm(IMAGES, 0)
    assert tf.get_collection(tf.GraphKeys.UPDATE_OPS) == []


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"virtual_batch_size": 2}, NotImplementedError, "virtual_batch_size"),
        ({"adjustment": lambda shape: (1, 0)}, NotImplementedError, "adjustment"),
        ({"axis": [1, 2]}, NotImplementedError, "several axes"),
        ({"axis": 4}, ValueError, "axis 4 must be known"),
        ({"axis": 0}, ValueError, "axis 0 must be known"),
        ({"axis": 2, "fused": True}, ValueError, "axis 3 or 1"),
        ({"training": "yes"}, TypeError, "training is a bool"),
    ],
)
def test_what_is_not_there_is_refused(arguments: dict[str, Any], error: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        tf.layers.batch_normalization(tf.placeholder(tf.float32, [None, 4, 5, 3]), **arguments)


# -- layers as objects ------------------------------------------------------------------------


def test_a_layer_uses_its_variables_again() -> None:
    dense = tf.layers.Dense(4, tf.nn.relu, name="hidden")
    assert dense.variables == []
    x = tf.constant(IMAGES[0, 0])
    first, again = dense(x), dense.apply(x * 2)
    assert [v.op.name for v in tf.global_variables()] == ["hidden/kernel", "hidden/bias"]
    assert dense.trainable_variables == [dense.kernel, dense.bias]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        one, two, kernel = session.run([first, again, dense.kernel])
    np.testing.assert_allclose(one, np.maximum(IMAGES[0, 0] @ kernel, 0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(two, 2 * one, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="hidden/kernel has shape"):
        dense(tf.zeros([2, 7]))
    with pytest.raises(AttributeError, match="gamma"):
        dense.gamma  # noqa: B018


def test_layers_without_names_are_numbered_as_functions_are() -> None:
    first, second = tf.layers.Dense(2), tf.layers.Dense(2)
    for layer in (first, second, first):
        layer(tf.zeros([1, 3]))
    tf.layers.dense(tf.zeros([1, 3]), 2, use_bias=False)
    names = [v.op.name for v in tf.global_variables()]
    assert names == [
        "dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias", "dense_2/kernel",
    ]  # fmt: skip


def test_a_stack_of_layers() -> None:
    layers = [
        tf.layers.Conv2D(4, 3, padding="same"), tf.layers.BatchNormalization(), tf.layers.Dropout(0.5),
        tf.layers.MaxPooling2D(2, 2), tf.layers.Flatten(), tf.layers.Dense(2),
    ]  # fmt: skip
    signal: Any = tf.constant(IMAGES)
    for layer in layers:
        more = {"training": True} if isinstance(layer, tf.layers.BatchNormalization) else {}
        signal = layer(signal, **more)
    assert signal.shape == (6, 2)
    assert len(layers[1].variables) == 4
    assert len(layers[1].trainable_weights) == 2
    assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 2
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert np.isfinite(session.run(signal)).all()


def test_arguments_are_those_of_the_function() -> None:
    with pytest.raises(TypeError, match="unit"):
        tf.layers.Dense(unit=3)


# -- batch renormalization --------------------------------------------------------------------

RENORM = ("renorm_mean", "renorm_mean_weight", "renorm_stddev", "renorm_stddev_weight")


class ByHand:
    """Batch renormalization of matrices in NumPy: the averages begin with 0 and are divided by their weights."""

    def __init__(self, momentum: float, keep: float, clipping: dict[str, float]) -> None:
        self.momentum, self.keep, self.clipping = momentum, keep, clipping
        self.mean = self.stddev = np.zeros(3)
        self.weight = 0.0
        self.moving = [np.zeros(3), np.ones(3)]

    def step(self, x: Any) -> Any:
        mean, stddev = x.mean(0), np.sqrt(x.var(0) + EPSILON)
        mixed = self.mean + (1 - self.weight) * mean, self.stddev + (1 - self.weight) * stddev
        low, high = self.clipping.get("rmin", 0.0), self.clipping.get("rmax", np.inf)
        far = self.clipping.get("dmax", np.inf)
        r = np.clip(stddev / mixed[1], low, high)
        d = np.clip((mean - mixed[0]) / mixed[1], -far, far)
        y = (x - mean) / stddev * r + d
        share = 1 - self.momentum
        self.mean = self.mean + (mean - self.mean) * share
        self.stddev = self.stddev + (stddev - self.stddev) * share
        self.weight += (1 - self.weight) * share
        kept = self.mean / self.weight, (self.stddev / self.weight) ** 2 - EPSILON
        self.moving = [
            m + (k - m) * (1 - self.keep) for m, k in zip(self.moving, kept, strict=True)
        ]
        return y


@pytest.mark.parametrize("resources", [False, True])
@pytest.mark.parametrize("clipping", [{}, {"rmax": 1.2, "rmin": 0.9, "dmax": 0.1}])
@pytest.mark.parametrize("contrib", [False, True])
def test_renormalization_is_what_its_paper_says(
    clipping: dict[str, float], resources: bool, contrib: bool
) -> None:
    x, training = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.bool, [])
    with tf.variable_scope("here", use_resource=resources):
        if contrib:
            y = tf.contrib.layers.batch_norm(
                x, 0.9, epsilon=EPSILON, is_training=training, renorm=True, renorm_clipping=clipping, renorm_decay=0.8
            )  # fmt: skip
        else:
            y = norm(x, training, renorm=True, renorm_clipping=clipping, renorm_momentum=0.8)
    hand = ByHand(0.8, 0.9, clipping)
    rng = np.random.default_rng(1)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(5):
            batch = rng.normal(size=(7, 3)) * [1, 2, 3] + 1
            got, _ = session.run(
                [y, tf.get_collection(tf.GraphKeys.UPDATE_OPS)], {x: batch, training: True}
            )
            np.testing.assert_allclose(got, hand.step(batch), rtol=1e-4, atol=1e-5)
        found = {v.op.name.rpartition("/")[2]: v for v in tf.global_variables()}
        kept = session.run([found[name] for name in RENORM])
        moving = session.run([found["moving_mean"], found["moving_variance"]])
        still = session.run(y, {x: batch, training: False})
        assert [v.op.name for v in tf.trainable_variables() if "renorm" in v.op.name] == []
    for value, wanted in zip(kept, (hand.mean, hand.weight, hand.stddev, hand.weight), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-4)
    np.testing.assert_allclose(moving, hand.moving, rtol=1e-4)
    by_moving = (batch - moving[0]) / np.sqrt(moving[1] + EPSILON)
    np.testing.assert_allclose(still, by_moving, rtol=1e-4, atol=1e-5)


def test_renormalization_of_images_and_its_gradients() -> None:
    x = tf.constant(IMAGES)
    y = norm(x, True, renorm=True)
    (slope,) = tf.gradients(tf.reduce_sum(y**3), x)
    plain = tf.layers.batch_normalization(x, training=True, epsilon=EPSILON, fused=False)
    (other,) = tf.gradients(tf.reduce_sum(plain**3), x)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        got = session.run([y, slope, plain, other])
    np.testing.assert_allclose(
        got[0], got[2], rtol=1e-4, atol=1e-5
    )  # the first batch has no others
    np.testing.assert_allclose(got[1], got[3], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"renorm_clipping": {"r": 1.0}}, r"contains keys not in \['rmax', 'rmin', 'dmax'\]"),
        ({"fused": True}, "fused=True` and `renorm=True` is not supported"),
    ],
)
def test_what_renormalization_does_not_take(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        norm(tf.constant(IMAGES), True, renorm=True, **arguments)


def test_contrib_renormalizes_where_one_operation_is_asked_for() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(IMAGES)
        made = [
            tf.contrib.layers.batch_norm(x, renorm=True, fused=fused, scope=f"fused_{fused}")
            for fused in (True, None, False)
        ]
        session.run(tf.global_variables_initializer())
        found = session.run(made)
        assert not [op for op in made[0].graph.get_operations() if "FusedBatchNorm" in op.type]
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
