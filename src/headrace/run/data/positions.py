"""Positions: where an iteration is, as bytes that a checkpoint holds.

A position is a tree of dicts, lists, ints, bytes, strings, arrays, chunks and datasets.  All stages of a chain are
asked in one moment, the last one first, so that one which has a thread can let it stand still until those before it
were asked.  Of datasets windows have their elements in it, and those that a function of the chain gave its name and
its arguments: it is called again.
Called by: run.data.iterator.  Threads: as run.data.stage.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.codec import protos as pb
from headrace.codec.tensors import decode, encode
from headrace.run.data.chunks import Chunk
from headrace.run.data.stage import Dataset, Iteration, Origin, Position, Stage
from headrace.run.data.windowing import Held

_FORMAT: Final = b"headrace.position.1"
_LENGTH: Final = struct.Struct("<Q")
_INT: Final = struct.Struct("<q")


def saved_position(stage: Stage) -> Position:
    """Of a stage and all behind it."""
    asked: list[Stage] = []
    try:
        return _saved(stage, asked)
    finally:
        for each in asked:
            each.saved()


def _saved(stage: Stage, asked: list[Stage]) -> Position:
    own = stage.save()
    asked.append(stage)
    return [type(stage).__name__, own, [_saved(each, asked) for each in stage.inputs]]


def restore_position(stage: Stage, position: Position) -> None:
    """Raises InvalidArgument if it is that of another chain of stages."""
    kind, own, inputs = position
    if kind != type(stage).__name__:
        raise _other(f"there is a stage {type(stage).__name__} where that has {kind}")
    if own is not None:
        stage.restore(with_datasets(own, stage.run))
    if len(inputs) != len(stage.inputs):
        raise _other(f"{kind} has {len(stage.inputs)} inputs, and had {len(inputs)} there")
    for each, its in zip(stage.inputs, inputs, strict=True):
        restore_position(each, its)


def with_datasets(tree: Position, run: Iteration) -> Position:
    """The tree with the datasets that functions of the chain give in the place of their origins."""
    if isinstance(tree, Origin):
        return _made_again(tree, run)
    if isinstance(tree, list):
        return [with_datasets(each, run) for each in tree]
    if isinstance(tree, dict):
        return {key: with_datasets(each, run) for key, each in tree.items()}
    if isinstance(tree, Chunk):
        return Chunk(with_datasets(list(tree.columns), run), tree.count)
    if isinstance(tree, np.ndarray) and tree.dtype == object:
        return _objects(list(tree.shape), [with_datasets(each, run) for each in tree.reshape(-1)])
    return tree


def _made_again(origin: Origin, run: Iteration) -> Any:
    function = run.functions.get(origin.function)
    if function is None:
        raise _other(f"it has no function {origin.function}")
    arguments = tuple(with_datasets(list(origin.arguments), run))
    return function.one(arguments, run.scope)[origin.result].item()


def _other(why: str) -> errors.OpError:
    return errors.invalid_argument(
        f"the saved position is that of another dataset: {why}; restore it into an iterator over the same one"
    )


# -- trees as bytes -----------------------------------------------------------------------------


def failure_tree(error: errors.OpError | None) -> Position:
    """Of an error that an element is to fail with, if there is one."""
    return None if error is None else [error.error_code, error.message]


def failure_of(tree: Position) -> errors.OpError | None:
    """See `failure_tree`."""
    return None if tree is None else errors.make(*tree)


def encoded(position: Position) -> bytes:
    """The tree as bytes."""
    out: list[bytes] = [_FORMAT]
    _write(position, out)
    return b"".join(out)


def decoded(data: bytes) -> Position:
    """The tree again.  Raises InvalidArgument for anything else."""
    if not data.startswith(_FORMAT):
        raise errors.invalid_argument(
            "this is not the position of an iterator that headrace has saved: TensorFlow's checkpoints hold those of "
            "its own stages; leave the iterator out of what is restored, and skip the elements that were taken"
        )
    try:
        found, at = _read(data, len(_FORMAT))
    except (IndexError, struct.error, ValueError) as error:
        raise errors.data_loss(f"the saved position of an iterator is damaged: {error}") from error
    if at != len(data):
        raise errors.data_loss(
            "the saved position of an iterator is damaged: there is more behind its end"
        )
    return found


def _write(tree: Any, out: list[bytes]) -> None:
    if tree is None:
        out.append(b"n")
    elif isinstance(tree, (bool, int)):
        out.append(b"i" + _INT.pack(_signed(int(tree))))
    elif isinstance(tree, (bytes, str)):
        data = tree if isinstance(tree, bytes) else tree.encode()
        out.append((b"b" if isinstance(tree, bytes) else b"s") + _LENGTH.pack(len(data)) + data)
    elif isinstance(tree, (list, tuple)):
        out.append(b"l" + _LENGTH.pack(len(tree)))
        for each in tree:
            _write(each, out)
    elif isinstance(tree, dict):
        out.append(b"d" + _LENGTH.pack(len(tree)))
        for key, each in tree.items():
            _write(key, out)
            _write(each, out)
    elif isinstance(tree, Chunk):
        out.append(b"c")
        _write([tree.count, list(tree.columns)], out)
    elif isinstance(tree, (np.ndarray, np.generic)):
        _write_array(np.asarray(tree), out)
    elif isinstance(tree, Held):
        (dtype,), (shape,) = tree.types, tree.shapes
        sizes = None if shape is None else [-1 if size is None else size for size in shape]
        out.append(b"w")
        _write([dtype.as_datatype_enum, sizes, tree.column], out)
    elif isinstance(tree, Dataset) and tree.origin is not None:
        out.append(b"f")
        _write(list(tree.origin), out)
    else:
        what = (
            f"a dataset of its own ({tree.kind})"
            if isinstance(tree, Dataset)
            else f"a {type(tree).__name__}"
        )
        raise errors.unimplemented(
            f"an iterator cannot be saved while it holds {what}, which has no form as bytes"
        )


def _write_array(array: np.ndarray[Any, Any], out: list[bytes]) -> None:
    if array.dtype == object and not all(isinstance(each, bytes) for each in array.reshape(-1)):
        out.append(b"o")  # sparse tensors: arrays in an array
        _write([list(array.shape), list(array.reshape(-1))], out)
        return
    data = encode(array, dtypes.from_numpy(array.dtype)).SerializeToString()
    out.append(b"a" + _LENGTH.pack(len(data)) + data)


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def _read(data: bytes, at: int) -> tuple[Any, int]:
    kind = data[at : at + 1]
    at += 1
    if kind == b"n":
        return None, at
    if kind == b"i":
        return _INT.unpack_from(data, at)[0], at + _INT.size
    if kind in (b"b", b"s", b"a"):
        start = at + _LENGTH.size
        stop = start + _LENGTH.unpack_from(data, at)[0]
        piece = data[start:stop]
        if len(piece) != stop - start:
            raise ValueError("it stops short")
        if kind == b"a":
            return decode(pb.TensorProto.FromString(piece)), stop
        return (piece if kind == b"b" else piece.decode()), stop
    if kind in (b"l", b"d"):
        (count,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        found: list[Any] = []
        for _ in range(count if kind == b"l" else 2 * count):
            each, at = _read(data, at)
            found.append(each)
        return (found if kind == b"l" else dict(zip(found[::2], found[1::2], strict=True))), at
    if kind in (b"c", b"o"):
        (first, second), at = _read(data, at)
        return (Chunk(second, first) if kind == b"c" else _objects(first, second)), at
    if kind in (b"w", b"f"):
        (first, second, third), at = _read(data, at)
        if kind == b"f":
            return Origin(first, second, tuple(third)), at
        shape = None if second is None else tuple(None if size < 0 else size for size in second)
        return Held(dtypes.as_dtype(first), shape, third), at
    raise ValueError(f"{kind!r} begins nothing")


def _objects(shape: list[int], values: list[Any]) -> np.ndarray[Any, Any]:
    array = np.empty(len(values), object)
    for at, value in enumerate(values):
        array[at] = value
    return array.reshape(shape)
