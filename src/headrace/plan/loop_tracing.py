"""Loops as functions of arrays, which XLA compiles: `lax.while_loop` around what the nodes compute, with branches as
`lax.cond` and loops in loops; what the loop keeps is carried as `Cells`.

A call makes a bounded number of iterations, so that who runs the program can see in between whether the step is to go
on.  What kernels require is carried along: once it does not hold the loop ends, and nothing of it counts.  So are the
streams of its random numbers and the variables that it updates.
Called by: plan.whole_loops, by way of the programs that it makes.  Threads: any; one traces.
Source: https://docs.jax.dev (jax.lax.while_loop, cond: what is carried keeps its shapes and dtypes)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.base.traits import ASSERTS, IDENTITY, OF_SHAPE
from headrace.graph.graph import Operation
from headrace.ops._portable.drawing import Carried
from headrace.ops._portable.loop_state import COUNTS, GRADIENT, LISTS, STORES, Few
from headrace.ops._portable.table import (
    ASSIGN,
    READ,
    ArrayKernel,
    StateKernel,
    check,
    require,
    tracing,
)
from headrace.plan.binding import bound_kernel
from headrace.plan.devices import kernel_of
from headrace.plan.ir import AHEAD, BRANCH, DECIDE, LOOP, SIZES, Instr, Step
from headrace.plan.nesting import Loop, Select
from headrace.run.exec.whole_loops import Form
from headrace.run.state.cells import Cells, Kept

MOST_INSIDE: Final = 1 << 18
"""Iterations of a loop within one of the loop around: there nobody asks whether the step is to go on."""
_LARGEST_KNOWN: Final = 1 << 16  # elements of what follows from shapes

Slot = tuple[int, tuple[bytes, ...]]
"""The value of a store's handle, and of whose gradients it is the store, if it is one of gradients."""


class Traced(NamedTuple):
    """What a loop is made of.  values: of its variables, of what it is given, which of these are known to who traces.

    handles: of each value that stands for a store, which; slots: all of them; filled: those into which something is
    put.  told: of each element that is
    popped from a list and known, the number.  constants: of the step.  draws: nodes that have streams.  states: of each
    value that stands for a variable which the loop updates, its number.
    """

    loop: Instr
    given: Sequence[int]
    known: Sequence[int]
    handles: Mapping[int, Slot]
    slots: Sequence[Slot]
    filled: Collection[Slot]
    told: Mapping[int, int]
    constants: Mapping[int, Any]
    draws: Sequence[Operation]
    states: Mapping[int, int]

    @property
    def changing(self) -> list[int]:
        """The variables that an iteration makes anew, by place."""
        detail: Loop = self.loop.detail
        return changing(detail)


def changing(detail: Loop) -> list[int]:
    """The variables that an iteration makes anew, by place."""
    pairs = zip(detail.variables, detail.nexts, strict=True)
    return [at for at, (variable, following) in enumerate(pairs) if variable != following]


def program(what: Traced, form: Form) -> Callable[..., Any]:
    """A function of (array namespace, most iterations, variables that change, all that is given, stores) that gives
    the variables, the stores, and [whether it goes on, whether all holds, how many elements each store has].

    Behind the stores stand the streams, and what the variables hold that it updates.  Stores that are only read are not
    carried, and have no values in the end: they are what they were.
    """
    detail: Loop = what.loop.detail
    places = what.changing
    variables = [detail.variables[at] for at in places]
    count = len(form.kept)

    def run(xp: Any, most: Any, carried: Any, given: Any, stores: Any) -> Any:
        values = _values(what, form, given)
        for variable, start, following in zip(
            detail.variables, detail.starts, detail.nexts, strict=True
        ):
            if variable == following and start in values:
                values[variable] = values[start]
            elif variable == following and start in what.constants:
                values[variable] = what.constants[start]
        scope = _Scope.of(xp, what, form, values, stores, xp.zeros_like(most))
        after, going, holds = scope.loop(what.loop, carried, variables, most)
        said = [*map(xp.int32, (going, holds)), *[each.length for each in scope.stores[:count]]]
        return after, scope.stores, xp.stack(said)

    return run


