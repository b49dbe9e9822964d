"""Slots and variables of every optimizer beside TensorFlow's: names, shapes, types, first values, devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf

OPTIMIZERS = {
    "GradientDescent": "tf.train.GradientDescentOptimizer(0.1)",
    "Momentum": "tf.train.MomentumOptimizer(0.1, 0.9)",
    "Nesterov": "tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True, name='M')",
    "Adam": "tf.train.AdamOptimizer(0.1)",
    "Adagrad": "tf.train.AdagradOptimizer(0.1)",
    "Adadelta": "tf.train.AdadeltaOptimizer(0.1)",
    "RMSProp": "tf.train.RMSPropOptimizer(0.1)",
    "centered RMSProp": "tf.train.RMSPropOptimizer(0.1, centered=True)",
    "Ftrl": "tf.train.FtrlOptimizer(0.1)",
    "AdagradDA": "tf.train.AdagradDAOptimizer(0.1, step)",
    "ProximalAdagrad": "tf.train.ProximalAdagradOptimizer(0.1)",
    "ProximalGradientDescent": "tf.train.ProximalGradientDescentOptimizer(0.1)",
}
VARIABLES = {
    "references and resources": """
a = tf.get_variable("a", [2], initializer=tf.ones_initializer())
b = tf.get_variable("b", [2], tf.float64, tf.ones_initializer(), use_resource=True)
loss = tf.reduce_sum(a * 2.0) + tf.cast(tf.reduce_sum(b), tf.float32)
""",
    "within scopes, on devices": """
with tf.variable_scope("s"), tf.name_scope("n"), tf.device("/cpu:0"):
    a = tf.get_variable("a", [2], initializer=tf.ones_initializer())
    b = tf.Variable([1.0, 2.0], name="a")
    loss = tf.reduce_sum(a * b)
""",
    "rows": """
a = tf.get_variable("a", [4, 2], initializer=tf.ones_initializer())
b = tf.get_variable("b", [4, 2], initializer=tf.ones_initializer(), use_resource=True)
loss = tf.reduce_sum(tf.gather(a, [0, 2, 0])) + tf.reduce_sum(tf.gather(b, [1, 1]))
""",
    "parts": """
a = tf.get_variable("a", [4, 2], initializer=tf.ones_initializer(), partitioner=tf.fixed_size_partitioner(2))
b = tf.get_variable("b", [2], initializer=tf.ones_initializer())
loss = tf.reduce_sum(tf.matmul(tf.convert_to_tensor(a), b[:, None]))
""",
    "one of an unknown shape": """
a = tf.Variable(tf.placeholder_with_default(np.ones([2], np.float32), [None]), validate_shape=False, name="a")
b = tf.get_variable("b", [2], initializer=tf.ones_initializer())
loss = tf.reduce_sum(a * b)
""",
}
SOURCE = """
step = tf.get_variable("step", [], tf.int64, tf.zeros_initializer(), trainable=False)
{variables}
optimizer = {optimizer}
train = optimizer.minimize(loss, global_step=step)
def shown(v):
    info = v._get_save_slice_info()
    return (v.name, v.dtype.name, str(v.shape), v.device, type(v).__name__.replace("RefVariable", "Variable"),
            None if info is None else [info.full_name, info.full_shape, info.var_offset,
            info.var_shape])
names = optimizer.get_slot_names()
made = [[optimizer.get_slot(v, n) for v in tf.trainable_variables()] for n in names]
slots = [[None if s is None else shown(s) for s in listed] for listed in made]
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    start = [(v.name, np.asarray(session.run(v)).round(6).tolist()) for v in tf.global_variables()]
    session.run(train)
    counted = int(session.run(step))
result = (
    names, slots, [shown(v) for v in tf.global_variables()], [v.name for v in optimizer.variables()], start, counted,
    [v.name for v in tf.trainable_variables()], optimizer.get_name(),
    optimizer.get_slot(tf.trainable_variables()[0], "no such slot"),
)
"""


@pytest.mark.parametrize("variables", VARIABLES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_slots_and_variables_are_those_of_tensorflow(
    oracle: Any, name: str, variables: str
) -> None:
    source = SOURCE.format(optimizer=OPTIMIZERS[name], variables=VARIABLES[variables])
    if name.startswith("Proximal"):  # whose hyperparameters TensorFlow 2.21 leaves float32
        source = source.replace("float64", "float32")
    kind, theirs = oracle.outcome(source)
    names: dict[str, Any] = {"tf": tf, "np": np}
    with tf.Graph().as_default():
        try:
            exec(source, names)
        except Exception as error:
            names["result"] = type(error).__name__
    assert names["result"] == theirs, kind
