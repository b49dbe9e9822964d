"""Networks of tf.contrib.slim.nets: sizes, strides, what they refuse, and that they learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf

slim = tf.contrib.slim
nets: Any = slim.nets


def blocks(module: Any) -> list[Any]:
    unit = {"depth": 8, "depth_bottleneck": 2}
    return [
        nets.resnet_utils.Block("block1", module.bottleneck, [{**unit, "stride": 2}] * 2),
        nets.resnet_utils.Block("block2", module.bottleneck, [unit | {"stride": 1}]),
    ]


@pytest.mark.parametrize(("version", "convolutions"), [(1, 53), (2, 53)])
def test_a_network_of_fifty_layers(version: int, convolutions: int) -> None:
    module = getattr(nets, f"resnet_v{version}")
    network = getattr(module, f"resnet_v{version}_50")
    with tf.Graph().as_default():
        with slim.arg_scope(module.resnet_arg_scope(0.1)):
            logits, ends = network(tf.zeros([1, 64, 64, 3]), 1000)
        weights = [v.shape.as_list() for v in tf.trainable_variables() if "weights" in v.name]
        assert (network.__name__, network.default_image_size) == (f"resnet_v{version}_50", 224)
        assert logits.shape.as_list() == [1, 1, 1, 1000]
        assert ends[f"resnet_v{version}_50/block4"].shape.as_list() == [1, 2, 2, 2048]
        # 49 in a row and 4 beside them, and the logits
        assert len(weights) == convolutions + 1
        assert len(tf.losses.get_regularization_losses()) == len(weights)
        if version == 1:
            # the number that is known of ResNet-50
            assert (
                sum(int(np.prod(v.shape.as_list())) for v in tf.trainable_variables()) == 25_557_032
            )


@pytest.mark.parametrize("stride", [None, 4, 8, 16])
def test_strides_become_rates(stride: int | None) -> None:
    module = nets.resnet_v2
    with tf.Graph().as_default(), slim.arg_scope(module.resnet_arg_scope()):
        _, ends = module.resnet_v2(
            tf.zeros([1, 64, 64, 3]), blocks(module), None, output_stride=stride, scope="r"
        )
        assert ends["r/block2"].shape.as_list() == [
            1,
            64 // (stride or 16),
            64 // (stride or 16),
            8,
        ]
        assert "predictions" not in ends


def test_strides_that_cannot_be_reached() -> None:
    module = nets.resnet_v1
    for stride, says in [
        (6, "needs to be a multiple of 4. It is 6"),
        (12, "cannot be reached. It is 3, and strides come to 4"),
        (32, "cannot be reached. It is 8, and all strides come to 4"),
    ]:
        with (
            tf.Graph().as_default(),
            slim.arg_scope(module.resnet_arg_scope()),
            pytest.raises(ValueError, match=says),
        ):
            module.resnet_v1(tf.zeros([1, 64, 64, 3]), blocks(module), 5, output_stride=stride)


@pytest.mark.parametrize("size", [7, 8])
def test_strided_convolutions_take_places_of_those_without(size: int) -> None:
    shown = np.random.RandomState(0).rand(1, size, size, 2).astype(np.float32)
    same = nets.resnet_utils.conv2d_same
    with tf.Graph().as_default(), tf.Session() as session:
        strided = same(tf.constant(shown), 3, 3, 2, scope="c")
        whole = slim.conv2d(shown, 3, 3, scope="c", reuse=True)
        session.run(tf.global_variables_initializer())
        found, wanted = session.run([strided, nets.resnet_utils.subsample(whole, 2)])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_network_of_sixteen_layers_has_its_138_million_weights() -> None:
    with tf.Graph().as_default():
        with slim.arg_scope(nets.vgg.vgg_arg_scope()):
            logits, ends = nets.vgg.vgg_16(tf.zeros([2, 224, 224, 3]), is_training=False)
        assert logits.shape.as_list() == [2, 1000]
        assert ends["vgg_16/fc8"] is logits
        assert (
            sum(int(np.prod(v.shape.as_list())) for v in slim.get_model_variables()) == 138_357_544
        )
    assert nets.vgg.vgg_d is nets.vgg.vgg_16


def test_a_small_network_learns() -> None:
    module = nets.resnet_v1
    rng = np.random.RandomState(0)
    shown, labels = rng.rand(8, 16, 16, 3).astype(np.float32), rng.randint(0, 3, 8)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        with slim.arg_scope(module.resnet_arg_scope()):
            logits, _ = module.resnet_v1(tf.constant(shown), blocks(module), 3)
        loss = tf.losses.sparse_softmax_cross_entropy(labels, tf.squeeze(logits, [1, 2]))
        train = slim.learning.create_train_op(loss, tf.train.AdamOptimizer(0.01))
        session.run(tf.global_variables_initializer())
        losses = [session.run(train) for _ in range(30)]
    assert losses[-1] < 0.3 * losses[0]


def test_paths_and_networks_that_are_elsewhere() -> None:
    from headrace.unmodified import facade

    for path in ("contrib.slim.nets", "contrib.slim.python.slim.nets"):
        there: Any = facade.module_at(path)
        assert there.resnet_v1.resnet_v1_50 is nets.resnet_v1.resnet_v1_50
        with pytest.raises(AttributeError, match="research/slim/nets"):
            there.inception  # noqa: B018
