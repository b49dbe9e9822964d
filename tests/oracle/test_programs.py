"""Small programs, run under headrace and under TensorFlow: the same graphs, values and errors.

The programs are the blocks of programs/*.txt, separated by lines of dashes.  A program has `tf`, `np`,
`P(shape, dtype)` (a placeholder), `A(*sizes)` (the same random array on both sides), `tried(function, …)` (what a
call gives, or the class of its error), `elements(dataset)` (those of a dataset, and the classes of their errors), `L`
(the module of lookup tables) and `raw(op, …)` (a node, of inputs and attrs by name), `F` and `C` (the modules of
functions and of what calls them), `folder` (the path of one that both sides may write to), and may set

    result   data, arrays, tensors, variables: compared as data, with names in the place of graph elements
    first    operations to run, one after the other, before `fetch`
    fetch    tensors to compare the values of (bit for bit for integers, and floats if `exact` is set)

A program that enables control flow v2 has the functions that its nodes call compared, too, but for the number at the
end of their names.  A program that says "other nodes" and why is not compared node by node.  One that raises must
raise the same class on both sides.  Programs with variables run a second time, with resource variables, unless a line
of theirs says "references only" and why.
"""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr

FOLDER = Path(__file__).with_name("programs")
BLOCKS = [
    pytest.param(path.stem, index, id=f"{path.stem}-{index}")
    for path in sorted(FOLDER.glob("*.txt"))
    for index in range(len(path.read_text().split("\n---\n")))
]
RESOURCES = "tf.enable_resource_variables()\n"
REFERENCES_ONLY = "# references only: "  # and why
OTHER_NODES = "# other nodes: "  # and why
TOLERANCE = {
    "float64": 1e-9,
    "complex128": 1e-9,
    "float32": 2e-5,
    "complex64": 2e-5,
    "float16": 5e-3,
}
BFLOAT16 = 0.04  # TensorFlow rounds after every operation

