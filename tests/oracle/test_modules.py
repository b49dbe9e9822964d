"""The table of TensorFlow's modules agrees with a TensorFlow: addresses exist, functions of ops make the same nodes."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import headrace as tf
from headrace.graph.registry import OPS
from headrace.unmodified import facade, table


def addresses() -> list[tuple[str, str]]:
    """(module, attribute) of what headrace has and a public name stands behind."""
    found = []
    for module, row in table.rows().items():
        if module.startswith("python.") and not module.startswith("python.training.experimental"):
            for name, target in row.names.items():
                if target[0] not in "@:" and not name.startswith("_"):
                    try:
                        facade.beneath(module, name)
                    except AttributeError:
                        continue
                    found.append((module, name))
    return found


def test_most_addresses_are_those_of_a_later_tensorflow_too(oracle: Any) -> None:
    """And lead to what that exports under the same name; modules that it split or dropped are left out."""
    wanted = addresses()
    theirs = oracle.run(
        """
import importlib
def exported(module, name):
    try:
        found = getattr(importlib.import_module("tensorflow." + module), name)
    except (ImportError, AttributeError):
        return None
    return list(getattr(found, "__dict__", {}).get("_tf_api_names_v1", ()))
result = [exported(*each) for each in wanted]
""",
        wanted=wanted,
    )
    compared = [(each, names) for each, names in zip(wanted, theirs, strict=True) if names]
    wrong = []
    for (module, name), names in compared:
        target = table.rows()[module].names[name]
        if target not in names and not any(_public(target) is _public(each) for each in names):
            wrong.append((module, name, target, names))
    assert wrong == []
    assert len(compared) > 700


def _public(name: str) -> Any:
    found: Any = tf
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


FORMS = sorted(
    {
        (module, name, form.partition("(")[0])
        for module, row in table.rows().items()
        if module.startswith("python.")
        for name, form in row.ops.items()
        if form.partition("(")[0] in OPS and name[0].islower()
    }
)


def test_functions_of_ops_take_a_later_tensorflows_parameters(oracle: Any) -> None:
    """In its order; parameters that came after 1.15 come last or have defaults."""
    theirs = oracle.run(
        """
import importlib, inspect
def parameters(module, name):
    try:
        found = getattr(importlib.import_module("tensorflow." + module), name)
    except (ImportError, AttributeError):
        return None
    return list(inspect.signature(found).parameters)
result = [parameters(module, name) for module, name, _ in wanted]
""",
        wanted=FORMS,
    )
    compared = 0
    wrong = {}
    for (module, name, op), expected in zip(FORMS, theirs, strict=True):
        if expected is None:
            continue
        compared += 1
        ours = list(inspect.signature(facade.beneath(module, name)).parameters)
        if [each for each in expected if each in ours] != ours:
            wrong[op] = (ours, expected)
    assert wrong == {}
    assert compared > 400


CALLS = """
m.gen_array_ops.reshape([1, 2, 3, 4], [2, 2])
m.gen_array_ops.concat_v2([[1, 2], [3]], 0, name="joined")
m.gen_array_ops.gather_v2([1, 2, 3], [0], axis=0)
m.gen_array_ops.split(0, [1, 2, 3, 4], num_split=2)
m.gen_array_ops.unique([1, 1, 2], out_idx=tf.int64)
m.gen_array_ops.one_hot([0, 1], 3, 1.0, 0.0, axis=-1)
m.gen_array_ops.placeholder(tf.float32, shape=[2, None])
m.gen_array_ops.pack([1.0, 2.0], axis=0)
m.gen_array_ops.strided_slice([1, 2, 3], [0], [2], [1], shrink_axis_mask=1)
m.gen_math_ops._sum([[1.0, 2.0]], 1, True)
m.gen_math_ops.mat_mul([[1.0]], [[2.0]], transpose_b=True, name="product")
m.gen_math_ops.cast([1, 2], DstT=tf.float32)
m.gen_math_ops.arg_max([1.0, 2.0], 0)
m.gen_math_ops._range(0, 5, 1)
m.gen_math_ops.add_n([1.0, 2.0])
m.gen_math_ops.less(1, 2)
m.gen_nn_ops.relu([1.0])
m.gen_nn_ops.conv2d([[[[1.0]]]], [[[[2.0]]]], [1, 1, 1, 1], "SAME")
m.gen_nn_ops.max_pool([[[[1.0]]]], ksize=[1, 1, 1, 1], strides=[1, 1, 1, 1], padding="VALID")
m.gen_nn_ops.bias_add([[1.0]], [2.0])
m.gen_nn_ops.softmax_cross_entropy_with_logits([[1.0, 2.0]], [[0.0, 1.0]])
m.gen_nn_ops.top_kv2([1.0, 2.0], 1)
m.gen_control_flow_ops.no_op()
m.gen_data_flow_ops.fifo_queue_v2([tf.float32], shapes=[[2]], capacity=5, shared_name="q")
m.gen_random_ops.random_uniform([2], dtype=tf.float32, seed=3, seed2=4)
m.gen_string_ops.string_join(["a", "b"], separator="-")
m.gen_state_ops.variable_v2([2], tf.float32, container="c")
m.gen_parsing_ops.decode_raw(["abcd"], tf.uint8)
m.gen_io_ops.read_file("name")
""".strip().splitlines()
NODES = """
def nodes(call, m):
    with tf.Graph().as_default() as graph:
        found = eval(call, {"tf": tf, "m": m})
        kind = "list" if type(found) is list else getattr(found, "_fields", None) or type(found).__name__
    return graph.as_graph_def().SerializeToString(), str(kind)
"""


class Modules:
    """gen_* modules as attributes."""

    def __getattr__(self, name: str) -> Any:
        return facade.module_at(f"python.ops.{name}")


@pytest.mark.parametrize("call", CALLS)
def test_functions_of_ops_make_tensorflows_nodes(
    oracle: Any, graph_differences: Any, call: str
) -> None:
    names: dict[str, Any] = {"tf": tf}
    exec(NODES, names)
    ours, kind = names["nodes"](call, Modules())
    theirs, their_kind = oracle.run(
        NODES
        + """
import importlib
class Modules:
    def __getattr__(self, name):
        return importlib.import_module("tensorflow.python.ops." + name)
result = nodes(call, Modules())
""",
        call=call,
    )
    mine, other = tf.GraphDef.FromString(ours), tf.GraphDef.FromString(theirs)
    assert graph_differences(mine, other) == []
    assert kind.replace("Tensor", "T") == their_kind.replace("SymbolicTensor", "T").replace(
        "Tensor", "T"
    )
