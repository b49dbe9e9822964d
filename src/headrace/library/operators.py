"""The operators of Tensor: x + y, 2 * x, -x, x < y, x & y, x @ y.

Each opens the name scope that TensorFlow's does (add, mul, …), so that node names agree.  x == y
compares identity, as in TF 1.x, and is no operator here.
Called by: graph.tensor, through its table.  Threads: as graph.
Source: names as in GraphDefs of TF 2.21
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor, operator
from headrace.ops.linalg import products as linear
from headrace.ops.math import arithmetic, bitwise, comparisons, magnitudes

Function = Callable[..., Any]
_VARIABLES_HAVE: Final = "_as_graph_element"


def _both_ways(name: str, function: Function) -> None:
    """Tensor operator `name`, and its reflection, in a scope of that name."""

    def forward(x: Any, y: Any) -> Any:
        try:
            with name_scope(None, name, [x, y]) as scope:
                return function(x, y, name=scope)
        except (TypeError, ValueError) as error:
            # What we cannot convert may know how to combine itself with a tensor.
            known = isinstance(y, (Tensor, np.ndarray, np.generic)) or hasattr(y, _VARIABLES_HAVE)
            reflected = None if known else getattr(type(y), f"__r{name}__", None)
            try:
                answer = NotImplemented if reflected is None else reflected(y, x)
            except (TypeError, ValueError):
                raise error from None
            if answer is NotImplemented:
                raise
            return answer

    def reverse(y: Any, x: Any) -> Any:
        with name_scope(None, name, [x, y]) as scope:
            x = convert(x, y.dtype.base_dtype, name="x")
            return function(x, y, name=scope)

    operator(name)(forward)
    operator(f"r{name}")(reverse)


def _add(x: Any, y: Any, name: str) -> Any:
    kind = arithmetic.add_op if x.dtype.base_dtype is dtypes.string else arithmetic.add_v2
    return kind(x, y, name=name)


def _logical_or_bitwise(logical: Function, bits: Function) -> Function:
    def either(x: Any, y: Any, name: str) -> Any:
        if x.dtype.base_dtype is dtypes.bool:
            return logical(x, y, name=name)
        return bits(x, y)

    return either


_both_ways("add", _add)
_both_ways("sub", arithmetic.sub)
_both_ways("mul", arithmetic.mul)
_both_ways("truediv", arithmetic.truediv)
_both_ways("div", arithmetic.div)
_both_ways("floordiv", arithmetic.floor_div)
_both_ways("mod", arithmetic.floormod)
_both_ways("pow", arithmetic.pow)
_both_ways("matmul", linear.matmul)
_both_ways("and", _logical_or_bitwise(comparisons.logical_and, bitwise.bitwise_and))
_both_ways("or", _logical_or_bitwise(comparisons.logical_or, bitwise.bitwise_or))
_both_ways("xor", _logical_or_bitwise(comparisons.logical_xor, bitwise.bitwise_xor))

operator("lt")(comparisons.less)
operator("le")(comparisons.less_equal)
operator("gt")(comparisons.greater)
operator("ge")(comparisons.greater_equal)
operator("neg")(arithmetic.negative)
operator("abs")(magnitudes.abs)


@operator("invert")
def _invert(x: Tensor) -> Any:
    return comparisons.logical_not(x) if x.dtype.base_dtype is dtypes.bool else bitwise.invert(x)
