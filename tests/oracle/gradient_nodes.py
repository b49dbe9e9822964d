"""Nodes that gradients of one op add, and what is registered: the same source runs here and on the oracle.

`gradient_nodes(tf, cases)`: a case is (a GraphDef's bytes, names of ys, names of xs, shapes of some placeholders).  For
each the names of the gradients and the nodes that they add: (name, op, inputs); or the class of what asking for them
raises.
"""


def gradient_nodes(tf, cases):
    return [_nodes(tf, *case) for case in cases]


def _nodes(tf, content, ys, xs, shapes):
    graph = tf.GraphDef.FromString(content)
    for node in graph.node:
        if node.name in shapes:
            node.attr["shape"].shape.CopyFrom(tf.TensorShape(shapes[node.name]).as_proto())
    with tf.Graph().as_default() as made:
        try:
            tf.import_graph_def(graph, name="")
            before = len(made.get_operations())
            given = [[made.get_tensor_by_name(each) for each in names] for names in (ys, xs)]
            found = tf.gradients(*given)
        except Exception as error:
            return type(error).__name__, str(error)[:200]
        names = [_named(each) for each in found]
        nodes = made.as_graph_def().node[before:]
        return names, [(node.name, node.op, list(node.input)) for node in nodes]


def _named(found):
    if hasattr(found, "values"):
        return found.values.name, found.indices.name
    return None if found is None else found.name
