"""Conversions between types: Cast, Bitcast, and complex numbers from and to their parts.

Called by: every family (cast, conj), users.  Threads: kernels any; wrappers as graph.
Source: TF 1.15 core/kernels/cast_op.cc, bitcast_op.cc, cwise_op_complex.cc; GraphDefs as 2.21
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, text
from headrace.base.traits import ALIASES, LIGHT, NEVER_FAILS, PER_RECORD
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.ragged import of_ragged, of_two_ragged
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext, broadcast, unchanged
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant, ones_like, zeros_like
from headrace.ops.math.broadcasting import unbroadcast
from headrace.ops.state.references import is_resource_variable
from headrace.ops.tables import make

__all__ = [
    "angle",
    "bitcast",
    "cast",
    "complex",
    "conj",
    "imag",
    "real",
    "saturate_cast",
    "to_bfloat16",
    "to_complex64",
    "to_complex128",
    "to_double",
    "to_float",
    "to_int32",
    "to_int64",
]

# -- Cast -------------------------------------------------------------------------------------

_NARROW = frozenset("int8 int16 uint8 uint16".split())


@op(
    "Cast",
    inputs="x: SrcT",
    outputs="y: DstT",
    attrs="SrcT: type; DstT: type; Truncate: bool = false",
    shape=unchanged,
    traits={NEVER_FAILS, PER_RECORD, LIGHT, ALIASES},
)
def cast_op(xp: Any, x: Any, *, DstT: DType, Truncate: bool) -> Any:
    """x as DstT: floats to integers truncate (and wrap in narrow ones), complex drops the imaginary part.

    Truncate: to a narrower float towards zero instead of to nearest.
    Raises Unimplemented for strings and handles.
    Source: TF 1.15 core/kernels/cast_op.cc
    """
    to = DstT.np
    if x.dtype == to:
        return x
    if x.dtype.kind in "OV" or to.kind in "OV":
        return _cast_rare(x, DstT, Truncate)
    if x.dtype.kind == "c" and to.kind != "c":
        x = x.real
    if x.dtype.kind == "f":
        if to.kind in "iu":
            return _float_to_integer(x, to)
        if Truncate:
            return _towards_zero(x, to)
    return x.astype(to)


def _float_to_integer(x: Any, to: Any) -> Any:
    """Through a wider integer where C leaves the result open, so that it wraps everywhere."""
    if to.name in _NARROW:
        x = x.astype(np.int32)
    elif to.name == "uint32":
        x = x.astype(np.int64)
    return x.astype(to)


def _towards_zero(x: Any, to: Any) -> Any:
    near = x.astype(to)
    if to.itemsize >= x.dtype.itemsize:
        return near
    wide = near.astype(x.dtype)
    beyond = np.abs(wide) > np.abs(x)
    return np.where(beyond, np.nextafter(near, np.zeros((), to)), near).astype(to)


def _cast_rare(x: Any, kind: DType, truncate: bool) -> Any:
    """Types that are not NumPy's own: bfloat16 and its like, quantized; strings cannot be cast."""
    if "O" in (x.dtype.kind, kind.np.kind) or x.dtype.names or kind.np.names:
        raise errors.unimplemented(
            f"Cast from {dtypes.from_numpy(x.dtype).name} to {kind.name} is not supported; "
            "use tf.string_to_number, tf.as_string or tf.quantize"
        )
    if x.dtype.kind == "V":
        if kind.is_integer:
            return _float_to_integer(x.astype(np.float32), kind.np)
        return x.astype(kind.np)
    if x.dtype.kind == "c":
        x = x.real
    return _towards_zero(x, kind.np) if truncate and x.dtype.kind == "f" else x.astype(kind.np)


@cast_op.gradient
def _(op: Operation, dout: Tensor) -> Tensor | None:
    source, target = op["SrcT"], op["DstT"]
    if all(kind.is_floating or kind.is_complex for kind in (source, target)):
        made: Tensor = cast(dout, source)
        return made
    return None


