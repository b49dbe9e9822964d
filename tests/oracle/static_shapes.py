"""Static shapes of a graph's tensors under other knowledge of its inputs: the same source runs here and on the oracle.

`static_shapes(tf, cases)`: a case is (a GraphDef's bytes, names of tensors, knowledge): each knowledge says for some
placeholders (and variables "vN" of placeholders "pN") a shape, a list in which None is unknown, or an array, which
takes the placeholder's place as a constant.  For each knowledge the shapes, None for an unknown rank, or (class,
message) of the error that the graph was refused with.
"""

import numpy as np


def static_shapes(tf, cases):
    return [
        [_shapes(tf, tf.GraphDef.FromString(graph), names, each) for each in knowledge]
        for graph, names, knowledge in cases
    ]


def _shapes(tf, graph, names, knowledge):
    for node in graph.node:
        known = knowledge.get("p" + node.name[1:]) if node.name[0] in "pv" else None
        if isinstance(known, np.ndarray):
            _make_constant(tf, node, known)
        elif known is not None:
            node.attr["shape"].shape.CopyFrom(tf.TensorShape(known).as_proto())
    try:
        with tf.Graph().as_default():
            found = tf.import_graph_def(graph, name="", return_elements=names)
            return [None if each.shape.rank is None else each.shape.as_list() for each in found]
    except Exception as error:
        return type(error).__name__, str(error)[:300]


def _make_constant(tf, node, value):
    node.op = "Const"
    kind = node.attr["dtype"].type
    node.attr.clear()
    node.attr["dtype"].type = kind
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, tf.as_dtype(kind)))
