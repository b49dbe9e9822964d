"""tf.custom_gradient: a function of tensors with a gradient that the author gives.

What the function returns passes through an IdentityN node, whose gradient is the author's; the
arguments pass through it too, so that their gradients can be told from it.
Called by: users.  Threads: as graph.
Source: TF 1.15 python/ops/custom_gradient.py, for behaviour; node names checked against the oracle
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from headrace.graph import registry
from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert, graph_of
from headrace.graph.gradients import RegisterGradient, handle_of
from headrace.graph.graph import Graph, Operation
from headrace.graph.tensor import Tensor

__all__ = ["custom_gradient"]

_numbers = itertools.count(1)


def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a function that returns (result, gradient function).

    The result is a tensor or a list of them; the gradient function takes one gradient per result
    and returns one per argument.  If the function uses trainable resource variables that are not among its arguments,
    the gradient function takes them as `variables` and returns (gradients of the arguments, of the variables).
    Raises, when called: ValueError (keyword arguments), TypeError (no such parameter; a trainable reference variable
    is used inside, whose gradient would be lost).
    """

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise ValueError(
                "The custom_gradient decorator currently supports keywords arguments only when eager execution is "
                "enabled, which headrace has not; bind them with "
                f"functools.partial first: {', '.join(kwargs)}"
            )
        tensors = [convert(arg) for arg in args]
        graph = graph_of(tensors)
        before = len(graph)
        answer = f(*tensors)
        if not isinstance(answer, tuple) or len(answer) != 2 or not callable(answer[1]):
            raise TypeError(
                "a function with a custom gradient must return (result, gradient function), "
                f"not {answer!r:.80}"
            )
        results, gradient = answer
        variables, references = variables_used(graph, before, tensors)
        if references:
            raise TypeError(
                "All variables used by a function wrapped with @custom_gradient must be `ResourceVariable`s, "
                f"and {references[0].name} is trainable and none; pass it as an argument instead, or its "
                "gradient would be lost; or make it with use_resource=True"
            )
        _check_signature(gradient, variables)
        several = isinstance(results, (list, tuple))
        flat = [convert(item) for item in (results if several else [results])]
        passed = passed_through(graph, flat, tensors, variables, gradient)
        return type(results)(passed) if several else passed[0]

    return wrapped


def passed_through(
    graph: Graph,
    results: list[Tensor],
    args: list[Tensor],
    variables: list[Any],
    gradient: Callable[..., Any],
) -> list[Tensor]:
    """The results, whose gradients are `gradient`'s, with regard to arguments and variables."""
    name = f"CustomGradient-{next(_numbers)}"

    @RegisterGradient(name)
    def _(op: Operation, *grads: Tensor) -> list[Any]:
        arrived = grads[: len(results)]
        if not variables:
            return [None] * len(results) + _listed(gradient(*arrived))
        of_args, of_variables = gradient(*arrived, variables=list(variables))
        if len(of_variables) != len(variables):
            raise ValueError(
                f"the gradient function must return one gradient for each of its {len(variables)} variables, "
                f"and returned {len(of_variables)}"
            )
        return [None] * len(results) + _listed(of_args) + list(of_variables)

    identity = registry.get("Identity")
    for result in results:
        identity(result, name="Identity")
    with graph.gradient_override_map({"IdentityN": name}):
        passed: list[Tensor] = registry.get("IdentityN")(
            [*results, *args, *variables], name="IdentityN"
        )
    return passed[: len(results)]


def _listed(grads: Any) -> list[Any]:
    return list(grads) if isinstance(grads, (list, tuple)) else [grads]


def variables_used(
    graph: Graph, before: int, args: Sequence[Tensor]
) -> tuple[list[Any], list[Any]]:
    """The trainable resource variables, and the reference variables, that nodes made since then read.

    args: what is read of a variable by these is no use of it: its gradient comes through the argument.
    """
    resources, owners = {}, {}
    for variable in graph.get_collection(GraphKeys.TRAINABLE_VARIABLES):
        handle = handle_of(variable)
        if handle is not None:
            resources[handle] = variable
        else:
            owners[variable._ref()] = owners[variable.value()] = variable
    for arg in args:
        owners.pop(arg, None)
    used, references = {}, {}
    for op in graph.operations_since(before):
        for tensor in op.inputs:
            variable = resources.get(tensor)
            if variable is not None and op is not variable._as_graph_element().op and _reads(op):
                used[tensor] = variable
            owner = owners.get(tensor)
            if owner is not None and op is not owner.value().op:
                references[owner._ref()] = owner
    return list(used.values()), list(references.values())


def _reads(op: Operation) -> bool:
    return bool(op.outputs) and op.type != "VarIsInitializedOp"


def _check_signature(gradient: Callable[..., Any], variables: list[Any]) -> None:
    if not variables:
        return
    parameters = inspect.signature(gradient).parameters
    if "variables" not in parameters and not any(
        p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()
    ):
        raise TypeError(
            "@tf.custom_gradient grad_fn must accept keyword argument 'variables', and return (gradients of the "
            "arguments, gradients of the variables), since the function uses "
            f"{', '.join(v.name for v in variables)}"
        )
