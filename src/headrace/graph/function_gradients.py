"""The gradient of a function, as another one: of its arguments and the gradients of its results.

A FunctionDef has the nodes of a loop, and not where the loop begins and ends.  So the gradient of a function with loops
is made where the function was built, and goes with the library from there on (`note_gradients`).
Called by: graph.function_library, graph.expansion, ops.flow.functional.  Threads: as graphs; each is made once.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.base import errors
from headrace.base.traits import PLACEHOLDER
from headrace.codec import protos as pb
from headrace.graph import context_protos, registry
from headrace.graph.collections import GraphKeys
from headrace.graph.control_flow import Context
from headrace.graph.function_def import definition_of, imported_body
from headrace.graph.function_instances import referring
from headrace.graph.function_library import GRADIENT, Body, Function
from headrace.graph.graph import Graph
from headrace.graph.tensor import Tensor
from headrace.graph.while_context import WhileContext


def gradient_of(function: Function) -> Function:
    """(arguments, gradients of results) -> gradients of arguments, zeros where there is none.

    That which the library names, if it does; else what `tf.gradients` makes of the body.
    """
    named = (function.generic or function).gradient
    if named:
        return function.library.find(referring(named, function.reference.attr), function.name)
    found: Function = function.cached("gradient", lambda: _derived(function))
    return found


def note_gradients(function: Function) -> None:
    """The gradients of this function and of those that it calls, as functions of the library, if loops ask for it."""
    library = function.library
    for each in library.closure([function.name]):
        if each.gradient or each.python_gradient or not any(map(_has_loop, _contexts(each))):
            continue
        derived = _derived_body(each)
        name = f"{each.name}_gradient"
        if name in library:
            name = library.free_name(name)
        definition = definition_of(name, derived)
        called = derived.graph.library.needed_by(definition.node_def)
        library.add_definitions(derived.graph.library.proto(called))
        library.add(Function(name, library, definition))
        each.gradient = name


def _contexts(function: Function) -> Iterator[Context]:
    """The outermost branches and loops of its body, if that was built here."""
    built = function.built
    for key in (GraphKeys.COND_CONTEXT, GraphKeys.WHILE_CONTEXT):
        yield from () if built is None else built.graph.get_collection_ref(key)


def _has_loop(context: Context) -> bool:
    return isinstance(context, WhileContext) or any(map(_has_loop, context.nested))


def _recall_contexts(function: Function, made: Body) -> None:
    """What is known of branches and loops of the body that was built, of that which was made of its definition."""
    built = function.built
    if built is None or not any(map(_has_loop, _contexts(function))):
        return
    pairs = zip(built.inputs, made.inputs, strict=True)
    named = {argument.op.name: its.op.name for argument, its in pairs}
    nodes = [op.name for op in built.graph.get_operations() if op.name not in named]
    definition = function.definition
    named |= zip(nodes, (node.name for node in definition.node_def), strict=True)
    with made.graph.as_default():
        for context in _contexts(function):
            context_protos.from_proto(context_protos.to_proto(context), named=named)


def _derived(function: Function) -> Function:
    body = _derived_body(function)
    reference = pb.NameAttrList(name=GRADIENT)
    reference.attr["f"].func.CopyFrom(function.reference)
    return Function(
        f"{GRADIENT}_of_{function.name}",
        body.graph.library,
        body=body,
        define=lambda made: definition_of(made.name, body),
        reference=reference,
    )


def _derived_body(function: Function) -> Body:
    from headrace.graph.gradients import gradients

    graph = Graph()
    graph._library = function.library.fork()  # branches and loops in it get functions of their own
    body = imported_body(function.definition, graph.library, graph)
    _recall_contexts(function, body)
    grads = [_argument(graph, tensor, f"dy_{at}") for at, tensor in enumerate(body.outputs)]
    wanted = [(y, dy) for y, dy in zip(body.outputs, grads, strict=True) if _has_gradient(y)]
    with graph.as_default():
        ys = [y for y, _ in wanted]
        xs = list(body.inputs)
        made = gradients(ys, xs, [dy for _, dy in wanted]) if ys else [None] * len(xs)
        results = [
            _zeros(x) if dx is None else _dense(dx, function)
            for x, dx in zip(xs, made, strict=True)
        ]
    return Body(graph, [*xs, *grads], results, body.control_outputs)


def _zeros(tensor: Tensor) -> Tensor:
    made: Tensor = registry.get("ZerosLike")(tensor, name="zeros_like")
    return made


def _has_gradient(tensor: Tensor) -> bool:
    dtype = tensor.dtype.base_dtype
    return dtype.is_floating or dtype.is_complex or PLACEHOLDER in tensor.op.traits


def _argument(graph: Graph, like: Tensor, name: str) -> Tensor:
    dtype = like.dtype.base_dtype
    op = graph.add_operation(
        graph.unique_name(name),
        "Placeholder",
        registry.get("Placeholder"),
        [],
        {"dtype": dtype, "shape": like.shape},
        [dtype],
        apply_scopes=False,
    )
    op.outputs[0]._raw = like._raw
    return op.outputs[0]


def _dense(gradient: object, function: Function) -> Tensor:
    from headrace.graph.convert import convert

    try:
        return convert(gradient)
    except (TypeError, ValueError) as error:
        raise errors.unimplemented(
            f"a gradient of function {function.name!r} cannot be made a tensor: {error}"
        ) from error