@of_ragged
def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """x as `dtype`; x itself if it has that type, also a resource variable.

    An IndexedSlices or a SparseTensor has its values cast.

    Raises TypeError for a dtype that no tensor has.
    """
    to = dtypes.as_dtype(dtype).base_dtype
    if (isinstance(x, Tensor) or is_resource_variable(x)) and x.dtype is to:
        return x
    with name_scope(name, "Cast", [x]) as scope:
        if isinstance(x, SparseTensor):
            return SparseTensor(x.indices, cast(x.values, to, scope), x.dense_shape)
        if isinstance(x, IndexedSlices):
            return IndexedSlices(cast(x.values, to, scope), x.indices, x.dense_shape)
        x = convert(x, name="x")
        if x.dtype.base_dtype is to:
            return x
        return cast_op(x, DstT=to, name=scope)


@of_ragged
def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Tensor:
    """`value` as `dtype`, clamped to what it can hold first; complex drops the imaginary part."""
    to = dtypes.as_dtype(dtype).base_dtype
    with name_scope(name, "saturate_cast", [value]) as scope:
        value = convert(value, name="value")
        if value.dtype.is_complex and not to.is_complex:
            value = real(value)
        low, high = _common_limits(value.dtype.base_dtype, to.real_dtype)
        clamped = make.ClipByValue(
            value, constant(low, name="Const"), constant(high, name="Const"), name="clamp"
        )
        result: Tensor = cast(clamped, to, scope)
        return result


def _common_limits(source: DType, to: DType) -> tuple[Any, Any]:
    """The lowest and highest value of `source` that `to` can hold."""
    low, high = (
        _limit(source, to, max, source.min, to.min),
        _limit(source, to, min, source.max, to.max),
    )
    return low, high


def _limit(source: DType, to: DType, choose: Any, own: Any, wanted: Any) -> Any:
    # Compared as Python numbers, which are exact where NumPy would round an integer to a float.
    as_number = [
        int(v) if kind.is_integer else float(v) for kind, v in ((source, own), (to, wanted))
    ]
    value = choose(as_number)
    found = np.array(value, source.np)
    if source.is_floating and abs(float(found)) > abs(value):
        found = np.nextafter(found, np.zeros((), source.np))
    return np.asarray(found, source.np)


def to_float(x: Any, name: str = "ToFloat") -> Any:
    """x as float32."""
    return cast(x, dtypes.float32, name)


def to_double(x: Any, name: str = "ToDouble") -> Any:
    """x as float64."""
    return cast(x, dtypes.float64, name)


def to_int32(x: Any, name: str = "ToInt32") -> Any:
    """x as int32."""
    return cast(x, dtypes.int32, name)


def to_int64(x: Any, name: str = "ToInt64") -> Any:
    """x as int64."""
    return cast(x, dtypes.int64, name)


def to_bfloat16(x: Any, name: str = "ToBFloat16") -> Any:
    """x as bfloat16."""
    return cast(x, dtypes.bfloat16, name)


def to_complex64(x: Any, name: str = "ToComplex64") -> Any:
    """x as complex64."""
    return cast(x, dtypes.complex64, name)


def to_complex128(x: Any, name: str = "ToComplex128") -> Any:
    """x as complex128."""
    return cast(x, dtypes.complex128, name)


# -- Bitcast ----------------------------------------------------------------------------------

_BIT_TYPES = (
    "{bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, uint64, int8, int16, "
    "complex64, complex128, qint8, quint8, qint16, quint16, qint32}"
)


