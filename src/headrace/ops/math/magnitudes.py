"""|x|, the sign and the square of a tensor.

Called by: every family, users.  Threads: kernels any; wrappers as graph.
Source: TF 1.15 core/kernels/cwise_ops.h, python/ops/math_ops.py; GraphDefs as 2.21
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes
from headrace.base.traits import LIGHT, NEVER_FAILS, OF_RAGGED, OF_SPARSE, PER_RECORD
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.ragged import of_ragged
from headrace.graph.registry import op
from headrace.graph.shape_fns import unchanged
from headrace.graph.sparse import SparseTensor, of_values
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant, zeros_like
from headrace.ops.math.arithmetic import div_no_nan, div_no_nan_op, mul
from headrace.ops.math.casting import cast, conj
from headrace.ops.tables import FLOATS, SIGNED, make, unary

__all__ = ["abs", "sign", "square"]

abs_op = unary(
    "Abs",
    "abs",
    f"{FLOATS}, int8, int16, int32, int64",
    lambda op, dout: mul(dout, make.Sign(op.inputs[0]), name="mul"),
    traits={PER_RECORD},
)


@op(
    "ComplexAbs",
    inputs="x: T",
    outputs="y: Tout",
    attrs="T: {complex64, complex128} = complex64; Tout: {float, double} = float",
    shape=unchanged,
)
def complex_abs(xp: Any, x: Any, *, Tout: dtypes.DType) -> Any:
    """The modulus.

    Source: TF 1.15 core/kernels/cwise_op_abs.cc
    """
    return xp.abs(x).astype(Tout.np, copy=False)


@complex_abs.gradient
def _(op: Operation, dout: Any) -> Tensor:
    z, modulus = op.inputs[0], op.outputs[0]
    kind = z.dtype.base_dtype
    scaled = mul(make.Complex(dout, zeros_like(dout), Tout=kind), z, name="mul")
    return div_no_nan(scaled, make.Complex(modulus, zeros_like(modulus), Tout=kind))


@of_ragged
def abs(x: Any, name: str | None = None) -> Any:
    """The absolute value, of complex numbers the modulus; of the values of a SparseTensor."""
    if isinstance(x, SparseTensor):
        return of_values(abs, x, name, "Abs")
    with name_scope(name, "Abs", [x]) as scope:
        x = convert(x, name="x")
        made: Tensor
        if x.dtype.is_complex:
            made = complex_abs(x, Tout=x.dtype.real_dtype, name=scope)
        else:
            made = abs_op(x, name=scope)
        return made


sign_op = unary(
    "Sign", "sign", SIGNED, lambda op, dout: zeros_like(op.inputs[0]), traits={PER_RECORD}
)


@of_ragged
def sign(x: Any, name: str | None = None) -> Any:
    """-1, 0 or 1; of a complex number x / |x|, and 0 for 0; NaN for NaN; of the values of a SparseTensor."""
    if isinstance(x, SparseTensor):
        return SparseTensor(x.indices, sign(x.values, name), x.dense_shape)
    x = convert(x)
    made: Tensor
    if x.dtype.is_complex:
        modulus = cast(complex_abs(x, Tout=x.dtype.real_dtype), x.dtype.base_dtype)
        made = div_no_nan_op(x, modulus, name=name)
    else:
        made = sign_op(x, name=name)
    return made


def _square_gradient(op: Operation, dout: Any) -> Tensor:
    x = op.inputs[0]
    with control_dependencies([dout]):
        x = conj(x)
        two = constant(2, x.dtype.base_dtype)
        made: Tensor = mul(dout, mul(x, two))
        return made


square = unary(
    "Square",
    "square",
    f"{FLOATS}, int8, int16, int32, int64, uint8, uint16, uint32, uint64, complex64, complex128",
    _square_gradient,
    traits={NEVER_FAILS, PER_RECORD, LIGHT, OF_SPARSE, OF_RAGGED},
)
