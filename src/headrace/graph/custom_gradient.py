"""tf.custom_gradient: a function of tensors with a gradient that the author gives.

What the function returns passes through an IdentityN node, whose gradient is the author's; the
arguments pass through it too, so that their gradients can be told from it.
Called by: users.  Threads: as graph.
Source: TF 1.15 python/ops/custom_gradient.py, for behaviour; node names checked against the oracle
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from headrace.graph import registry
from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert, graph_of
from headrace.graph.gradients import RegisterGradient
from headrace.graph.graph import Graph, Operation
from headrace.graph.tensor import Tensor

__all__ = ["custom_gradient"]

_numbers = itertools.count(1)


def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a function that returns (result, gradient function).

    The result is a tensor or a list of them; the gradient function takes one gradient per result
    and returns one per argument.  Raises, when called: ValueError (keyword arguments), TypeError
    (a trainable variable is used inside, whose gradient would be lost).
    """

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise ValueError(
                "functions with a custom gradient take no keyword arguments; bind them with "
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
        _check_no_variables(graph, before)
        several = isinstance(results, (list, tuple))
        flat = [convert(item) for item in (results if several else [results])]
        passed = _passed_through(graph, flat, tensors, gradient)
        return type(results)(passed) if several else passed[0]

    return wrapped


def _passed_through(
    graph: Graph, results: list[Tensor], args: list[Tensor], gradient: Callable[..., Any]
) -> list[Tensor]:
    name = f"CustomGradient-{next(_numbers)}"

    @RegisterGradient(name)
    def _(op: Operation, *grads: Tensor) -> list[Any]:
        found = gradient(*grads[: len(results)])
        listed = list(found) if isinstance(found, (list, tuple)) else [found]
        return [None] * len(results) + listed

    identity = registry.get("Identity")
    for result in results:
        identity(result, name="Identity")
    with graph.gradient_override_map({"IdentityN": name}):
        passed: list[Tensor] = registry.get("IdentityN")([*results, *args], name="IdentityN")
    return passed[: len(results)]


def _check_no_variables(graph: Graph, before: int) -> None:
    """No node made since then may use a trainable variable."""
    owners = {}
    for variable in graph.get_collection(GraphKeys.TRAINABLE_VARIABLES):
        owners[variable._ref()] = owners[variable.value()] = variable
    for op in graph.operations_since(before):
        for tensor in op.inputs:
            if tensor in owners and op is not owners[tensor].value().op:
                raise TypeError(
                    f"a function with a custom gradient uses the trainable variable "
                    f"{owners[tensor].name}; pass it as an argument instead, or its gradient "
                    "would be lost"
                )
