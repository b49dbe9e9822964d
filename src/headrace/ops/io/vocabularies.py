"""Ops that take a matrix from a checkpoint whose rows or columns stand for words, which vocabularies list.

A vocabulary is a file with a word a line, whose number is the word's row or column.
Called by: training.saver.remapping, programs.  Threads: kernels run in any step's thread, block for the disk, and poll
the step.
Source: TF 1.15 core/ops/checkpoint_ops.cc, core/kernels/{generate_vocab_remapping,load_and_remap_matrix}_op.cc;
phrases of errors as of 2.21
"""

from __future__ import annotations

import os
from typing import Any, Final

import numpy as np

from headrace.base import errors
from headrace.base.shapes import Shape, text
from headrace.base.traits import NEVER_FOLDED, POLLS, STATEFUL
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops._kernels.file_globs import matches
from headrace.run.exec.kernel import KernelContext
from headrace.run.exec.polling import poll
from headrace.run.readers.files import Files, file_error

__all__: list[str] = []

Array = np.ndarray[Any, Any]
MISSING: Final = -1
"""What a remapping has for a row or column that is new."""
_POLL_EVERY: Final = 1 << 14


def _scalar(value: Array, what: str) -> bytes:
    if value.ndim:
        raise errors.invalid_argument(
            f"Input {what} should be a scalar tensor, got {text(value.shape)} instead"
        )
    return bytes(value[()])


# -- vocabularies ---------------------------------------------------------------------------------


def _words(path: bytes, files: Files, most: int = -1) -> list[bytes]:
    """The lines of a vocabulary; the first `most`, of which all must be there."""
    found: list[bytes] = []
    at = 0
    try:
        with files.open(path, "rb") as file:
            while most < 0 or len(found) < most:
                line = file.readline()
                if not line:
                    break
                at += len(line)
                word = line.rstrip(b"\n").rstrip(b"\r")
                if not word:
                    raise errors.invalid_argument(
                        f"Invalid content in {os.fsdecode(path)}: empty line found at position {at}."
                    )
                found.append(word)
                if len(found) % _POLL_EVERY == 0:
                    poll()
    except (OSError, ValueError) as error:
        raise file_error(path, error) from None
    if len(found) < most:
        raise errors.invalid_argument(
            f"Invalid vocab_size in {os.fsdecode(path)}: expected {most} but got {len(found)}"
        )
    if not found:
        raise errors.invalid_argument(
            f"vocabulary {os.fsdecode(path)} has no words{'' if most else ', since it is to have 0'}"
        )
    return found


def _remapping_shapes(c: ShapeContext) -> list[Shape]:
    c.with_rank("new_vocab_file", 0)
    c.with_rank("old_vocab_file", 0)
    return [(c.attr("num_new_vocab"),), ()]


@op(
    "GenerateVocabRemapping",
    inputs="new_vocab_file: string; old_vocab_file: string",
    outputs="remapping: int64; num_present: int32",
    attrs="new_vocab_offset: int >= 0; num_new_vocab: int >= 0; old_vocab_size: int >= -1 = -1",
    shape=_remapping_shapes,
    traits={NEVER_FOLDED, POLLS},
    differentiable=False,
)
def generate_vocab_remapping(
    ctx: KernelContext,
    new_vocab_file: Array,
    old_vocab_file: Array,
    *,
    new_vocab_offset: int,
    num_new_vocab: int,
    old_vocab_size: int,
) -> tuple[Array, Array]:
    """Where the words of a vocabulary, num_new_vocab from new_vocab_offset on, are in an older one.

    Both files []; remapping [num_new_vocab], -1 for words that are new; num_present []: how many are not.
    old_vocab_size: as many lines of the older one count, -1 for all.  Raises InvalidArgument (lines that are empty or
    missing), FailedPrecondition (a word twice in the older one), NotFound and other errors of files, PermissionDenied,
    and what ends the step meanwhile.
    """
    new_path = _scalar(new_vocab_file, "new_vocab_file")
    old_path = _scalar(old_vocab_file, "old_vocab_file")
    new = _words(new_path, ctx.runtime.files)
    if new_vocab_offset + num_new_vocab > len(new):
        raise errors.invalid_argument(
            f"lookup table size must be larger than last new vocab entry's line: {os.fsdecode(new_path)} has "
            f"{len(new)} lines, and {num_new_vocab} from line {new_vocab_offset} on are asked for"
        )
    rows: dict[bytes, int] = {}
    for row, word in enumerate(_words(old_path, ctx.runtime.files, old_vocab_size)):
        if rows.setdefault(word, row) != row:
            raise errors.failed_precondition(
                f"HashTable has different value for same key. Key {word.decode('utf-8', 'replace')} has {rows[word]} "
                f"and trying to add value {row}: the word is on two lines of {os.fsdecode(old_path)}"
            )
    wanted = new[new_vocab_offset : new_vocab_offset + num_new_vocab]
    remapping = np.array([rows.get(word, MISSING) for word in wanted], np.int64)
    return remapping, np.array(np.count_nonzero(remapping != MISSING), np.int32)


# -- matrices -------------------------------------------------------------------------------------


def _matrix_shape(c: ShapeContext) -> Shape:
    c.with_rank("old_tensor_name", 0)
    return (c.attr("num_rows"), c.attr("num_cols"))


