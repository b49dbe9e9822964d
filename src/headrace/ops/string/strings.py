"""Strings: joining, conversion to and from numbers, case, length.

Strings are bytes; an encoding matters only where an attr says so.
Called by: input pipelines, users.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/string_join_op.cc, as_string_op.cc, string_to_number_op.cc,
reduce_join_op.cc), GraphDefs as 2.21.
"""

from __future__ import annotations

from collections.abc import Callable
from math import copysign, inf, isfinite, isinf
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.dtypes import DType
from headrace.base.limits import Growth
from headrace.base.shapes import Shape
from headrace.base.traits import OF_RAGGED, PER_RECORD
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.ragged import of_ragged, of_ragged_by, of_ragged_list
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext, unchanged
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.axes import static_axis
from headrace.ops._kernels.number_text import doubles, has_underscores, parse_int, singles
from headrace.ops.array.constants import constant
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import rank

__all__ = [
    "as_string",
    "reduce_join",
    "string_join",
    "string_length",
    "string_lower",
    "string_strip",
    "string_to_number",
    "string_upper",
]


def mapped(function: Callable[[Any], Any], strings: Any, dtype: Any = object) -> Any:
    """`function` of each element, as an array of the same shape."""
    found = np.empty(np.shape(strings), dtype)
    values = map(function, np.reshape(strings, -1).tolist())
    flat = found.reshape(-1)
    flat[:] = [*values] if dtype is object else np.fromiter(values, dtype, flat.size)
    return found


def scalar_string(value: Any, what: str) -> bytes:
    """The one string of `value`.  Raises InvalidArgument; `what`: the input's name."""
    if np.ndim(value):
        raise errors.invalid_argument(
            f"{what} must be a scalar, got shape: {shape_rules.text(np.shape(value))}"
        )
    found: bytes = np.asarray(value).item()
    return found


# -- joining ----------------------------------------------------------------------------------


def _join_shape(c: ShapeContext) -> Shape:
    if all(shape == () for shape in c.shapes):
        return ()
    found: Shape = None
    for shape in c.shapes:
        if shape != ():
            found = shape_rules.merge(found, shape)
    return found


@op(
    "StringJoin",
    inputs="inputs: N * string",
    outputs="output: string",
    attrs="N: int >= 0; separator: string = ''",
    shape=_join_shape,
    traits={PER_RECORD},
    differentiable=False,
)
def string_join_op(xp: Any, *inputs: Any, separator: bytes) -> Any:
    """The inputs joined element by element; scalars go with every element.

    Raises InvalidArgument if the others differ in shape, ResourceExhausted (`base.limits`).
    """
    sizes: tuple[int, ...] = ()
    for item in inputs:
        if item.ndim:
            if sizes and item.shape != sizes:
                raise errors.invalid_argument(
                    f"Input shapes do not match: {list(sizes)} vs. {list(item.shape)}, in a join of strings"
                )
            sizes = item.shape
    columns = [np.broadcast_to(item, sizes).reshape(-1).tolist() for item in inputs]
    out = np.empty(sizes, object)
    flat = out.reshape(-1)
    growth = Growth("the strings that are joined here")
    growth.add(len(separator) * max(0, len(inputs) - 1) * out.size)
    for item in inputs:
        if not item.ndim and out.size > 1:  # given once, and made for every element
            growth.add(len(item.item()) * (out.size - 1))
    for index, parts in enumerate(zip(*columns, strict=True)):
        flat[index] = separator.join(parts)
    if not inputs:
        out[...] = b""
    return out


@of_ragged_list
def string_join(inputs: Any, separator: str = "", name: str | None = None) -> Tensor:
    """The tensors of `inputs` joined element by element, with `separator` between them.  Raises TypeError on a str."""
    if isinstance(inputs, (str, bytes)):
        raise TypeError(f"the inputs of a string join are a list of tensors, not {inputs!r:.80}")
    made: Tensor = string_join_op(list(inputs), separator=separator, name=name)
    return made


def _reduce_shape(c: ShapeContext) -> Shape:
    c.with_rank_at_most("reduction_indices", 1)
    whole, axes, keep = c.shape("inputs"), c.value("reduction_indices"), c.attr("keep_dims")
    if whole is None:
        return None
    if axes is None:
        return (None,) * len(whole) if keep else None
    says = "Invalid reduction dimension {axis} for input with {rank} dimensions"
    found = {static_axis(int(axis), len(whole), "axis", says) for axis in axes.reshape(-1)}
    if keep:
        return tuple(1 if axis in found else size for axis, size in enumerate(whole))
    return tuple(size for axis, size in enumerate(whole) if axis not in found)