def _bitcast_shape(c: ShapeContext) -> Shape:
    shape = c.shape("input")
    if shape is None:
        return None
    size, to = c.attr("T").size, c.attr("type").size
    if size >= to:
        return shape if size == to else (*shape, size // to)
    ratio = to // size
    c.with_rank_at_least("input", 1)
    if shape[-1] not in (None, ratio):
        raise ValueError(
            f"Cannot bitcast from {ratio} to {shape[-1]} due to shape: {text(shape)} must end in {ratio} "
            f"to become {c.attr('type').name}"
        )
    return shape[:-1]


@op(
    "Bitcast",
    inputs="input: T",
    outputs="output: type",
    attrs=f"T: {_BIT_TYPES}; type: {_BIT_TYPES}",
    shape=_bitcast_shape,
    traits={ALIASES},
)
def bitcast_op(xp: Any, input: Any, *, type: DType) -> Any:
    """The same bytes read as another type.

    input [...]; output [...] for types of one size, [..., n] from a type n times as large; an
    input [..., n] of a type n times smaller gives [...].
    Raises InvalidArgument if the last dimension is not that n.
    Source: TF 1.15 core/kernels/bitcast_op.cc
    """
    size, to = input.dtype.itemsize, type.np.itemsize
    data = np.ascontiguousarray(input).reshape(np.shape(input))
    if size == to:
        return data.view(type.np)
    if size > to:
        return data.reshape(*data.shape, 1).view(type.np)
    if data.ndim == 0 or data.shape[-1] != to // size:
        raise errors.invalid_argument(
            f"Cannot bitcast from {dtypes.from_numpy(input.dtype).name} of shape {text(data.shape)}: its last "
            "dimension "
            f"must be {to // size} to become {type.name}"
        )
    return data.view(type.np).reshape(data.shape[:-1])


@of_ragged
def bitcast(input: Any, type: Any, name: str | None = None) -> Tensor:
    """The same bytes read as `type`; the last dimension makes up for a difference in size."""
    made: Tensor = bitcast_op(input, type=type, name=name)
    return made


# -- Complex numbers --------------------------------------------------------------------------


@op(
    "Complex",
    inputs="real: T; imag: T",
    outputs="out: Tout",
    attrs="T: {float, double} = float; Tout: {complex64, complex128} = complex64",
    shape=broadcast,
)
def complex_op(xp: Any, real: Any, imag: Any, *, Tout: DType) -> Any:
    """real + imag·i.  Raises InvalidArgument if shapes do not broadcast.

    Source: TF 1.15 core/kernels/cwise_op_complex.cc
    """
    out = np.empty(np.broadcast_shapes(real.shape, imag.shape), Tout.np)
    out.real = real
    out.imag = imag
    return out


@complex_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[Any, Any]:
    x, y = op.inputs
    return unbroadcast(x, y, real(dout), imag(dout))


@of_two_ragged
def complex(real: Any, imag: Any, name: str | None = None) -> Tensor:
    """real + imag·i: complex64 from two float32, complex128 from two float64.

    Raises TypeError for other types.
    """
    real = convert(real, name="real")
    imag = convert(imag, name="imag")
    with name_scope(name, "Complex", [real, imag]) as scope:
        kinds = real.dtype.base_dtype, imag.dtype.base_dtype
        out = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}.get(kinds[0])
        if out is None or kinds[0] is not kinds[1]:
            raise TypeError(
                f"The `real` and `imag` components have incorrect types: {kinds[0].name} {kinds[1].name}; "
                "both must be float32 or both float64"
            )
        made: Tensor = complex_op(real, imag, Tout=out, name=scope)
        return made


_PART = "T: {complex64, complex128} = complex64; Tout: {float, double} = float"


@op(
    "Real",
    inputs="input: T",
    outputs="output: Tout",
    attrs=_PART,
    shape=unchanged,
    traits={ALIASES},
)
def real_op(xp: Any, input: Any, *, Tout: DType) -> Any:
    """The real part.

    Source: TF 1.15 core/kernels/cwise_op_real.cc
    """
    return xp.real(input).astype(Tout.np, copy=False)


@real_op.gradient
def _(op: Operation, dout: Tensor) -> Tensor:
    zero = constant(0, dout.dtype.base_dtype)
    made: Tensor = complex_op(dout, zero, Tout=op["T"])
    return made


@op(
    "Imag",
    inputs="input: T",
    outputs="output: Tout",
    attrs=_PART,
    shape=unchanged,
    traits={ALIASES},
)
def imag_op(xp: Any, input: Any, *, Tout: DType) -> Any:
    """The imaginary part.

    Source: TF 1.15 core/kernels/cwise_op_imag.cc
    """
    return xp.imag(input).astype(Tout.np, copy=False)


