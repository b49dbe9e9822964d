"""`tf.TensorSpec`, what `tf.contrib.framework` checks, and `tf.contrib.nn`, beside formulas in NumPy."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import headrace as tf

framework, nn = tf.contrib.framework, tf.contrib.nn
SPEC = tf.TensorSpec([2, None], tf.int32, "a")


def test_specifications_are_compared_printed_and_pickled() -> None:
    assert repr(SPEC) == "TensorSpec(shape=(2, ?), dtype=tf.int32, name='a')"
    assert repr(tf.TensorSpec(None)) == "TensorSpec(shape=<unknown>, dtype=tf.float32, name=None)"
    assert tf.TensorSpec([2, None], "int32", "a") == SPEC
    assert tf.TensorSpec([2, None], tf.int32) != SPEC != 3
    assert hash(tf.TensorSpec([2, None], tf.int32)) == hash(SPEC)
    assert pickle.loads(pickle.dumps(SPEC)) == SPEC
    assert framework.TensorSpec.from_spec(SPEC, name="b").name == "b"
    bounded = framework.BoundedTensorSpec([1, 2], tf.float32, 0, (5, 5), "b")
    assert repr(bounded) == (
        "BoundedTensorSpec(shape=(1, 2), dtype=tf.float32, name='b', minimum=array(0., dtype=float32), "
        "maximum=array([5., 5.], dtype=float32))"
    )
    assert (
        framework.BoundedTensorSpec.from_spec(bounded)
        == bounded
        == pickle.loads(pickle.dumps(bounded))
    )
    assert bounded != framework.BoundedTensorSpec([1, 2], tf.float32, 0, (5, 6), "b")
    assert framework.BoundedTensorSpec.from_spec(SPEC).maximum == 2**31 - 1
    assert not bounded.minimum.flags.writeable


def test_what_fits_a_specification() -> None:
    with tf.Graph().as_default():
        assert SPEC.is_compatible_with(tf.zeros([2, 3], tf.int32))
        assert not SPEC.is_compatible_with(tf.zeros([2, 3]))
        assert not SPEC.is_compatible_with(tf.TensorSpec([3, None], tf.int32))
        assert not SPEC.is_compatible_with([[1, 2]])
        assert tf.TensorSpec.from_tensor(tf.zeros([2], name="z")) == tf.TensorSpec([2], name="z")
    for lowest, highest, says in (
        ((1, 1, 1), 5, "`minimum` .* is not compatible with shape"),
        (0, None, "`maximum` can not be None"),
    ):
        with pytest.raises(ValueError, match=says):
            framework.BoundedTensorSpec((1, 2), tf.float32, lowest, highest)
    with pytest.raises(ValueError, match=r"should be a tf\.Tensor, but got type <class 'int'>"):
        tf.TensorSpec.from_tensor(3)


def test_shapes_are_checked_before_the_step_or_in_it() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(tf.float32, [None, 3])
        same = framework.with_same_shape(tf.zeros([2, 3]), fed)
        other = framework.with_same_shape(fed, fed * 2)
        assert same.shape == [2, 3]
        known = tf.zeros([2])
        assert framework.with_shape([2], known) is known
        with pytest.raises(ValueError, match="are incompatible"):
            framework.with_shape([3], known)
        session.run([same, other], {fed: np.ones([2, 3])})
        with pytest.raises(tf.errors.InvalidArgumentError, match="Wrong shape for"):
            session.run(same, {fed: np.ones([4, 3])})
        assert framework.get_placeholders(session.graph) == [fed]
        total = framework.reduce_sum_n([tf.ones([2, 2]), tf.constant(3.0)])
        guesses, truth = framework.remove_squeezable_dimensions(tf.ones([2, 1]), tf.ones([2]))
        assert (session.run(total), guesses.shape, truth.shape) == (7.0, [2], [2])
        with pytest.raises(ValueError, match="Expected an integer scalar"):
            framework.assert_scalar_int(tf.constant(1.0))
        assert framework.smart_cond(True, lambda: 1, lambda: 2) == 1
        with tf.name_scope("here"):
            assert framework.get_name_scope() == "here"


def test_a_part_of_a_graph_becomes_one_node() -> None:
    with tf.Graph().as_default() as graph:
        a = tf.placeholder(tf.float32, name="a")
        inner = tf.nn.relu(tf.negative(a, name="b"), name="c")
        tf.square(inner + tf.constant(1.0, name="k"), name="d")
    fused = framework.fuse_op(graph.as_graph_def(), ["a"], ["c"], [1], False, "one", "Mine")
    found = {node.name: (node.op, list(node.input)) for node in fused.node}
    assert found["one"] == ("Mine", ["a"])
    assert {"b", "c"}.isdisjoint(found)
    assert found["add"][1] == ["one", "k"]
    assert {"a", "k", "d"} <= found.keys()
    assert list(tf.contrib.util.ops_used_by_graph_def(fused)) != []
    given = graph.as_graph_def()
    given.node.add(name="e", op="Neg", input=["b"])
    with pytest.raises(ValueError, match=r"\['b'\] lie within .*name them among output_nodes"):
        framework.fuse_op(given, ["a"], ["c"], [1], False, "one", "Mine")


def test_losses_that_take_logits_first() -> None:
    logits = np.array([[1.0, 2.0, 0.5], [0.0, -1.0, 3.0]], np.float32)
    labels = np.eye(3, dtype=np.float32)[[1, 0]]
    with tf.Graph().as_default(), tf.Session() as session:
        flipped = nn.deprecated_flipped_softmax_cross_entropy_with_logits(logits, labels)
        sparse = nn.deprecated_flipped_sparse_softmax_cross_entropy_with_logits(logits, [1, 0])
        single = nn.deprecated_flipped_sigmoid_cross_entropy_with_logits(logits, labels)
        found = session.run([flipped, sparse, single])
    expected = np.log(np.exp(logits).sum(1)) - (logits * labels).sum(1)
    np.testing.assert_allclose(found[0], expected, rtol=1e-5)
    np.testing.assert_allclose(found[1], expected, rtol=1e-5)
    np.testing.assert_allclose(found[2], np.log1p(np.exp(logits)) - logits * labels, rtol=1e-5)


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    x = np.random.RandomState(0).standard_normal(40000).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        dropped = nn.alpha_dropout(tf.constant(x), 0.8, seed=3)
        found = session.run(dropped)
        assert nn.alpha_dropout(dropped, 1.0) is dropped
        with pytest.raises(ValueError, match="keep_prob must be a scalar"):
            nn.alpha_dropout(dropped, 1.5)
    alpha = -1.7580993408473766
    scale = (0.8 + 0.8 * 0.2 * alpha**2) ** -0.5
    low = np.isclose(found, scale * alpha - scale * alpha * 0.2, rtol=1e-4)
    assert abs(low.mean() - 0.2) < 0.02
    np.testing.assert_allclose(found[~low], scale * x[~low] - scale * alpha * 0.2, atol=1e-5)
    assert abs(found.mean()) < 0.03
    assert abs(found.std() - 1) < 0.03


def test_softplus_by_scale_order_statistics_and_gradients_forwards() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant([-1.0, 0.5, 3.0])
        y = nn.scaled_softplus(x, 0.5, clip=2.0)
        third = (
            nn.nth_element([[5, 1, 4, 2], [9, 7, 8, 3]], 2),
            nn.nth_element([5.0, 1.0, 4.0], 0, True),
        )
        moved = nn.fwd_gradients([x * x, tf.constant(1.0)], x, tf.constant([1.0, 2.0, 3.0]))
        assert moved[1] is None
        found = session.run([y, third, moved[0], tf.gradients(y, x)[0]])
    plain = 0.5 * np.log1p(np.exp(np.array([-1, 0.5, 3.0]) / 0.5))
    np.testing.assert_allclose(found[0], np.minimum(plain, 2.0), rtol=1e-5)
    assert ([*found[1][0]], found[1][1]) == ([4, 8], 5.0)
    np.testing.assert_allclose(found[2], [-2.0, 2.0, 18.0])
    np.testing.assert_allclose(found[3][:2], 1 / (1 + np.exp([2.0, -1.0])), rtol=1e-5)
    assert found[3][2] == 0


def test_softmax_over_samples() -> None:
    rng = np.random.RandomState(1)
    weights, biases = rng.standard_normal((6, 3)).astype("f"), rng.standard_normal(6).astype("f")
    inputs = rng.standard_normal((2, 3)).astype("f")
    labels = np.array([[4], [0]])
    sampled = (
        np.array([1, 2, 3], np.int64),
        np.full((2, 1), 0.5, "f"),
        np.array([0.2, 0.3, 0.4], "f"),
    )
    with tf.Graph().as_default(), tf.Session() as session:
        plain = tf.nn.sampled_softmax_loss(
            weights, biases, labels, inputs, 3, 6, sampled_values=sampled
        )
        sparse = nn.sampled_sparse_softmax_loss(weights, biases, labels, inputs, 3, 6, sampled)
        ranked = nn.rank_sampled_softmax_loss(
            weights, biases, labels, inputs, 3, 2, 6, 1, sampled, 0.5, False, "mod"
        )
        found = session.run([plain, sparse, ranked])
        with pytest.raises(ValueError, match="num_resampled=4 must be less"):
            nn.rank_sampled_softmax_loss(
                weights, biases, labels, inputs, 3, 4, 6, 1, sampled, 0.5, False, "mod"
            )
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    all_logits = inputs @ weights.T + biases
    rank = np.exp(all_logits[:, [1, 2, 3]] / 0.5).sum(0)
    kept = np.argsort(-rank)[:2]
    logits = np.concatenate(
        [
            np.take_along_axis(all_logits, labels, 1) - np.log(0.5),
            all_logits[:, sampled[0][kept]] - np.log(sampled[2][kept]),
        ],
        1,
    )
    np.testing.assert_allclose(found[2], np.log(np.exp(logits).sum(1)) - logits[:, 0], rtol=1e-4)


def test_each_part_of_a_variable_has_its_penalty() -> None:
    layers = tf.contrib.layers
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("p", partitioner=tf.fixed_size_partitioner(2)):
            layers.fully_connected(tf.ones([2, 4]), 3, weights_regularizer=tf.norm)
        losses = tf.losses.get_regularization_losses()
        weights = [each for each in tf.trainable_variables() if "weights" in each.op.name]
        session.run(tf.global_variables_initializer())
        found, values = session.run([losses, weights])
    assert len(weights) == 2
    np.testing.assert_allclose(found, [np.sqrt((each**2).sum()) for each in values], rtol=1e-5)


def test_layers_in_a_scope_that_is_entered_again_have_their_nodes_where_it_was_opened() -> None:
    layers = tf.contrib.layers
    with tf.Graph().as_default(), tf.variable_scope("q") as scope:
        made = layers.conv2d(tf.ones([1, 4, 4, 2]), 3, 3, scope=scope)
        assert [each.op.name for each in tf.trainable_variables()] == ["q/weights", "q/biases"]
        assert made.op.name == "q/q/Relu"
        assert made.op.inputs[0].op.name == "q/BiasAdd"
