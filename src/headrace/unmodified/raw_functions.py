"""Functions of TensorFlow's gen_* modules: one op each, with its inputs and attrs as parameters.

Made from the op's schema when first asked for; which parameters there are, and in which order, is in raw_ops.txt.
Called by: facade.  Threads: any.
"""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable
from typing import Any

from headrace.graph.registry import MISSING, OPS, OpSpec


def raw_function(name: str, form: str) -> Callable[..., Any] | None:
    """The function called `name` for ``Sum(input,axis=reduction_indices,keep_dims)``; None without such an op.

    It adds one node to the default graph.  It returns what TensorFlow's does: the output, a list where the output is
    one, a named tuple of several outputs, the Operation where there is none.  Raises TypeError, ValueError.
    """
    op, _, listed = form.rstrip(")").partition("(")
    spec = OPS.get(op)
    if spec is None:
        return None
    meant = {}
    for each in filter(None, listed.split(",")):
        given, _, other = each.partition("=")
        meant[given] = other or given
    signature = _signature(spec, meant)
    inputs = [arg.name for arg in spec.inputs]
    result = _result_type(spec)

    def function(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{name}(): {error}; it is {name}{signature}") from None
        label = bound.pop("name", None)
        by_name = {meant[given]: value for given, value in bound.items()}
        tensors = [by_name.pop(each) for each in inputs]
        attrs = {attr: value for attr, value in by_name.items() if value is not None}
        found = spec(*tensors, name=label, **attrs)
        return found if result is None else result(*found)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Add a node of op {op}; see headrace.graph.registry."
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def _signature(spec: OpSpec, meant: dict[str, str]) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = []
    for given, name in meant.items():
        attr = spec.attrs.get(name)
        default: Any = inspect.Parameter.empty
        if attr is not None and attr.default is not MISSING:
            default = attr.default
        parameters.append(inspect.Parameter(given, kind, default=default))
    parameters.append(inspect.Parameter("name", kind, default=None))
    return inspect.Signature(parameters)


def _result_type(spec: OpSpec) -> Callable[..., Any] | None:
    """A named tuple of the outputs, where there are several."""
    if len(spec.outputs) < 2:
        return None
    kind: Callable[..., Any] = namedtuple(spec.name, [output.name for output in spec.outputs])  # type: ignore[misc]
    return kind
