"""tf.layers.Layer: layers of a program's own, and what every layer object has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


class Scaled(tf.layers.Layer):
    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units

    def build(self, input_shape: Any) -> None:
        ones = tf.ones_initializer()
        self.kernel = self.add_weight(
            "kernel", [int(input_shape[-1]), self.units], initializer=ones, regularizer=_square
        )
        self.gain = self.add_variable("gain", [self.units], initializer=ones, trainable=False)

    def call(self, inputs: Any, more: float = 0.0) -> Any:
        self.add_update(tf.assign_add(self.gain, tf.ones([self.units])))
        return tf.matmul(inputs, self.kernel) * self.gain + more


def _square(value: Any) -> Any:
    return tf.reduce_sum(value * value)


def test_a_layer_makes_its_variables_once_and_uses_them_again() -> None:
    layer = Scaled(2)
    assert not layer.built
    first = layer(np.ones((1, 3), np.float32))
    again = layer(tf.ones([2, 3]), more=1.0)
    assert [each.op.name for each in tf.global_variables()] == ["scaled/kernel", "scaled/gain"]
    assert layer.variables == [layer.kernel, layer.gain]
    assert (layer.trainable_weights, layer.non_trainable_weights) == ([layer.kernel], [layer.gain])
    assert layer.count_params() == 8
    assert layer.losses == tf.losses.get_regularization_losses()
    assert layer.updates == tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert len(layer.updates) == 2
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(first).tolist() == [[3.0, 3.0]]
        assert session.run(again).tolist() == [[4.0, 4.0]] * 2
        assert session.run(layer.losses) == [6.0]


def test_nothing_of_a_layer_that_is_not_trainable_is_trained_or_updated() -> None:
    layer = Scaled(2, trainable=False)
    layer(tf.ones([1, 3]))
    assert (layer.trainable_variables, layer.updates) == ([], [])
    assert layer.non_trainable_variables == [layer.kernel, layer.gain]
    assert tf.trainable_variables() == tf.get_collection(tf.GraphKeys.UPDATE_OPS) == []


def test_names_are_numbered_by_graph_and_scopes_where_they_are_opened() -> None:
    tf.layers.dense(tf.ones([1, 2]), 1)
    layers = [tf.layers.Dense(1), tf.layers.Dense(1), tf.layers.Dense(1, name="given")]
    assert [layer.name for layer in layers] == ["dense_2", "dense_3", "given"]
    with pytest.raises(ValueError, match="has not been used yet"):
        _ = layers[0].scope_name
    with tf.variable_scope("a"):
        layers[0](tf.ones([1, 2]))
    assert (layers[0].scope_name, layers[0].kernel.op.name) == ("a/dense", "a/dense/kernel")
    with tf.Graph().as_default():
        assert tf.layers.Dense(1).name == "dense_1"


def test_variables_of_another_layer_are_used_if_asked_for() -> None:
    first = Scaled(2, name="shared")
    first(tf.ones([1, 3]))
    second = Scaled(2, name="shared", _reuse=True)
    second(tf.ones([1, 3]))
    assert second.kernel is first.kernel
    assert len(tf.losses.get_regularization_losses()) == 1
    assert Scaled(2, _scope="fixed").scope_name == "fixed"


def test_what_a_batch_normalization_updates_is_its_own_too() -> None:
    layer = tf.layers.BatchNormalization()
    layer(tf.ones([4, 2]), training=True)
    assert len(layer.updates) == 2
    assert layer.updates == tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert layer.variables == [layer.gamma, layer.beta, layer.moving_mean, layer.moving_variance]


def test_losses_of_activities_are_per_example() -> None:
    layer = Scaled(1, activity_regularizer=tf.reduce_sum)
    layer(tf.ones([4, 3]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(layer.losses[-1]) == 3.0


def test_losses_and_updates_may_be_functions_and_lists() -> None:
    layer = tf.layers.Layer()
    loss = tf.constant(1.0)
    layer.add_loss([loss, lambda: None, lambda: tf.constant(2.0)])
    layer.add_update([tf.no_op(), lambda: tf.no_op()])
    assert layer.losses[0] is loss
    assert (len(layer.losses), len(layer.updates)) == (2, 2)
    assert layer(loss) is loss


def test_what_a_layer_does_not_know_is_refused() -> None:
    with pytest.raises(TypeError, match="Keyword argument not understood: size"):
        Scaled(2, size=3)
    with pytest.raises(ValueError, match="the layer isn't built"):
        Scaled(2).count_params()
    with pytest.raises(AttributeError, match="Dense has no 'kernel'"):
        _ = tf.layers.Dense(2).kernel


class Normed(tf.layers.BatchNormalization):
    """One whose variables are all made before the first call, with another one."""

    def build(self, input_shape: Any) -> None:
        self.power = self.add_weight("power", [], initializer=tf.ones_initializer())
        super().build(input_shape)
        self.gamma = self.gamma**self.power


def test_a_layer_of_tf_layers_may_be_a_base_that_makes_its_variables_first() -> None:
    layer = Normed(
        gamma_initializer=tf.constant_initializer(2.0), name="n", gamma_regularizer=_square
    )
    with tf.variable_scope("cut", partitioner=tf.fixed_size_partitioner(2)):
        first = layer(tf.constant([[1.0, 2.0], [3.0, 6.0]]), training=True)
        layer(tf.ones([3, 2]))
    names = [each.op.name for each in tf.global_variables()]
    whole = ["cut/n/moving_mean", "cut/n/moving_variance"]
    assert [each for each in names if "part" not in each] == ["cut/n/power", *whole]
    assert len(layer.updates) == 2
    assert layer.get_updates_for(None) == []
    assert len(layer.losses) == len(layer.get_losses_for(None)) == 2  # of each part
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert np.allclose(session.run(first), [[-2, -2], [2, 2]], atol=1e-2)


def test_variables_are_there_after_build_and_the_call_uses_them() -> None:
    layer = tf.layers.Conv2D(4, 3, name="c", kernel_regularizer=_square)
    layer.build([None, 8, 8, 2])
    kernel = layer.kernel
    assert layer.built
    assert layer(tf.ones([1, 8, 8, 2])).shape == (1, 6, 6, 4)
    assert layer.kernel is kernel
    assert [each.op.name for each in tf.global_variables()] == ["c/kernel", "c/bias"]
    assert len(layer.losses) == len(tf.losses.get_regularization_losses()) == 1
    with pytest.raises(ValueError, match="incompatible with the layer"):
        layer(tf.ones([1, 8, 8, 3]))


def test_build_of_a_shape_that_is_not_taken_is_refused_and_makes_nothing() -> None:
    with pytest.raises(
        ValueError, match="last dimension of the inputs to `Dense` should be defined"
    ):
        tf.layers.Dense(2).build([3, None])
    with pytest.raises(ValueError, match=r"layer small .*expected min_ndim=4, found ndim=2"):
        tf.layers.Conv2D(2, 3, name="small").compute_output_shape([3, 4])
    assert tf.global_variables() == []
    assert tf.get_default_graph().get_operations() == []


def test_what_makes_only_some_of_its_variables_gets_the_others_from_the_call() -> None:
    class OwnKernel(tf.layers.Dense):
        def build(self, input_shape: Any) -> None:
            ones = tf.ones_initializer()
            self.kernel = 2 * self.add_weight("half", [3, self.units], initializer=ones)
            self.built = True

    layer = OwnKernel(2)
    found = [layer(tf.ones([1, 3])) for _ in range(2)]
    assert [each.op.name for each in layer.variables] == ["own_kernel/half", "own_kernel/bias"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert np.equal(session.run(found), 6).all()


def test_what_a_subclass_calls_like_a_variable_is_none() -> None:
    class Named(tf.layers.Dense):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.bias = 0.5

    layer = Named(2, kernel_initializer=tf.ones_initializer())
    found = [layer(tf.ones([1, 3])) for _ in range(2)]
    assert [each.op.name for each in layer.variables] == ["named/kernel", "named/bias"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert np.equal(session.run(found), 3).all()


def test_arguments_of_a_layer_are_its_attributes() -> None:
    pool, norm = tf.layers.MaxPooling2D(2, (2, 1)), tf.layers.BatchNormalization(momentum=0.9)
    assert (pool.pool_size, pool.strides, pool.padding) == ((2, 2), (2, 1), "valid")
    assert (norm.momentum, norm.epsilon, norm.center) == (0.9, 1e-3, True)
    assert tf.layers.Conv3D(1, 2, strides=(1, 2, 3)).strides == (1, 2, 3)
    assert tf.layers.Conv1D(1, 2).rank == 1
    assert tf.layers.Dense(3).activation(4.0) == 4.0
    for missing in ("kernel", "rank", "inputs", "_nothing"):
        with pytest.raises(AttributeError, match=missing):
            getattr(tf.layers.Dense(3), missing)


def test_losses_and_updates_are_those_of_inputs_or_of_none() -> None:
    layer, x, y = Scaled(2, activity_regularizer=tf.reduce_sum), tf.ones([1, 3]), tf.ones([2, 3])
    layer(x)
    layer(y)
    layer.add_update(tf.assign_add(layer.gain, tf.reduce_sum(y) * [1.0, 1.0]), inputs=y)
    assert layer.get_losses_for(None) == layer.losses[:1]
    assert layer.get_losses_for(x) == layer.losses[1:2]
    assert layer.get_losses_for([x, y]) == layer.losses[1:]
    assert layer.get_losses_for(tf.ones([1, 3])) == []
    assert layer.get_updates_for(None) == layer.updates[:2]
    assert layer.get_updates_for(y) == layer.updates[2:]


def test_a_layer_that_says_no_shape_is_asked_for_none() -> None:
    with pytest.raises(NotImplementedError, match="define compute_output_shape"):
        Scaled(2).compute_output_shape([3, 4])
