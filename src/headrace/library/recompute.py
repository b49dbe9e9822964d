"""`tf.recompute_grad`: a function that is computed again for its gradient, so that nothing of it is kept until then.

Called by: programs, library.contrib.  Threads: building as graph.
Source: TF 1.15 python/ops/custom_gradient.py, for behaviour
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from headrace.graph.convert import convert, graph_of
from headrace.graph.custom_gradient import passed_through, variables_used
from headrace.graph.gradients import gradients
from headrace.graph.names import control_dependencies
from headrace.graph.tensor import Tensor
from headrace.library.variables.variable_scope import get_variable_scope, variable_scope
from headrace.ops.flow.identities import identity

__all__ = ["recompute_grad"]


def recompute_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function, of tensors, which the gradient calls once more instead of keeping what it has computed.

    It may use variables of any kind, and what it makes are those of the first call.  Random numbers are drawn anew in
    the second call: what depends on them, as dropout does, is not for it.  Raises TypeError, ValueError, when called,
    for arguments that are no tensors.
    """

    @functools.wraps(f)
    def called(*args: Any) -> Any:
        tensors: list[Tensor] = [convert(arg) for arg in args]
        graph, scope = graph_of(tensors), get_variable_scope()
        before = len(graph)
        results = f(*tensors)
        several = isinstance(results, (list, tuple))
        flat = [convert(each) for each in (results if several else [results])]
        resources, others = variables_used(graph, before, tensors)

        def gradient(*arrived: Tensor, variables: Sequence[Any] = ()) -> Any:
            with control_dependencies(arrived), variable_scope(scope, reuse=True):
                again = [identity(each) for each in tensors]
                found = f(*again)
            of = [*again, *variables]
            made = gradients(list(found) if several else found, of, list(arrived))
            if not variables:
                return made
            return made[: len(again)], made[len(again) :]

        passed = passed_through(graph, flat, tensors, [*resources, *others], gradient)
        return type(results)(passed) if several else passed[0]

    return called
