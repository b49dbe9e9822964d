"""init_from_checkpoint and warm_start beside TensorFlow's: every form of a map, the nodes, the values, the errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import protos as pb

SINCE_1_15 = ("_has_manual_control_dependencies", "allowed_devices")
SAVED = """
with tf.variable_scope("old"):
    tf.get_variable("a", initializer=[1.0, 2.0])
    tf.get_variable("b", initializer=[[3.0, 4.0], [5.0, 6.0]])
tf.get_variable("c", initializer=[7.0, 8.0, 9.0])
tf.get_variable("n", initializer=3)
tf.get_variable("p", [4, 2], partitioner=tf.fixed_size_partitioner(2), initializer=tf.ones_initializer())
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    result = tf.train.Saver().save(session, folder + "/m", latest_filename="checkpoint")
"""
CUT = "partitioner=tf.fixed_size_partitioner(2)"
MAPS: dict[str, tuple[str, str]] = {
    "a name to a name": ("v('x', [2])", "{'old/a': 'x'}"),
    "a name to a variable": ("x = v('x', [2])", "{'old/a': x}"),
    "a name to a resource variable": ("x = v('x', [2], use_resource=True)", "{'old/a': x}"),
    "a name to a variable that is in no store": (
        "x = tf.Variable(np.zeros([2], np.float32), name='x')",
        "{'old/a': x}",
    ),
    "several": ("x = v('x', [2]); v('y', [3])", "{'old/a': x, 'c': 'y'}"),
    "one to several": ("x = v('x', [2]); y = v('y', [2])", "[('old/a', x), ('old/a', y)]"),
    "a scope to a scope": (
        "with tf.variable_scope('new'): v('a', [2]); v('b', [2, 2])",
        "{'old/': 'new/'}",
    ),
    "a scope within scopes": (
        "with tf.variable_scope('x/y'): v('a', [2]); v('b', [2, 2], use_resource=True)",
        "{'old/': 'x/y/'}",
    ),
    "all to all": ("v('c', [3])", "{'/': '/'}"),
    "a scope to all": ("v('a', [2])", "{'old/': '/'}"),
    "all to a scope": ("with tf.variable_scope('k'): v('c', [3])", "{'/': 'k/'}"),
    "a scope without variables": ("x = v('x', [2])", "{'old/': 'k/'}"),
    "pairs": ("x = v('x', [2])", "[('old/a', x)]"),
    "nothing": ("x = v('x', [2])", "{}"),
    "a partitioned variable by name": (f"v('q', [4, 2], {CUT})", "{'p': 'q'}"),
    "a list of parts": (f"q = v('q', [4, 2], {CUT})", "{'p': list(q)}"),
    "parts that were one": (f"with tf.variable_scope('k', {CUT}): v('c', [3])", "{'/': 'k/'}"),
    "one that was parts": ("q = v('q', [4, 2])", "{'p': q}"),
    "parts in a scope": (f"with tf.variable_scope('k', {CUT}): v('p', [4, 2])", "{'/': 'k/'}"),
    "on a device": ("with tf.device('/cpu:0'): x = v('x', [2])", "{'old/a': x}"),
    "an integer": ("x = v('x', [], tf.int32)", "{'n': x}"),
    # what does not fit
    "no such tensor": ("x = v('x', [2])", "{'zz': x}"),
    "no such variable": ("x = v('x', [2])", "{'old/a': 'zz'}"),
    "a variable that is in no store, by name": (
        "x = tf.Variable(np.zeros([2], np.float32), name='x')",
        "{'old/a': 'x'}",
    ),
    "another shape": ("x = v('x', [3])", "{'old/a': x}"),
    "another type": ("x = v('x', [2], tf.float64)", "{'old/a': x}"),
    "a scope that has more": ("with tf.variable_scope('k'): v('zz', [2])", "{'old/': 'k/'}"),
    "a name to a scope": ("x = v('x', [2])", "{'old': 'k/'}"),
    "a name to a number": ("x = v('x', [2])", "{'old/a': 3}"),
    "a name to a tensor": ("x = v('x', [2])", "{'old/a': x.value()}"),
    "names alone": ("x = v('x', [2])", "['a']"),
}
STARTS: dict[str, tuple[str, str]] = {
    "an empty pattern": ("v('c', [3]); v('n', [], tf.int32, trainable=False)", "''"),
    "all": ("v('c', [3]); v('n', [], tf.int32, trainable=False)", "'.*'"),
    "a pattern": ("v('c', [3]); v('d', [3])", "'c'"),
    "a list of patterns": ("v('c', [3]); v('n', [], tf.int32, trainable=False)", "['c', 'n']"),
    "a list of variables": ("c = v('c', [3], use_resource=True); v('d', [3])", "[c]"),
    "parts": (f"v('p', [4, 2], {CUT})", "'.*'"),
    "none": ("v('c', [3])", "None"),
    "other names": ("v('d', [3])", "'.*', None, {'d': 'c'}"),
    "names that are not there": ("v('c', [3])", "'.*', None, {'zz': 'c'}"),
    "one that the checkpoint lacks": ("v('d', [3])", "'.*'"),
    "another shape": ("v('c', [4])", "'.*'"),
    "a number": ("v('c', [4])", "3"),
    "a list of both": ("c = v('c', [3])", "[c, 'n']"),
}
BEGUN = """
v = tf.get_variable
{made}
try:
    {call}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        said = [session.run(each).tolist() for each in tf.global_variables() if each.op.name != "d"]
