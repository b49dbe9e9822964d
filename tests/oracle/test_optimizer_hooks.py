"""What subclasses of the optimizers lean on: attributes and hooks, compared with those of TensorFlow's classes."""

from __future__ import annotations

from typing import Any

import pytest

import headrace as tf

OPTIMIZERS = {
    "GradientDescent": "tf.train.GradientDescentOptimizer(0.1)",
    "Momentum": "tf.train.MomentumOptimizer(0.1, 0.9)",
    "Adam": "tf.train.AdamOptimizer(0.1)",
    "Adagrad": "tf.train.AdagradOptimizer(0.1)",
    "Adadelta": "tf.train.AdadeltaOptimizer(0.1)",
    "RMSProp": "tf.train.RMSPropOptimizer(0.1, centered=True)",
    "Ftrl": "tf.train.FtrlOptimizer(0.1, l2_shrinkage_regularization_strength=0.1)",
    "AdagradDA": "tf.train.AdagradDAOptimizer(0.1, tf.train.get_or_create_global_step())",
    "ProximalAdagrad": "tf.train.ProximalAdagradOptimizer(0.1)",
    "ProximalGradientDescent": "tf.train.ProximalGradientDescentOptimizer(0.1)",
}
SOURCE = """
v = tf.Variable([1.0, 2.0], name="v")
optimizer = {made}
def shown(value):
    if isinstance(value, (tf.Tensor, tf.Variable)):
        return value.name
    if isinstance(value, (type(None), bool, int, float, str)):
        return value
    return type(value).__name__
before = {{name: shown(value) for name, value in vars(optimizer).items() if name not in skipped}}
optimizer.minimize(tf.reduce_sum(v * v))
after = {{name: shown(value) for name, value in vars(optimizer).items() if name not in skipped}}
result = before, after, [name for name in dir(optimizer) if name.startswith("_") and not name.startswith("__")]
"""
TRACKING = (
    "_deferred_slot_restorations _non_slot_variable_scope _use_own_namescope_for_non_slot_vars "
    "_self_setattr_tracking "
    "_self_unconditional_checkpoint_dependencies _self_unconditional_dependency_names "
    "_self_unconditional_deferred_dependencies _self_update_uid _self_name_based_restores "
    "_self_saveable_object_factories"
).split()
"""What object-based checkpoints keep in every object; not part of an optimizer."""


def of_tracking(name: str) -> bool:
    words = ("trackable", "checkpoint", "restor", "deferred", "dependenc", "serialize", "saved_model", "tf_api_names",
             "object_identifier", "update_uid", "custom_getter", "setattr_tracking", "copy_trackable",
             "distributed_apply", "scale_loss", "own_namescope", "non_slot_variable_scope", "saveable")  # fmt: skip
    return any(word in name for word in words)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_attributes_are_those_of_tensorflow(oracle: Any, name: str) -> None:
    source = SOURCE.format(made=OPTIMIZERS[name])
    before, after, listed = oracle.run(source, skipped=TRACKING)
    names: dict[str, Any] = {"tf": tf, "skipped": TRACKING}
    with tf.Graph().as_default():
        exec(compile(source, "<ours>", "exec"), names)
    ours_before, ours_after, ours_listed = names["result"]
    wanted = {each for each in listed if not of_tracking(each)}
    assert wanted - {*ours_listed} == set()
    assert {k: v for k, v in ours_after.items() if k in after} == after
    for key, value in before.items():
        assert ours_before[key] == value, key
    assert {key for key in ours_after if key not in after} == set()
