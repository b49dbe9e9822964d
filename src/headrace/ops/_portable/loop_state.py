"""What loops keep, while a program of XLA's is made of them: TensorArrays, stacks and lists of tensors as `Cells`.

A kernel of a store is a function of (xp, how it is kept, its cells, the node's other inputs…) that gives the next cells
and the outputs; one of a list is a function of (xp, inputs…) among which lists are cells.  What the host's kernels
would refuse is required (`table.require`): where it does not hold the loop runs node by node, which says what is wrong.
Called by: plan.loop_tracing.  Threads: any.
Source: run.state.tensor_arrays, run.state.stacks, run.state.tensor_lists, for what holds of each
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from headrace.base.shapes import compatible
from headrace.ops._portable.table import check, require
from headrace.run.state.cells import Cells, Kept
from headrace.run.state.tensor_arrays import CLEARED, EMPTY, READ, WRITTEN

F = TypeVar("F", bound=Callable[..., Any])

STORES: Final[dict[str, Callable[..., tuple[Cells, list[Any]]]]] = {}
LISTS: Final[dict[str, Callable[..., list[Any]]]] = {}
ONLY_READ: Final = frozenset(
    ("TensorArrayReadV3", "TensorArrayGatherV3", "TensorArraySizeV3", "StackPopV2")
)
"""Ops that leave the values of a store what they are."""
GROWING: Final = frozenset(("TensorListPushBack", "TensorListPopBack"))
"""Ops whose lists do not keep their length."""
POPS: Final = "StackPopV2"
POPS_OF_LIST: Final = "TensorListPopBack"
"""Which give what is known where all that was pushed is alike."""
TELLS: Final = frozenset(("TensorListElementShape", "TensorListLength"))
"""Ops that give what is known of a list."""
MAKES: Final = "TensorListReserve"
"""Which makes a list of as many elements as are to be known."""
GRADIENT: Final = "TensorArrayGradV3"
"""Which stands for another store."""
_OUT_OF_TURN: Final = "not as its elements were written and read"


def _store(name: str) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        STORES[name] = function
        return function

    return decorate


def _list(*names: str) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for name in names:
            LISTS[name] = function
        return function

    return decorate


def _at(rows: Any, index: Any) -> Any:
    from jax import lax

    return lax.dynamic_index_in_dim(rows, index, 0, keepdims=False)


def _with(rows: Any, index: Any, value: Any) -> Any:
    from jax import lax

    return lax.dynamic_update_index_in_dim(rows, value, index, 0)


def _index(xp: Any, index: Any) -> Any:
    check(index.ndim == 0)
    return xp.asarray(index, dtype=xp.int32)


def _check_fits(cells: Cells, value: Any) -> None:
    check(value.shape == cells.values.shape[1:] and value.dtype == cells.values.dtype)


def _within(xp: Any, index: Any, length: Any) -> Any:
    return xp.logical_and(index >= 0, index < length)


# -- TensorArrays -----------------------------------------------------------------------------------------------------


def _limit(how: Kept, cells: Cells) -> Any:
    """Where writing ends."""
    return cells.length if how.spare else cells.values.shape[0]


@_store("TensorArrayWriteV3")
def _write(
    xp: Any, how: Kept, cells: Cells, index: Any, value: Any, flow: Any
) -> tuple[Cells, list[Any]]:
    value = xp.asarray(value)
    _check_fits(cells, value)
    at = _index(xp, index)
    mark = _at(cells.marks, at)
    free = mark == EMPTY
    if how.adds_up:
        again = mark == WRITTEN
        value = xp.where(again, _at(cells.values, at) + value, value)
        free = xp.logical_or(free, again)
    require(xp, xp.logical_and(_within(xp, at, _limit(how, cells)), free), _OUT_OF_TURN)
    marks = _with(cells.marks, at, xp.asarray(WRITTEN, dtype=xp.int8))
    length = xp.maximum(cells.length, at + 1) if how.grows else cells.length
    return Cells(_with(cells.values, at, value), marks, length), [flow]


@_store("TensorArrayReadV3")
def _read(xp: Any, how: Kept, cells: Cells, index: Any, flow: Any) -> tuple[Cells, list[Any]]:
    at = _index(xp, index)
    mark = _at(cells.marks, at)
    there = mark != CLEARED
    if not how.zeros:
        there = xp.logical_and(there, mark != EMPTY)
    require(xp, xp.logical_and(_within(xp, at, cells.length), there), _OUT_OF_TURN)
    after = xp.asarray(CLEARED if how.clears else READ, dtype=xp.int8)
    return cells._replace(marks=_with(cells.marks, at, after)), [_at(cells.values, at)]


def _indices(xp: Any, indices: Any, cells: Cells) -> Any:
    """int32 [n] of elements, which are to be there."""
    check(indices.ndim == 1 and indices.shape[0] > 0 and cells.values.shape[0] > 0)
    return xp.asarray(indices, dtype=xp.int32)


def _are_first(indices: Any, cells: Cells) -> bool:
    """Whether it is known that they are 0, 1, 2, and so on: XLA gathers and scatters rows one by one on processors."""
    known = isinstance(indices, np.ndarray) and len(indices) <= cells.values.shape[0]
    return known and bool((indices == np.arange(len(indices))).all())


def _rows_at(array: Any, at: Any, first: bool) -> Any:
    return array[: at.shape[0]] if first else array[at]


def _with_rows(xp: Any, array: Any, at: Any, rows: Any, first: bool) -> Any:
    if not first:
        return array.at[at].set(rows)
    count = at.shape[0]
    return rows if count == array.shape[0] else xp.concat([rows, array[count:]])


def _require_different(xp: Any, at: Any, room: int) -> None:
    """No index twice."""
    times = xp.zeros(room, dtype=xp.int32).at[at].add(1, mode="drop")
    require(xp, times <= 1, _OUT_OF_TURN)


@_store("TensorArrayGatherV3")
def _gather(
    xp: Any, how: Kept, cells: Cells, indices: Any, flow: Any, *, element_shape: Any
) -> tuple[Cells, list[Any]]:
    at, shape = _indices(xp, indices, cells), cells.values.shape[1:]
    check(compatible(element_shape._raw, shape))
    first = _are_first(indices, cells)
    marks = _rows_at(cells.marks, at, first)
    there = marks != CLEARED
    if not how.zeros:
        there = xp.logical_and(there, marks != EMPTY)
    if how.clears and not first:
        _require_different(xp, at, cells.values.shape[0])
    require(xp, xp.logical_and(_within(xp, at, cells.length), there), _OUT_OF_TURN)
    after = xp.full(at.shape, CLEARED if how.clears else READ, dtype=xp.int8)
    marks = _with_rows(xp, cells.marks, at, after, first)
    return cells._replace(marks=marks), [_rows_at(cells.values, at, first)]


@_store("TensorArrayScatterV3")
def _scatter(
    xp: Any, how: Kept, cells: Cells, indices: Any, value: Any, flow: Any
) -> tuple[Cells, list[Any]]:
    at, rows, room = _indices(xp, indices, cells), xp.asarray(value), cells.values.shape[0]
    check(rows.ndim > 0 and rows.shape == (at.shape[0], *cells.values.shape[1:]))
    check(rows.dtype == cells.values.dtype)
    first = _are_first(indices, cells)
    marks = _rows_at(cells.marks, at, first)
    free = marks == EMPTY
    if how.adds_up:
        free = xp.logical_or(free, marks == WRITTEN)
    elif not first:
        _require_different(xp, at, room)
    require(xp, xp.logical_and(_within(xp, at, _limit(how, cells)), free), _OUT_OF_TURN)
    if how.adds_up and first:
        rows = _or_zeros(xp, marks, cells.values[: at.shape[0]]) + rows
    if how.adds_up and not first:
        values = _or_zeros(xp, cells.marks, cells.values).at[at].add(rows)
    else:
        values = _with_rows(xp, cells.values, at, rows, first)
    length = cells.length
    if how.grows:
        length = xp.maximum(length, xp.max(at) + 1)
    written = xp.full(at.shape, WRITTEN, dtype=xp.int8)
    return Cells(values, _with_rows(xp, cells.marks, at, written, first), length), [flow]


def _or_zeros(xp: Any, marks: Any, values: Any) -> Any:
    """What elements hold, zeros where nothing has been written."""
    empty = xp.reshape(marks == EMPTY, (-1, *[1] * (values.ndim - 1)))
    return xp.where(empty, xp.zeros_like(values), values)


@_store("TensorArraySizeV3")
def _size(xp: Any, how: Kept, cells: Cells, flow: Any) -> tuple[Cells, list[Any]]:
    return cells, [cells.length if how.grows or how.spare else np.int32(how.room)]


# -- whole numbers, of which loops count ------------------------------------------------------------------------------


def _divided(function: str) -> Callable[..., list[Any]]:
    def kernel(xp: Any, x: Any, y: Any) -> list[Any]:
        require(xp, y != 0, "division by zero")
        return [getattr(xp, function)(x, y)]

    return kernel


COUNTS: Final = {"FloorMod": _divided("remainder"), "FloorDiv": _divided("floor_divide")}
"""Functions of (xp, inputs…) of ops whose array kernels are for floating point numbers alone."""


# -- stacks -----------------------------------------------------------------------------------------------------------


@_store("StackPushV2")
def _push(xp: Any, how: Kept, cells: Cells, elem: Any) -> tuple[Cells, list[Any]]:
    after, _ = _pushed(xp, cells, xp.asarray(elem))
    return after, [elem]


@_store("StackPopV2")
def _pop(xp: Any, how: Kept, cells: Cells) -> tuple[Cells, list[Any]]:
    after, value = _popped(xp, cells)
    return after, [value if how.element is None else how.element]


def _pushed(xp: Any, cells: Cells, value: Any) -> tuple[Cells, Any]:
    _check_fits(cells, value)
    length = cells.length
    require(xp, length < cells.values.shape[0], "there is no room")
    marks = None if cells.marks is None else _with(cells.marks, length, xp.asarray(True))
    return Cells(_with(cells.values, length, value), marks, length + 1), value


def _popped(xp: Any, cells: Cells) -> tuple[Cells, Any]:
    last = cells.length - 1
    require(xp, last >= 0, "there is nothing to pop")
    return cells._replace(length=last), _at(cells.values, last)


# -- lists of tensors -------------------------------------------------------------------------------------------------


class Few(NamedTuple):
    """A list that keeps its length, of zeros but for an element or none: (its index, the element).

    shape: of all; sizes of elements that nobody knows yet are negative.
    """

    shape: tuple[int, ...]
    dtype: Any
    element: tuple[Any, ...]

    def cells(self, xp: Any) -> Cells:
        """As any other list."""
        check(min(self.shape) >= 0)
        marks = xp.zeros(self.shape[0], dtype=xp.bool)
        values = xp.zeros(self.shape, dtype=self.dtype)
        if self.element:
            values, marks = (
                _with(values, *self.element),
                _with(marks, self.element[0], xp.asarray(True)),
            )
        return Cells(values, marks, None)


def _cells(xp: Any, items: Any) -> Cells:
    return items.cells(xp) if isinstance(items, Few) else items


@_list("TensorListPushBack")
def _push_back(xp: Any, cells: Cells, tensor: Any) -> list[Any]:
    return [_pushed(xp, cells, xp.asarray(tensor))[0]]


@_list("TensorListPopBack")
def _pop_back(xp: Any, cells: Cells, element_shape: Any) -> list[Any]:
    rest, value = _popped(xp, cells)
    require(xp, _at(cells.marks, rest.length), "it was never set")
    return [rest._replace(marks=_with(cells.marks, rest.length, xp.asarray(False))), value]


def _length(cells: Any) -> Any:
    if isinstance(cells, Few):
        return cells.shape[0]
    return cells.values.shape[0] if cells.length is None else cells.length


@_list("TensorListGetItem")
def _get_item(xp: Any, items: Any, index: Any, element_shape: Any) -> list[Any]:
    cells = _cells(xp, items)
    at = _index(xp, index)
    require(xp, _within(xp, at, _length(cells)), _OUT_OF_TURN)
    return [_at(cells.values, at)]


@_list("TensorListSetItem")
def _set_item(
    xp: Any, items: Any, index: Any, item: Any, *, resize_if_index_out_of_bounds: bool
) -> list[Any]:
    at, item = _index(xp, index), xp.asarray(item)
    if isinstance(items, Few) and not items.element:
        known = items.shape[1:]
        check(len(known) == item.ndim and item.dtype == items.dtype)
        check(all(size < 0 or size == of for size, of in zip(known, item.shape, strict=True)))
        require(xp, _within(xp, at, items.shape[0]), _OUT_OF_TURN)
        return [Few((items.shape[0], *item.shape), items.dtype, (at, item))]
    cells = _cells(xp, items)
    _check_fits(cells, item)
    length = cells.length
    grows = resize_if_index_out_of_bounds and length is not None
    require(xp, _within(xp, at, cells.values.shape[0] if grows else _length(cells)), _OUT_OF_TURN)
    marks = _with(cells.marks, at, xp.asarray(True))
    if grows:
        length = xp.maximum(length, at + 1)
    return [Cells(_with(cells.values, at, item), marks, length)]


@_list("TensorListLength")
def _length_of(xp: Any, cells: Any) -> list[Any]:
    found = _length(cells)
    return [np.int32(found) if isinstance(found, int) else found]


@_list("TensorListElementShape")
def _element_shape(xp: Any, items: Any, *, shape_type: Any) -> list[Any]:
    shape = items.shape if isinstance(items, Few) else items.values.shape
    return [np.array(shape[1:], shape_type.np)]


@_list(MAKES)
def _reserve(xp: Any, shape: Any, count: Any, *, element_dtype: Any) -> list[Any]:
    check(
        isinstance(shape, np.ndarray)
        and shape.ndim == 1
        and isinstance(count, np.generic | np.ndarray)
    )
    sizes = (int(count), *shape.tolist())
    check(sizes[0] >= 0)
    return [Few(sizes, element_dtype.np, ())]


@_list("AddN")
def _sum(xp: Any, *lists: Any) -> list[Any]:
    first, *others = sorted(lists, key=lambda each: isinstance(each, Few))
    first = _cells(xp, first)
    for each in others:
        if isinstance(each, Few) and each.element:
            check(each.shape == first.values.shape and first.length is None)
            at, value = each.element
            marks = _with(first.marks, at, xp.asarray(True))
            first = Cells(_with(first.values, at, _at(first.values, at) + value), marks, None)
            continue
        each = _cells(xp, each)
        check(first.length is None and each.length is None)
        check(first.values.shape == each.values.shape)
        first = Cells(first.values + each.values, xp.logical_or(first.marks, each.marks), None)
    return [first]


@_list("ZerosLike")
def _zeros_like(xp: Any, items: Any) -> list[Any]:
    cells = _cells(xp, items)
    marks = xp.ones_like(cells.marks)
    return [Cells(xp.zeros_like(cells.values), marks, cells.length)]
