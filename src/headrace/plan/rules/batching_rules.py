"""Batching rules: how a node's work is done for many elements at once, one along axis 0 each.

A rule makes, for one node, a function of its inputs: those that vary from element to element stacked along a new axis
0 ("rows"), the others as they are.  It gives the outputs stacked, exactly what the kernel makes of every element by
itself, or raises, whatever; then somebody goes element by element.  A node whose op has no rule but the trait
PER_RECORD has its kernel called for every element.  Those with the trait TOGETHER are for who may take long: a stage of
a dataset, and a batch dequeuer, which looks how long.  What draws at random has rows of its own
(`ops.random.drawn_rows`).  No other op is run for many elements: kernels that take long or let other threads run, that
remember something, or that reach state.
Called by: plan.batch_dequeuer.  Threads: rules when a plan is made, what they give in any step's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.base.traits import ELEMENTWISE
from headrace.graph.graph import Operation
from headrace.ops._kernels.blocks import LARGE
from headrace.ops._kernels.pictures import decode_rows
from headrace.ops._kernels.product_parts import LARGE as LARGE_PRODUCT
from headrace.ops.array.slicing import strided_slice_rows
from headrace.ops.image.colors import adjust_rows
from headrace.ops.io.csv import decode_csv_rows
from headrace.ops.io.examples import parse_example_rows
from headrace.run.exec import blas
from headrace.run.queues.column_work import OneByOne

Array = np.ndarray[Any, Any]
Batched = Callable[..., Any]
"""Inputs, rows or not, to the output or the sequence of outputs, all of them rows."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node whose inputs are rows or known; `ranks`: of an element, None where unknown."""

    op: Operation
    kernel: Callable[..., Any]
    rows: Sequence[bool]
    known: Sequence[Any]
    ranks: Sequence[int | None]


Rule = Callable[[Node], "Batched | None"]
"""None: not for this node."""


def _first_only(node: Node) -> bool:
    return node.rows[0] and not any(node.rows[1:])


def _same(node: Node) -> Batched:
    """Element by element of one array: the kernel does not mind another axis."""
    return node.kernel


def _cast(node: Node) -> Batched | None:
    """Floats to integers, where C leaves much open, go one by one."""
    source, target = node.op.inputs[0].dtype, node.op.outputs[0].dtype
    if source.is_floating and target.is_integer:
        return None
    return node.kernel


def _aligned(node: Node) -> Batched | None:
    """Two arrays that are broadcast: rows, or rows and something of no higher rank."""
    a, b = node.ranks
    if a is None or b is None:
        return None
    if not all(node.rows):
        return node.kernel if (a >= b) == node.rows[0] or a == b else None
    if a == b:
        return node.kernel
    kernel, more = node.kernel, (1,) * abs(a - b)

    def stretched(rows: Array) -> Array:
        return rows.reshape(len(rows), *more, *rows.shape[1:])

    if a < b:
        return lambda x, y: kernel(stretched(x), y)
    return lambda x, y: kernel(x, stretched(y))


def _packed(node: Node) -> Batched | None:
    axis, rank = node.op.attrs["axis"], node.ranks[0]
    if rank is None or not -rank - 1 <= axis <= rank:
        return None
    place = axis + 1 if axis >= 0 else axis + rank + 2
    rows = node.rows
    first = rows.index(True)

    def pack(*values: Any) -> Array:
        count = len(values[first])
        alike = [
            value if is_row else np.broadcast_to(value, (count, *np.shape(value)))
            for value, is_row in zip(values, rows, strict=True)
        ]
        return np.stack(alike, axis=place)

    return pack


def _expanded(node: Node) -> Batched | None:
    rank = node.ranks[0]
    if not _first_only(node) or rank is None or np.size(node.known[1]) != 1:
        return None
    axis = int(np.reshape(node.known[1], ()))
    if not -rank - 1 <= axis <= rank:
        return None
    place = axis + 1 if axis >= 0 else axis + rank + 2
    return lambda values, _: np.expand_dims(values, place)


