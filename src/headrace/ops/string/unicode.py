"""Strings as code points, code points as strings, encodings and scripts.

Called by: library.ragged_strings, users.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/unicode_ops.cc, unicode_script_op.cc); encodings in ops._kernels.unicode_text
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, text
from headrace.base.traits import PER_RECORD
from headrace.graph.ragged import of_ragged
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext, unchanged
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.unicode_scripts import scripts
from headrace.ops._kernels.unicode_text import Policy, checked_points, decoded, encoded

__all__ = ["unicode_script", "unicode_transcode"]

Array = np.ndarray[Any, Any]

_ERRORS = "errors: {'strict', 'replace', 'ignore'} = 'replace'; replacement_char: int = 65533"
_CONTROLS = "replace_control_characters: bool = false"
_SPLITS = "Tsplits: {int32, int64} = int64"


def _listed(strings: Any) -> list[bytes]:
    found: list[bytes] = np.reshape(strings, -1).tolist()
    return found


def _decoded_shapes(c: ShapeContext) -> list[Shape]:
    whole = c.shape("input")
    count: int | None = 1
    for size in whole or ():
        count = None if count is None or size is None else count * size
    splits: Shape = (None if whole is None or count is None else count + 1,)
    return [splits, *[(None,)] * (c.num_outputs - 1)]


@op(
    "UnicodeDecode",
    inputs="input: string",
    outputs="row_splits: Tsplits; char_values: int32",
    attrs=f"input_encoding: string; {_ERRORS}; {_CONTROLS}; {_SPLITS}",
    shape=_decoded_shapes,
    differentiable=False,
)
def unicode_decode_op(
    xp: Any,
    input: Any,
    *,
    input_encoding: bytes,
    errors: bytes,
    replacement_char: int,
    replace_control_characters: bool,
    Tsplits: DType,
) -> tuple[Array, Array]:
    """The code points of each string, all in a row, and where each string's begin.

    input: any shape of n; row_splits [n + 1].  Raises InvalidArgument on malformed text (strict), an unknown encoding.
    """
    policy = Policy(errors, replacement_char, replace_control_characters, False)
    points, _, splits = decoded(_listed(input), input_encoding.decode(errors="replace"), policy)
    return splits.astype(Tsplits.np), points


@op(
    "UnicodeDecodeWithOffsets",
    inputs="input: string",
    outputs="row_splits: Tsplits; char_values: int32; char_to_byte_starts: int64",
    attrs=f"input_encoding: string; {_ERRORS}; {_CONTROLS}; {_SPLITS}",
    shape=_decoded_shapes,
    differentiable=False,
)
def unicode_decode_with_offsets_op(
    xp: Any,
    input: Any,
    *,
    input_encoding: bytes,
    errors: bytes,
    replacement_char: int,
    replace_control_characters: bool,
    Tsplits: DType,
) -> tuple[Array, Array, Array]:
    """As UnicodeDecode, and at which byte of its string each code point begins.  Raises InvalidArgument."""
    policy = Policy(errors, replacement_char, replace_control_characters, False)
    points, offsets, splits = decoded(
        _listed(input), input_encoding.decode(errors="replace"), policy
    )
    return splits.astype(Tsplits.np), points, offsets


def _encoded_shape(c: ShapeContext) -> Shape:
    c.with_rank("input_values", 1)
    splits = c.with_rank("input_splits", 1)
    assert splits is not None
    return (None if splits[0] is None else max(splits[0] - 1, 0),)


@op(
    "UnicodeEncode",
    inputs="input_values: int32; input_splits: Tsplits",
    outputs="output: string",
    attrs="errors: {'ignore', 'replace', 'strict'} = 'replace'; output_encoding: {'UTF-8', 'UTF-16-BE', 'UTF-32-BE'}; "
    f"replacement_char: int = 65533; {_SPLITS}",
    shape=_encoded_shape,
    differentiable=False,
)
def unicode_encode_op(
    xp: Any,
    input_values: Array,
    input_splits: Array,
    *,
    errors: bytes,
    output_encoding: bytes,
    replacement_char: int,
) -> Array:
    """A string of each row of code points.

    input_values [m]; input_splits [n + 1], from 0 to m; output [n].
    Raises InvalidArgument for splits that do not fit, and what is no character (strict).
    """
    policy = Policy(errors, replacement_char, False, False)
    _check_splits(input_values, input_splits)
    points, splits = checked_points(input_values, input_splits.astype(np.int64), policy)
    return encoded(points, splits, output_encoding)


def _check_splits(values: Array, splits: Array) -> None:
    if values.ndim != 1 or splits.ndim != 1:
        raise errors.invalid_argument(
            f"input_values and input_splits must be vectors, not {text(values.shape)} and {text(splits.shape)}"
        )
    if not len(splits):
        raise errors.invalid_argument(
            f"Input_splits should contain elements, but given input_values has {len(values)} elements"
        )
    if splits[0] != 0:
        raise errors.invalid_argument(
            f"First value in input_splits must be zero. It is {splits[0]}"
        )
    if splits[-1] != len(values):
        raise errors.invalid_argument(
            f"Last value in input_splits must be equal to length of input_tensor: {splits[-1]} and {len(values)}"
        )
    if (splits[1:] < splits[:-1]).any():
        raise errors.invalid_argument(f"input_splits must not fall: {text(tuple(splits[:10]))}")


@op(
    "UnicodeTranscode",
    inputs="input: string",
    outputs="output: string",
    attrs=f"input_encoding: string; output_encoding: {{'UTF-8', 'UTF-16-BE', 'UTF-32-BE'}}; {_ERRORS}; {_CONTROLS}",
    shape=unchanged,
    traits={PER_RECORD},
    differentiable=False,
)
def unicode_transcode_op(
    xp: Any,
    input: Any,
    *,
    input_encoding: bytes,
    output_encoding: bytes,
    errors: bytes,
    replacement_char: int,
    replace_control_characters: bool,
) -> Any:
    """Each string in another encoding.  Raises InvalidArgument on malformed text (strict), an unknown encoding."""
    policy = Policy(errors, replacement_char, replace_control_characters, True)
    points, _, splits = decoded(_listed(input), input_encoding.decode(errors="replace"), policy)
    out = np.empty(np.shape(input), object)
    out.reshape(-1)[:] = encoded(points, splits, output_encoding)
    return out


@op(
    "UnicodeScript",
    inputs="input: int32",
    outputs="output: int32",
    shape=unchanged,
    traits={PER_RECORD},
    differentiable=False,
)
def unicode_script_op(xp: Any, input: Any) -> Any:
    """ICU's number of the script of each code point; -1 for what is none."""
    return scripts(np.asarray(input))


@of_ragged
def unicode_script(input: Any, name: str | None = None) -> Tensor:
    """The script of each code point, by ICU's numbers; -1 for what is none."""
    made: Tensor = unicode_script_op(input, name=name)
    return made


@of_ragged
def unicode_transcode(
    input: Any,
    input_encoding: str,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Tensor:
    """Strings in another encoding: UTF-8, UTF-16-BE or UTF-32-BE.

    errors: replace what is malformed by replacement_char, ignore it, or be strict.
    """
    made: Tensor = unicode_transcode_op(
        input,
        input_encoding=input_encoding,
        output_encoding=output_encoding,
        errors=errors,
        replacement_char=replacement_char,
        replace_control_characters=replace_control_characters,
        name=name,
    )
    return made