# The same source runs on both sides, so it knows nothing of either.
RUNNER = r'''
import importlib, re

CHANCE = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # a name that nothing else has

def module(*names):
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            pass

TABLES = module("tensorflow.python.ops.lookup_ops")
DEFUN = module("tensorflow.python.framework.function", "headrace.library.functions.defun")
CALLS = module("tensorflow.python.ops.functional_ops", "headrace.library.functions.calls")
OURS = tf.__name__ == "headrace"
LISTS = module("headrace.ops.data.tensor_list_calls" if OURS else "tensorflow.python.ops.list_ops")
REGISTRY = module("tensorflow.raw_ops", "headrace.graph.registry")

def raw(op, **given):
    return (getattr(REGISTRY, op, None) or REGISTRY.get(op))(**given)

def plain(value):
    """`value` as data: names for what is in a graph."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (tf.Tensor, tf.Variable, tf.Operation)):
        return value.name
    if isinstance(value, tf.TensorShape):
        return None if value.ndims is None else value.as_list()
    if isinstance(value, tf.DType):
        return value.name
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.shape, plain(value.tolist()), value.flags.writeable
    if isinstance(value, np.generic):
        return type(value).__name__, repr(value.item())
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    return type(value).__name__ if not hasattr(value, "name") else value.name

def elements(dataset, most=30):
    """Those of a dataset, and the classes of their errors, in order."""
    iterator = tf.data.make_initializable_iterator(dataset)
    element, found = iterator.get_next(), []
    with tf.Session() as session:
        session.run(iterator.initializer)
        while len(found) < most:
            try:
                found.append(session.run(element))
            except tf.errors.OutOfRangeError:
                return found
            except tf.errors.OpError as error:
                found.append(type(error).__name__)
    return found

def tried(function, *args, **kwargs):
    """What a call gives, or the class of its error."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return "raises " + type(error).__name__

COUNTED = re.compile(r"(?<=^__inference_)(.*)_[0-9]+$")  # how many functions there were before it

def function_name(name):
    return COUNTED.sub(r"\1", name)

def function_body(function):
    nodes = sorted((n.name, n.op, list(n.input)) for n in function.node_def)
    arguments = [(a.name, a.type) for a in function.signature.input_arg]
    return function_name(function.signature.name), arguments, nodes, sorted(function.ret.items())

def attr(value):
    kind = value.WhichOneof("value")
    if kind == "func" and value.func.name.startswith("__inference_"):
        return function_name(value.func.name)
    if kind == "tensor":
        array = tf.make_ndarray(value.tensor)
        return int(value.tensor.dtype), array.shape, [str(v) for v in array.reshape(-1).tolist()]
    if kind == "s":
        return CHANCE.sub(b"<chance>", value.s)
    return value.SerializeToString(deterministic=True)

NUMBER = re.compile(r"(true|false|cond|body|branch[0-9]+|grad)_[0-9]+")

def numberless(name):
    return NUMBER.sub("\\\\1_#", name)

def references(nodes):
    for node in nodes:
        for key, value in sorted(node.attr.items()):
            for each in [value.func] if value.HasField("func") else value.list.func:
                yield each

def function(definition):
    """A function as data."""
    arguments = [
        (numberless(arg.name), arg.type, {k: attr(v) for k, v in definition.arg_attr[at].attr.items()})
        for at, arg in enumerate(definition.signature.input_arg)
    ]
    nodes = {
        node.name: (node.op, [numberless(each) for each in node.input], node.device,
                    {k: attr(v) for k, v in node.attr.items()})
        for node in definition.node_def
    }
    results = [(numberless(arg.name), numberless(definition.ret[arg.name]))
               for arg in definition.signature.output_arg]
    return arguments, results, nodes, dict(definition.control_ret), definition.signature.is_stateful

def functions(graph_def):
    """Those that its nodes call, by names without numbers, in the order in which they are found."""
    known = {each.signature.name: each for each in graph_def.library.function}
    named, found, waiting = {}, {}, [sorted(graph_def.node, key=lambda node: node.name)]
    while waiting:
        for each in references(waiting.pop(0)):
            if each.name not in named:
                named[each.name] = f"{len(named)} {numberless(each.name)}"
                definition = known[each.name]
                found[named[each.name]] = definition
                waiting.append(sorted(definition.node_def, key=lambda node: node.name))
    nodes = [*graph_def.node, *(node for each in found.values() for node in each.node_def)]
    for each in references(nodes):
        each.name = named[each.name]
    return {name: function(each) for name, each in found.items()}

def values(tf, session, names):
    for op in names.get("first", ()):
        session.run(op)
    found = session.run(list(names["fetch"]))
    kinds = [tensor.dtype.base_dtype.name for tensor in names["fetch"]]
    return [
        (kind, np.asarray(v).astype(np.float32) if kind == "bfloat16" else np.asarray(v))
        for kind, v in zip(kinds, found)
    ]

def run(source):
    tf.reset_default_graph()
    try:
        return outcome_of(source)
    finally:
        tf.disable_resource_variables()
        tf.disable_control_flow_v2()

def outcome_of(source):
    random = np.random.RandomState(0)
    names = {
        "tf": tf, "np": np,
        "P": lambda shape, dtype=tf.float32: tf.placeholder(dtype, shape, name="x"),
        "A": lambda *sizes: random.randn(*sizes).astype(np.float32),
        "tried": tried, "elements": elements, "L": TABLES or tf.python.ops.lookup_ops, "LISTS": LISTS, "raw": raw,
        "F": DEFUN, "C": CALLS, "folder": folder,
    }
    try:
        exec(source, names)
    except Exception as error:
        return {"error": type(error).__name__}
    graph = tf.get_default_graph()
    outcome = {"result": plain(names.get("result")), "exact": names.get("exact", False)}
    graph_def = graph.as_graph_def()
    outcome["functions"] = functions(graph_def) if "enable_control_flow_v2" in source else {}
    outcome["nodes"] = {
        n.name: (n.op, list(n.input), n.device, {k: attr(v) for k, v in n.attr.items()})
        for n in graph_def.node
    }
    outcome["functions of datasets"] = sorted(
        function_body(f)
        for f in graph_def.library.function
        if f.signature.name.startswith("__inference_Dataset_")
    )
    outcome["shapes"] = {t.name: plain(t.shape) for op in graph.get_operations() for t in op.outputs}
    if "fetch" in names:
        with tf.Session() as session:
            try:
                outcome["values"] = values(tf, session, names)
            except Exception as error:
                outcome["step error"] = type(error).__name__
    return outcome
'''


