"""Whole loops: a loop that is one program of XLA's, compiled for what it is given, beside the loop node by node.

A call of the program makes a bounded number of iterations, as many as take some hundredths of a second, and then the
step's scope is asked whether it is to go on: so Ctrl-C and deadlines work.  What the loop keeps is put into arrays
before and taken from them afterwards (`run.state.cells`); until then nothing has changed, so that where the program
is not ready, or what its nodes require does not hold, the loop runs node by node.  That also says how much room what it
keeps has to have.  Streams of random numbers, and variables that the loop updates, have come to where the program has
left them at one moment, when it is over: if another step has drawn from one of them or updated one meanwhile, what it
has computed does not count, and the loop runs node by node.
Called by: plan.whole_loops, plan.emit.  Threads: any; all state of a run is in the registers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from headrace.base import errors
from headrace.run.devices.device import HOST, Device
from headrace.run.exec.branches import Loop, several
from headrace.run.exec.fused import FusedKernel
from headrace.run.exec.instructions import Kernel, Registers
from headrace.run.exec.outcome import cause, explain
from headrace.run.state import cells
from headrace.run.state.cells import Cells, Kept, Seen, Store
from headrace.run.state.on_device import OnDevice
from headrace.run.state.stacks import Stack
from headrace.run.state.tensor_arrays import TensorArray
from headrace.run.state.tensor_lists import TensorList
from headrace.run.state.variable import Locked, State
from headrace.run.uninterrupted import changes

_FIRST: Final = 256  # iterations of a call
_SHORT_S: Final = 0.01
LONG_S: Final = 0.1
MOST: Final = 1 << 40
_LARGEST_KNOWN: Final = 64  # elements of what is a constant of a program
_SHAPES_SEEN: Final = 64
_FEW_FORMS: Final = 2
"""With more, arrays of TensorArrays are made a little longer than they have to be."""


class Form(NamedTuple):
    """What a program is made for.  known: values that are constants of it.  kept: of each store; same: the number of
    the store that each slot stands for.  told: what each element holds of lists that are to be known.
    """

    known: Sequence[Any]
    kept: Sequence[Kept]
    same: Sequence[int]
    told: Sequence[Any]


class Streams(Protocol):
    """Streams of random numbers, of which a program takes by itself (`ops._kernels.random_streams`)."""

    def now(self) -> list[Any]:
        """What each is at."""

    def advance(self, before: Sequence[Any], after: Sequence[Any]) -> bool:
        """Have them at `after`; False, and nothing, if they are not at `before` any more."""


class Given(NamedTuple):
    """What a call of the program takes: the variables of the loop that change, the rest, what it keeps, what streams
    are at, what variables hold that it updates.  states: those; updates: how many they have had.
    """

    carried: list[Any]
    rest: list[Any]
    cells: list[Cells]
    streams: list[Any]
    held: list[Any]
    form: Form
    stores: list[Store]
    lists: list[Kept | None]
    states: list[State]
    updates: list[int]


class Taken(NamedTuple):
    """How a program takes the values of a loop: those that it is given, by place: starts of variables, then others.

    changing: variables that change, by place.  rest, known: values that are given as arrays, and as constants.  slots:
    (place, whose gradients) of stores.  grows: places of variables that are lists which change their length.  reads:
    slots into which it puts nothing, so that what they hold is given, and not given back.  alike:
    slots whose elements are to be known; told: places of lists of which that is so.  dtypes: of all values that are
    arrays.  wanted: which variables somebody wants in the end.  streams: that it draws from.  states: places of
    variables that it updates.
    """

    changing: Sequence[int]
    rest: Sequence[int]
    known: Sequence[int]
    slots: Sequence[tuple[int, tuple[bytes, ...]]]
    grows: frozenset[int]
    reads: frozenset[int]
    alike: frozenset[int]
    told: Sequence[int]
    wanted: Sequence[bool]
    dtypes: Sequence[Any]
    streams: Streams
    states: Sequence[int]


class Group(Protocol):
    """Several loops that are to be one program together."""

    @property
    def is_over(self) -> bool:
        """Whether each is to have a program of its own."""


class LoopProgram(FusedKernel):
    """make: (form) -> a function as `plan.loop_tracing.program` has it.

    waits_for: what it is part of; until that is over it runs node by node.
    """

    stands_alone = True

    def __init__(
        self, make: Callable[[Form], Callable[..., Any]], taken: Taken, device: Device
    ) -> None:
        super().__init__(make, (), device)
        self._taken = taken
        self._per_call = _FIRST
        self._bare = True  # stores without values are made by the program, which ends in one call
        self._spares = False  # arrays of several lengths are to have one program
        self._latest = threading.local()
        self.waits_for: Group | None = None
        self._seen: dict[Any, dict[int, Seen]] = {}  # of slots and lists, by what was given

    @property
    def slots(self) -> Sequence[tuple[int, tuple[bytes, ...]]]:
        """See `Taken`."""
        return self._taken.slots

    def run(self, values: Sequence[Any], scope: Any, there: Sequence[bool]) -> list[Any] | None:
        """What the variables are in the end; None where the loop is to run node by node, and nothing has changed.

        there: which of them stay on the device.  What nobody wants is what it was before.
        """
        if self.waits_for is not None and not self.waits_for.is_over:
            return None
        found = None
        try:
            given = None if self._forked() else self._given_of(values)
            if given is not None:
                found = self._finished(given, values, scope, there)
        except (errors.ResourceExhaustedError, errors.FailedPreconditionError):
            # Node by node it may take less, or say which it is, as of a variable without a value.
            pass
        if found is None:
            self.fell_back += 1
        return found

    # -- what is given --------------------------------------------------------------------------------------------

    def _given_of(self, values: Sequence[Any]) -> Given | None:
        taken = self._taken
        if any(map(_is_unset, values)):
            return None  # node by node it is said which node finds that
        stores, states = self._stores_of(values), self._states_of(values)
        known = [np.asarray(values[place]) for place in taken.known]
        if stores is None or states is None or any(each.size > _LARGEST_KNOWN for each in known):
            return None
        before = self._seen.get(self._shapes(values), {})
        unique: dict[int, int] = {}
        kept, packed, held = list[Kept](), list[Cells](), list[Store]()
        for at, store in enumerate(stores):
            if id(store) in unique:
                continue
            how = self._kept_of(at, store, before)
            if how is not None and at in taken.alike:
                how = cells.with_alike(how, store)
            bare = self._bare and at not in taken.reads
            found = None if how is None else self._packed_of(store, how, bare)
            if how is None or found is None:
                return None
            unique[id(store)] = len(kept)
            kept.append(how)
            packed.append(found)
            held.append(store)
        given = self._arrays_of(values, before)
        told = [self._element(values[place], before.get(-1 - place)) for place in taken.told]
        if given is None or any(each is None for each in told):
            return None
        arrays, lists = given
        count = len(taken.changing)
        form = Form(known, kept, [unique[id(store)] for store in stores], told)
        updates = [each.updates for each in states]  # before they are read
        return Given(
            arrays[:count],
            arrays[count:],
            packed,
            taken.streams.now(),
            [self._array(*each) for each in zip(states, taken.states, strict=True)],
            form,
            held,
            lists,
            states,
            updates,
        )

    def _kept_of(self, at: int, store: Any, seen: dict[int, Seen]) -> Kept | None:
        """How the program is to keep the store of a slot."""
        return cells.kept(store, seen.get(at), False, self._spares)

    def _packed_of(self, store: Any, how: Kept, bare: bool) -> Cells | None:
        return cells.packed(store, how, self._device, bare)

    def _arrays_of(
        self, values: Sequence[Any], before: dict[int, Seen]
    ) -> tuple[list[Any], list[Kept | None]] | None:
        """The variables that change, and the rest, and how those are kept that are lists."""
        arrays, lists = list[Any](), list[Kept | None]()
        for place in (*self._taken.changing, *self._taken.rest):
            value = values[place]
            how = None
            if isinstance(value, TensorList):
                how = cells.kept(value, before.get(-1 - place), place in self._taken.grows)
                value = None if how is None else cells.packed(value, how, self._device)
                if value is None:
                    return None
            else:
                value = self._array(value, place)
            arrays.append(value)
            lists.append(how)
        return arrays, lists

    def _states_of(self, values: Sequence[Any]) -> list[State] | None:
        """The variables that it updates; None if it must not, or reads one of them by another name."""
        found = [values[place] for place in self._taken.states]
        named = [*map(id, found), *[id(values[place]) for place in self._taken.rest]]
        if any(named.count(id(each)) > 1 for each in found):
            return None
        for each in found:
            if not isinstance(each, State) or each.device is not HOST or each.held() is None:
                return None
        return found

    def _element(self, value: Any, before: Seen | None) -> Any:
        """What each element of a list holds; None if they are not alike."""
        how = cells.kept(value, before, True) if isinstance(value, TensorList) else None
        found = None if how is None else cells.with_alike(how, value)
        return None if found is None else found.element

    def _array(self, value: Any, place: int) -> Any:
        """What a variable holds, or another value, as an array that nobody changes."""
        if isinstance(value, OnDevice) and value.device is self._device:
            return value.there()
        if isinstance(value, State):
            value = value.read()
        if isinstance(value, (np.ndarray, np.generic, int, float, bool)):
            return np.asarray(value, self._taken.dtypes[place])
        return value

    def _stores_of(self, values: Sequence[Any]) -> list[Store] | None:
        found = list[Store]()
        for place, sources in self._taken.slots:
            store = values[place]
            for source in sources:
                if not isinstance(store, TensorArray) or store.is_closed:
                    return None
                store = store.gradient(source.decode())
            if not isinstance(store, (TensorArray, Stack)) or store.is_closed:
                return None
            found.append(store)
        return found

    def _shapes(self, values: Sequence[Any]) -> Any:
        taken = self._taken
        known = [np.asarray(values[place]).tobytes() for place in taken.known]
        return tuple(known), tuple(
            [_shape_of(values[place]) for place in (*taken.changing, *taken.rest)]
        )

    # -- running --------------------------------------------------------------------------------------------------

    def _finished(
        self, given: Given, values: Sequence[Any], scope: Any, there: Sequence[bool]
    ) -> list[Any] | None:
        form = self._form_of(given)
        if form is None:
            return None
        carried, kept = given.carried, [*given.cells, *given.streams, *given.held]
        count = len(given.cells)
        while True:
            began = time.perf_counter()
            carried, left, said = form(np.int64(self._per_call), carried, given.rest, kept)
            kept = [*map(with_values, left[:count], kept), *left[count:]]
            going, holds, *lengths = np.asarray(said).tolist()
            if not holds:
                return None
            if not going:
                break
            if any(each.values is None for each in given.cells):
                self._bare = False
                return None
            took = time.perf_counter() - began
            if took < _SHORT_S:
                self._per_call = min(4 * self._per_call, MOST)
            elif took > LONG_S:
                self._per_call = max(self._per_call // 2, 1)
            scope.check()
        ends = self._ends(given, values, carried, there)
        if not self._has_committed(given, kept[count:]):
            return None
        for store, how, left, length in zip(
            given.stores, given.form.kept, kept[:count], lengths, strict=True
        ):
            cells.unpack(store, left, how, self._device, length)  # type: ignore[arg-type]
        return ends

    def _form_of(self, given: Given) -> Callable[..., Any] | None:
        """What is compiled for it, if that is ready."""
        key = _key(given)
        if key not in self._forms and self._changes_rooms(given):
            return None  # it is made for what the next run gives
        return self._form_for(key, lambda: _only_likes(given))

    def _changes_rooms(self, given: Given) -> bool:
        """Whether the next run gives other rooms, since TensorArrays seem to come in one length after another."""
        if self._spares or self._device is not HOST or len(self._forms) < _FEW_FORMS:
            return False
        self._spares = any(how.kind == cells.ARRAY and not how.grows for how in given.form.kept)
        return self._spares

    @changes
    def _has_committed(self, given: Given, after: Sequence[Any]) -> bool:
        """Have streams and variables what the program has left of them; False, and nothing, if they have changed."""
        if not after:
            return True
        count = len(given.streams)
        arrays = [*map(np.asarray, after)]
        with Locked(given.states):
            for variable, updates in zip(given.states, given.updates, strict=True):
                if variable.updates != updates or variable.held() is None:
                    return False
            if not self._taken.streams.advance(given.streams, arrays[:count]):
                return False
            for variable, array in zip(given.states, arrays[count:], strict=True):
                variable.rewrite(partial(_copy, array))
        return True

    def _ends(
        self, given: Given, values: Sequence[Any], carried: Sequence[Any], there: Sequence[bool]
    ) -> list[Any]:
        ends = [*values[: len(there)]]
        for place, value, how in zip(self._taken.changing, carried, given.lists, strict=False):
            if not self._taken.wanted[place]:
                continue
            if how is not None:
                ends[place] = cells.list_of(value, how, self._device, values[place])
            elif there[place]:
                ends[place] = value
            else:
                ends[place] = np.asarray(value) if self._device is HOST else self._device.get(value)
        return ends

    def _compile_for(self, given: Given) -> Callable[..., Any]:
        from headrace.run.devices import xla  # where there is JAX

        function = self._function(given.form)
        program = xla.program if self._device is HOST else self._device.program
        made = program(function)
        kept: list[Any] = [*given.cells, *given.streams, *given.held]
        like = [self._zeros(each) for each in (given.carried, given.rest, kept)]
        made(np.int64(0), *like)
        return made

    def _made(self, likes: Any, told: Sequence[Any]) -> Callable[..., Any]:
        """See `FusedKernel`: what is given, of which only shapes and dtypes are looked at."""
        return self._compile_for(likes)

    def _zeros(self, tree: Any) -> Any:
        if tree is None:
            return None
        if isinstance(tree, Cells):
            return Cells(*map(self._zeros, tree))
        if isinstance(tree, list):
            return [*map(self._zeros, tree)]
        shape, dtype, is_here = tree
        found = np.zeros(shape, dtype)
        return found if is_here else self._device.put(found)

    # -- what is learnt -------------------------------------------------------------------------------------------

    def before(self, values: Sequence[Any]) -> dict[int, Seen]:
        """What its stores have before the loop runs node by node."""
        stores = self._stores_of(values) or ()
        return {at: cells.seen(store) for at, store in enumerate(stores)}

    def after(self, values: Sequence[Any], before: dict[int, Seen], ends: Sequence[Any]) -> None:
        """Remember what they have had, for what was given."""
        found = self.before(values)
        for place in self._taken.changing:
            if isinstance(values[place], TensorList) and isinstance(ends[place], TensorList):
                found[-1 - place] = cells.larger(cells.seen(values[place]), cells.seen(ends[place]))
        for at, earlier in before.items():
            if at in found:
                found[at] = cells.larger(earlier, found[at])
        self._latest.found = self._remember(self._shapes(values), found)

    @property
    def latest(self) -> dict[int, Seen]:
        """What its stores had, by slot, when it last ran node by node in this thread."""
        return getattr(self._latest, "found", {})

    def _remember(self, shapes: Any, found: dict[int, Seen]) -> dict[int, Seen]:
        """What there has been, with what was known before."""
        known = self._seen.get(shapes, {})
        for at, now in found.items():
            if at in known:
                found[at] = cells.larger(known[at], now)
        if shapes not in self._seen and len(self._seen) >= _SHAPES_SEEN:
            self._seen.clear()
        self._seen[shapes] = found
        return found


def _shape_of(value: Any) -> Any:
    if isinstance(value, TensorList):
        return "list", value.length
    return tuple(value.held().shape if isinstance(value, State) else np.shape(value))


def _key(given: Given) -> Any:
    arrays = [
        None if isinstance(each, Cells) else tuple(np.shape(each))
        for each in (*given.carried, *given.rest)
    ]
    known = [(each.shape, each.tobytes()) for each in (*given.form.known, *given.form.told)]
    kept = [(*how[:3], np.dtype(how.dtype).str, *how[4:]) for how in (*given.form.kept,)]
    lists = [None if how is None else (how.room, how.shape, how.grows) for how in given.lists]
    rooms = [None if each.values is None else each.values.shape[0] for each in given.cells]
    return (
        tuple(arrays),
        tuple(known),
        tuple(kept),
        tuple(lists),
        tuple(rooms),
        tuple(given.form.same),
        tuple([each.shape for each in given.held]),
    )


def _only_likes(given: Given) -> Given:
    """Shapes and dtypes in the place of arrays, which others may change or let go of."""
    return given._replace(
        carried=_likes(given.carried),
        rest=_likes(given.rest),
        cells=_likes(given.cells),
        streams=_likes(given.streams),
        held=_likes(given.held),
        stores=[],
        states=[],
    )


def _likes(tree: Any) -> Any:
    if tree is None:
        return None
    if isinstance(tree, Cells):
        return Cells(*map(_likes, tree))
    if isinstance(tree, list):
        return [*map(_likes, tree)]
    return tuple(tree.shape), tree.dtype, isinstance(tree, (np.ndarray, np.generic))


def with_values(after: Cells, before: Cells) -> Cells:
    """What a program has left of a store, whose values it does not give back if it has only read them."""
    return after._replace(values=before.values) if after.values is None else after


def _is_unset(value: Any) -> bool:
    """Whether it is a variable without a value."""
    return isinstance(value, State) and value.held() is None


def _copy(value: Any, before: Any, after: Any) -> None:
    np.copyto(after, value)


def kernel(
    loop: Loop, program: LoopProgram, given: Sequence[int], there: Sequence[bool], rest: bool
) -> Kernel:
    """The loop as one kernel, of the program where that is ready.

    given: registers of what it takes beside the starts of its variables.  rest: others want what the head and the tail
    give when the loop is over.
    """
    plain, pick = loop.kernel(), several((*loop.starts, *given))
    first, end, node = loop.first, loop.first + len(loop.starts), loop.node
    head, tail = loop.head, loop.tail

    def run(r: Registers) -> None:
        values = pick(r)
        try:
            ends = program.run(values, r[0].scope, there)
        except Exception as error:  # as if the LoopCond had failed
            raise explain(error, node, [], r[0]) from cause(error)
        if ends is not None:
            r[first:end] = ends
            if rest:
                head.run(r)
                tail.run(r)
            return
        before = program.before(values)
        plain(r)
        program.after(values, before, r[first:end])

    return run