except Exception as error:
    said = type(error).__name__
result = tf.get_default_graph().as_graph_def().SerializeToString(), said
"""
RANDOM = (
    "a scope without variables", "nothing", "none", "a pattern", "a list of variables", "an empty pattern", "all"
)  # fmt: skip
"""Cases in which variables begin with random values."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = str(tmp_path_factory.mktemp("checkpoints"))
    with tf.Graph().as_default():
        exec(SAVED, {"tf": tf, "np": np, "folder": made})
    return made


def as_of_1_15(content: bytes) -> pb.GraphDef:
    graph = pb.GraphDef.FromString(content)
    for node in graph.node:
        for attr in SINCE_1_15:
            node.attr.pop(attr, None)
    return graph


CASES = [
    *((name, made, f"tf.train.init_from_checkpoint(folder, {given})") for name, (made, given) in MAPS.items()),
    *((name, made, f"tf.train.warm_start(folder, {given})") for name, (made, given) in STARTS.items()),
]  # fmt: skip


@pytest.mark.parametrize(
    "case", CASES, ids=[f"{call.split('(')[0][9:]}: {name}" for name, _, call in CASES]
)
def test_variables_begin_as_with_tensorflow(
    oracle: Any, graph_differences: Any, folder: str, case: tuple[str, str, str]
) -> None:
    name, made, call = case
    source = BEGUN.format(made=made, call=call)
    theirs, they_said = oracle.run(source, folder=folder)
    with tf.Graph().as_default():
        names: dict[str, Any] = {"tf": tf, "np": np, "folder": folder}
        exec(source, names)
    ours, we_said = names["result"]
    if name not in RANDOM or isinstance(they_said, str):
        assert we_said == they_said
    if not isinstance(they_said, str):
        assert graph_differences(as_of_1_15(ours), as_of_1_15(theirs)) == []


def test_a_file_of_a_checkpoint_will_do_as_well_as_its_directory(folder: str) -> None:
    for where in (folder, Path(folder), f"{folder}/m"):
        with tf.Graph().as_default(), tf.Session() as session:
            c = tf.get_variable("c", [3])
            tf.train.init_from_checkpoint(where, {"c": c})
            session.run(c.initializer)
            assert session.run(c).tolist() == [7, 8, 9]
