"""Matrices of a checkpoint whose rows or columns stand for words, arranged for other vocabularies.

Called by: training.saver.warm_starting, programs (`tf.contrib.framework`).  Threads: as graph.
Source: TF 1.15 python/training/checkpoint_ops.py, for behaviour; nodes checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.tensor import Tensor
from headrace.library.variables.initializers import (
    truncated_normal_initializer,
    zeros_initializer,
)
from headrace.ops.array import ranges
from headrace.ops.array.joining import concat
from headrace.ops.io import vocabularies as io

__all__ = [
    "load_and_remap_matrix",
    "load_and_remap_matrix_initializer",
    "load_embedding_initializer",
    "load_linear_multiclass_bias_initializer",
]

Initializer = Callable[..., Any]


def load_and_remap_matrix(
    ckpt_path: Any,
    old_tensor_name: Any,
    new_row_vocab_offset: int,
    num_rows_to_load: int,
    new_col_vocab_size: int,
    initializer: Initializer,
    old_row_vocab_size: int = -1,
    old_row_vocab_file: Any = None,
    new_row_vocab_file: Any = None,
    old_col_vocab_file: Any = None,
    new_col_vocab_file: Any = None,
    num_row_oov_buckets: int = 0,
    num_col_oov_buckets: int = 0,
    max_rows_in_memory: int = -1,
) -> Tensor:
    """A matrix [num_rows_to_load + num_row_oov_buckets, new_col_vocab_size + num_col_oov_buckets] of a checkpoint.

    Rows (from new_row_vocab_offset on) and columns are found by the words that they stand for, where both files are
    given; where the checkpoint lacks them, and in the buckets beyond the vocabulary, is what initializer(shape) gives.
    Raises ValueError; the step, what `GenerateVocabRemapping` and `LoadAndRemapMatrix` do.
    """
    _check_buckets(num_row_oov_buckets, num_col_oov_buckets)
    rows_present: Any = num_rows_to_load
    _check_both("row", old_row_vocab_file, new_row_vocab_file)
    _check_both("col", old_col_vocab_file, new_col_vocab_file)
    if new_row_vocab_file:
        row_remapping, rows_present = io.generate_vocab_remapping(
            new_row_vocab_file,
            old_row_vocab_file,
            new_vocab_offset=new_row_vocab_offset,
            num_new_vocab=num_rows_to_load,
            old_vocab_size=old_row_vocab_size,
        )
    else:
        end = new_row_vocab_offset + num_rows_to_load
        row_remapping = ranges.range(new_row_vocab_offset, end, dtype=dtypes.int64)
    col_remapping: Any = []
    cols_present: Any = new_col_vocab_size
    if new_col_vocab_file:
        col_remapping, cols_present = io.generate_vocab_remapping(
            new_col_vocab_file,
            old_col_vocab_file,
            new_vocab_offset=0,
            num_new_vocab=new_col_vocab_size,
        )
    new = num_rows_to_load * new_col_vocab_size - rows_present * cols_present
    found: Tensor = io.load_and_remap_matrix(
        ckpt_path,
        old_tensor_name,
        row_remapping,
        col_remapping,
        initializer([new, 1]),
        num_rows=num_rows_to_load,
        num_cols=new_col_vocab_size,
        max_rows_in_memory=max_rows_in_memory,
    )
    if num_row_oov_buckets > 0:
        more = [num_row_oov_buckets, new_col_vocab_size]
        found = concat([found, convert(initializer(more))], 0)
    if num_col_oov_buckets > 0:
        more = [num_rows_to_load + num_row_oov_buckets, num_col_oov_buckets]
        found = concat([found, convert(initializer(more))], 1)
    return found


def _check_buckets(rows: int, cols: int) -> None:
    if rows < 0 or cols < 0:
        raise ValueError(
            f"num_row_oov_buckets and num_col_oov_buckets must be >= 0, but received {rows} and {cols}"
        )


def _check_both(what: str, old: Any, new: Any) -> None:
    """Raises ValueError if only one of the two vocabularies of rows or columns is given."""
    if bool(old) != bool(new):
        raise ValueError(
            f"old_{what}_vocab_file and new_{what}_vocab_file must both be specified or left unspecified. "
            f"old_{what}_vocab_file='{old}', new_{what}_vocab_file='{new}'"
        )


def load_and_remap_matrix_initializer(
    ckpt_path: Any,
    old_tensor_name: Any,
    new_row_vocab_size: int,
    new_col_vocab_size: int,
    old_row_vocab_size: int = -1,
    old_row_vocab_file: Any = None,
    new_row_vocab_file: Any = None,
    old_col_vocab_file: Any = None,
    new_col_vocab_file: Any = None,
    num_row_oov_buckets: int = 0,
    num_col_oov_buckets: int = 0,
    initializer: Initializer | None = None,
    max_rows_in_memory: int = -1,
) -> Initializer:
    """An initializer of a variable [new_row_vocab_size + num_row_oov_buckets, …], which may be cut into rows.

    initializer: of what is new; zeros by default.  Raises TypeError; the initializer ValueError for a shape that does
    not fit, and what `load_and_remap_matrix` does.
    """
    for name, size in (("row", new_row_vocab_size), ("column", new_col_vocab_size)):
        if not isinstance(size, int):
            raise TypeError(f"new_{name}_vocab_size must be an int, not {size!r}")
    of_new = zeros_initializer() if initializer is None else initializer
    width = new_col_vocab_size + num_col_oov_buckets

    def initialized(shape: Any, dtype: Any = dtypes.float32, partition_info: Any = None) -> Tensor:
        sizes = known_sizes(shape)
        _check_shape(sizes, width, new_col_vocab_size, num_col_oov_buckets)
        offset = 0 if partition_info is None else partition_info.single_offset(sizes)
        if offset + sizes[0] > new_row_vocab_size + num_row_oov_buckets:
            raise ValueError(
                f"Trying to initialize {sizes[0]} additional rows after {offset} rows have already been initialized, "
                f"which would exceed expected total row count of new_row_vocab_size ({new_row_vocab_size}) + "
                f"num_row_oov_buckets ({num_row_oov_buckets}) = {new_row_vocab_size + num_row_oov_buckets}."
            )
        if offset > new_row_vocab_size:  # nothing but buckets
            return convert(of_new(sizes))
        buckets = min(sizes[0], max(0, offset + sizes[0] - new_row_vocab_size))
        return load_and_remap_matrix(
            ckpt_path,
            old_tensor_name,
            offset,
            sizes[0] - buckets,
            new_col_vocab_size,
            of_new,
            old_row_vocab_size,
            old_row_vocab_file,
            new_row_vocab_file,
            old_col_vocab_file,
            new_col_vocab_file,
            buckets,
            num_col_oov_buckets,
            max_rows_in_memory,
        )

    return initialized


def known_sizes(shape: Any) -> list[int]:
    """As a list.  Raises ValueError if not all are known."""
    sizes = TensorShape(shape).as_list()
    found = [size for size in sizes if size is not None]
    if len(found) != len(sizes):
        raise ValueError(f"a matrix whose rows stand for words has a known shape, not {sizes}")
    return found


def _check_shape(sizes: Sequence[int], width: int, cols: int, buckets: int) -> None:
    if len(sizes) != 2:
        raise ValueError(f"Expected 2-dim shape, but received: {list(sizes)}")
    if sizes[0] <= 0:
        raise ValueError(f"Expected 1st dim of shape to be > 0, but received shape: {list(sizes)}")
    if sizes[1] != width:
        raise ValueError(
            f"Expected 2nd dim of shape to be new_col_vocab_size ({cols}) + num_col_oov_buckets ({buckets}) = "
            f"{width}, but received shape: {list(sizes)}"
        )


def load_embedding_initializer(
    ckpt_path: Any,
    embedding_tensor_name: Any,
    new_vocab_size: int,
    embedding_dim: int,
    old_vocab_file: Any,
    new_vocab_file: Any,
    old_vocab_size: int = -1,
    num_oov_buckets: int = 0,
    initializer: Initializer | None = None,
    max_rows_in_memory: int = -1,
) -> Initializer:
    """An initializer of embeddings [new_vocab_size + num_oov_buckets, embedding_dim], whose rows stand for words.

    initializer: of new words; by default a truncated normal distribution of deviation 1 / sqrt(embedding_dim).
    Raises TypeError; see `load_and_remap_matrix_initializer`.
    """
    if initializer is None:
        initializer = truncated_normal_initializer(stddev=1.0 / embedding_dim**0.5)
    return load_and_remap_matrix_initializer(
        ckpt_path,
        embedding_tensor_name,
        new_vocab_size,
        embedding_dim,
        old_vocab_size,
        old_vocab_file,
        new_vocab_file,
        num_row_oov_buckets=num_oov_buckets,
        initializer=initializer,
        max_rows_in_memory=max_rows_in_memory,
    )


def load_linear_multiclass_bias_initializer(
    ckpt_path: Any,
    bias_tensor_name: Any,
    new_class_vocab_size: int,
    old_class_vocab_file: Any,
    new_class_vocab_file: Any,
    num_class_oov_buckets: int = 0,
    initializer: Initializer | None = None,
    max_rows_in_memory: int = -1,
) -> Initializer:
    """An initializer of the biases of classes, [new_class_vocab_size + num_class_oov_buckets, 1].

    initializer: of new classes; zeros by default.  Raises TypeError; see `load_and_remap_matrix_initializer`.
    """
    return load_and_remap_matrix_initializer(
        ckpt_path,
        bias_tensor_name,
        new_class_vocab_size,
        1,
        old_row_vocab_file=old_class_vocab_file,
        new_row_vocab_file=new_class_vocab_file,
        num_row_oov_buckets=num_class_oov_buckets,
        initializer=initializer,
        max_rows_in_memory=max_rows_in_memory,
    )
