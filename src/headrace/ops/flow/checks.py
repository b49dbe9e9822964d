"""assert_equal, assert_less, assert_positive, …: conditions on tensors that a step checks.

Each gives an operation to put into tf.control_dependencies.  What is known to be false while the
graph is built raises at once.
Called by: softmax_ops, losses, programs.  Threads: as graph.
Source: TF 1.15 behaviour; nodes as the oracle's, as far as `Assert` is
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from headrace.base import errors
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.graph.ragged import of_two_ragged_checked
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


class _Comparison(NamedTuple):
    """A comparison: its op, the name of its condition, its sign, and what NumPy has for it."""

    op: str
    name: str
    sign: str
    known: Callable[[Any, Any], Any]


_EQUAL = _Comparison("Equal", "assert_equal", "==", np.equal)
_LESS = _Comparison("Less", "assert_less", "<", np.less)
_LESS_EQUAL = _Comparison("LessEqual", "assert_less_equal", "<=", np.less_equal)


def _compare(
    how: _Comparison,
    x: Any,
    y: Any,
    data: Any,
    summarize: int | None,
    message: str | None,
    name: str | None,
    condition: str | None = None,
) -> Operation:
    with name_scope(name, how.name, [x, y]):
        x, y = convert(x, name="x"), convert(y, name="y")
        if data is None:
            data = [
                f"Condition x {how.sign} y did not hold element-wise:",
                f"x ({x.name}) = ",
                x,
                f"y ({y.name}) = ",
                y,
            ]
        if message is not None and condition is None:  # else it is in there
            data = [message, *data]
        holds = reduce_all(getattr(make, how.op)(x, y))
        left, right = constant_value(x), constant_value(y)
        if left is not None and right is not None and not np.all(how.known(left, right)):
            what = condition or f"x {how.sign} y"
            raise errors.invalid_argument(
                f"{message + ': ' if message else ''}Condition {what} did not hold element-wise: "
                f"{x.name} = {left} and {y.name} = {right}, known while the graph is built"
            )
        return Assert(holds, data, summarize=summarize)


@of_two_ragged_checked
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
    return _compare(_EQUAL, x, y, data, summarize, message, name)


class _OfTwo(Protocol):
    """A condition on two tensors: see `assert_equal`."""

    def __call__(
        self,
        x: Any,
        y: Any,
        data: Any = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Operation: ...


def _of_two(how: _Comparison) -> _OfTwo:
    def check(
        x: Any,
        y: Any,
        data: Any = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Operation:
        return _compare(how, x, y, data, summarize, message, name)

    check.__name__ = check.__qualname__ = how.name
    check.__doc__ = (
        f"x {how.sign} y everywhere.  Raises InvalidArgumentError if it is known not to be."
    )
    return of_two_ragged_checked(check)


assert_none_equal = _of_two(_Comparison("NotEqual", "assert_none_equal", "!=", np.not_equal))
assert_less = _of_two(_LESS)
assert_less_equal = _of_two(_LESS_EQUAL)
assert_greater = _of_two(_Comparison("Greater", "assert_greater", ">", np.greater))
assert_greater_equal = _of_two(
    _Comparison("GreaterEqual", "assert_greater_equal", ">=", np.greater_equal)
)


class _OfOne(Protocol):
    """A condition on a tensor: see `assert_equal`."""

    def __call__(
        self,
        x: Any,
        data: Any = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Operation: ...


def _against_zero(what: str, sign: str) -> _OfOne:
    how = _LESS_EQUAL if sign[1:] else _LESS
    condition = f"x {sign} 0"

    def check(
        x: Any,
        data: Any = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Operation:
        with name_scope(name, what, [x]):
            x = convert(x, name="x")
            if data is None:
                told = f"Condition {condition} did not hold element-wise:"
                data = [f"{message}.  " if message else "", told, f"x ({x.name}) = ", x]
                if sign == "<=":  # TensorFlow's have a comma less
                    data[1:3] = ["".join(data[1:3])]
            zero = convert(0, x.dtype.base_dtype)
            first, second = (zero, x) if sign[0] == ">" else (x, zero)
            return _compare(how, first, second, data, summarize, message, None, condition)

    check.__name__ = check.__qualname__ = what
    check.__doc__ = (
        f"{condition} everywhere.  Raises InvalidArgumentError if it is known not to be."
    )
    return check


assert_positive = _against_zero("assert_positive", ">")
assert_negative = _against_zero("assert_negative", "<")
assert_non_negative = _against_zero("assert_non_negative", ">=")
assert_non_positive = _against_zero("assert_non_positive", "<=")
