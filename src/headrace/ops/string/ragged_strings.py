"""Strings cut into rows of bytes, characters or code points, and rows joined: functions that give ragged tensors.

Called by: users.  Threads: as graph.
Source: behaviour of TF 1.15 (python/ops/ragged/ragged_string_ops.py)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.ragged import RaggedTensorValue
from headrace.graph.tensor import Tensor
from headrace.ops.array.ragged import RaggedTensor
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import reshape
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.math.reductions import reduce_prod
from headrace.ops.string.ngrams import string_ngrams_op
from headrace.ops.string.splitting import string_split_op
from headrace.ops.string.unicode import (
    unicode_decode_op,
    unicode_decode_with_offsets_op,
    unicode_encode_op,
)

__all__ = [
    "bytes_split",
    "ngrams",
    "unicode_decode",
    "unicode_decode_with_offsets",
    "unicode_encode",
    "unicode_split",
    "unicode_split_with_offsets",
]

Cut = Callable[[Tensor], tuple[list[Tensor], Tensor]]
"""A vector of strings -> values of each kind, all in a row, and the row_splits."""


def _preferably(value: Any, dtype: Any, name: str) -> Tensor:
    """Of another dtype if it has one, which the op then refuses."""
    return convert(value, None, name, dtype)


def _given(
    value: Any, dtype: Any, name: str = "input", made: Callable[..., Any] = _preferably
) -> Any:
    if isinstance(value, RaggedTensorValue):
        return RaggedTensor.from_nested_row_splits(value.flat_values, value.nested_row_splits)
    return value if isinstance(value, RaggedTensor) else made(value, dtype, name)


def _cut(strings: Any, cut: Cut) -> list[Any]:
    """The parts of each string, as rows: a ragged tensor of one dimension more, or a vector for one string."""
    if isinstance(strings, RaggedTensor):
        return [strings.with_flat_values(each) for each in _cut(strings.flat_values, cut)]
    rank = strings.shape.ndims
    if rank is None:
        raise ValueError("Rank of `input` must be statically known.")
    if rank == 0:
        return cut(reshape(strings, [1]))[0]
    if rank > 1:
        return _cut(RaggedTensor.from_tensor(strings, ragged_rank=rank - 1), cut)
    values, splits = cut(strings)
    return [RaggedTensor(each, splits) for each in values]


def bytes_split(input: Any, name: str | None = None) -> Any:
    """The bytes of each string, as a row of strings of one."""
    with name_scope(name, "StringsByteSplit", [input]):

        def cut(strings: Tensor) -> tuple[list[Tensor], Tensor]:
            indices, values, sizes = string_split_op(strings, "", skip_empty=False)
            rows = RaggedTensor.from_value_rowids(values, indices[:, 0], sizes[0], validate=False)
            count = strings.shape.as_list()[0]
            splits = rows.row_splits
            if count is not None:
                splits.set_shape([count + 1])
            return [values], splits

        return _cut(_given(input, dtypes.string), cut)[0]


def unicode_decode(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 0xFFFD,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Any:
    """The code points of each string, as a row of int32; errors: replace, ignore or strict."""
    with name_scope(name, "UnicodeDecode", [input]):

        def cut(strings: Tensor) -> tuple[list[Tensor], Tensor]:
            splits, points = unicode_decode_op(
                strings,
                input_encoding=input_encoding,
                errors=errors,
                replacement_char=replacement_char,
                replace_control_characters=replace_control_characters,
            )
            return [points], splits

        return _cut(_given(input, dtypes.string), cut)[0]


def unicode_decode_with_offsets(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 0xFFFD,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> tuple[Any, Any]:
    """As `unicode_decode`, and at which byte of its string each code point begins, int64."""
    with name_scope(name, "UnicodeDecodeWithOffsets", [input]):
        cut = _with_offsets(input_encoding, errors, replacement_char, replace_control_characters)
        points, offsets = _cut(_given(input, dtypes.string), cut)
        return points, offsets


def _with_offsets(
    encoding: str, errors: str, replacement: int, controls: bool = False, split: bool = False
) -> Cut:
    """split: characters, in the encoding of the input, rather than code points."""

    def cut(strings: Tensor) -> tuple[list[Tensor], Tensor]:
        splits, points, offsets = unicode_decode_with_offsets_op(
            strings,
            input_encoding=encoding,
            errors=errors,
            replacement_char=replacement,
            replace_control_characters=controls,
        )
        if split:
            one_each = range_of(shape_of(points, out_type=dtypes.int64)[0] + 1)
            points = unicode_encode_op(
                points,
                one_each,
                errors=errors,
                output_encoding=encoding,
                replacement_char=replacement,
            )
        return [points, offsets], splits

    return cut


def unicode_split(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 0xFFFD,
    name: str | None = None,
) -> Any:
    """The characters of each string, as a row of strings in the same encoding: UTF-8, UTF-16-BE or UTF-32-BE."""
    with name_scope(name, "UnicodeSplit", [input]):
        cut = _with_offsets(input_encoding, errors, replacement_char, split=True)
        return _cut(_given(input, dtypes.string), cut)[0]


def unicode_split_with_offsets(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 0xFFFD,
    name: str | None = None,
) -> tuple[Any, Any]:
    """As `unicode_split`, and at which byte of its string each character begins, int64."""
    with name_scope(name, "UnicodeSplitWithOffsets", [input]):
        cut = _with_offsets(input_encoding, errors, replacement_char, split=True)
        characters, offsets = _cut(_given(input, dtypes.string), cut)
        return characters, offsets


def unicode_encode(
    input: Any,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 0xFFFD,
    name: str | None = None,
) -> Any:
    """Rows of code points (the last dimension, which may be ragged) as strings: UTF-8, UTF-16-BE or UTF-32-BE.

    Raises ValueError for a scalar and for a tensor of unknown rank.
    """

    def encode(points: Tensor, splits: Any) -> Tensor:
        made: Tensor = unicode_encode_op(
            points,
            splits,
            errors=errors,
            output_encoding=output_encoding,
            replacement_char=replacement_char,
        )
        return made

    with name_scope(name, "UnicodeEncode", [input]):
        given = _given(input, dtypes.int32)
        if isinstance(given, RaggedTensor):
            if isinstance(given.values, RaggedTensor):
                inner = unicode_encode(given.values, output_encoding, errors, replacement_char)
                return given.with_values(inner)
            if given.values.shape.ndims == 1:
                return encode(given.values, given.row_splits)
            inner = unicode_encode(given.values, output_encoding, errors, replacement_char)
            return given.with_values(inner)
        rank = given.shape.ndims
        if rank is None:
            raise ValueError("Rank of input_tensor must be statically known.")
        if rank == 0:
            raise ValueError(
                "input_tensor's rank must be at least 1: the last dimension holds the code points"
            )
        sizes = shape_of(given, out_type=dtypes.int64)
        flat = reshape(given, [-1])
        outer = sizes[:-1]
        rows = 1 if rank == 1 else reduce_prod(outer)
        splits = range_of(rows + 1, dtype=dtypes.int64) * sizes[-1]
        made = reshape(encode(flat, splits), outer)
        made.set_shape(given.shape.as_list()[:-1])
        return made


def ngrams(
    data: Any,
    ngram_width: Any,
    separator: str = " ",
    pad_values: Any = None,
    padding_width: int | None = None,
    preserve_short_sequences: bool = False,
    name: str | None = None,
) -> Any:
    """Every run of so many neighbours of the last dimension, joined; of several widths one after the other.

    pad_values: what stands before and after each row, one string or two, `padding_width` times at most.
    Raises ValueError, TypeError.
    """
    widths = [ngram_width] if isinstance(ngram_width, int) else list(ngram_width)
    if pad_values is None:
        left, right, pads = "", "", 0
        if padding_width is not None:
            raise ValueError("pad_values must be provided if padding_width is set.")
    else:
        left, right = pad_values if isinstance(pad_values, (list, tuple)) else (pad_values,) * 2
        pads = -1 if padding_width is None else padding_width
        if padding_width is not None and padding_width < 0:
            raise ValueError(f"padding_width must be greater than 0, and is {padding_width}")
    if min(widths) < 1:
        raise ValueError(f"All ngram_widths must be greater than 0, and are {widths}")
    with name_scope(name, "StringNGrams", [data]):
        given = _given(data, dtypes.string, "data", convert)
        if isinstance(given, RaggedTensor):
            return _rows_joined(
                given, widths, separator, left, right, pads, preserve_short_sequences
            )
        rank = given.shape.ndims
        if not rank:
            raise ValueError("data must be of rank 1 or more, and its rank must be known")
        whole = reshape(given, [1, -1]) if rank == 1 else given
        rows = RaggedTensor.from_tensor(whole, ragged_rank=max(rank, 2) - 1)
        found = _rows_joined(rows, widths, separator, left, right, pads, preserve_short_sequences)
        if rank == 1:
            return found.flat_values
        return found.to_tensor()


def _rows_joined(
    rows: Any, widths: list[int], separator: str, left: str, right: str, pads: int, preserve: bool
) -> Any:
    if isinstance(rows.values, RaggedTensor):
        inner = _rows_joined(rows.values, widths, separator, left, right, pads, preserve)
        return rows.with_values(inner)
    joined, splits = string_ngrams_op(
        rows.values,
        rows.row_splits,
        separator=separator,
        ngram_widths=widths,
        left_pad=left,
        right_pad=right,
        pad_width=pads,
        preserve_short_sequences=preserve,
    )
    return RaggedTensor(joined, splits)