def _reshaped(node: Node) -> Batched | None:
    if not _first_only(node) or np.ndim(node.known[1]) != 1:
        return None
    shape = tuple(int(size) for size in node.known[1])
    if any(size < -1 for size in shape):
        return None
    return lambda values, _: values.reshape(len(values), *shape)


def _transposed(node: Node) -> Batched | None:
    rank = node.ranks[0]
    if not _first_only(node) or np.ndim(node.known[1]) != 1:
        return None
    order = [int(axis) for axis in node.known[1]]
    if rank != len(order) or sorted(order) != list(range(rank)):
        return None
    places = (0, *[axis + 1 for axis in order])
    return lambda values, _: np.ascontiguousarray(values.transpose(places))


def _sliced(node: Node) -> Batched | None:
    """Slice with begin and size that are known, or begin varies; nothing may be out of bounds."""
    if tuple(node.rows) == (True, True, False):
        return _cut_out(node)
    if not _first_only(node) or np.ndim(node.known[1]) != 1 or np.ndim(node.known[2]) != 1:
        return None
    begin, size = node.known[1].tolist(), node.known[2].tolist()
    if len(begin) != len(size) or len(begin) != node.ranks[0]:
        return None

    def cut(values: Array, *_: Any) -> Array:
        index: list[slice] = [slice(None)]
        for start, count, whole in zip(begin, size, values.shape[1:], strict=True):
            stop = whole if count == -1 else start + count
            if not 0 <= start <= stop <= whole:
                raise IndexError
            index.append(slice(start, stop))
        return np.ascontiguousarray(values[tuple(index)])

    return cut


def _cut_out(node: Node) -> Batched | None:
    """Slices of one size that begin elsewhere in each element."""
    size, rank = node.known[2], node.ranks[0]
    if np.ndim(size) != 1 or rank is None or rank != len(size) or (size < 0).any():
        return None
    sizes = size.tolist()

    def cut(values: Array, begins: Array, _: Any) -> Array:
        if begins.size and not (begins.min() >= 0 and (begins <= values.shape[1:] - size).all()):
            raise IndexError
        made = np.empty((len(values), *sizes), values.dtype)
        for out, each, begin in zip(made, values, begins.tolist(), strict=True):
            out[...] = each[tuple([slice(a, a + n) for a, n in zip(begin, sizes, strict=True)])]
        return made

    return cut


def _shaped(node: Node) -> Batched | None:
    """Elements that are one array are alike."""
    kind = node.op.outputs[0].dtype.np

    def shape(values: Array) -> Array:
        sizes = np.array(values.shape[1:], kind)
        return np.broadcast_to(sizes, (len(values), len(sizes)))

    return shape


def _reduced(node: Node) -> Batched | None:
    """Along axes that are known, where no rounding depends on the order."""
    axes = _moved(node)
    return None if axes is None else lambda values, _: node.kernel(values, axes)


def _summed(node: Node) -> Batched | None:
    """Sums and means of all that an element has, which is summed as it lies; of integers, along any axes."""
    if node.op.inputs[0].dtype.is_integer:
        return _reduced(node)
    axes, rank = _moved(node), node.ranks[0]
    if axes is None or not rank or sorted(axes.reshape(-1)) != list(range(1, rank + 1)):
        return None
    kernel, kept = node.kernel, (1,) * rank if node.op.attrs["keep_dims"] else ()
    all_of_it = np.ones(1, axes.dtype)

    def of_each(values: Array, _: Any) -> Array:
        size = values[:1].size
        if not 0 < size < LARGE or not values.flags.c_contiguous:
            raise NotImplementedError
        made: Array = kernel(values.reshape(len(values), size), all_of_it)
        return made.reshape(len(values), *kept)

    return of_each