def joined_program(
    what: Traced, wanted: Sequence[int], left: Sequence[int], form: Form
) -> Callable[..., Any]:
    """As `program`, of what runs once: the body of a loop without variables.

    wanted: the values that it gives.  left: the slots whose stores it gives, with [whether all holds, how many elements
    each of these has].  most: of each loop inside.
    """
    numbers = [form.same[at] for at in left]

    def run(xp: Any, most: Any, carried: Any, given: Any, stores: Any) -> Any:
        values = _values(what, form, given)
        scope = _Scope.of(xp, what, form, values, stores, xp.zeros_like(most), most)
        holds = scope.run(what.loop.body[1])
        holds = xp.asarray(True) if holds is None else holds
        ends = [scope._array(value) for value in wanted]
        kept = [scope.stores[number] for number in numbers]
        said = [xp.int32(holds), *[each.length for each in kept]]
        return ends, [*kept, *scope.stores[len(form.kept) :]], xp.stack(said)

    return run


def _values(what: Traced, form: Form, given: Any) -> dict[int, Any]:
    """What is given, and what is known."""
    values: dict[int, Any] = dict(zip(what.given, given, strict=True))
    values.update(zip(what.known, form.known, strict=True))
    return values


def _filled(xp: Any, cells: Cells, how: Kept) -> Cells:
    """With room for all values where there are none yet."""
    if cells.values is not None:
        return cells
    return cells._replace(values=xp.zeros((how.room, *how.shape), dtype=how.dtype))