@op(
    "ReduceJoin",
    inputs="inputs: string; reduction_indices: int32",
    outputs="output: string",
    attrs="keep_dims: bool = false; separator: string = ''",
    shape=_reduce_shape,
    differentiable=False,
)
def reduce_join_op(
    xp: Any, inputs: Any, reduction_indices: Any, *, keep_dims: bool, separator: bytes
) -> Any:
    """Strings joined along dimensions, along the first of reduction_indices first.

    Raises OutOfRange on a dimension that does not exist, InvalidArgument on one named twice, ResourceExhausted
    (`base.limits`).
    """
    named = [int(axis) for axis in np.reshape(reduction_indices, -1)]
    wrong = [axis for axis in named if not -inputs.ndim <= axis < inputs.ndim]
    if wrong:
        raise errors.out_of_range(
            f"Invalid reduction dimension {wrong[0]} for input with {inputs.ndim} dimension(s): those of "
            f"reduction_indices {named} must be in [-{inputs.ndim}, {inputs.ndim})"
        )
    axes = [axis % inputs.ndim for axis in named]
    if len(set(axes)) < len(axes):
        raise errors.invalid_argument(
            f"reduction_indices {reduction_indices.tolist()} name a dimension twice"
        )
    kept = [axis for axis in range(inputs.ndim) if axis not in axes]
    sizes = tuple(inputs.shape[axis] for axis in kept)
    rows = (
        inputs.transpose(kept + axes[::-1]).reshape(int(np.prod(sizes, dtype=np.int64)), -1)
        if inputs.size
        else None
    )
    Growth("the strings that are joined here").add(len(separator) * inputs.size)
    out = np.empty(sizes, object)
    flat = out.reshape(-1)
    for index in range(flat.size):
        flat[index] = b"" if rows is None else separator.join(rows[index].tolist())
    return np.expand_dims(out, tuple(axes)) if keep_dims and axes else out


@of_ragged_by("headrace.ops.array.ragged_joining")
def reduce_join(
    inputs: Any,
    axis: Any = None,
    keep_dims: bool | None = None,
    separator: str = "",
    name: str | None = None,
    reduction_indices: Any = None,
    keepdims: bool | None = None,
) -> Tensor:
    """Strings joined along `axis` (all dimensions if not given); reduction_indices is its old name."""
    axes = reduction_indices if axis is None else axis
    keep = bool(keepdims if keepdims is not None else keep_dims)
    with name_scope(None, "ReduceJoin", [t for t in (inputs, axes) if isinstance(t, Tensor)]):
        inputs = convert(inputs)
        if axes is None:
            raw = inputs.raw_shape
            if raw is not None:
                axes = constant(np.arange(len(raw) - 1, -1, -1, dtype=np.int32))
            else:
                axes = range_of(rank(inputs) - 1, -1, -1)
        made: Tensor = reduce_join_op(inputs, axes, keep_dims=keep, separator=separator, name=name)
        return made


# -- numbers ----------------------------------------------------------------------------------


def _format_of(
    kind: DType, precision: int, scientific: bool, shortest: bool, width: int, fill: str
) -> str:
    if len(fill) > 1:
        raise errors.invalid_argument(f"fill must be one character at most, not {fill!r}")
    if fill and fill not in " +-0#":
        raise errors.invalid_argument(
            f"fill {fill!r} is not supported; use a blank, '+', '-', '0' or '#'"
        )
    if scientific and shortest:
        raise errors.invalid_argument("as_string takes scientific or shortest, not both")
    floating = kind.is_floating or kind.is_complex
    if not floating and (scientific or shortest):
        raise errors.invalid_argument(f"scientific and shortest are not supported for {kind.name}")
    if not floating and precision >= 0:
        raise errors.invalid_argument(f"precision is not supported for {kind.name}")
    size = str(width) if width > -1 else ""
    digits = f".{precision}" if precision > -1 else ""
    letter = (
        ("e" if scientific else "g" if shortest else "f")
        if floating
        else "s"
        if kind is dtypes.string
        else "d"
    )
    return f"%{'' if letter == 's' and fill != '-' else fill}{size}{digits}{letter}"


@op(
    "AsString",
    inputs="input: T",
    outputs="output: string",
    attrs="T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, "
    "complex64, complex128, bool, variant, string}; precision: int = -1; scientific: bool = false; "
    "shortest: bool = false; width: int = -1; fill: string = ''",
    shape=unchanged,
    traits={PER_RECORD},
    differentiable=False,
)
def as_string_op(
    xp: Any,
    input: Any,
    *,
    T: DType,
    precision: int,
    scientific: bool,
    shortest: bool,
    width: int,
    fill: bytes,
) -> Any:
    """Each element as text, by C's printf rules; true and false for bools.

    Raises InvalidArgument if an attr does not go with the type, ResourceExhausted (`base.limits`).
    """
    pattern = _format_of(T, precision, scientific, shortest, width, fill.decode()).encode()
    Growth(f"text of precision {precision} and width {width}").add(
        max(precision, width, 0) * np.size(input) * (2 if T.is_complex else 1)
    )
    if T is dtypes.bool:
        return mapped(lambda value: b"true" if value else b"false", input)
    # C fills with zeros before numbers only, and shows the sign of what is none.
    padded = pattern.replace(b"%0", b"%", 1)

    def text(value: Any) -> Any:
        if isfinite(value):
            return pattern % value
        found = padded % copysign(inf, value)
        return found if isinf(value) else found.replace(b"inf", b"nan")

    if T.is_complex:
        return mapped(lambda value: b"(%b,%b)" % (text(value.real), text(value.imag)), input)
    if T is dtypes.variant:
        raise errors.unimplemented("as_string of variant values is not supported")
    return mapped(text if T.is_floating else lambda value: pattern % value, input)


