"""assert_equal, assert_less, assert_positive, …: conditions on tensors that a step checks.

Each gives an operation to put into tf.control_dependencies.  What is known to be false while the
graph is built raises at once.
Called by: softmax_ops, losses, programs.  Threads: as graph.
Source: TF 1.15 behaviour; nodes as the oracle's, as far as `Assert` is
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.identities import no_op
from headrace.ops.math.reductions import reduce_all
from headrace.ops.tables import make

__all__ = [
    "assert_equal",
    "assert_greater",
    "assert_greater_equal",
    "assert_less",
    "assert_less_equal",
    "assert_negative",
    "assert_non_negative",
    "assert_non_positive",
    "assert_none_equal",
    "assert_positive",
]

_SIGNS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "Equal": ("==", np.equal),
    "NotEqual": ("!=", np.not_equal),
    "Less": ("<", np.less),
    "LessEqual": ("<=", np.less_equal),
    "Greater": (">", np.greater),
    "GreaterEqual": (">=", np.greater_equal),
}


def _compare(
    kind: str,
    default_name: str,
    x: Any,
    y: Any,
    data: Any,
    summarize: int | None,
    message: str | None,
    name: str | None,
    condition: str | None = None,
) -> Operation:
    sign, known = _SIGNS[kind]
    with name_scope(name, default_name, [x, y]):
        x, y = convert(x, name="x"), convert(y, name="y")
        if data is None:
            data = [
                f"Condition x {sign} y did not hold element-wise:",
                f"x ({x.name}) = ",
                x,
                f"y ({y.name}) = ",
                y,
            ]
        if message is not None:
            data = [message, *data]
        holds = reduce_all(getattr(make, kind)(x, y))
        left, right = constant_value(x), constant_value(y)
        if left is not None and right is not None and not np.all(known(left, right)):
            raise errors.invalid_argument(
                f"{message + ': ' if message else ''}Condition {condition or f'x {sign} y'} did not hold element-wise: "
                f"{x.name} = {left} and {y.name} = {right}, known while the graph is built"
            )
        return Assert(holds, data, summarize=summarize)


def assert_equal(
    x: Any,
    y: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """x == y everywhere.  Raises InvalidArgumentError if it is known not to be."""
    with name_scope(name, "assert_equal", [x, y]):
        if x is y:
            nothing: Operation = no_op()
            return nothing
    return _compare("Equal", "assert_equal", x, y, data, summarize, message, name)


def assert_none_equal(
    x: Any,
    y: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """x != y everywhere."""
    return _compare("NotEqual", "assert_none_equal", x, y, data, summarize, message, name)


def assert_less(
    x: Any,
    y: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """x < y everywhere."""
    return _compare("Less", "assert_less", x, y, data, summarize, message, name)


def assert_less_equal(
    x: Any,
    y: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """x <= y everywhere."""
    return _compare("LessEqual", "assert_less_equal", x, y, data, summarize, message, name)


def assert_greater(
    x: Any,
    y: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """x > y everywhere."""
    return _compare("Greater", "assert_greater", x, y, data, summarize, message, name)


def assert_greater_equal(
    x: Any,
    y: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """x >= y everywhere."""
    return _compare("GreaterEqual", "assert_greater_equal", x, y, data, summarize, message, name)


def _against_zero(
    what: str,
    sign: str,
    x: Any,
    data: Any,
    summarize: int | None,
    message: str | None,
    name: str | None,
) -> Operation:
    with name_scope(name, what, [x]):
        x = convert(x, name="x")
        if data is None:
            told = f"Condition x {sign} 0 did not hold element-wise:"
            data = [message or "", told, f"x ({x.name}) = ", x]
        zero = convert(0, x.dtype.base_dtype)
        first, second = (zero, x) if sign[0] == ">" else (x, zero)
        kind, of = (
            ("LessEqual", "assert_less_equal") if sign[1:] == "=" else ("Less", "assert_less")
        )
        return _compare(kind, of, first, second, data, summarize, message, None, f"x {sign} 0")


def assert_positive(
    x: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """x > 0 everywhere."""
    return _against_zero("assert_positive", ">", x, data, summarize, message, name)


def assert_negative(
    x: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """x < 0 everywhere."""
    return _against_zero("assert_negative", "<", x, data, summarize, message, name)


def assert_non_negative(
    x: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """x >= 0 everywhere."""
    return _against_zero("assert_non_negative", ">=", x, data, summarize, message, name)


def assert_non_positive(
    x: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """x <= 0 everywhere."""
    return _against_zero("assert_non_positive", "<=", x, data, summarize, message, name)
