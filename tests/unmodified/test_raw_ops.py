"""`tf.raw_ops`."""

from __future__ import annotations

import inspect

import pytest

import headrace as tf
from headrace.graph.registry import OPS


def test_every_op_that_programs_may_use_is_there_and_has_its_inputs_as_parameters() -> None:
    public = {name for name in OPS if not name.startswith("_")}
    assert {name for name in dir(tf.raw_ops) if name in public or name[0] != "_"} - {
        "annotations"
    } == public
    for name in public:
        parameters = inspect.signature(getattr(tf.raw_ops, name)).parameters
        assert len(parameters) > len(OPS[name].inputs)
        assert "name" in parameters


def test_a_function_adds_one_node() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.constant([1.0, 2.0])
        total = tf.raw_ops.Add(x=x, y=x, name="total")
        parts = tf.raw_ops.Unique(x=tf.constant([1, 1]))
        assert (total.op.name, parts.y.op is parts.idx.op) == ("total", True)
        assert tf.raw_ops.NoOp() is graph.get_operations()[-1]
        with tf.Session() as session:
            assert session.run(total).tolist() == [2.0, 4.0]


def test_arguments_are_given_by_name() -> None:
    with tf.Graph().as_default():
        with pytest.raises(
            TypeError, match=r"Add only takes keyword args \(possible keys: \['x', 'y', 'name'\]\)"
        ):
            tf.raw_ops.Add(1.0, 2.0)
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'"):
            tf.raw_ops.Add(x=1.0)
        with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
            tf.raw_ops.Add(x=1.0, y=1.0, z=1.0)


def test_what_is_no_op_is_said_to_be_none() -> None:
    for name in ("Nothing", "_Send"):
        with pytest.raises(AttributeError, match=name):
            getattr(tf.raw_ops, name)
