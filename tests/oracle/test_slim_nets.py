"""Residual networks and those of small filters beside tf-slim's: names, shapes, collections and values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.library.contrib.nets import resnet_utils, resnet_v1, resnet_v2, vgg
from tests.oracle.slim_names import PREPARED

THEIRS = "from tf_slim.nets import resnet_utils, resnet_v1, resnet_v2, vgg\n"
MADE = """
def units(module):
    unit, wide = {"depth": 8, "depth_bottleneck": 2}, {"depth": 16, "depth_bottleneck": 4, "stride": 2}
    first = [{**unit, "stride": 1}, {**unit, "stride": 2}]
    return [
        resnet_utils.Block("block1", module.bottleneck, first),
        resnet_utils.Block("block2", module.bottleneck, [wide, wide]),
    ]

def made(name, scope, call, valued):
    images = np.random.RandomState(0).rand(2, 65, 65, 3).astype(np.float32)
    with tf.Graph().as_default():
        known = {**globals(), "images": tf.constant(images), "empty": tf.zeros([1, 224, 224, 3])}
        with slim.arg_scope(eval(scope, known)):
            outputs, ends = eval(call, known)
        rng, values = np.random.RandomState(1), None
        if valued:
            with tf.Session() as session:
                for variable in tf.global_variables():
                    first = 0.5 if "gamma" in variable.op.name or "variance" in variable.op.name else 0.0
                    start = rng.rand(*variable.shape.as_list()) * 0.2 + first
                    session.run(variable.initializer, {variable.initial_value: start})
                values = session.run([outputs, ends["predictions"]])
        trained = {each.op.name for each in tf.trainable_variables()}
        return {
            "outputs": (outputs.name, outputs.shape.as_list()),
            "ends": [(key, each.name, each.shape.as_list()) for key, each in ends.items()],
            "variables": [
                (each.op.name, each.shape.as_list(), each.op.name in trained) for each in tf.global_variables()
            ],
            "collections": {
                key: [each.op.name for each in tf.get_collection(key)]
                for key in ("regularization_losses", "model_variables")
            },
            "updates": len(tf.get_collection("update_ops")),
        }, values
result = [made(*case) for case in cases]
"""
OF_RESNETS, OF_VGG = "resnet_utils.resnet_arg_scope()", "vgg.vgg_arg_scope()"
CASES = [
    ("v1", OF_RESNETS, "resnet_v1.resnet_v1(images, units(resnet_v1), 5, scope='r')", True),
    ("v2", OF_RESNETS, "resnet_v2.resnet_v2(images, units(resnet_v2), 5)", True),
    (
        "v1 as large", OF_RESNETS,
        "resnet_v1.resnet_v1(images, units(resnet_v1), 5, output_stride=8, global_pool=False, is_training=False)", True,
    ),
    (
        "v2 as large", OF_RESNETS,
        "resnet_v2.resnet_v2(images, units(resnet_v2), 5, output_stride=4, global_pool=False, is_training=False)", True,
    ),
    (
        "v1 without root", "resnet_utils.resnet_arg_scope(0.1, batch_norm_scale=False)",
        "resnet_v1.resnet_v1(images, units(resnet_v1), 5, include_root_block=False)", True,
    ),
    ("v1 of 50", OF_RESNETS, "resnet_v1.resnet_v1_50(empty, 7)", False),
    ("v1 of 101", OF_RESNETS, "resnet_v1.resnet_v1_101(empty, is_training=False)", False),
    ("v2 of 152", OF_RESNETS, "resnet_v2.resnet_v2_152(empty, 7, output_stride=16)", False),
    ("vgg_a", OF_VGG, "vgg.vgg_a(empty, 7)", False),
    ("vgg_16", OF_VGG, "vgg.vgg_16(empty, scope='x', is_training=False)", False),
    ("vgg_e", OF_VGG, "vgg.vgg_e(empty, 7, spatial_squeeze=False)", False),
]  # fmt: skip


def test_networks_are_those_of_tf_slim(oracle: Any) -> None:
    theirs = oracle.run(
        PREPARED + "result = None\nif has_keras:\n    " + THEIRS + _indented(MADE), cases=CASES
    )
    if theirs is None:
        pytest.skip("the oracle has no tf-keras, which tf-slim's layers need; `make oracle` has it")
    names: dict[str, Any] = {
        "tf": hr,
        "np": np,
        "slim": SimpleNamespace(arg_scope=hr.contrib.slim.arg_scope),
        "resnet_utils": resnet_utils,
        "resnet_v1": resnet_v1,
        "resnet_v2": resnet_v2,
        "vgg": vgg,
        "cases": CASES,
    }
    exec(MADE, names)
    for case, (ours, values), (wanted, their_values) in zip(
        CASES, names["result"], theirs, strict=True
    ):
        for key, found in ours.items():
            assert found == wanted[key], (case[0], key)
        for found, other in zip(values or [], their_values or [], strict=True):
            np.testing.assert_allclose(found, other, rtol=1e-4, atol=1e-4, err_msg=case[0])


def _indented(source: str) -> str:
    return source.replace("\n", "\n    ")
