"""The graphs that the example programs and the demo build are TensorFlow's, node by node.

Each is built from the same source twice: here, and in TensorFlow's process, where `headrace` is a stand-in for
`tensorflow.compat.v1` that finds the modules of the source tree.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.codec import protos as pb

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = "tf.train.ClusterSpec({'ps': ['ps0:1'], 'worker': ['w0:1', 'w1:1']})"
DEMO = "headrace.tools.demo"

GRAPHS = [
    ("examples/simple_client.py", "build()"),
    ("examples/containers.py", "build('', 1.0)[0]"),
    ("examples/containers.py", "build('my_problem_1', 2.0)[0]"),
    ("examples/loader.py", "build()"),
    ("examples/trainer.py", "build()"),
    ("examples/gentle_introduction.py", "counter()[0]"),
    ("examples/gentle_introduction.py", "pinned()[0]"),
    ("examples/csv_to_batches.py", "build(['a.csv', 'b.csv'], 2)"),
    ("examples/secret_cluster.py", "build()"),
    ("examples/secret_cluster.py", "all_done()"),
    ("examples/preloaded.py", "build(*training_set(), 2, 4)"),
    ("examples/digits_cnn.py", "build()"),
    ("examples/layers_on_two_gpus.py", "build('/gpu:0', '/gpu:1')"),
    (f"{DEMO}.loader", "pipeline(['a.csv', 'b.csv'], 3)"),
    (f"{DEMO}.trainer", f"build({CLUSTER}, 0, 50, 0.01, 1000, 0)"),
    (f"{DEMO}.trainer", f"build({CLUSTER}, 1, 32, 0.001, 10, 0)"),
    (f"{DEMO}.evaluate", "network(tf.placeholder(tf.float32, [None, 64], name='pixels'))"),
]
"""(file or module, what to call in it): the graph it returns, or the default graph it built into."""

BUILD = '''
import importlib, runpy

def built(source, call):
    """The GraphDef of GRAPHS' row, serialized."""
    names = runpy.run_path(source) if source.endswith(".py") else vars(importlib.import_module(source))
    graph = tf.Graph()
    with graph.as_default():
        made = eval(call, {**names, "tf": tf})
    graph = made if isinstance(made, tf.Graph) else graph
    return graph.as_graph_def().SerializeToString()
'''

STAND_IN = """
import sys, types

class StandIn(types.ModuleType):
    __path__ = [package]
    def __getattr__(self, name):
        return getattr(tf, name)

sys.modules.setdefault("headrace", StandIn("headrace"))
"""

Differences = Callable[[pb.GraphDef, pb.GraphDef], list[str]]


@pytest.mark.parametrize(("source", "call"), GRAPHS)
def test_the_graph_is_tensorflows(
    oracle: Any, graph_differences: Differences, source: str, call: str
) -> None:
    if source.endswith(".py"):
        source = str(ROOT / source)
    names: dict[str, Any] = {"tf": tf}
    exec(BUILD, names)
    tf.reset_default_graph()
    mine = names["built"](source, call)
    theirs = oracle.run(
        STAND_IN + BUILD + "result = built(where, call)",
        package=str(ROOT / "src/headrace"),
        where=source,
        call=call,
    )
    found = graph_differences(pb.GraphDef.FromString(mine), pb.GraphDef.FromString(theirs))
    assert not found, "\n".join([f"{len(found)} differences (ours, not TensorFlow's):", *found])


def test_every_example_is_compared() -> None:
    programs = {f"examples/{path.name}" for path in (ROOT / "examples").glob("*.py")}
    compared = {source for source, _ in GRAPHS}
    assert (
        programs - compared
        == {
            "examples/tls_cluster.py",  # the graph of secret_cluster.py
            "examples/actor_learner.py",  # tf.layers is not in TensorFlow 2 without Keras 2
            "examples/dataset_from_csv.py",  # of functions whose names are counted: programs/datasets_functions.txt
            "examples/shared_iterator.py",  # so is this one
            "examples/towers.py",  # tf.layers, too
            "examples/staged_batches.py",  # tf.contrib is not in TensorFlow 2
        }
    )


A = pb.NodeDef(name="a", op="Const")
B = pb.NodeDef(name="b", op="Identity", input=["a"])


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda g: g.node.add(name="c", op="NoOp"), "c: only in ours (NoOp)"),
        (lambda g: g.node.pop(), "b: only in theirs (Identity)"),
        (lambda g: setattr(g.node[1], "op", "Abs"), "b: op: Abs, not Identity"),
        (lambda g: setattr(g.node[0], "device", "/cpu:0"), "a: device: /cpu:0, not "),
        (lambda g: g.node[1].input.append("^a"), "b: inputs: ['a', '^a'], not ['a']"),
        (lambda g: setattr(g.node[0].attr["x"], "i", 3), "a: attr x: only in ours, i i: 3"),
        (lambda g: g.node.reverse(), "order: node 0 is b, not a"),
    ],
)
def test_the_differ_sees_each_kind_of_difference(
    graph_differences: Differences, change: Callable[[pb.GraphDef], Any], line: str
) -> None:
    mine, theirs = pb.GraphDef(node=[A, B]), pb.GraphDef(node=[A, B])
    assert graph_differences(mine, theirs) == []
    change(mine)
    assert [re.sub(r"\s+", " ", each) for each in graph_differences(mine, theirs)] == [line]


def test_the_differ_compares_tensors_by_their_values(graph_differences: Differences) -> None:
    graphs = []
    for values in ({"int_val": [7]}, {"tensor_content": b"\7\0\0\0"}, {"int_val": [8]}):
        node = pb.NodeDef(name="a", op="Const")
        node.attr["value"].tensor.CopyFrom(pb.TensorProto(dtype=pb.DT_INT32, **values))
        graphs.append(pb.GraphDef(node=[node]))
    same, encoded, other = graphs
    assert graph_differences(same, encoded) == []
    assert len(graph_differences(same, other)) == 1
