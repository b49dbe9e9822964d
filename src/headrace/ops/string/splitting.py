"""Strings cut into parts, as sparse matrices with a row for each string.

Called by: input pipelines, users.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/string_split_op.cc), GraphDefs as 2.21.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.shapes import Shape
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.ragged import Ragged
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.ops.array.shapes import expand_dims
from headrace.ops.string.strings import scalar_string

__all__ = ["string_split", "string_split_v2"]


def _split_shape(c: ShapeContext) -> list[Shape]:
    c.with_rank("input", 1)
    c.with_rank(1, 0)
    return [(None, 2), (None,), (2,)]


def _sparse(rows: list[list[bytes]]) -> tuple[Any, Any, Any]:
    """(indices, values, shape) of the matrix whose rows these are."""
    counts = np.array([*map(len, rows)], np.int64)
    indices = np.empty((int(counts.sum()), 2), np.int64)
    indices[:, 0] = np.repeat(np.arange(len(rows)), counts)
    indices[:, 1] = np.arange(len(indices)) - np.repeat(np.cumsum(counts) - counts, counts)
    values = np.empty(len(indices), object)
    values[:] = [*chain.from_iterable(rows)]
    return indices, values, np.array([len(rows), counts.max(initial=0)], np.int64)


def _vector(strings: Any) -> list[bytes]:
    if np.ndim(strings) != 1:
        raise errors.invalid_argument(
            f"input must be a vector, but has shape {list(np.shape(strings))}"
        )
    found: list[bytes] = strings.tolist()
    return found


@op(
    "StringSplit",
    inputs="input: string; delimiter: string",
    outputs="indices: int64; values: string; shape: int64",
    attrs="skip_empty: bool = true",
    shape=_split_shape,
    differentiable=False,
)
def string_split_op(
    xp: Any, input: Any, delimiter: Any, *, skip_empty: bool
) -> tuple[Any, Any, Any]:
    """The parts of each string, as a sparse matrix with a row for each.

    input [n]; delimiter []: any of its bytes separates, an empty one separates all bytes.
    Raises InvalidArgument on other shapes.
    """
    delimiters = scalar_string(delimiter, "delimiter")
    cut = re.compile(b"[" + re.escape(bytes(sorted({*delimiters}))) + b"]") if delimiters else None
    alone = delimiters[:1] if len({*delimiters}) == 1 else None
    rows = []
    for value in _vector(input):
        if alone is not None:
            parts = value.split(alone)
        elif cut is not None:
            parts = cut.split(value)
        else:
            parts = [value[i : i + 1] for i in range(len(value))]
        if not value:
            parts = []
        rows.append([*filter(None, parts)] if skip_empty else parts)
    return _sparse(rows)


@op(
    "StringSplitV2",
    inputs="input: string; sep: string",
    outputs="indices: int64; values: string; shape: int64",
    attrs="maxsplit: int = -1",
    shape=_split_shape,
    differentiable=False,
)
def string_split_v2_op(xp: Any, input: Any, sep: Any, *, maxsplit: int) -> tuple[Any, Any, Any]:
    """The parts of each string, at most maxsplit + 1 of them, as a sparse matrix with a row for each.

    input [n]; sep []: the whole of it separates, an empty one means runs of blanks.
    Raises InvalidArgument on other shapes.
    """
    separator = scalar_string(sep, "sep")
    if separator:
        return _sparse([value.split(separator, maxsplit) for value in _vector(input)])
    return _sparse([_words(value, maxsplit) for value in _vector(input)])


def _words(value: bytes, most: int) -> list[bytes]:
    """As Python's split, but what follows the last of `most` words counts even if it is empty."""
    if most == 0:
        return [value]
    words = value.split(None, most)
    if len(words) == most:
        words.append(b"")
    elif len(words) > most > 0:
        # Python drops blanks at the very end, and TensorFlow keeps what it did not look at.
        words[-1] = value[value.rindex(words[-1]) :]
    return words


def _result(parts: list[Tensor], source: Tensor, kind: str) -> Any:
    """The parts as a SparseTensor, or as a RaggedTensor."""
    indices, values, shape = parts
    if kind == "SparseTensor":
        return SparseTensor(indices, values, shape)
    from headrace.ops.array.ragged import RaggedTensor

    found = RaggedTensor.from_value_rowids(values, indices[:, 0], shape[0], validate=False)
    if source.raw_shape is not None and source.raw_shape[0] is not None:
        found.row_splits.set_shape([source.raw_shape[0] + 1])
    return found


def string_split(
    source: Any,
    sep: Any = None,
    skip_empty: bool = True,
    delimiter: Any = " ",
    result_type: str = "SparseTensor",
    name: str | None = None,
) -> Any:
    """The parts of each string of the vector `source`, as a SparseTensor with a row for each.

    result_type: or RaggedTensor.  delimiter (or sep): each of its characters separates; an empty one separates all.
    Raises ValueError on another result_type.
    """
    _check_result(result_type)
    with name_scope(name, "StringSplit", [source] if isinstance(source, Tensor) else []):
        mark = convert(delimiter if sep is None else sep, dtypes.string)
        source = convert(source, dtypes.string)
        return _result(string_split_op(source, mark, skip_empty=skip_empty), source, result_type)


def string_split_v2(
    input: Any = None,
    sep: Any = None,
    maxsplit: int = -1,
    result_type: str = "SparseTensor",
    source: Any = None,
    name: str | None = None,
) -> Any:
    """The parts of each string of the vector `input` as Python's split gives them, as a SparseTensor.

    Raises ValueError on another result_type.
    """
    _check_result(result_type)
    strings = source if input is None else input
    with name_scope(name, "StringSplit", [strings] if isinstance(strings, Tensor) else []):
        mark = convert("" if sep is None else sep, dtypes.string)
        if not isinstance(strings, Ragged):
            strings = convert(strings, dtypes.string)
            if strings.shape.ndims == 0:
                strings = expand_dims(strings, 0)
            if strings.shape.ndims == 1 and result_type == "SparseTensor":
                parts = string_split_v2_op(strings, mark, maxsplit=maxsplit)
                return _result(parts, strings, result_type)
        found = _split_rows(strings, mark, maxsplit)
        return found.to_sparse() if result_type == "SparseTensor" else found


def _split_rows(strings: Any, mark: Tensor, maxsplit: int) -> Any:
    """The parts of each string as a row: a ragged tensor of one dimension more."""
    from headrace.ops.array.ragged import RaggedTensor

    if isinstance(strings, Ragged):
        return strings.with_flat_values(_split_rows(strings.flat_values, mark, maxsplit))  # type: ignore[attr-defined]
    rank = strings.shape.ndims
    if rank is not None and rank > 1:
        rows = RaggedTensor.from_tensor(strings, ragged_rank=rank - 1)
        return _split_rows(rows, mark, maxsplit)
    return _result(string_split_v2_op(strings, mark, maxsplit=maxsplit), strings, "RaggedTensor")


def _check_result(result_type: str) -> None:
    if result_type not in ("SparseTensor", "RaggedTensor"):
        raise ValueError("result_type must be one of: RaggedTensor, SparseTensor")
