"""Rows of tables: elementwise ops whose kernel is one function of the array namespace.

A row names the op, the function, the types and the gradient; the op block that STYLE asks for is
the row.  `make` reaches any op by its name, which is how gradients of one family use the ops of
another without importing it.
Called by: op families.  Threads: at import.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from headrace.base.traits import NONE, Traits
from headrace.graph import registry
from headrace.graph.registry import Gradient, OpSpec, ShapeFn
from headrace.graph.shape_fns import broadcast, unchanged

FLOATS = "bfloat16, half, float, double"
COMPLEXES = "complex64, complex128"
FLOATS_AND_COMPLEXES = f"{FLOATS}, {COMPLEXES}"
SIGNED = f"{FLOATS}, int8, int16, int32, int64, {COMPLEXES}"
ALL_NUMBERS = (
    "float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, "
    "qint16, quint16, uint16, complex128, half, uint32, uint64"
)
ARITHMETIC = (
    f"{FLOATS}, uint8, int8, uint16, int16, int32, uint32, uint64, int64, complex64, complex128"
)
INTEGERS = "int8, int16, int32, int64, uint8, uint16, uint32, uint64"


class _Ops:
    """Ops by name: ``make.Reshape(x, [2, 3], name="r")``.  Raises KeyError for an unknown one."""

    def __getattr__(self, name: str) -> OpSpec:
        return registry.get(name)


make = _Ops()


def type_attr(types: str) -> str:
    """``T: {…}``, or ``T: numbertype`` and its kin as they are."""
    return f"T: {types}" if types in ("type", "numbertype", "realnumbertype") else f"T: {{{types}}}"


def unary(
    name: str,
    function: str,
    types: str | None,
    gradient: Gradient | None = None,
    *,
    inputs: str = "x: T",
    output: str = "T",
    differentiable: bool = True,
    traits: Traits = NONE,
) -> OpSpec:
    """Op `name`: y = xp.`function`(x), x and y of the same shape.

    types: members of attr T, None if there is no such attr.  output: y's type.  traits: as of `registry.op`.
    """

    def kernel(xp: Any, x: Any) -> Any:
        return getattr(xp, function)(x)

    return _row(
        name,
        kernel,
        f"y = {function}(x), element by element.",
        inputs,
        f"y: {output}",
        "" if types is None else type_attr(types),
        unchanged,
        gradient,
        differentiable,
        function,
        traits,
    )


def binary(
    name: str,
    function: str,
    types: str | None,
    gradient: Gradient | None = None,
    *,
    inputs: str = "x: T; y: T",
    output: str = "z: T",
    attrs: str = "",
    differentiable: bool = True,
    traits: Traits = NONE,
) -> OpSpec:
    """Op `name`: z = xp.`function`(x, y) with broadcasting.

    types: members of attr T, None if `attrs` says all.  traits: as of `registry.op`.
    """

    def kernel(xp: Any, x: Any, y: Any) -> Any:
        return getattr(xp, function)(x, y)

    attrs = attrs if types is None else type_attr(types)
    says = (
        f"{function}(x, y), element by element.  Raises InvalidArgument if shapes do not broadcast."
    )
    return _row(
        name,
        kernel,
        says,
        inputs,
        output,
        attrs,
        broadcast,
        gradient,
        differentiable,
        function,
        traits,
    )


def _row(
    name: str,
    kernel: Callable[..., Any],
    doc: str,
    inputs: str,
    outputs: str,
    attrs: str,
    shape: ShapeFn,
    gradient: Gradient | None,
    differentiable: bool,
    bare: str,
    traits: Traits = NONE,
) -> OpSpec:
    kernel.__doc__ = doc
    kernel.__name__ = name
    spec = registry.op(
        name,
        inputs=inputs,
        outputs=outputs,
        attrs=attrs,
        shape=shape,
        traits=traits,
        bare=bare,
        differentiable=differentiable,
    )(kernel)
    row = sys._getframe(2)
    spec.where = f"{row.f_code.co_filename}:{row.f_lineno}"
    if gradient is not None:
        spec.gradient(gradient)
    return spec
