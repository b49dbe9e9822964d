"""What ops make of shapes whose sizes nobody knows yet: by op, the shapes of the outputs, and numbers in them.

A rule says what holds whenever the node runs and does not fail.  `numbers_of` is for small vectors and scalars of
integers, as arrays of `Size`; what only moves elements is asked of its own kernel, with marks in their place.
None stands for what is not known.
Called by: plan.sizes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import numpy as np

from headrace.base.traits import LIKE_FIRST
from headrace.graph.const_value import KERNEL_FAILURES
from headrace.graph.operation import Operation
from headrace.graph.shape_fns import broadcast, merged, unchanged
from headrace.ops._kernels import symbolic_sizes as sizes
from headrace.ops._kernels.symbolic_sizes import Size

Sizes = tuple[Size, ...]
"""A shape."""
Partly = Sequence["Size | None"]
"""A shape of which sizes may not be known."""
Numbers = Any
"""An array, of objects that are `Size`, of a value of integers."""
MOST: Final = 64
"""Numbers of a value; more are no shape."""


@dataclass(frozen=True)
class Node:
    """What a rule sees.  shapes, numbers: of the inputs, as far as they are known."""

    op: Operation
    shapes: Sequence[Sizes | None]
    numbers: Sequence[Numbers | None]

    def known(self, place: int) -> np.ndarray[Any, Any] | None:
        """The numbers of an input, if they are the same in every step."""
        found = self.numbers[place]
        if found is None or not all(isinstance(each, int) for each in found.reshape(-1)):
            return None
        return np.array(found.tolist(), self.op.inputs[place]._dtype._base.np).reshape(found.shape)

    def made_of(self, *inputs: Any) -> Any:
        """What the kernel makes of arrays."""
        spec = self.op.spec
        assert spec is not None
        assert spec.kernel is not None
        return spec.kernel(np, *inputs, **{name: self.op.attrs[name] for name in spec.kernel_attrs})

    def vector(self, place: int) -> Sizes | None:
        """The numbers of an input that is a vector."""
        found = self.numbers[place]
        return None if found is None or found.ndim != 1 else tuple(found.tolist())


def array(found: Any, shape: tuple[int, ...]) -> Numbers:
    """Sizes as numbers."""
    made = np.empty(len(found), object)
    made[:] = found
    return made.reshape(shape)


ShapeRule = Callable[[Node], "Partly | None"]
"""Of the first output."""
NumbersRule = Callable[[Node], "Sequence[Numbers | None]"]


# -- shapes -----------------------------------------------------------------------------------------------------------


def shapes_of(node: Node) -> list[Partly | None]:
    """Of the outputs, as far as the inputs tell."""
    op = node.op
    unknown: list[Partly | None] = [None] * len(op.outputs)
    if not op.outputs or not op.inputs:
        return unknown
    several = _SEVERAL.get(op.type)
    if several is not None:
        return several(node) or unknown
    rule = _SHAPES.get(op.type) or _rule_of(op)
    return unknown if rule is None else [rule(node), *unknown[1:]]


def _rule_of(op: Operation) -> ShapeRule | None:
    """What follows from how an op says what is known before the step."""
    spec = op.spec
    if spec is None or not spec.foldable or spec.takes_ref:
        return None
    if LIKE_FIRST in spec.traits or spec.shape_fn is unchanged:
        return _like_first
    if spec.shape_fn is broadcast:
        return _broadcast
    return _like_all if spec.shape_fn is merged else None


def _like_first(node: Node) -> Sizes | None:
    return node.shapes[0]


def _like_all(node: Node) -> Sizes | None:
    """All inputs have one shape, and so has the output."""
    first = node.shapes[0]
    return first if all(shape == first for shape in node.shapes[1:]) else None


def _like_both(node: Node) -> Sizes | None:
    """The last two inputs have one shape, and so has the output."""
    one, other = node.shapes[-2:]
    return one if one == other else None


def _like_first_beside_numbers(node: Node) -> Sizes | None:
    return node.shapes[0] if all(shape == () for shape in node.shapes[1:]) else None


def _biased(node: Node) -> Sizes | None:
    shape, bias = node.shapes
    if not shape or bias is None or node.op.attrs["data_format"] != b"NHWC":
        return None
    return shape if shape[-1:] == bias else None


def _broadcast(node: Node) -> Sizes | None:
    first, second = node.shapes[:2]
    return None if first is None or second is None else sizes.broadcast(first, second)


def _broadcast_all(node: Node) -> Sizes | None:
    found: Sizes = ()
    for shape in node.shapes:
        if shape is None:
            return None
        found = sizes.broadcast(found, shape)
    return found


def _said(place: int) -> ShapeRule:
    """An input says the shape."""
    return lambda node: node.vector(place)


def _reshaped(node: Node) -> Sizes | None:
    wanted, given = node.vector(1), node.shapes[0]
    if wanted is None or -1 not in wanted:
        return wanted
    if given is None or wanted.count(-1) > 1:
        return None
    rest = sizes.product_of(size for size in wanted if size != -1)
    left = sizes.exact_quotient(sizes.product_of(given), rest)
    return None if left is None else tuple([left if size == -1 else size for size in wanted])


def _tiled(node: Node) -> Sizes | None:
    given, times = node.shapes[0], node.vector(1)
    if given is None or times is None or len(given) != len(times):
        return None
    return tuple([sizes.product(*pair) for pair in zip(given, times, strict=True)])


def _axes(node: Node, place: int) -> set[int] | None:
    """Those that an input names, counted from the front."""
    shape, known = node.shapes[0], node.known(place)
    if shape is None or known is None:
        return None
    return {int(axis) % len(shape) if shape else 0 for axis in known.reshape(-1)}


def _reduced(node: Node) -> Sizes | None:
    shape, axes = node.shapes[0], _axes(node, 1)
    if shape is None or axes is None:
        return None
    if node.op.attrs["keep_dims"]:
        return tuple([1 if axis in axes else size for axis, size in enumerate(shape)])
    return tuple([size for axis, size in enumerate(shape) if axis not in axes])


def _without_axis(node: Node) -> Sizes | None:
    shape, axes = node.shapes[0], _axes(node, 1)
    if shape is None or axes is None:
        return None
    return tuple([size for axis, size in enumerate(shape) if axis not in axes])


def _multiplied(node: Node) -> Sizes | None:
    a, b = node.shapes
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        return None
    attrs = node.op.attrs
    return (a[1] if attrs["transpose_a"] else a[0], b[0] if attrs["transpose_b"] else b[1])


def _multiplied_stacks(node: Node) -> Sizes | None:
    a, b = node.shapes
    if a is None or b is None or len(a) < 2 or len(b) < 2:
        return None
    attrs = node.op.attrs
    rows, columns = a[-1 if attrs["adj_x"] else -2], b[-2 if attrs["adj_y"] else -1]
    return (*sizes.broadcast(a[:-2], b[:-2]), rows, columns)


def _one_a_picture(node: Node) -> Sizes | None:
    """As many pictures as there are; what else is known of them the graph knows."""
    shape, raw = node.shapes[0], node.op.outputs[0]._raw
    if shape is None or raw is None or node.op.attrs.get("data_format", b"NHWC")[:1] != b"N":
        return None
    if any(size is None for size in raw[1:]):
        return None
    return (shape[0], *[size for size in raw[1:] if size is not None])


def _expanded(node: Node) -> Sizes | None:
    shape, known = node.shapes[0], node.known(1)
    if shape is None or known is None or known.size != 1:
        return None
    at = int(known.reshape(())) % (len(shape) + 1)
    return (*shape[:at], 1, *shape[at:])


def _squeezed(node: Node) -> Sizes | None:
    shape, named = node.shapes[0], node.op.attrs["squeeze_dims"]
    if shape is None or (not named and not all(isinstance(size, int) for size in shape)):
        return None
    gone = {axis % len(shape) for axis in named} if named else None
    return tuple(
        [
            size
            for axis, size in enumerate(shape)
            if (axis not in gone if gone is not None else size != 1)
        ]
    )


def _transposed(node: Node) -> Sizes | None:
    shape, order = node.shapes[0], node.known(1)
    if shape is None or order is None or order.shape != (len(shape),):
        return None
    return tuple([shape[int(axis)] for axis in order])


def _joined(node: Node) -> Sizes | None:
    *shapes, _ = node.shapes
    axes = _axes(node, len(shapes))
    if axes is None or any(shape is None for shape in shapes):
        return None
    (axis,) = axes
    along = reduce(sizes.total, [shape[axis] for shape in shapes if shape is not None])
    made = []
    for at, each in enumerate(zip(*shapes, strict=True)):
        known = next((size for size in each if isinstance(size, int)), each[0])
        made.append(along if at == axis else known)
    return tuple(made)


def _packed(node: Node) -> Sizes | None:
    shape = next((shape for shape in node.shapes if shape is not None), None)
    if shape is None:
        return None
    at = node.op.attrs["axis"] % (len(shape) + 1)
    return (*shape[:at], len(node.shapes), *shape[at:])


def _gathered(node: Node) -> Sizes | None:
    params, indices, axis = node.shapes[0], node.shapes[1], 0
    if params is None or indices is None or node.op.attrs.get("batch_dims"):
        return None
    if len(node.shapes) > 2:
        axes = _axes(node, 2)
        if axes is None:
            return None
        (axis,) = axes
    return (*params[:axis], *indices, *params[axis + 1 :])


def _sliced(node: Node) -> Partly | None:
    """Axes of which all is taken keep their size."""
    shape, attrs = node.shapes[0], node.op.attrs
    if shape is None or attrs["ellipsis_mask"] or attrs["new_axis_mask"]:
        return None
    steps = node.known(3)
    if steps is None:
        return None
    whole = attrs["begin_mask"] & attrs["end_mask"] & ~attrs["shrink_axis_mask"]
    return [
        size if at >= len(steps) or (whole >> at & 1 and abs(int(steps[at])) == 1) else None
        for at, size in enumerate(shape)
        if not attrs["shrink_axis_mask"] >> at & 1
    ]


def _one_hot(node: Node) -> Sizes | None:
    shape, depth = node.shapes[0], node.numbers[1]
    if shape is None or depth is None or depth.size != 1:
        return None
    at = node.op.attrs["axis"] % (len(shape) + 1)
    return (*shape[:at], depth.reshape(-1)[0], *shape[at:])


def _cut(node: Node) -> Partly | None:
    """What is taken to the end, from the beginning, is all."""
    shape, begin, wanted = node.shapes[0], node.vector(1), node.vector(2)
    if wanted is None or shape is None or len(shape) != len(wanted):
        return None
    first = begin if begin is not None else [None] * len(shape)
    return [
        size if size != -1 else (whole if at == 0 else None)
        for whole, at, size in zip(shape, first, wanted, strict=True)
    ]


_SHAPES: Final[dict[str, ShapeRule]] = {
    "ArgMax": _without_axis,
    "ArgMin": _without_axis,
    "AvgPool": _one_a_picture,
    "BatchMatMul": _multiplied_stacks,
    "BatchMatMulV2": _multiplied_stacks,
    "BiasAdd": _biased,
    "BroadcastTo": _said(1),
    "ClipByValue": _like_first_beside_numbers,
    "ConcatV2": _joined,
    "Conv2D": _one_a_picture,
    "Conv2DBackpropInput": _said(0),
    "DepthwiseConv2dNative": _one_a_picture,
    "Equal": _broadcast,
    "ExpandDims": _expanded,
    "Fill": _said(0),
    "Gather": _gathered,
    "GatherV2": _gathered,
    "LogSoftmax": _like_first,
    "MatMul": _multiplied,
    "MaxPool": _one_a_picture,
    "MaxPoolGrad": _like_first,
    "NotEqual": _broadcast,
    "OneHot": _one_hot,
    "Pack": _packed,
    "RandomStandardNormal": _said(0),
    "RandomUniform": _said(0),
    "RandomUniformInt": _said(0),
    "Reshape": _reshaped,
    "Select": _like_both,
    "SelectV2": _broadcast_all,
    "Slice": _cut,
    "Softmax": _like_first,
    "Squeeze": _squeezed,
    "StackPushV2": lambda node: node.shapes[1],
    "StridedSlice": _sliced,
    "StridedSliceGrad": _said(0),
    "Tile": _tiled,
    "Transpose": _transposed,
    "TruncatedNormal": _said(0),
} | dict.fromkeys(("All", "Any", "Max", "Mean", "Min", "Prod", "Sum"), _reduced)


Several = list["Partly | None"]
"""Shapes of all outputs."""


def _unpacked(node: Node) -> Several | None:
    shape = node.shapes[0]
    if not shape:
        return None
    at = node.op.attrs["axis"] % len(shape)
    return [(*shape[:at], *shape[at + 1 :])] * len(node.op.outputs)


def _parts(node: Node) -> Several | None:
    """As many as there are outputs, alike."""
    axis, shape, count = node.known(0), node.shapes[1], len(node.op.outputs)
    if axis is None or not shape:
        return None
    at = int(axis.reshape(())) % len(shape)
    along = sizes.quotient(shape[at], count)
    assert along is not None
    return [(*shape[:at], along, *shape[at + 1 :])] * count


def _normalized(node: Node) -> Several | None:
    """The gradient of what was normalized."""
    of_output, given = node.shapes[:2]
    shape = of_output if of_output == given else None
    return [shape, *[None] * (len(node.op.outputs) - 1)]


def _of_labels(node: Node) -> Several | None:
    """The losses, and gradients of the scores."""
    scores = node.shapes[0]
    return None if not scores else [scores[:1], scores]


def _of_block(node: Node) -> Several | None:
    """All that a cell gives is like its state."""
    return [node.shapes[1]] * len(node.op.outputs)


_SEVERAL: Final[dict[str, Callable[[Node], Several | None]]] = {
    "FusedBatchNormGrad": _normalized,
    "FusedBatchNormGradV2": _normalized,
    "FusedBatchNormGradV3": _normalized,
    "LSTMBlockCell": _of_block,
    "SparseSoftmaxCrossEntropyWithLogits": _of_labels,
    "Split": _parts,
    "Unpack": _unpacked,
}


def gives_first(node: Node, made: Sizes | None) -> bool:
    """Whether the output is equal to the first input, bit by bit.  made: its shape."""
    if node.op.type in _OF_SHAPE_ALONE:
        return made is not None and made == node.shapes[0]
    if _SHAPES.get(node.op.type) is not _reduced:
        return False
    axes = node.known(1)
    return axes is not None and not axes.size


_OF_SHAPE_ALONE: Final = frozenset(("BroadcastTo", "Reshape", "Squeeze", "Tile"))
"""What gives the elements as they are, if the shape is the same."""


# -- stores ----------------------------------------------------------------------------------------------------------

STORES: Final = frozenset(("StackV2", "TensorArrayV3"))
"""What makes them, and gives their handle first; others take it first."""
STORES_OF_GRADIENTS: Final = frozenset(("TensorArrayGradV3",))
"""What makes that of another one."""
PUTS: Final = {
    "StackPushV2": (1, False),
    "TensorArrayScatterV3": (2, True),
    "TensorArrayWriteV3": (2, False),
}
"""Which input is put there, and whether it is each of its rows."""
GETS: Final = {
    "StackPopV2": False,
    "TensorArrayGatherV3": True,
    "TensorArrayReadV3": False,
}
"""What gives values back, and whether they are rows of what it gives."""
LOOKS: Final = frozenset(("StackCloseV2", "TensorArrayCloseV3", "TensorArraySizeV3"))


# -- numbers ----------------------------------------------------------------------------------------------------------


def numbers_of(node: Node) -> list[Numbers | None]:
    """Of the outputs, as far as the inputs tell."""
    rule = _NUMBERS.get(node.op.type)
    unknown: list[Numbers | None] = [None] * len(node.op.outputs)
    if rule is None or not all(each._dtype.name in ("int32", "int64") for each in node.op.outputs):
        return unknown
    found = list(rule(node)) or unknown
    return [each if each is None or each.size <= MOST else None for each in found]


def names() -> AbstractSet[str]:
    """Ops of whose numbers anything may be known."""
    return _NUMBERS.keys()


def _shape_numbers(node: Node) -> Sequence[Numbers | None]:
    return [None if shape is None else array(shape, (len(shape),)) for shape in node.shapes]


def _count(node: Node) -> Sequence[Numbers | None]:
    shape = node.shapes[0]
    return [None if shape is None else array([sizes.product_of(shape)], ())]


def _rank(node: Node) -> Sequence[Numbers | None]:
    shape = node.shapes[0]
    return [None if shape is None else array([len(shape)], ())]


def _moving(*data: int) -> NumbersRule:
    """Elements of some inputs only change their places, as others say.

    The kernel moves their numbers in a list of them.
    """

    def rule(node: Node) -> Sequence[Numbers | None]:
        count = len(node.numbers)
        moved = _places(data, count)
        elements: list[Size] = []
        given: list[Any] = []
        for place, numbers in enumerate(node.numbers):
            if place not in moved:
                known = node.known(place)
                if known is None:
                    return ()
                given.append(known)
                continue
            if numbers is None:
                return ()
            marks = np.arange(len(elements), len(elements) + numbers.size, dtype=np.int64)
            given.append(marks.reshape(numbers.shape))
            elements += numbers.reshape(-1).tolist()
        try:
            made = node.made_of(*given)
        except KERNEL_FAILURES:
            return ()
        several = isinstance(made, (list, tuple))
        return [_marked(each, elements) for each in (made if several else [made])]

    return rule


def _places(data: Sequence[int], count: int) -> set[int]:
    if data == (_ALL_BUT_LAST,):
        return set(range(count - 1))
    return set(range(count)) if data == (_ALL,) else {each % count for each in data}


_ALL: Final = 98
_ALL_BUT_LAST: Final = 99


def _marked(made: Any, elements: Sequence[Size]) -> Numbers | None:
    marks = np.asarray(made)
    if marks.size > MOST:
        return None
    return array([elements[int(mark)] for mark in marks.reshape(-1)], marks.shape)


def _stitched(node: Node) -> Sequence[Numbers | None]:
    """The first half are indices; where all of a result is told."""
    half = len(node.numbers) // 2
    found = list(_moving(*range(half, 2 * half))(node))
    places = [node.known(place) for place in range(half)]
    named = {int(each) for known in places if known is not None for each in known.reshape(-1)}
    if not found or found[0] is None or named != set(range(len(found[0]))):
        return ()
    return found


def _each(function: Callable[[Size, Size], Size | None]) -> NumbersRule:
    """Element by element, of two that broadcast."""

    def rule(node: Node) -> Sequence[Numbers | None]:
        first, second = node.numbers
        if first is None or second is None:
            return ()
        try:
            one, other = np.broadcast_arrays(first, second)
        except ValueError:
            return ()
        pairs = zip(one.reshape(-1).tolist(), other.reshape(-1).tolist(), strict=True)
        made = [function(a, b) for a, b in pairs]
        return () if None in made else [array(made, one.shape)]

    return rule


def _along(function: Callable[[Size, Size], Size], start: Size) -> NumbersRule:
    """Of all elements of a vector."""

    def rule(node: Node) -> Sequence[Numbers | None]:
        numbers, axes = node.numbers[0], node.known(1)
        if numbers is None or numbers.ndim != 1 or axes is None or axes.size > 1:
            return ()
        if not axes.size:
            return [numbers]
        made = reduce(function, numbers.tolist(), start)
        return [array([made], (1,) if node.op.attrs["keep_dims"] else ())]

    return rule


def _counted(node: Node) -> Sequence[Numbers | None]:
    """A range."""
    known = [node.known(place) for place in range(3)]
    if any(each is None or each.ndim for each in known):
        return ()
    start, limit, step = [int(each) for each in known if each is not None]
    if not step or abs(limit - start) > MOST * abs(step):
        return ()
    made = list(range(start, limit, step))
    return [array(made, (len(made),))]


def _filled(node: Node) -> Sequence[Numbers | None]:
    wanted, value = node.known(0), node.numbers[1]
    if wanted is None or value is None or value.ndim or wanted.ndim != 1 or (wanted < 0).any():
        return ()
    count = int(np.prod(wanted))
    return () if count > MOST else [array([value.item()] * count, tuple(wanted.tolist()))]


def _axes_of_stretch(node: Node) -> Sequence[Numbers | None]:
    """Along which either of two shapes was stretched, or is 1 in both; none if they are equal."""
    one, other = node.vector(0), node.vector(1)
    if one is None or other is None:
        return ()
    if one == other:
        return [array([], (0,)), array([], (0,))]
    rank = max(len(one), len(other))
    pairs = list(zip(sizes.padded(one, rank), sizes.padded(other, rank), strict=True))
    apart = [pair for pair in pairs if all(isinstance(size, int) for size in pair)]
    if any(a != b and 1 not in (a, b) for a, b in apart):
        return ()
    if len(one) == len(other) and all(a == b for a, b in apart):
        return ()  # they may be equal
    found: list[Numbers | None] = []
    for side in (0, 1):
        if all(isinstance(pair[side], int) for pair in pairs):
            made = [axis for axis, pair in enumerate(pairs) if pair[side] == 1]
            found.append(array(made, (len(made),)))
        else:
            found.append(None)
    return found


def _offsets(node: Node) -> Sequence[Numbers | None]:
    """Where parts begin that are joined along an axis."""
    axis = node.known(0)
    parts = [node.vector(place) for place in range(1, len(node.numbers))]
    if axis is None or axis.ndim or not parts or not parts[0]:
        return ()
    at = int(axis) % len(parts[0])
    begin: Size = 0
    made: list[Numbers] = []
    for part in parts:
        if part is None or [*part[:at], *part[at + 1 :]] != [*parts[0][:at], *parts[0][at + 1 :]]:
            return ()
        made.append(array([begin if each == at else 0 for each in range(len(part))], (len(part),)))
        begin = sizes.total(begin, part[at])
    return made


def _common(node: Node) -> Sequence[Numbers | None]:
    one, other = node.vector(0), node.vector(1)
    if one is None or other is None:
        return ()
    made = sizes.broadcast(one, other)
    return [array(made, (len(made),))]


_FIRST: Final = _moving(0)

_NUMBERS: Final[dict[str, NumbersRule]] = {
    "Add": _each(sizes.total),
    "AddV2": _each(sizes.total),
    "BroadcastArgs": _common,
    "BroadcastGradientArgs": _axes_of_stretch,
    "Cast": lambda node: node.numbers[:1],
    "ConcatOffset": _offsets,
    "ConcatV2": _moving(_ALL_BUT_LAST),
    "DynamicStitch": _stitched,
    "ExpandDims": _FIRST,
    "Fill": _filled,
    "FloorDiv": _each(sizes.quotient),
    "FloorMod": _each(sizes.remainder),
    "Gather": _FIRST,
    "GatherV2": _FIRST,
    "Identity": _FIRST,
    "Maximum": _each(sizes.largest),
    "Minimum": _each(sizes.smallest),
    "Mul": _each(sizes.product),
    "Pack": _moving(_ALL),
    "Prod": _along(sizes.product, 1),
    "Range": _counted,
    "Rank": _rank,
    "Reshape": _FIRST,
    "Shape": _shape_numbers,
    "ShapeN": _shape_numbers,
    "Size": _count,
    "Slice": _FIRST,
    "Split": _moving(1),
    "Squeeze": _FIRST,
    "StopGradient": _FIRST,
    "StridedSlice": _FIRST,
    "Sub": _each(sizes.difference),
    "Sum": _along(sizes.total, 0),
    "Tile": _FIRST,
    "Unpack": _FIRST,
}
