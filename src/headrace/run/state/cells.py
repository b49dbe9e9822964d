"""Cells: what a loop keeps (TensorArrays, stacks, lists of tensors) as arrays, so that a program of XLA's can keep it.

Elements are rows of one array [room, …].  Before the program their values are put there, afterwards the TensorArray or
the stack has the rows that the program leaves (`run.state.rows`): it changes only then, and at once.  How much room
there has to be, and which shape elements have, is known of what is there, or of what the loop did when it last ran
node by node (`Seen`).
Called by: run.exec.whole_loops, ops._portable.loop_state.  Threads: the one that runs the step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.base import shapes as shape_rules
from headrace.run.devices.device import HOST, NUMBERS, Device
from headrace.run.devices.there import MOST_ROWS, There, here, on, stacked
from headrace.run.state.rows import cut, uncut, whole_of
from headrace.run.state.stacks import Stack
from headrace.run.state.tensor_arrays import EMPTY, TensorArray
from headrace.run.state.tensor_lists import UNLIMITED, TensorList

Store = TensorArray | Stack | TensorList

ARRAY: Final = "array"
STACK: Final = "stack"
LIST: Final = "list"


class Seen(NamedTuple):
    """What a store had when the loop had run: how many elements at most, and their shape; None: none, or several."""

    room: int
    shape: tuple[int, ...] | None


class Kept(NamedTuple):
    """What a program is made for.

    zeros: what was never written is read as zeros.  grows: writes may lie beyond.  alike: what each element holds,
    where that is to be known when the program is made.  spare: there may be more room than elements, though none are
    added.
    """

    kind: str
    room: int
    shape: tuple[int, ...]
    dtype: Any
    clears: bool = False
    adds_up: bool = False
    zeros: bool = False
    grows: bool = False
    alike: bytes | None = None
    spare: bool = False

    @property
    def element(self) -> Any:
        """Each element, if they are all alike; else None."""
        if self.alike is None:
            return None
        return np.frombuffer(self.alike, self.dtype).reshape(self.shape)


class Cells(NamedTuple):
    """values: [room, …]; None where there is nothing yet, and the program is to make it.

    marks: [room] what was done to each, as TensorArrays say it, or whether elements of a list
    are set; None of a stack.  length: how many there are []; None of a list that keeps its length.
    """

    values: Any
    marks: Any
    length: Any


_NOTHING: Final = Cells(None, None, np.int32(0))
"""Of a stack on which nothing is yet."""


def seen(store: Store) -> Seen:
    """What there is."""
    values = _values(store)
    whole = whole_of(values)
    if whole is not None:
        return Seen(len(values), tuple(whole.shape[1:]))
    shapes: set[Any] = {tuple(value.shape) for value in values if value is not None}
    if isinstance(store, TensorArray):
        shapes.update(store.shapes_written())
    return Seen(len(values), next(iter(shapes)) if len(shapes) == 1 else None)


def larger(one: Seen, other: Seen) -> Seen:
    """What both have had; the shape of the later one, if it is known."""
    return Seen(max(one.room, other.room), one.shape if other.shape is None else other.shape)


def kept(store: Store, before: Seen | None, grows: bool, spare: bool = False) -> Kept | None:
    """How a program is to keep it; None if it cannot, or if nobody knows.

    before: see `Seen`; grows: of a list; spare: of an array, so that arrays of other lengths have the same program.
    """
    if isinstance(store, Stack) and not store.contents():
        return _kept_of_empty(store, before)
    now = seen(store)
    dtype = store.element_dtype if isinstance(store, TensorList) else store.dtype
    shape = _shape_of(store, now, before)
    if shape is None or dtype.name not in NUMBERS:
        return None
    room = max(now.room, before.room if before is not None else 0)
    if isinstance(store, TensorArray):
        zeros = all(each == shape for each in store.shapes_unwritten())
        spare = spare and not store.dynamic
        if not (room or store.dynamic):
            return None
        return Kept(
            ARRAY,
            rounded(room) if store.dynamic or spare else now.room,
            shape,
            dtype.np,
            store.clears,
            store.adds_up,
            zeros,
            store.dynamic,
            spare=spare,
        )
    if isinstance(store, Stack):
        if before is None:
            return None
        whole = whole_of(store.contents())
        room = max(rounded(room), 0 if whole is None else whole.shape[0])
        return Kept(STACK, room if store.limit < 0 else min(room, store.limit), shape, dtype.np)
    if not grows:
        return Kept(LIST, now.room, shape, dtype.np) if now.room else None
    if before is None:
        return None
    most = store.max_num_elements
    room = rounded(room) if most == UNLIMITED else min(rounded(room), most)
    return Kept(LIST, room, shape, dtype.np, grows=True)


def _kept_of_empty(stack: Stack, before: Seen | None) -> Kept | None:
    """As `kept`: as each step begins with it."""
    if before is None or before.shape is None or stack.dtype.name not in NUMBERS:
        return None
    room = rounded(before.room)
    room = room if stack.limit < 0 else min(room, stack.limit)
    return Kept(STACK, room, before.shape, stack.dtype.np)


def with_alike(how: Kept, store: Store) -> Kept | None:
    """As it is kept where all elements hold the same, which is known; None if they do not."""
    values = _values(store)
    whole = whole_of(values)
    found = here(whole)[: len(values)] if whole is not None else [here(cut(v)) for v in values]
    if not len(found) or any((each != found[0]).any() for each in found[1:]):
        return None
    return how._replace(alike=np.asarray(found[0], how.dtype).tobytes())


def rounded(room: int) -> int:
    """So that loops that run a little longer need no other program."""
    return 1 << (room - 1).bit_length() if room > 0 else 1


def _shape_of(store: Store, now: Seen, before: Seen | None) -> tuple[int, ...] | None:
    if now.shape is not None:
        return now.shape
    if any(value is not None for value in _values(store)):  # of several shapes
        return None
    known: Any = store.element_shape if isinstance(store, TensorList) else None
    if isinstance(store, TensorArray):
        known = store.shape
    if known is not None and shape_rules.is_fully_defined(known):
        return tuple(known)
    return None if before is None else before.shape


def _values(store: Store) -> Sequence[Any]:
    return store.items() if isinstance(store, TensorList) else store.contents()


# -- there and back ---------------------------------------------------------------------------------------------------


def packed(store: Store, how: Kept, device: Device, bare: bool = False) -> Cells | None:
    """What it has, as arrays of the device, which nobody changes; None if that does not go.

    bare: of a TensorArray or a stack without values there are none.
    """
    values = _values(store)
    if bare and not values and isinstance(store, Stack):
        return _NOTHING
    whole = whole_of(values)
    known = values if whole is None else values[:1]
    if len(values) > how.room or any(
        value is not None and (tuple(value.shape) != how.shape or value.dtype != how.dtype)
        for value in known
    ):
        return None
    length = np.int32(len(values))
    nothing = bare and all(value is None for value in values)
    rows = None if nothing else _rows(values, how, device)
    if isinstance(store, Stack):
        return Cells(rows, None, length)
    if isinstance(store, TensorArray):
        marks = np.full(how.room, EMPTY, np.int8)
        marks[: len(values)] = store.marks()
        return Cells(rows, marks, length)
    is_set = np.zeros(how.room, np.bool_)
    is_set[: len(values)] = [value is not None for value in values]
    return Cells(rows, is_set, length if how.grows else None)


def _rows(values: Sequence[Any], how: Kept, device: Device) -> Any:
    """[room, …] of elements, zeros where there is none."""
    whole = whole_of(values)
    if whole is not None and whole.shape[0] == how.room:
        return on(device, whole)
    shape = (how.room, *how.shape)
    known = [value for value in values if value is not None]
    if device is HOST or (known and (len(values) > MOST_ROWS or not _is_there(values, device))):
        found = np.zeros(shape, how.dtype)
        for at, value in enumerate(values):
            if value is not None:
                found[at] = here(cut(value))
        return on(device, found)
    xp = device.xp
    zeros = device.bound(lambda size: xp.zeros((size, *how.shape), dtype=how.dtype))
    if not known:
        return zeros(how.room)
    first = stacked([cut(value) for value in values])
    missing = how.room - len(values)
    if not missing:
        return on(device, first)
    join = device.bound(lambda rows, rest: xp.concat([rows, rest]))
    return join(on(device, first), zeros(missing))


def _is_there(values: Iterable[Any], device: Device) -> bool:
    found = [cut(value) for value in values]
    return all(isinstance(value, There) and value.device is device for value in found)


def unpack(
    store: TensorArray | Stack, cells: Cells, how: Kept, device: Device, length: int
) -> None:
    """Have it hold what a program has left, so many elements."""
    values = _uncut(cells.values, how, device, length)
    if isinstance(store, Stack):
        store.become(values)
        return
    marks = np.asarray(cells.marks)[: len(values)].tolist()
    store.become(values, marks)


def list_of(cells: Cells, how: Kept, device: Device, like: TensorList) -> TensorList:
    """The list that a program has left, of the kind that another is."""
    is_set = np.asarray(cells.marks)
    length = len(is_set) if cells.length is None else int(cells.length)
    values = _uncut(cells.values, how, device, length)
    return like.replaced(
        [cut(value) if is_set[at] else None for at, value in enumerate(values)],
    )


def _uncut(values: Any, how: Kept, device: Device, count: int) -> list[Any]:
    if device is HOST or not device.keeps(np.dtype(how.dtype).name):
        return uncut(np.asarray(values), count)
    return uncut(There(device, values, np.dtype(how.dtype)), count)