def _check_remapping(remapping: Array, axis: str, count: int, size: int, name: str) -> None:
    """Raise unless there is an entry for each of `count` that leads to one of `size`, or to none."""
    if remapping.ndim != 1 or remapping.size != count:
        raise errors.invalid_argument(
            f"Size of {axis}_remapping is {remapping.size} instead of being equal to num_{axis}s={count}; its shape is "
            f"{text(remapping.shape)}"
        )
    there = remapping[remapping >= 0]
    if there.size and there.max() >= size:
        raise errors.invalid_argument(
            f"{axis}_remapping leads to {axis} {there.max()} of tensor {name}, which has {size}"
        )
    ids, counts = np.unique(there, return_counts=True)
    if (counts > 1).any():
        old = ids[counts > 1][0]
        one, other = np.flatnonzero(remapping == old)[:2]
        raise errors.unimplemented(
            f"Old ID {old} is mapped to both new ID {one} and {other}, which is not supported: {axis}_remapping has "
            f"each {axis} once"
        )


@op(
    "LoadAndRemapMatrix",
    inputs="ckpt_path: string; old_tensor_name: string; row_remapping: int64; col_remapping: int64; "
    "initializing_values: float",
    outputs="output_matrix: float",
    attrs="num_rows: int >= 0; num_cols: int >= 1; max_rows_in_memory: int = -1",
    shape=_matrix_shape,
    traits={STATEFUL, POLLS},
    differentiable=False,
)
def load_and_remap_matrix(
    ctx: KernelContext,
    ckpt_path: Array,
    old_tensor_name: Array,
    row_remapping: Array,
    col_remapping: Array,
    initializing_values: Array,
    *,
    num_rows: int,
    num_cols: int,
    max_rows_in_memory: int,
) -> Array:
    """A matrix made of rows and columns of one in a checkpoint, and of new values where it has none.

    ckpt_path, old_tensor_name []; row_remapping [num_rows], col_remapping [num_cols], or [0] for columns as they are:
    where each is in the checkpoint, -1 for nowhere; initializing_values [n]: those that are new, row by row;
    output_matrix [num_rows, num_cols].  max_rows_in_memory changes nothing: a tensor is read as a whole.
    Raises InvalidArgument (sizes, ranks, types), Unimplemented (one row or column twice), NotFound, DataLoss,
    PermissionDenied and other errors of files, and what ends the step meanwhile.
    """
    from headrace.run.checkpoints.reading import Checkpoint

    path, name = _scalar(_only(ckpt_path), "ckpt_path"), _scalar(old_tensor_name, "old_tensor_name")
    key = os.fsdecode(name)
    with Checkpoint(path, ctx.runtime.files, _matching) as checkpoint:
        sizes = _sizes_of_matrix(checkpoint, key)
        if not col_remapping.size:
            if sizes[1] != num_cols:
                raise errors.invalid_argument(
                    f"Tensor {key} has shape {text(sizes)}, where the size of its 2nd dimension is {sizes[1]} instead "
                    f"of being equal to num_cols={num_cols}"
                )
            col_remapping = np.arange(num_cols)
        _check_remapping(row_remapping, "row", num_rows, sizes[0], key)
        _check_remapping(col_remapping, "col", num_cols, sizes[1], key)
        rows, cols = np.flatnonzero(row_remapping >= 0), np.flatnonzero(col_remapping >= 0)
        new = num_rows * num_cols - rows.size * cols.size
        _check_new(new, initializing_values.size)
        found = np.empty((num_rows, num_cols), np.float32)
        if rows.size and cols.size:
            old = checkpoint.tensor(key)
            found[np.ix_(rows, cols)] = old[np.ix_(row_remapping[rows], col_remapping[cols])]
    if new:
        is_new = np.ones(found.shape, np.bool_)
        is_new[np.ix_(rows, cols)] = False
        found[is_new] = initializing_values.ravel()
    return found


def _sizes_of_matrix(checkpoint: Any, key: str) -> tuple[int, ...]:
    """Rows and columns of tensor `key`.  Raises InvalidArgument if it is no matrix of float32."""
    dtype, sizes = checkpoint.about(key)
    if dtype.name != "float32":
        raise errors.invalid_argument(
            f"Tensor {key} has invalid type {dtype.name} instead of expected type float"
        )
    if len(sizes) != 2:
        raise errors.invalid_argument(
            f"Tensor {key} has shape {text(sizes)} of invalid rank {len(sizes)} instead of expected shape of rank 2."
        )
    return tuple(sizes)


def _check_new(new: int, given: int) -> None:
    """Raises InvalidArgument unless there are as many new elements as were given."""
    if new > given:
        raise errors.invalid_argument(
            f"initializing_values contained {given} elements, but more missing values remain: {new} are new"
        )
    if new < given:
        raise errors.invalid_argument(
            f"initializing_values contained {given} elements, but only {new} elements were used "
            "to fill in missing values."
        )


def _only(value: Array) -> Array:
    """The element of a vector of one, which will do for a name."""
    return value.reshape(()) if value.shape == (1,) else value


def _matching(pattern: bytes, files: Any) -> list[bytes]:
    return [path for path in matches([pattern], files) if not files.is_directory(path)]
