"""The gradient of a function, as another one: of its arguments and the gradients of its results.

Called by: graph.function_library, ops.flow.functional.  Threads: as graphs; each is made once.
"""

from __future__ import annotations

from headrace.base import errors
from headrace.base.traits import PLACEHOLDER
from headrace.codec import protos as pb
from headrace.graph import registry
from headrace.graph.function_def import definition_of, imported_body
from headrace.graph.function_instances import referring
from headrace.graph.function_library import GRADIENT, Body, Function
from headrace.graph.graph import Graph
from headrace.graph.tensor import Tensor


def gradient_of(function: Function) -> Function:
    """(arguments, gradients of results) -> gradients of arguments, zeros where there is none.

    That which the library names, if it does; else what `tf.gradients` makes of the body.
    """
    named = (function.generic or function).gradient
    if named:
        return function.library.find(referring(named, function.reference.attr), function.name)
    found: Function = function.cached("gradient", lambda: _derived(function))
    return found


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
