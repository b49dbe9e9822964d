"""What ops make of shapes whose sizes nobody knows yet: by op, the shapes of the outputs.

A rule says what holds whenever the node runs and does not fail.  None stands for what is not known.
`ops._kernels.number_rules` has what ops make of the numbers in shapes.
Called by: ops._kernels.number_rules, plan.sizes, plan.stored_sizes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.base.traits import LIKE_FIRST
from headrace.graph.operation import Operation
from headrace.graph.registry import OPS, OpSpec
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


class Node(NamedTuple):
    """What a rule sees.  shapes, numbers: of the inputs, as far as they are known."""

    op: Operation
    shapes: Sequence[Sizes | None]
    numbers: Sequence[Numbers | None]

    def known(self, place: int) -> np.ndarray[Any, Any] | None:
        """The numbers of an input, if they are the same in every step."""
        found = self.numbers[place]
        if found is None:
            return None
        listed = found.reshape(-1).tolist()
        if not all(isinstance(each, int) for each in listed):
            return None
        return np.array(listed, self.op.inputs[place]._dtype._base.np).reshape(found.shape)

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
    spec, kept = op.spec, _RULES.get(op.type)
    if kept is not None and kept[0] is spec:
        return kept[1]
    rule = _rule_of_spec(spec)
    if spec is not None and dict.get(OPS, op.type) is spec:  # those of functions come and go
        _RULES[op.type] = spec, rule
    return rule


_RULES: dict[str, tuple[OpSpec, ShapeRule | None]] = {}


def _rule_of_spec(spec: OpSpec | None) -> ShapeRule | None:
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
    """Whether the output of one of `MAY_GIVE_FIRST` is equal to the first input, bit by bit.  made: its shape."""
    if node.op.type in _OF_SHAPE_ALONE:
        return made is not None and made == node.shapes[0]
    axes = node.known(1)
    return axes is not None and not axes.size


_OF_SHAPE_ALONE: Final = frozenset(("BroadcastTo", "Reshape", "Squeeze", "Tile"))
MAY_GIVE_FIRST: Final = _OF_SHAPE_ALONE.union(
    [name for name, rule in _SHAPES.items() if rule is _reduced]
)
"""Ops of which `gives_first` is to be asked."""
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
