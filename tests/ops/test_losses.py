"""tf.losses and tf.layers: values, weights, reductions, collections, variables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.library.layers import dense as layers
from headrace.library.nn import losses
from headrace.library.nn.losses import Reduction

LABELS = np.float32([[0, 1], [1, 0]])
GUESSES = np.float32([[0.5, 0.5], [0.25, 0.5]])


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def value(tensor: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(tensor)


VALUES = [
    (losses.mean_squared_error, {}, (0.25 + 0.25 + 0.5625 + 0.25) / 4),
    (losses.mean_squared_error, {"weights": 2.0}, 2 * (0.25 + 0.25 + 0.5625 + 0.25) / 4),
    (losses.mean_squared_error, {"weights": [[1.0], [0.0]]}, 0.25),
    (losses.mean_squared_error, {"weights": 0.0}, 0.0),
    (losses.absolute_difference, {"reduction": Reduction.SUM}, 2.25),
    (
        losses.absolute_difference,
        {"reduction": Reduction.MEAN, "weights": [[1.0], [3.0]]},
        (1 + 3 * 1.25) / 8,
    ),
    (
        losses.absolute_difference,
        {"reduction": Reduction.SUM_OVER_BATCH_SIZE, "weights": [[1.0], [0.0]]},
        0.25,
    ),
    (losses.log_loss, {}, -np.log([0.5, 0.5, 0.25, 0.5]).sum() / 4),
    (losses.huber_loss, {"delta": 0.6}, (3 * 0.125 + 0.18 + 0.6 * 0.15) / 4),
    (losses.cosine_distance, {"axis": 1}, ((1 - 0.5) + (1 - 0.25)) / 2),
]


@pytest.mark.parametrize(("loss", "options", "expected"), VALUES)
def test_losses(loss: Any, options: Any, expected: float) -> None:
    assert value(loss(LABELS, GUESSES, **options)) == pytest.approx(expected, rel=1e-5)


def test_losses_of_logits() -> None:
    logits = np.float32([[0, 0], [np.log(3), 0]])
    assert value(losses.softmax_cross_entropy(LABELS, logits)) == pytest.approx(
        (np.log(2) + np.log(4 / 3)) / 2, rel=1e-5
    )
    assert value(losses.sparse_softmax_cross_entropy([1, 0], logits)) == pytest.approx(
        (np.log(2) + np.log(4 / 3)) / 2, rel=1e-5
    )
    assert value(losses.sparse_softmax_cross_entropy([[1], [0]], logits)) == pytest.approx(
        (np.log(2) + np.log(4 / 3)) / 2, rel=1e-5
    )
    assert value(losses.sigmoid_cross_entropy(LABELS, logits)) == pytest.approx(
        (3 * np.log(2) + np.log(4 / 3)) / 4, rel=1e-5
    )
    assert value(losses.hinge_loss(LABELS, logits)) == pytest.approx(3 / 4, rel=1e-5)


def test_no_reduction_keeps_the_shape() -> None:
    found = value(losses.absolute_difference(LABELS, GUESSES, reduction=Reduction.NONE))
    assert found.tolist() == [[0.5, 0.5], [0.75, 0.5]]


def test_the_total_is_the_sum_of_what_was_collected() -> None:
    losses.mean_squared_error(LABELS, GUESSES, reduction=Reduction.SUM)
    losses.absolute_difference(LABELS, GUESSES, reduction=Reduction.SUM, loss_collection=None)
    losses.add_loss(tf.constant(10.0))
    tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, tf.constant(100.0))
    assert len(losses.get_losses()) == 2
    assert value(losses.get_total_loss()) == pytest.approx(111.3125)
    assert value(losses.get_total_loss(add_regularization_losses=False)) == pytest.approx(11.3125)
    assert value(losses.get_regularization_loss()) == 100


REFUSED = [
    lambda: losses.mean_squared_error(np.zeros((2, 3), "f"), np.zeros((3, 3), "f")),
    lambda: losses.mean_squared_error(LABELS, GUESSES, weights=np.ones((3, 1), "f")),
    lambda: losses.mean_squared_error(LABELS, GUESSES, weights=np.ones(2, "f")),
    lambda: losses.mean_squared_error(None, GUESSES),
    lambda: losses.mean_squared_error(LABELS, GUESSES, reduction="mean"),
    lambda: losses.get_total_loss(),
]


@pytest.mark.parametrize("make", REFUSED)
def test_what_does_not_fit_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        make()


@pytest.mark.parametrize(
    ("weights", "fits"),
    [([[1.0], [0.0]], True), (1.0, True), ([1.0, 0.0, 2.0], False), ([1.0, 1.0], False)],
)
def test_weights_of_unknown_shape_are_checked_when_the_step_runs(weights: Any, fits: bool) -> None:
    given = tf.placeholder_with_default(np.float32(weights), None)
    values = tf.placeholder_with_default(GUESSES, None)
    loss = losses.compute_weighted_loss(values, given)
    if fits:
        assert value(loss) > 0
    else:
        with pytest.raises(tf.errors.InvalidArgumentError):
            value(loss)


def test_dense_layers_make_named_variables_and_share_them_on_request() -> None:
    x = tf.constant(np.ones((2, 3), "f"))
    ones = tf.ones_initializer()
    first = layers.dense(x, 4, activation=tf.nn.relu, kernel_initializer=ones, name="hidden")
    again = layers.dense(x, 4, kernel_initializer=ones, name="hidden", reuse=True)
    layers.dense(x, 4)
    layers.dense(x, 4, use_bias=False)
    names = [variable.name for variable in tf.trainable_variables()]
    assert names == [
        "hidden/kernel:0", "hidden/bias:0", "dense/kernel:0", "dense/bias:0", "dense_1/kernel:0",
    ]  # fmt: skip
    np.testing.assert_array_equal(value(first), value(again))
    assert value(first).tolist() == [[3] * 4] * 2


def test_dense_layers_take_more_dimensions() -> None:
    x = tf.placeholder_with_default(np.ones((2, 5, 3), "f"), [None, 5, 3])
    y = layers.dense(x, 4, kernel_initializer=tf.ones_initializer())
    assert y.shape.as_list() == [None, 5, 4]
    assert value(y).tolist() == np.full((2, 5, 4), 3.0).tolist()


@pytest.mark.parametrize("training", [True, False, "tensor"])
def test_dropout_layers_drop_only_while_training(training: Any) -> None:
    flag = tf.constant(True) if training == "tensor" else training
    found = value(layers.dropout(tf.ones([1000]), 0.5, training=flag))
    assert (found == 0).any() == bool(training)


def test_flatten_keeps_the_batch() -> None:
    known = layers.flatten(tf.zeros([2, 3, 4]))
    assert known.shape.as_list() == [2, 12]
    unknown = layers.flatten(tf.placeholder_with_default(np.zeros((2, 3, 4), "f"), [None, None, 4]))
    assert value(unknown).shape == (2, 12)