@of_ragged
def as_string(
    input: Any,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: str | None = None,
) -> Tensor:
    """Each element of `input` as text."""
    made: Tensor = as_string_op(
        input,
        precision=precision,
        scientific=scientific,
        shortest=shortest,
        width=width,
        fill=fill,
        name=name,
    )
    return made


def _numbers(strings: list[bytes], kind: DType) -> Any:
    """Raises ValueError."""
    if kind is dtypes.float32:
        return singles(strings, True)
    if kind is dtypes.float64:
        return doubles(strings, True)
    found = [*map(parse_int if has_underscores(strings) else int, strings)]
    if found and not kind.min <= min(found) <= max(found) <= kind.max:
        raise ValueError(found)
    return np.array(found, kind.np)


@op(
    "StringToNumber",
    inputs="string_tensor: string",
    outputs="output: out_type",
    attrs="out_type: {float, double, int32, int64, uint32, uint64} = float",
    shape=unchanged,
    traits={PER_RECORD},
    differentiable=False,
)
def string_to_number_op(xp: Any, string_tensor: Any, *, out_type: DType) -> Any:
    """Each string as a number; blanks around it are ignored.

    Raises InvalidArgument on a string that is no number, or no number of out_type.
    """
    flat = np.reshape(string_tensor, -1).tolist()
    try:
        return _numbers(flat, out_type).reshape(np.shape(string_tensor))
    except ValueError:
        for value in flat:
            try:
                _numbers([value], out_type)
            except ValueError:
                raise errors.invalid_argument(
                    f"StringToNumberOp could not correctly convert string: {value.decode(errors='replace')} is no "
                    f"{out_type.name}"
                ) from None
        raise


def string_to_number(
    string_tensor: Any = None,
    out_type: Any = dtypes.float32,
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    """Each string of `string_tensor` (or `input`) as a number."""
    source = string_tensor if input is None else input
    made: Tensor = string_to_number_op(source, out_type=out_type, name=name)
    return made


# -- case, blanks, length ---------------------------------------------------------------------


def _checked_encoding(encoding: bytes) -> bool:
    """True for UTF-8, False for plain bytes."""
    if encoding not in (b"", b"utf-8"):
        raise errors.invalid_argument(
            f"encoding must be '' or 'utf-8', not {encoding.decode(errors='replace')!r}"
        )
    return encoding == b"utf-8"


def _case_op(
    name: str, plain: Callable[[bytes], bytes], unicode: Callable[[str], str], what: str
) -> OpSpec:
    def kernel(xp: Any, input: Any, *, encoding: bytes) -> Any:
        if _checked_encoding(encoding):
            return mapped(lambda value: unicode(value.decode(errors="replace")).encode(), input)
        return mapped(plain, input)

    kernel.__doc__ = f"The strings in {what} case: ASCII letters only, or all with encoding utf-8."
    return op(
        name,
        inputs="input: string",
        outputs="output: string",
        attrs="encoding: string = ''",
        shape=unchanged,
        traits={PER_RECORD},
        differentiable=False,
    )(kernel)


string_lower_op = _case_op("StringLower", bytes.lower, str.lower, "lower")
string_upper_op = _case_op("StringUpper", bytes.upper, str.upper, "upper")


@of_ragged
def string_lower(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """The strings in lower case: ASCII letters only, or all with encoding utf-8."""
    made: Tensor = string_lower_op(input, encoding=encoding, name=name)
    return made


@of_ragged
def string_upper(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """The strings in upper case: ASCII letters only, or all with encoding utf-8."""
    made: Tensor = string_upper_op(input, encoding=encoding, name=name)
    return made


@op(
    "StringStrip",
    inputs="input: string",
    outputs="output: string",
    shape=unchanged,
    traits={PER_RECORD, OF_RAGGED},
    differentiable=False,
)
def string_strip(xp: Any, input: Any) -> Any:
    """The strings without blanks, tabs and line ends at both ends.

    Source: TF 1.15 core/kernels/string_strip_op.cc
    """
    return mapped(bytes.strip, input)


_WITHIN = bytes(range(0x80, 0xC0))
"""Bytes of UTF-8 that no character begins with."""


@op(
    "StringLength",
    inputs="input: string",
    outputs="output: int32",
    attrs="unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'",
    shape=unchanged,
    traits={PER_RECORD},
    differentiable=False,
)
def string_length_op(xp: Any, input: Any, *, unit: bytes) -> Any:
    """Lengths in bytes, or in characters of UTF-8.

    Source: TF 1.15 core/kernels/string_length_op.cc
    """
    if unit == b"BYTE":
        return mapped(len, input, np.int32)
    return mapped(lambda value: len(value.translate(None, _WITHIN)), input, np.int32)


@of_ragged
def string_length(input: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """Length of each string, in bytes or (unit UTF8_CHAR) in characters."""
    made: Tensor = string_length_op(input, unit=unit, name=name)
    return made
