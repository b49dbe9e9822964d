"""Positions: where an iteration is, as bytes that a checkpoint holds.

A position is a tree of dicts, lists, ints, bytes, strings, arrays, chunks and datasets.  All stages of a chain are
asked in one moment, the last one first, so that one which has a thread can let it stand still until those before it
were asked.  Of datasets windows have their elements in it, those that a function of the chain gave its name and its
arguments, so that it is called again, and those that are part of another dataset that one and a number, up to the
dataset that is iterated.
Called by: run.data.iterator.  Threads: as run.data.stage.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.shapes import Shape
from headrace.codec import protos as pb
from headrace.codec.tensors import decode, encode
from headrace.run.data.chunks import Chunk
from headrace.run.data.grouping import Elements
from headrace.run.data.held import Held
from headrace.run.data.stage import Dataset, Iteration, Origin, Part, Position, Stage
from headrace.run.state.variants import Variant, arriving, as_array

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
    if isinstance(tree, Part):
        return _part_again(tree, run)
    if isinstance(tree, list):
        return [with_datasets(each, run) for each in tree]
    if isinstance(tree, dict):
        return {key: with_datasets(each, run) for key, each in tree.items()}
    if isinstance(tree, Chunk):
        return Chunk(with_datasets(list(tree.columns), run), tree.count)
    if isinstance(tree, Held):
        return Held(tree.types[0], tree.shapes[0], with_datasets(tree.column, run))
    if isinstance(tree, Elements):
        elements = [tuple(with_datasets(list(each), run)) for each in tree.elements]
        return Elements(tree.types, tree.shapes, elements)
    if isinstance(tree, np.ndarray) and tree.dtype == object:
        return _objects(list(tree.shape), [with_datasets(each, run) for each in tree.reshape(-1)])
    return tree


def _made_again(origin: Origin, run: Iteration) -> Any:
    function = run.functions.get(origin.function)
    if function is None and run.root is not None:
        _note_functions(run.root, run.within(run.scope))
        function = run.functions.get(origin.function)
    if function is None:
        raise _other(f"it has no function {origin.function}")
    arguments = tuple(with_datasets(list(origin.arguments), run))
    return function.one(arguments, run.scope)[origin.result].item()


def _note_functions(dataset: Dataset, run: Iteration) -> None:
    """Let those be known whose stages are made when they are pulled."""
    dataset.stage(run).close()
    for part in dataset.parts:
        _note_functions(part, run)


def _part_again(part: Part, run: Iteration) -> Dataset:
    holder = run.root if part.holder is None else with_datasets(part.holder, run)
    if holder is None or part.number >= len(holder.parts):
        raise _other(f"it has no dataset number {part.number} in {holder}")
    found: Dataset = holder.parts[part.number]
    if not isinstance(found.origin, Origin):
        found.origin = Part(holder, part.number)
    return found


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


def encoded(position: Position, root: Dataset | None = None) -> bytes:
    """The tree as bytes.  root: the dataset that is iterated."""
    writer = _Writer(root)
    writer.write(position)
    return b"".join(writer.out)


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


class _Writer:
    """A tree as pieces of bytes, in `out`."""

    def __init__(self, root: Dataset | None) -> None:
        self.out: list[bytes] = [_FORMAT]
        self._root = root

    def write(self, tree: Any) -> None:
        """One more, behind those before.  Raises Unimplemented: it has no form as bytes."""
        out = self.out
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
                self.write(each)
        elif isinstance(tree, dict):
            out.append(b"d" + _LENGTH.pack(len(tree)))
            for key, each in tree.items():
                self.write(key)
                self.write(each)
        elif isinstance(tree, Chunk):
            out.append(b"c")
            self.write([tree.count, list(tree.columns)])
        elif isinstance(tree, (np.ndarray, np.generic)):
            self._write_array(np.asarray(tree))
        elif isinstance(tree, Dataset):
            self._write_dataset(tree)
        elif isinstance(tree, Variant):
            self._write_variants(tree)
        else:
            raise _formless(f"a {type(tree).__name__}")

    def _write_dataset(self, dataset: Dataset) -> None:
        origin = dataset.origin
        if isinstance(dataset, Held):
            (dtype,), (shape,) = dataset.types, dataset.shapes
            self.out.append(b"w")
            self.write([dtype.as_datatype_enum, _sizes(shape), dataset.column])
        elif isinstance(dataset, Elements):
            self.out.append(b"e")
            kinds = [dtype.as_datatype_enum for dtype in dataset.types]
            self.write([kinds, [_sizes(shape) for shape in dataset.shapes], dataset.elements])
        elif isinstance(origin, Origin):
            self.out.append(b"f")
            self.write(list(origin))
        elif isinstance(origin, Part):
            self.out.append(b"p")
            holder = None if origin.holder is self._root else origin.holder
            self.write([holder, origin.number])
        else:
            raise _formless(f"a dataset of its own ({dataset.kind})")

    def _write_array(self, array: np.ndarray[Any, Any]) -> None:
        if array.dtype == object and not all(isinstance(each, bytes) for each in array.reshape(-1)):
            self.out.append(b"o")  # sparse tensors, datasets: arrays in an array
            self.write([list(array.shape), list(array.reshape(-1))])
            return
        data = encode(array, dtypes.from_numpy(array.dtype)).SerializeToString()
        self.out.append(b"a" + _LENGTH.pack(len(data)) + data)

    def _write_variants(self, value: Variant) -> None:
        data = encode(as_array(value), dtypes.variant).SerializeToString()
        self.out.append(b"v" + _LENGTH.pack(len(data)) + data)


def _formless(what: str) -> errors.OpError:
    return errors.unimplemented(
        f"an iterator cannot be saved while it holds {what}, which has no form as bytes"
    )


def _sizes(shape: Shape) -> list[int] | None:
    return None if shape is None else [-1 if size is None else size for size in shape]


def _shape(sizes: list[int] | None) -> Shape:
    return None if sizes is None else tuple(None if size < 0 else size for size in sizes)


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def _read(data: bytes, at: int) -> tuple[Any, int]:
    kind = data[at : at + 1]
    at += 1
    if kind == b"n":
        return None, at
    if kind == b"i":
        return _INT.unpack_from(data, at)[0], at + _INT.size
    if kind in (b"b", b"s", b"a", b"v"):
        start = at + _LENGTH.size
        stop = start + _LENGTH.unpack_from(data, at)[0]
        piece = data[start:stop]
        if len(piece) != stop - start:
            raise ValueError("it stops short")
        if kind in (b"a", b"v"):
            found = decode(pb.TensorProto.FromString(piece))
            return (found if kind == b"a" else arriving(found)), stop
        return (piece if kind == b"b" else piece.decode()), stop
    if kind in (b"l", b"d"):
        (count,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        listed: list[Any] = []
        for _ in range(count if kind == b"l" else 2 * count):
            each, at = _read(data, at)
            listed.append(each)
        return (listed if kind == b"l" else dict(zip(listed[::2], listed[1::2], strict=True))), at
    make = _MADE_OF.get(kind)
    if make is None:
        raise ValueError(f"{kind!r} begins nothing")
    pieces, at = _read(data, at)
    return make(*pieces), at


def _elements(kinds: list[int], shapes: list[Any], elements: list[Any]) -> Elements:
    return Elements(
        [dtypes.as_dtype(kind) for kind in kinds],
        [_shape(sizes) for sizes in shapes],
        [tuple(each) for each in elements],
    )


def _objects(shape: list[int], values: list[Any]) -> np.ndarray[Any, Any]:
    array = np.empty(len(values), object)
    for at, value in enumerate(values):
        array[at] = value
    return array.reshape(shape)


_MADE_OF: Final[dict[bytes, Callable[..., Any]]] = {
    b"c": lambda count, columns: Chunk(columns, count),
    b"o": _objects,
    b"w": lambda kind, sizes, column: Held(dtypes.as_dtype(kind), _shape(sizes), column),
    b"e": _elements,
    b"f": lambda function, result, arguments: Origin(function, result, tuple(arguments)),
    b"p": Part,
}
"""What the pieces become that stand behind a kind."""