@imag_op.gradient
def _(op: Operation, dout: Tensor) -> Tensor:
    zero = constant(0, dout.dtype.base_dtype)
    made: Tensor = complex_op(zero, dout, Tout=op["T"])
    return made


@op("Angle", inputs="input: T", outputs="output: Tout", attrs=_PART, shape=unchanged)
def angle_op(xp: Any, input: Any, *, Tout: DType) -> Any:
    """The argument, in (-π, π] radians.

    Source: TF 1.15 core/kernels/cwise_op_arg.cc
    """
    return xp.atan2(xp.imag(input), xp.real(input)).astype(Tout.np, copy=False)


@angle_op.gradient
def _(op: Operation, dout: Any) -> Tensor:
    z = op.inputs[0]
    with control_dependencies([dout]):
        x, y = real(z), imag(z)
        inverse = make.Reciprocal(complex_op(y, x, Tout=z.dtype.base_dtype))
        zero = constant(0, dout.dtype.base_dtype)
        whole = complex_op(dout, zero, Tout=z.dtype.base_dtype)
        made: Tensor = make.Mul(make.Neg(whole), inverse, name="mul")
        return made


@op(
    "Conj",
    inputs="input: T",
    outputs="output: T",
    attrs="T: {complex64, complex128, variant} = complex64",
    shape=unchanged,
)
def conj_op(xp: Any, input: Any) -> Any:
    """The complex conjugate.

    Source: TF 1.15 core/kernels/cwise_op_conj.cc
    """
    return xp.conj(input)


conj_op.bare = "conj"


@conj_op.gradient
def _(op: Operation, dout: Tensor) -> Tensor:
    made: Tensor = conj_op(dout)
    return made


@of_ragged
def conj(x: Any, name: str | None = None) -> Tensor:
    """The complex conjugate; a real x itself.  Raises TypeError for what is no number."""
    if isinstance(x, Tensor) and (x.dtype.is_floating or x.dtype.is_integer):
        return x
    with name_scope(name, "Conj", [x]) as scope:
        x = convert(x, name="x")
        if x.dtype.is_complex or x.dtype.base_dtype is dtypes.variant:
            return _made(conj_op(x, name=scope))
        return _numeric(x, "conj")


@of_ragged
def real(input: Any, name: str | None = None) -> Tensor:
    """The real part; a real input itself.  Raises TypeError for what is no number."""
    with name_scope(name, "Real", [input]) as scope:
        input = convert(input, name="input")
        if input.dtype.is_complex:
            return _made(real_op(input, Tout=input.dtype.real_dtype, name=scope))
        return _numeric(input, "real")


@of_ragged
def imag(input: Any, name: str | None = None) -> Tensor:
    """The imaginary part; zeros for what is not complex."""
    with name_scope(name, "Imag", [input]) as scope:
        input = convert(input, name="input")
        if input.dtype.is_complex:
            return _made(imag_op(input, Tout=input.dtype.real_dtype, name=scope))
        return zeros_like(input)


@of_ragged
def angle(input: Any, name: str | None = None) -> Tensor:
    """The argument of complex numbers; of real floats 0, or π if negative."""
    with name_scope(name, "Angle", [input]) as scope:
        input = convert(input, name="input")
        if input.dtype.is_complex:
            made: Tensor = angle_op(input, Tout=input.dtype.real_dtype, name=scope)
            return made
        if not input.dtype.is_floating:
            raise TypeError(
                f"Value passed to parameter 'x' has DataType {input.dtype.name} not in list of allowed values: "
                f"floats and complex numbers; it is {input.name}, of angle"
            )
        negative = make.Less(input, 0)
        ones = ones_like(input)
        pi = make.Mul(constant(np.pi, input.dtype.base_dtype, name="mul/x"), ones, name="mul")
        chosen: Tensor = make.Select(negative, pi, zeros_like(input))
        return chosen


def _made(made: Tensor) -> Tensor:
    return made


def _numeric(x: Tensor, what: str) -> Tensor:
    if not (x.dtype.is_floating or x.dtype.is_integer):
        raise TypeError(
            f"input must be a numeric tensor, but got tensor with dtype {x.dtype}: {x.name}, of {what}"
        )
    return x