@cache
def programs(family: str) -> list[str]:
    return (FOLDER / f"{family}.txt").read_text().split("\n---\n")


def can_have_resources(program: str) -> bool:
    """Whether the program's variables may as well be resource variables."""
    return (
        any(word in program for word in ("ariable", "Optimizer", "layers"))
        and "resource" not in program
        and REFERENCES_ONLY not in program
    )


WITH_RESOURCES = [
    pytest.param(family, index, id=f"{family}-{index}")
    for family in sorted(path.stem for path in FOLDER.glob("*.txt"))
    for index, program in enumerate(programs(family))
    if can_have_resources(program)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def theirs(oracle: Any, folder: str) -> Any:
    @cache
    def outcomes(family: str, before: str) -> list[dict[str, Any]]:
        source = RUNNER + "\nresult = [run(before + program) for program in programs]"
        found: list[dict[str, Any]] = oracle.run(
            source, programs=programs(family), before=before, folder=folder
        )
        return found

    return outcomes


def ours(program: str, folder: str) -> dict[str, Any]:
    names: dict[str, Any] = {"tf": hr, "np": np, "folder": folder}
    exec(RUNNER, names)
    with hr.Graph().as_default(), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as in the oracle's process
        names["tf"] = _WithoutReset()
        outcome: dict[str, Any] = names["run"](program)
        return outcome


class _WithoutReset:
    """headrace, whose default graph here is the test's own."""

    def __getattr__(self, name: str) -> Any:
        return (lambda: None) if name == "reset_default_graph" else getattr(hr, name)


@pytest.mark.parametrize(("family", "index"), BLOCKS)
def test_a_program_does_what_it_does_in_tensorflow(
    family: str, index: int, theirs: Any, folder: str
) -> None:
    program = programs(family)[index]
    check(program, ours(program, folder), theirs(family, "")[index])


@pytest.mark.parametrize(("family", "index"), WITH_RESOURCES)
def test_so_it_does_with_resource_variables(
    family: str, index: int, theirs: Any, folder: str
) -> None:
    program = RESOURCES + programs(family)[index]
    check(program, ours(program, folder), theirs(family, RESOURCES)[index])


def check(program: str, got: dict[str, Any], want: dict[str, Any]) -> None:
    assert got.get("error") == want.get("error"), program
    if "error" in want:
        return
    if OTHER_NODES not in program:
        assert sorted(got["nodes"]) == sorted(want["nodes"])
        for name, node in want["nodes"].items():
            assert (name, got["nodes"][name]) == (name, node)
        assert got["functions of datasets"] == want["functions of datasets"]
        assert got["shapes"] == want["shapes"]
        assert list(got["functions"]) == list(want["functions"])
        for name, function in want["functions"].items():
            for mine, other in zip(got["functions"][name], function, strict=True):
                assert (name, mine) == (name, other)
    assert got["result"] == want["result"]
    assert got.get("step error") == want.get("step error")
    for (kind, mine), (their_kind, other) in zip(
        got.get("values", ()), want.get("values", ()), strict=True
    ):
        assert (kind, mine.shape) == (their_kind, other.shape)
        if kind in TOLERANCE and not want["exact"]:
            tolerance = TOLERANCE[kind]
            np.testing.assert_allclose(mine, other, rtol=tolerance, atol=tolerance / 10)
        elif kind == "bfloat16":
            np.testing.assert_allclose(mine, other, rtol=BFLOAT16, atol=BFLOAT16)
        else:
            np.testing.assert_array_equal(mine, other)
