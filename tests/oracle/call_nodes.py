"""Nodes that calls of public functions add to a graph: the same source runs here and on the oracle.

`nodes_of_calls(tf, np, rows)`: a row is (an expression, KNOWN or NOTHING, whether gradients are asked for).  In the
expression P, H, I, J, U, B, S, Z and Q are placeholders of float32, float16, int32, int64, uint8, bool, string,
complex64 and quint8 with the sizes that they are given, SP sparse ones, R ragged ones of that rank, V variables, V0 a
scalar one of int32.

For each row a dict: "error", the class that building it raised; or "value", what it gave, with names for what is in
the graph, "nodes" and "shapes" of all outputs; and "gradients", the nodes that its gradients with regard to its
operands add, or the class that asking for them raised.
"""

import ast
import inspect
import re

KNOWN, NOTHING = "known", "nothing"
"""Static shapes of operands."""

CHANCE = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|pyfunc_\w+|CustomGradient-\d+")
"""Names that nothing else has."""


def nodes_of_calls(tf, np, rows):
    return [_outcome(tf, np, *row) for row in rows]


def _outcome(tf, np, source, knowledge, gradients):
    operands = []
    with tf.Graph().as_default() as graph:
        names = _operands(tf, knowledge, operands) | {"tf": tf, "np": np}
        try:
            value = eval(source, names)
        except Exception as error:
            return {"error": type(error).__name__, "said": str(error)[:200]}
        found = {
            "value": _plain(tf, value),
            "nodes": _nodes(tf, graph, 0),
            "shapes": _shapes(graph),
        }
        ys = [
            each for each in _tensors(tf, value) if each.dtype.is_floating or each.dtype.is_complex
        ]
        if gradients and ys and operands:
            before = len(graph.get_operations())
            try:
                dxs = tf.gradients(ys, operands)
            except Exception as error:
                found["gradients"] = type(error).__name__, str(error)[:200]
            else:
                found["gradients"] = _plain(tf, dxs), _nodes(tf, graph, before)
        return found


def _operands(tf, knowledge, operands):
    def shape_of(sizes):
        if knowledge == NOTHING:
            return None
        return list(sizes)

    def of(kind):
        def made(*sizes):
            tensor = tf.placeholder(kind, shape_of(sizes), name="x")
            if kind.is_floating or kind.is_complex:
                operands.append(tensor)
            return tensor

        return made

    def sparse(*sizes, kind=tf.float32):
        made = tf.sparse_placeholder(kind, shape_of(sizes), name="s")
        if kind.is_floating:
            operands.append(made.values)
        return made

    def variable(*sizes):
        made = tf.get_variable(f"v{len(operands)}", sizes, initializer=tf.zeros_initializer())
        operands.append(made)
        return made

    def ragged(rank):
        made = tf.ragged.placeholder(tf.float32, rank - 1, [], name="r")
        operands.append(made.flat_values)
        return made

    kinds = {
        "P": tf.float32,
        "H": tf.float16,
        "I": tf.int32,
        "J": tf.int64,
        "U": tf.uint8,
        "B": tf.bool,
        "S": tf.string,
        "Z": tf.complex64,
        "Q": tf.quint8,
    }
    return {name: of(kind) for name, kind in kinds.items()} | {
        "SP": sparse,
        "V": variable,
        "R": ragged,
        "V0": lambda: tf.Variable(0, name="counter"),
    }


def named(tf, source):
    """The row with a name for its call; None if it is no call that takes one, or has one."""
    call = ast.parse(source, mode="eval")
    if not isinstance(call.body, ast.Call) or any(
        each.arg == "name" for each in call.body.keywords
    ):
        return None
    function = ast.unparse(call.body.func)
    if not function.startswith("tf.") or "(" in function:
        return None
    if "name" not in inspect.signature(eval(function, {"tf": tf})).parameters:
        return None
    call.body.keywords.append(ast.keyword("name", ast.Constant("it")))
    return ast.unparse(call)


def _plain(tf, value):
    """`value` as data: names for what is in the graph."""
    if isinstance(value, dict):
        return {key: _plain(tf, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(tf, item) for item in value]
    if isinstance(value, tf.TensorShape):
        return str(value)
    for kind, parts in _composites(tf).items():
        if isinstance(value, kind):
            return [kind.__name__, *[_plain(tf, getattr(value, part)) for part in parts]]
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    return getattr(value, "name", None) or (
        value.tolist() if hasattr(value, "tolist") else type(value).__name__
    )


def _composites(tf):
    return {
        tf.SparseTensor: ("indices", "values", "dense_shape"),
        tf.IndexedSlices: ("values", "indices", "dense_shape"),
        tf.RaggedTensor: ("values", "row_splits"),
    }


def _tensors(tf, value):
    if isinstance(value, tf.Tensor):
        return [value]
    if isinstance(value, dict):
        value = [value[key] for key in sorted(value)]
    if isinstance(value, (list, tuple)):
        return [each for item in value for each in _tensors(tf, item)]
    if isinstance(value, tuple(_composites(tf))):
        return _tensors(tf, value.values)
    return []


def _nodes(tf, graph, first):
    return [
        (
            node.name,
            node.op,
            list(node.input),
            node.device,
            {key: _attr(tf, value) for key, value in node.attr.items()},
        )
        for node in graph.as_graph_def().node[first:]
    ]


def _attr(tf, value):
    kind = value.WhichOneof("value")
    if kind == "s":
        return CHANCE.sub(b"<chance>", value.s)
    if kind != "tensor":
        return value.SerializeToString(deterministic=True)
    array = tf.make_ndarray(value.tensor)
    return int(value.tensor.dtype), array.shape, str(array.tolist())


def _shapes(graph):
    return {
        each.name: None if each.shape.rank is None else each.shape.as_list()
        for op in graph.get_operations()
        for each in op.outputs
    }