def _moved(node: Node) -> Array | None:
    """The second input, axes of the first one that are known, as those of rows."""
    axes, rank = node.known[1], node.ranks[0]
    if not _first_only(node) or axes is None or rank is None or np.ndim(axes) > 1:
        return None
    if not ((axes >= -rank) & (axes < rank)).all():
        return None
    moved: Array = axes % max(rank, 1) + np.asarray(1, axes.dtype)
    return moved


def _strided(node: Node) -> Batched | None:
    if not _first_only(node) or any(np.ndim(vector) != 1 for vector in node.known[1:]):
        return None
    begin, end, strides = node.known[1:]
    return strided_slice_rows(node.op, begin, end, strides)


def _csv(node: Node) -> Batched | None:
    if not _first_only(node) or node.ranks[0] != 0:
        return None
    return decode_csv_rows(node.op, node.known[1:])


def _example(node: Node) -> Batched | None:
    """Elements that are vectors of Examples are one vector."""
    if not _first_only(node) or node.ranks[0] not in (0, 1):
        return None
    parse = parse_example_rows(node.op, node.known[1:])
    if parse is None or node.ranks[0] == 0:
        return parse

    def parse_all(values: Array, *_: Any) -> list[Array]:
        return [part.reshape(*values.shape, *part.shape[1:]) for part in parse(values.reshape(-1))]

    return parse_all


def _squeezed(node: Node) -> Batched | None:
    """The axes that go are said, or follow from a shape that is known."""
    raw, axes = node.op.inputs[0]._raw, node.op.attrs["squeeze_dims"]
    if raw is None or (not axes and None in raw):
        return None
    rank = len(raw)
    gone = [axis % rank for axis in axes] if axes else [at for at, n in enumerate(raw) if n == 1]
    places = tuple(axis + 1 for axis in gone)
    return lambda values: np.squeeze(values, places) if places else values


def _concatenated(node: Node) -> Batched | None:
    """Along an axis that is known, what does not vary repeated for each."""
    *rows, axis_varies = node.rows
    axis, rank = node.known[-1], node.ranks[0]
    if axis_varies or axis is None or np.ndim(axis) or rank is None or not -rank <= axis < rank:
        return None
    place = int(axis) % rank + 1
    first = rows.index(True)

    def join(*values: Any) -> Array:
        count = len(values[first])
        alike = [
            value if is_row else np.broadcast_to(value, (count, *np.shape(value)))
            for value, is_row in zip(values[:-1], rows, strict=True)
        ]
        return np.concatenate(alike, axis=place)

    return join


def _hot(node: Node) -> Batched | None:
    """Along a new last axis."""
    return node.kernel if _first_only(node) and node.op.attrs["axis"] == -1 else None


def _clipped(node: Node) -> Batched | None:
    """Between two numbers that do not vary."""
    return node.kernel if _first_only(node) and tuple(node.ranks[1:]) == (0, 0) else None


def _chosen(node: Node) -> Batched | None:
    """Of arrays of one rank that vary all: SelectV2 broadcasts, Select has one shape."""
    same = len(set(node.ranks)) == 1 and node.ranks[0] is not None
    return node.kernel if all(node.rows) and same else None


def _pictures(node: Node) -> Batched | None:
    if not _first_only(node) or node.ranks[0] != 0:
        return None
    return decode_rows(node.op)


def _resized(node: Node) -> Batched | None:
    """To one size: elements are batches of images, which are one."""
    if not _first_only(node) or node.ranks[0] != 4:
        return None
    kernel = node.kernel

    def resize(images: Array, size: Array) -> Array:
        count, each, *rest = images.shape
        made: Array = kernel(images.reshape(count * each, *rest), size)
        return made.reshape(count, each, *made.shape[1:])

    return resize


def _adjusted(node: Node) -> Batched | None:
    """Pictures, by a number of their own or one for all."""
    rank, of_number = node.ranks
    if not node.rows[0] or rank is None or rank < 3 or of_number != 0:
        return None
    return adjust_rows(node.op)


