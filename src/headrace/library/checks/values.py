"""assert_near, is_non_decreasing, verify_tensor_all_finite, …: checks of numbers, all of them in a step.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; nodes as 2.21
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import colocate_with, control_dependencies, name_scope
from headrace.graph.scopes import get_default_graph
from headrace.graph.tensor import Tensor
from headrace.library.checks.types import prefixed
from headrace.ops.array.constants import constant
from headrace.ops.array.shapes import reshape, shape, size
from headrace.ops.array.slicing import strided_slice
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.control_flow import cond
from headrace.ops.flow.identities import check_numerics, group, with_dependencies
from headrace.ops.math.reductions import reduce_all
from headrace.ops.tables import make

__all__ = [
    "add_check_numerics_ops",
    "assert_near",
    "is_non_decreasing",
    "is_strictly_increasing",
    "verify_tensor_all_finite",
]


def assert_near(
    x: Any,
    y: Any,
    rtol: Any = None,
    atol: Any = None,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """|x - y| <= atol + rtol · |y| everywhere; each is ten times the type's precision by default."""
    with name_scope(name, "assert_near", [x, y, rtol, atol, *(data or ())]):
        x = convert(x, name="x")
        y = convert(y, dtypes.as_dtype(x.dtype.base_dtype), "y")
        least = 10 * np.finfo(x.dtype.np).eps if rtol is None or atol is None else None
        rtol = convert(least if rtol is None else rtol, x.dtype.base_dtype, "rtol")
        atol = convert(least if atol is None else atol, x.dtype.base_dtype, "atol")
        if data is None:
            data = [
                prefixed(message),
                f"x and y not equal to tolerance rtol = {rtol}, atol = {atol}",
                f"x ({x.name}) = ",
                x,
                f"y ({y.name}) = ",
                y,
            ]
        allowed = atol + rtol * make.Abs(y)
        holds = reduce_all(make.Less(make.Abs(x - y), allowed))
        return Assert(holds, data, summarize=summarize)


def is_non_decreasing(x: Any, name: str | None = None) -> Tensor:
    """[] of bool: each element of x, row by row, is at least the one before it."""
    with name_scope(name, "is_non_decreasing", [x]):
        return _in_order(x, "GreaterEqual")


def is_strictly_increasing(x: Any, name: str | None = None) -> Tensor:
    """[] of bool: each element of x, row by row, is greater than the one before it."""
    with name_scope(name, "is_strictly_increasing", [x]):
        return _in_order(x, "Greater")


def _in_order(x: Any, comparison: str) -> Tensor:
    flat = reshape(convert(x, name="x"), [-1])
    is_short = make.Less(size(flat), 2)
    others = shape(flat) - 1
    compared = cond(
        is_short,
        lambda: constant([], dtypes.bool),
        lambda: getattr(make, comparison)(
            strided_slice(flat, [1], make.AddV2([1], others, name="add")),
            strided_slice(flat, [0], others),
        ),
    )
    made: Tensor = reduce_all(compared)
    return made


def verify_tensor_all_finite(
    t: Any = None,
    msg: str | None = None,
    name: str | None = None,
    x: Any = None,
    message: str | None = None,
) -> Tensor:
    """`t` (or `x`), of floats; a step in which an element is infinite or NaN ends with InvalidArgumentError."""
    x = t if x is None else x
    text: Any = msg if message is None else message
    with name_scope(name, "VerifyFinite", [x]):
        found = convert(x, name="x")
        with colocate_with(found):
            checked = check_numerics(found, message=text)
            made: Tensor = with_dependencies([checked], found)
            return made


def add_check_numerics_ops() -> Operation:
    """An operation that checks all floats of the graph, in the order in which they are computed.

    Raises ValueError if there are branches or loops.
    """
    checks: list[Operation] = []
    graph = get_default_graph()
    for op in graph.get_operations():
        for output in op.outputs:
            if output.dtype in (dtypes.float16, dtypes.float32, dtypes.float64):
                if op._get_control_flow_context() is not None:
                    raise ValueError(
                        "`tf.add_check_numerics_ops() is not compatible with TensorFlow control flow operations such "
                        f"as `tf.cond()` or `tf.while_loop()`: {op.name} is in one of them; tf.check_numerics is"
                    )
                message = f"{op.name}:{output.value_index}"
                with control_dependencies(checks[-1:]):
                    checks.append(check_numerics(output, message=message).op)
    made: Operation = group(*checks[-1:])
    return made
