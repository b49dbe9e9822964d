"""TensorList ops, one element at a time: making lists, pushing, popping, setting, reading, and how long they are.

A list is a variant (`run.state.tensor_lists.TensorList`), so every change makes another list; see there for what that
costs.  What a graph knows of a list's elements is in `graph.list_elements`.
Gradients are TensorFlow's: of a push a pop, of a pop a push, of an element that is read a list in which it is set.
Called by: ops.data.tensor_list_calls, graphs from elsewhere.  Threads: kernels any; gradients as graph.
Source: TF 1.15 core/ops/list_ops.cc, core/kernels/list_kernels.{h,cc}; 2.21 where they differ
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.dtypes import DType
from headrace.base.limits import EXPANDED_BYTES
from headrace.base.shapes import Shape, text
from headrace.base.traits import (
    ALIASES,
    NEVER_FOLDED,
    PASSES_LIST,
    SNAPSHOTS,
    STORES,
    TELLS_SIZE,
)
from headrace.graph.graph import Operation
from headrace.graph.list_elements import (
    EXPECTED,
    TO_POP,
    TO_PUSH,
    elements_of,
    known_elements,
    name_of,
    says_elements,
    static_element_shape,
)
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext, scalar
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import zeros_like
from headrace.ops.array.shapes import shape as shape_of
from headrace.run.devices.there import There, rows
from headrace.run.state.tensor_lists import UNLIMITED, TensorList, zeros_of
from headrace.run.state.variants import alike, each_of, single

MAKES: Final = frozenset((NEVER_FOLDED, STORES))
KEEPS: Final = frozenset((NEVER_FOLDED, ALIASES, SNAPSHOTS, PASSES_LIST, STORES))
PASSES: Final = frozenset((NEVER_FOLDED, PASSES_LIST, STORES))
READS: Final = frozenset((NEVER_FOLDED, ALIASES, STORES))
SHAPE_TYPE: Final = "element_dtype: type; shape_type: {int32, int64}"

# -- static shapes ----------------------------------------------------------------------------------------------------


def _made(c: ShapeContext) -> Shape:
    says_elements(c, c.attr("element_dtype"), static_element_shape(c, "element_shape"))
    return ()


def _pushed(c: ShapeContext) -> Shape:
    known_elements(c, TO_PUSH)
    return ()


def _popped(c: ShapeContext) -> list[Shape]:
    return [(), known_elements(c, TO_POP)]


def _read(c: ShapeContext) -> Shape:
    known = known_elements(c, EXPECTED)
    return shape_rules.merge(known, static_element_shape(c, "element_shape", strict=True))


def _set(c: ShapeContext) -> Shape:
    found = elements_of(c.op.inputs[0])
    if found is not None:
        shape_rules.merge(c.shape("item"), found[1])
    return ()


def _shape_known(c: ShapeContext) -> Shape:
    found = elements_of(c.op.inputs[0])
    if found is None:
        return (None,)
    return None if found[1] is None else (len(found[1]),)


# -- what kernels share -----------------------------------------------------------------------------------------------


def list_of(handle: Any, kind: DType | None = None) -> TensorList:
    """The list of an input.  Raises InvalidArgument (no list, more than one, elements of another dtype than `kind`)."""
    found = (
        handle
        if type(handle) is TensorList
        else single(
            handle,
            TensorList,
            "Input handle is not a list. Saw: ",
            "Input list must be a scalar saw: ",
        )
    )
    if kind is not None and kind is not found.element_dtype:
        raise errors.invalid_argument(
            f"Invalid data types; op elements {kind.name} but list elements {found.element_dtype.name}: say the "
            "element_dtype that the list was made with"
        )
    return found


def shape_given(value: Any) -> Shape:
    """The shape that an input says: sizes with -1 for those that are not known, or the scalar -1 for no shape.

    Raises InvalidArgument (another scalar, a size below -1, more than a vector).
    """
    if not value.ndim:
        if int(value) != -1:
            raise errors.invalid_argument(
                f"The only valid scalar shape tensor is the fully unknown shape specified as -1: {int(value)} is none; "
                "a shape is a vector of sizes"
            )
        return None
    sizes = value.tolist()
    if value.ndim > 1 or (sizes and min(sizes) < -1):
        raise errors.invalid_argument(
            f"Shape must be a vector of sizes, of which -1 stands for one that is not known: {sizes!r:.80} is none"
        )
    return tuple([None if size == -1 else size for size in sizes])


def scalar_of(value: Any, what: str) -> int:
    """A number that an input is.  Raises InvalidArgument: `what`, and the shape."""
    if value.ndim:
        raise errors.invalid_argument(f"{what}{text(value.shape)}; a scalar is needed")
    return int(value)


def place(items: TensorList, index: Any, verb: str) -> int:
    """An index of an element.  Raises InvalidArgument (no scalar, none of the list's)."""
    found = scalar_of(index, f"the index of the element to {verb} is a scalar, not of shape ")
    if not 0 <= found < items.length:
        raise errors.invalid_argument(
            f"Trying to {verb} element {found} in a list with {items.length} elements."
        )
    return found


def merged(known: Shape, other: Shape) -> Shape:
    """All that both say of elements.  Raises InvalidArgument."""
    try:
        return shape_rules.merge(known, other)
    except ValueError:
        raise errors.invalid_argument(
            f"PartialTensorShape: Incompatible shapes during merge: {text(known)} vs. {text(other)}: the elements of "
            "the list, and what was asked for, do not fit"
        ) from None


def checked_length(number: int) -> int:
    """Of a list that is made at once.  Raises ResourceExhausted (more elements than memory may be taken for)."""
    EXPANDED_BYTES.check(8 * number, "a list of that many elements takes")
    return number


def fits(known: Shape, shape: tuple[int, ...]) -> bool:
    """Whether an element of `shape` may stand in a list of `known` ones."""
    return known is None or known == shape or shape_rules.compatible(known, shape)


# -- making -----------------------------------------------------------------------------------------------------------


@op(
    "EmptyTensorList",
    inputs="element_shape: shape_type; max_num_elements: int32",
    outputs="handle: variant",
    attrs=SHAPE_TYPE,
    shape=_made,
    traits=MAKES,
    differentiable=False,
)
def empty_tensor_list_op(
    xp: Any, element_shape: Any, max_num_elements: Any, *, element_dtype: DType
) -> TensorList:
    """A list of nothing, for elements of that shape; of at most max_num_elements [] of them, unless that is -1.

    Raises InvalidArgument.
    """
    most = scalar_of(max_num_elements, "max_num_elements expected to be a scalar but got shape: ")
    return TensorList(element_dtype, shape_given(element_shape), [], most)


@op(
    "TensorListReserve",
    inputs="element_shape: shape_type; num_elements: int32",
    outputs="handle: variant",
    attrs=SHAPE_TYPE,
    shape=_made,
    traits=MAKES,
    differentiable=False,
)
def tensor_list_reserve_op(
    xp: Any, element_shape: Any, num_elements: Any, *, element_dtype: DType
) -> TensorList:
    """A list of num_elements [] that are not set.  Raises InvalidArgument, ResourceExhausted (too many)."""
    count = scalar_of(num_elements, "The num_elements to reserve must be a tensor size 1, but got ")
    if count < 0:
        raise errors.invalid_argument(
            f"The num_elements to reserve must be a non negative number, but got {count}"
        )
    return TensorList(element_dtype, shape_given(element_shape), [None] * checked_length(count))


# -- one element ------------------------------------------------------------------------------------------------------


def push(items: TensorList, value: Any, at: str = "") -> TensorList:
    """With `value` at the end.  Raises InvalidArgument (a full list, a shape that does not fit)."""
    if not fits(items.element_shape, value.shape):
        raise errors.invalid_argument(
            f"Tried to append a tensor with incompatible shape to a list{at}. Op element shape: {text(value.shape)} "
            f"list shape: {text(items.element_shape)}"
        )
    if UNLIMITED != items.max_num_elements <= items.length:
        raise errors.invalid_argument(
            f"Tried to push item into a full list{at} list size: {items.length} max_num_elements: "
            f"{items.max_num_elements}"
        )
    return items.pushed(value)


@op(
    "TensorListPushBack",
    inputs="input_handle: variant; tensor: element_dtype",
    outputs="output_handle: variant",
    attrs="element_dtype: type",
    shape=_pushed,
    traits=KEEPS,
)
def push_back_op(xp: Any, input_handle: Any, tensor: Any, *, element_dtype: DType) -> TensorList:
    """The list with tensor at its end.  Raises InvalidArgument (no list, dtype, shape, a full list)."""
    return push(list_of(input_handle, element_dtype), tensor)


@push_back_op.gradient
def _(op: Operation, dlist: Tensor) -> Any:
    shape = shape_of(op.inputs[1])
    return pop_back_op(dlist, shape, element_dtype=op["element_dtype"])


@op(
    "TensorListPopBack",
    inputs="input_handle: variant; element_shape: int32",
    outputs="output_handle: variant; tensor: element_dtype",
    attrs="element_dtype: type",
    shape=_popped,
    traits=READS | {PASSES_LIST},
)
def pop_back_op(
    xp: Any, input_handle: Any, element_shape: Any, *, element_dtype: DType
) -> tuple[TensorList, Any]:
    """The list without its last element, and that element; zeros of element_shape if it was never set.

    Raises InvalidArgument (no list, dtype, an empty list, one that was never set whose shape is not known).
    """
    items = list_of(input_handle, element_dtype)
    if not items.length:
        raise errors.invalid_argument(
            "Trying to pop from an empty list. As many elements can be popped as were pushed"
        )
    rest, value = items.popped()
    return rest, _unset(items, shape_given(element_shape)) if value is None else value


def _unset(items: TensorList, wanted: Shape) -> Any:
    """Zeros for an element that was never set.  Raises InvalidArgument (its shape is not known)."""
    shape = merged(items.element_shape, wanted)
    if not shape_rules.is_fully_defined(shape):
        shape = items.shape_of_unset(items.items(), shape)
    if not shape_rules.is_fully_defined(shape):
        raise errors.invalid_argument(
            "Trying to read an uninitialized tensor but element_shape is not fully defined: "
            f"{text(shape)} and no list element is set."
        )
    return zeros_of(items.element_dtype, shape)


@pop_back_op.gradient
def _(op: Operation, dlist: Any, dvalue: Any) -> Any:
    if dlist is None:
        shape = element_shape_op(op.outputs[0], shape_type=dtypes.int32)
        dlist = empty_tensor_list_op(shape, UNLIMITED, element_dtype=dvalue.dtype)
    if dvalue is None:
        dvalue = zeros_like(op.outputs[1])
    return push_back_op(dlist, dvalue), None


@op(
    "TensorListGetItem",
    inputs="input_handle: variant; index: int32; element_shape: Tshape",
    outputs="item: element_dtype",
    attrs="element_dtype: type; Tshape: {int32, int64} = DT_INT32",
    shape=_read,
    traits=READS,
)
def get_item_op(
    xp: Any, input_handle: Any, index: Any, element_shape: Any, *, element_dtype: DType
) -> Any:
    """The element at index []; zeros of element_shape if it was never set.

    Raises InvalidArgument (no list, dtype, index, one that was never set whose shape is not known).
    """
    items = list_of(input_handle, element_dtype)
    value = items.item_at(place(items, index, "access"))
    return _unset(items, shape_given(element_shape)) if value is None else value


@get_item_op.gradient
def _(op: Operation, ditem: Tensor) -> Any:
    length = length_op(op.inputs[0])
    shape = element_shape_op(op.inputs[0], shape_type=dtypes.int32)
    made = tensor_list_reserve_op(shape, length, element_dtype=ditem.dtype)
    return set_item_op(made, op.inputs[1], ditem), None, None


@op(
    "TensorListSetItem",
    inputs="input_handle: variant; index: int32; item: element_dtype",
    outputs="output_handle: variant",
    attrs="element_dtype: type; resize_if_index_out_of_bounds: bool = false",
    shape=_set,
    traits=KEEPS,
)
def set_item_op(
    xp: Any,
    input_handle: Any,
    index: Any,
    item: Any,
    *,
    element_dtype: DType,
    resize_if_index_out_of_bounds: bool,
) -> TensorList:
    """The list with item at index []; a longer one, if it may grow for that.

    Raises InvalidArgument (no list, dtype, index, shape), ResourceExhausted (a list that would be too long).
    """
    items = list_of(input_handle, element_dtype)
    if resize_if_index_out_of_bounds and not index.ndim and int(index) >= items.length:
        items = items.resized(checked_length(int(index) + 1))
    at = place(items, index, "modify")
    if not fits(items.element_shape, item.shape):
        raise errors.invalid_argument(
            "Tried to set a tensor with incompatible shape at a list index. Item element shape: "
            f"{text(item.shape)} list shape: {text(items.element_shape)}"
        )
    return items.changed(at, item)


@set_item_op.gradient
def _(op: Operation, dlist: Tensor) -> Any:
    items, index, item = op.inputs
    rest = set_item_op(dlist, index, zeros_like(item))
    ditem = get_item_op(dlist, index, shape_of(item), element_dtype=item.dtype)
    if op["resize_if_index_out_of_bounds"]:
        # The list was as long before as what else has come of it is.
        rest = resize_op(rest, length_op(items))
    return rest, None, ditem


# -- the list as a whole ----------------------------------------------------------------------------------------------


@op(
    "TensorListLength",
    inputs="input_handle: variant",
    outputs="length: int32",
    shape=scalar,
    traits=MAKES | {TELLS_SIZE},
    differentiable=False,
)
def length_op(xp: Any, input_handle: Any) -> Any:
    """Number of elements [], set or not.  Raises InvalidArgument (no list)."""
    return np.int32(list_of(input_handle).length)


@op(
    "TensorListElementShape",
    inputs="input_handle: variant",
    outputs="element_shape: shape_type",
    attrs="shape_type: {int32, int64}",
    shape=_shape_known,
    traits=MAKES | {TELLS_SIZE},
    differentiable=False,
)
def element_shape_op(xp: Any, input_handle: Any, *, shape_type: DType) -> Any:
    """The sizes [rank] that elements have, -1 for what is not known; a scalar -1 if nothing is.

    Raises InvalidArgument (no list).
    """
    shape = list_of(input_handle).element_shape
    if shape is None:
        return np.array(-1, shape_type.np)
    return np.array([-1 if size is None else size for size in shape], shape_type.np)


def _resized(c: ShapeContext) -> Shape:
    c.with_rank("size", 0)
    return ()


@op(
    "TensorListResize",
    inputs="input_handle: variant; size: int32",
    outputs="output_handle: variant",
    shape=_resized,
    traits=PASSES,
)
def resize_op(xp: Any, input_handle: Any, size: Any) -> TensorList:
    """The list with size [] elements: its first ones, or all and then some that are not set.

    Raises InvalidArgument (no list, size), ResourceExhausted (a list that would be too long).
    """
    count = scalar_of(size, "the size of a list is a scalar, not of shape ")
    if count < 0:
        raise errors.invalid_argument(
            f"TensorListSlice expects size to be non-negative. Got: {count}"
        )
    return list_of(input_handle).resized(checked_length(count))


@resize_op.gradient
def _(op: Operation, dlist: Tensor) -> Any:
    return resize_op(dlist, length_op(op.inputs[0])), None


# -- many lists -------------------------------------------------------------------------------------------------------


def _batch_pushed(c: ShapeContext) -> Shape:
    known_elements(c, TO_PUSH)
    handles = c.with_rank("input_handles", 1)
    rows = c.with_rank_at_least("tensor", 1)
    if rows is not None and handles is not None:
        size = shape_rules.merge_sizes(rows[0], handles[0], "the rows of tensor and the lists")
        return (size,)
    return handles


@op(
    "TensorListPushBackBatch",
    inputs="input_handles: variant; tensor: element_dtype",
    outputs="output_handles: variant",
    attrs="element_dtype: type",
    shape=_batch_pushed,
    traits=KEEPS,
    differentiable=False,
)
def push_back_batch_op(xp: Any, input_handles: Any, tensor: Any, *, element_dtype: DType) -> Any:
    """Lists [n], each with its row of tensor [n, ...] at its end.

    Raises InvalidArgument (shapes, a full list, what is no list, dtype).
    """
    if not tensor.shape or np.shape(input_handles) != tensor.shape[:1]:
        raise errors.invalid_argument(
            f"Expected tensor.shape[0] == input_handles.size, but {text(tensor.shape)} has not one row for each of "
            f"the lists {text(np.shape(input_handles))}"
        )
    lists = [list_of(each, element_dtype) for each in each_of(input_handles)]
    made = [
        push(items, row, f" at index {at}")
        for at, (items, row) in enumerate(zip(lists, rows_of(tensor), strict=True))
    ]
    return alike(input_handles, made) if made else input_handles


def rows_of(value: Any) -> list[Any]:
    """Slices along the first dimension; scalars as arrays of no dimension where NumPy gives bare objects."""
    if value.__class__ is There:
        return rows(value)
    if value.ndim == 1 and value.dtype == object:
        return [value[index : index + 1].reshape(()) for index in range(len(value))]
    return list(value)


def _concatenated(c: ShapeContext) -> Shape:
    wanted = c.attr("element_dtype")
    shape: Shape = None
    for arg in ("input_a", "input_b"):
        found = elements_of(c.op.inputs[c.index(arg)])
        if found is None:
            continue
        if found[0] is not wanted:
            raise ValueError(
                f"{arg}.type != element_dtype: {name_of(found[0])} vs. {name_of(wanted)}"
            )
        shape = shape_rules.merge(shape, found[1])
    if elements_of(c.op.inputs[0]) is not None:
        says_elements(c, wanted, shape)
    return shape_rules.merge(c.shape("input_a"), c.shape("input_b"))


@op(
    "TensorListConcatLists",
    inputs="input_a: variant; input_b: variant",
    outputs="output: variant",
    attrs="element_dtype: type",
    shape=_concatenated,
    traits=MAKES,
    differentiable=False,
)
def concat_lists_op(xp: Any, input_a: Any, input_b: Any, *, element_dtype: DType) -> Any:
    """Each list of the first input with the elements of that at its place in the second behind its own.

    Raises InvalidArgument (shapes of the inputs or of elements, dtypes, what is no list).
    """
    if np.shape(input_a) != np.shape(input_b):
        raise errors.invalid_argument(
            f"Incompatible input TensorList tensor shapes: {text(np.shape(input_a))} vs. {text(np.shape(input_b))}"
        )
    made = []
    for a, b in zip(each_of(input_a), each_of(input_b), strict=True):
        first, second = list_of(a, element_dtype), list_of(b, element_dtype)
        merged(first.element_shape, second.element_shape)
        made.append(first.replaced(first.items() + second.items()))
    return alike(input_a, made) if made else input_a