def _bordered(node: Node) -> Batched | None:
    """Padded and tiled as is known."""
    table, rank = node.known[1], node.ranks[0]
    if not _first_only(node) or table is None or rank is None or len(table) != rank:
        return None
    nothing = np.zeros((1, 2), table.dtype) if table.ndim == 2 else np.ones(1, table.dtype)
    whole, kernel = np.concatenate([nothing, table]), node.kernel
    return lambda values, _, *more: kernel(values, whole, *more)


def _multiplied(node: Node) -> Batched | None:
    """Matrices one by one, as BLAS may sum up otherwise what is made of several; large ones in steps of their own."""
    if tuple(node.ranks) != (2, 2):
        return None
    kernel, (a_varies, b_varies) = node.kernel, node.rows
    columns = -2 if node.op.attrs["transpose_b"] else -1

    def multiply(a: Array, b: Array) -> Array:
        count = len(a) if a_varies else len(b)
        if a.shape[-2] * a.shape[-1] * b.shape[columns] >= LARGE_PRODUCT:
            raise OneByOne
        with blas.threads(1):
            made = [
                kernel(a[at] if a_varies else a, b[at] if b_varies else b) for at in range(count)
            ]
        return np.stack(made)

    return multiply


def _element_by_element(op: Operation) -> bool:
    """Whether an output's element is made of the elements at its place alone."""
    spec = op.spec
    if spec is None:
        return False
    bare = spec.bare is not None and isinstance(getattr(np, spec.bare, None), np.ufunc)
    return bare or ELEMENTWISE in spec.traits


_RULES: dict[str, Rule] = {
    "AdjustContrastv2": _adjusted,
    "AdjustHue": _adjusted,
    "AdjustSaturation": _adjusted,
    "Cast": _cast,
    "ClipByValue": _clipped,
    "ConcatV2": _concatenated,
    "DecodeCSV": _csv,
    "DecodeJpeg": _pictures,
    "DecodePng": _pictures,
    "ExpandDims": _expanded,
    "MatMul": _multiplied,
    "OneHot": _hot,
    "Pack": _packed,
    "ParseExampleV2": _example,
    "ParseSingleExample": _example,
    "Reshape": _reshaped,
    "ReverseV2": _reduced,
    "Select": _chosen,
    "SelectV2": _chosen,
    "Shape": _shaped,
    "Slice": _sliced,
    "Squeeze": _squeezed,
    "StridedSlice": _strided,
    "Transpose": _transposed,
}
_RULES |= dict.fromkeys(
    "AsString DecodeRaw Identity OnesLike Round StopGradient StringLength StringLower StringStrip "
    "StringToHashBucket StringToHashBucketFast StringToHashBucketStrong StringToNumber StringUpper ZerosLike".split(),
    _same,
)
_RULES |= dict.fromkeys(
    "ResizeArea ResizeBicubic ResizeBilinear ResizeNearestNeighbor".split(), _resized
)
_RULES |= dict.fromkeys("All Any Max Min".split(), _reduced)
_RULES |= dict.fromkeys("Mean Sum".split(), _summed)
_RULES |= dict.fromkeys("MirrorPad Pad PadV2 Tile".split(), _bordered)
_RULES |= dict.fromkeys("Add Equal FloorDiv FloorMod NotEqual Pow".split(), _aligned)


ALWAYS_TOGETHER = frozenset({"MatMul"})
"""Ops whose kernel is not called for one element after the other: what it makes may depend on the step it is in."""


def batched(node: Node) -> Batched | None:
    """How the node's work is done for many elements; None: with its kernel, one by one."""
    rule = _RULES.get(node.op.type)
    if rule is None and _element_by_element(node.op):
        rule = (_same, _aligned)[len(node.rows) - 1] if len(node.rows) < 3 else None
    return None if rule is None else rule(node)