class _Scope:
    """Values while a list of instructions is traced.  stores: what is kept, as far as it has come, with streams and
    variables; read: the values of those that are only read, by number.  count: of iterations, those of loops inside
    included.
    """

    def __init__(
        self,
        xp: Any,
        what: Traced,
        numbers: Mapping[Slot, int],
        form: Form,
        values: dict[int, Any],
        read: Mapping[int, Any],
        stores: list[Any],
        count: Any,
        most_inside: Any = MOST_INSIDE,
    ) -> None:
        self._xp, self._what, self._numbers, self._form = xp, what, numbers, form
        self._values, self.stores, self.count = values, stores, count
        self._read, self._most_inside = read, most_inside
        self._first_stream = len(form.kept)
        self._first_state = self._first_stream + len(what.draws)

    @classmethod
    def of(
        cls,
        xp: Any,
        what: Traced,
        form: Form,
        values: dict[int, Any],
        stores: Sequence[Any],
        *counts: Any,
    ) -> _Scope:
        """As it begins."""
        numbers = {slot: form.same[at] for at, slot in enumerate(what.slots)}
        count = len(form.kept)
        kept = [_filled(xp, *each) for each in zip(stores[:count], form.kept, strict=True)]
        filled = {numbers[slot] for slot in what.filled}
        read = {at: each.values for at, each in enumerate(kept) if at not in filled}
        kept = [each._replace(values=None) if at in read else each for at, each in enumerate(kept)]
        return cls(xp, what, numbers, form, values, read, [*kept, *stores[count:]], *counts)

    def _inner(self, stores: Sequence[Any], count: Any, more: Mapping[int, Any]) -> _Scope:
        values = {**self._values, **more}
        return _Scope(
            self._xp,
            self._what,
            self._numbers,
            self._form,
            values,
            self._read,
            list(stores),
            count,
            self._most_inside,
        )

    def _known_or(self, value: int) -> Any:
        state = self._what.states.get(value)
        if state is not None:
            return self.stores[self._first_state + state]
        found = self._values.get(value)
        return self._what.constants[value] if found is None else found

    def _array(self, value: int) -> Any:
        return self._as_array(self._known_or(value))

    def _as_array(self, found: Any) -> Any:
        if isinstance(found, Few):
            return found.cells(self._xp)
        return self._xp.asarray(found) if _is_known(found) else found

    # -- loops and branches ---------------------------------------------------------------------------------------

    def loop(
        self, instr: Instr, starts: Sequence[Any], variables: Sequence[int], most: Any
    ) -> tuple[list[Any], Any, Any]:
        """What the variables are in the end; whether it would go on; whether all holds."""
        from jax import lax

        xp, detail = self._xp, instr.detail
        head, body, _ = instr.body
        following = dict(zip(detail.variables, detail.nexts, strict=True))
        nexts = [following[variable] for variable in variables]

        def at(carried: Any) -> _Scope:
            count, _, values, stores = carried
            return self._inner(stores, count, dict(zip(variables, values, strict=True)))

        def goes_on(scope: _Scope) -> tuple[Any, Any]:
            holds = scope.run(head)
            return xp.reshape(scope._array(detail.pred), ()), holds

        def again(carried: Any) -> Any:
            count, held, _, _ = carried
            going, holds = goes_on(at(carried))
            if holds is not None:  # else the body is told
                going = xp.logical_or(going, xp.logical_not(holds))
            return xp.logical_and(xp.logical_and(held, count < most), going)

        def once(carried: Any) -> Any:
            _, held, before, _ = carried
            scope = at(carried)
            for holds in (scope.run(head), scope.run(body)):
                held = held if holds is None else xp.logical_and(held, holds)
            values = [scope._like(each, old) for each, old in zip(nexts, before, strict=True)]
            return scope.count + 1, held, values, scope.stores

        first = self.count, xp.asarray(True), list(starts), self.stores
        last = lax.while_loop(again, once, first)
        going, holds = goes_on(at(last))
        self.count, held, values, self.stores = last
        holds = held if holds is None else xp.logical_and(held, holds)
        return values, xp.logical_and(going, holds), holds

    def _like(self, value: int, before: Any) -> Any:
        """The value, of the shape and dtype that the variable has."""
        found = self._array(value)
        check(isinstance(found, Cells) == isinstance(before, Cells))
        if isinstance(found, Cells):
            check(found.values.shape == before.values.shape)
        else:
            check(found.shape == before.shape and found.dtype == before.dtype)
        return found

    def _inner_loop(self, instr: Instr) -> Any:
        detail: Loop = instr.detail
        places = changing(detail)
        for variable, start in zip(detail.variables, detail.starts, strict=True):
            self._values[variable] = self._known_or(start)
        variables = [detail.variables[at] for at in places]
        starts = [self._array(detail.starts[at]) for at in places]
        most = self.count + self._most_inside
        values, going, holds = self.loop(instr, starts, variables, most)
        self._values.update(zip(variables, values, strict=True))
        after = self.run(instr.body[0])
        for part in (after, self.run(instr.body[2])):
            holds = holds if part is None else self._xp.logical_and(holds, part)
        return self._xp.logical_and(holds, self._xp.logical_not(going))

    def _branch(self, instr: Instr) -> Any:
        import jax
        from jax import lax

        xp, (body,) = self._xp, instr.body
        truth = None
        for value, way in instr.detail:
            found = self._known_or(value)
            if _is_known(found):
                if bool(found) is not way:
                    return None
                continue
            one = found if way else xp.logical_not(found)
            truth = one if truth is None else xp.logical_and(truth, one)
        wanted = [value for value in body.results if value in _made(body)]

        def taken(stores: Any, count: Any) -> Any:
            scope = self._inner(stores, count, {})
            holds = scope.run(body)
            found = [scope._array(value) for value in wanted]
            holds = xp.asarray(True) if holds is None else holds
            return found, scope.stores, scope.count, holds

        if truth is None:
            found, self.stores, self.count, holds = taken(self.stores, self.count)
        else:
            shapes, *_ = jax.eval_shape(taken, self.stores, self.count)

            def passed(stores: Any, count: Any) -> Any:
                nothing = jax.tree_util.tree_map(lambda s: xp.zeros(s.shape, s.dtype), shapes)
                return nothing, stores, count, xp.asarray(True)

            found, self.stores, self.count, holds = lax.cond(
                truth, taken, passed, self.stores, self.count
            )
        self._values.update(zip(wanted, found, strict=True))
        return holds

    def _decide(self, instr: Instr) -> None:
        (made,) = instr.outputs
        if not isinstance(instr.detail, Select):
            found = self._known_or(instr.inputs[0])
            is_known = _is_known(found)
            self._values[made] = bool(found) if is_known else self._xp.reshape(found, ())
            return
        truth, one, other = instr.inputs
        if not instr.detail.way:
            one, other = other, one
        holds = self._known_or(truth)
        if _is_known(holds):
            self._values[made] = self._known_or(one if bool(holds) else other)
            return
        self._values[made] = self._chosen(holds, self._array(one), self._array(other))

    def _chosen(self, truth: Any, one: Any, other: Any) -> Any:
        if one is None:
            return None
        if isinstance(one, Cells):
            return Cells(*[self._chosen(truth, a, b) for a, b in zip(one, other, strict=True)])
        check(one.shape == other.shape and one.dtype == other.dtype)
        return self._xp.where(truth, one, other)

    # -- nodes ----------------------------------------------------------------------------------------------------

    def run(self, step: Step) -> Any:
        """Trace a list; whether all holds that it requires, None if it requires nothing."""
        with tracing() as required:
            for instr in step.code:
                if instr.what == LOOP:
                    required.append(self._inner_loop(instr))
                elif instr.what == BRANCH:
                    required.append(self._branch(instr))
                elif instr.what == DECIDE:
                    self._decide(instr)
                else:
                    found = self._found(instr)
                    self._values.update(zip(instr.outputs, found, strict=True))
        holds = None
        for each in required:
            if each is not None:
                holds = each if holds is None else self._xp.logical_and(holds, each)
        return holds

    def _found(self, instr: Instr) -> Sequence[Any]:
        op, xp = instr.op, self._xp
        if op.type in STORES:
            return self._of_store(instr)
        if ASSERTS in op.traits:
            condition = self._array(instr.inputs[0])
            check(condition.ndim == 0)
            require(xp, condition, "what was asserted")
            return ()
        kernel = kernel_of(op)
        if isinstance(kernel, StateKernel) and kernel.does != READ:
            return self._updated(instr, kernel)
        if not instr.outputs:
            return ()
        if op.type == GRADIENT:
            return [None, self._array(instr.inputs[1])]
        given = [self._known_or(value) for value in instr.inputs]
        if instr.what == SIZES:
            assert instr.kernel is not None
            return [instr.kernel(*given)]
        if instr.what == AHEAD:
            return [self._drawn(op, given)]
        if IDENTITY in op.traits:
            return given[:1]
        if op.type in LISTS and (kernel is None or isinstance(given[0], Cells | Few)):
            found = LISTS[op.type](xp, *given, **_attrs(op, LISTS[op.type]))
            told = [self._what.told.get(value) for value in instr.outputs]
            return [
                each if number is None else self._form.told[number]
                for each, number in zip(found, told, strict=True)
            ]
        if kernel is None and op.type in COUNTS and not all(map(_is_known, given)):
            return COUNTS[op.type](xp, *map(self._array, instr.inputs))
        assert op.spec is not None
        if op.spec.ahead_fn is not None and len(given) == len(op.inputs):
            given.append(self._drawn(op, given))
        if OF_SHAPE in op.traits or kernel is None or all(map(_is_known, given)):
            return self._known_found(op, given)
        return self._computed(op, kernel, given)

    def _computed(
        self, op: Operation, kernel: ArrayKernel | StateKernel, given: Sequence[Any]
    ) -> Sequence[Any]:
        """By a kernel of arrays."""
        xp, count = self._xp, len(given)
        stays = [
            kernel.on_host(place, count) and isinstance(kernel, ArrayKernel)
            for place in range(count)
        ]
        taken = [
            each if here else self._as_array(each) for each, here in zip(given, stays, strict=True)
        ]
        function: Any = kernel.function
        if isinstance(kernel, ArrayKernel):
            function = kernel.function_for(xp)
            check(all(_is_known(each) for each, here in zip(given, stays, strict=True) if here))
        found = function(xp, *taken, **_of_kernel(op, kernel))
        assert op.spec is not None
        return [found] if op.spec.single_output or isinstance(kernel, StateKernel) else found

    def _drawn(self, op: Operation, given: Sequence[Any]) -> Any:
        """What a node takes of its stream."""
        at = self._first_stream + self._what.draws.index(op)
        stream = Carried(self._xp, self.stores[at])
        assert op.spec is not None
        assert op.spec.ahead_fn is not None
        attrs = {name: op.attrs[name] for name in op.spec.ahead_attrs}
        found = op.spec.ahead_fn(stream, *given, **attrs)
        self.stores[at] = stream.state
        return found

    def _updated(self, instr: Instr, kernel: StateKernel) -> Sequence[Any]:
        """What it gives, where it gives the variable."""
        xp, count = self._xp, kernel.variables
        places = [self._first_state + self._what.states[value] for value in instr.inputs[:count]]
        others = [
            self._known_or(value) if place in kernel.host else self._array(value)
            for place, value in enumerate(instr.inputs[count:], count)
        ]
        check(all(_is_known(others[place - count]) for place in kernel.host))
        before = [] if kernel.does == ASSIGN else [self.stores[place] for place in places]
        after = kernel.function(xp, *before, *others, **_of_kernel(instr.op, kernel))
        after = [after] if kernel.does == ASSIGN else after
        for place, new in zip(places, after, strict=True):
            old = self.stores[place]
            check(new.shape == old.shape and new.dtype == old.dtype)
            self.stores[place] = new
        return [None for _ in instr.outputs]

    def _known_found(self, op: Operation, given: Sequence[Any]) -> Sequence[Any]:
        """What follows from shapes and known values alone."""
        assert op.spec is not None
        check(OF_SHAPE in op.traits or all(map(_is_known, given)))
        check(not any(isinstance(each, Cells | Few) for each in given))
        with np.errstate(all="ignore"):
            found = bound_kernel(op, op.spec)(*given)
        several = [found] if op.spec.single_output else list(found)
        check(all(np.size(each) <= _LARGEST_KNOWN for each in several))
        return several

    def _of_store(self, instr: Instr) -> Sequence[Any]:
        handle, *others = instr.inputs
        number = self._numbers[self._what.handles[handle]]
        function, given = STORES[instr.op.type], [self._known_or(value) for value in others]
        before, is_read = self.stores[number], number in self._read
        if is_read:
            before = before._replace(values=self._read[number])
        how, attrs = self._form.kept[number], _attrs(instr.op, function)
        after, found = function(self._xp, how, before, *given, **attrs)
        self.stores[number] = after._replace(values=None) if is_read else after
        return found


def _attrs(op: Operation, function: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {each.name: op.attrs[each.name] for each in parameters if each.kind is each.KEYWORD_ONLY}


def _of_kernel(op: Operation, kernel: ArrayKernel | StateKernel) -> dict[str, Any]:
    return {name: op.attrs[name] for name in kernel.attrs if name in op.attrs}


def _is_known(value: Any) -> bool:
    """Whether it is the host's, so that it is a constant of the program."""
    return isinstance(value, (np.ndarray, np.generic, bool))


def _made(step: Step) -> set[int]:
    return {value for instr in step.code for value in instr.outputs}
