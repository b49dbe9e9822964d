"""Sizes: what can be said of shapes before the step runs, though the graph does not know all of their sizes.

A size that nobody knows is what it is where it comes from (the batch of what is fed), and all that is made of it says
so (`ops._kernels.size_rules`).  What nodes make of shapes is known then, or known to be the same as something else:
- numbers that are the same in every step become constants;
- others are made at once of the shapes that they follow from, not of what has come of these since: nobody waits for a
  result in order to ask for its shape, and what is only asked for its shape may stay in a group;
- reshapes to the shape that is there, broadcasts to it and sums along no axis are what they are given.
Two sizes of different origin are never taken to be equal, nor other than 1.  Loops are looked at until what their
variables are at first is what they are after an iteration.
What has effects gets what it got, and comes after what it came after.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import zip_longest
from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.traits import DRAWS, OF_SHAPE
from headrace.graph.const_value import KERNEL_FAILURES
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.ops._kernels import number_rules, size_rules, symbolic_sizes
from headrace.ops._kernels.size_rules import MOST, Node, Numbers, Partly, Sizes
from headrace.plan.folding import from_constants, keep
from headrace.plan.ir import BRANCH, DECIDE, LOOP, NODE, NOTHING, SIZES, Instr, Step, instrs
from headrace.plan.nesting import Loop, Select, closed
from headrace.plan.stored_sizes import Put, Stores

_MOST_ROUNDS: Final = 6
"""In which a loop is looked at."""
_LEAST_BYTES: Final = 4
"""Of an integer that is a size: int32 and int64."""
_FLOW: Final = (BRANCH, LOOP, DECIDE)


def resolve(step: Step) -> Step:
    """The pass."""
    if not any(OF_SHAPE in instr.op.traits for instr in step.everything):
        return step
    return _Resolving(step, Known(step)).done()


class Known:
    """Shapes and small numbers of the values of a step.

    origin: of numbers, a node that asks for a shape behind them.  taken_by_flow: what branches, loops and decisions
    know by its number.
    """

    def __init__(self, step: Step) -> None:
        self._values = step.values
        self._shapes: dict[int, Sizes | None] = {}
        self._numbers: dict[int, Numbers | None] = {}
        self.origin: dict[int, Operation] = {}
        self.taken_by_flow = _taken_by_flow(step.everything)
        self._stores = Stores(step.everything, {*self.taken_by_flow, *step.results})
        self._inside = _made_inside(step.code) if step.nests else set()
        self._running: set[Instr] = set()  # in the loops that are looked at
        self._look(step.code)

    def shape(self, value: int) -> Sizes | None:
        """Its sizes; None if nobody knows how many."""
        if value not in self._shapes:
            self._shapes[value] = self._filled(value, None)
        return self._shapes[value]

    def numbers(self, value: int) -> Numbers | None:
        """What it is, if it is a vector of few integers, or one."""
        if value not in self._numbers:
            self._numbers[value] = self._of_constant(value)
        return self._numbers[value]

    def node(self, instr: Instr) -> Node | None:
        """What rules see of a node; None of what is no plain one."""
        spec = instr.op.spec
        if instr.what != NODE or instr.body or spec is None or spec.kernel is None:
            return None
        shapes, numbers, inputs = self._shapes, self._numbers, instr.inputs
        for value in inputs:
            if value not in shapes:
                shapes[value] = self._filled(value, None)
            if value not in numbers:
                numbers[value] = self._of_constant(value)
        return Node(instr.op, [*map(shapes.get, inputs)], [*map(numbers.get, inputs)])

    def told(self) -> AbstractSet[int]:
        """Values whose numbers are known."""
        return {value for value, numbers in self._numbers.items() if numbers is not None}

    # -- values ---------------------------------------------------------------------------------------------------

    def _of_constant(self, value: int) -> Numbers | None:
        known = self._values.constants.get(value)
        if not isinstance(known, np.ndarray) or known.ndim > 1:
            return None
        if known.dtype.kind != "i" or known.dtype.itemsize < _LEAST_BYTES:
            return None
        return None if known.size > MOST else size_rules.array(known.ravel().tolist(), known.shape)

    def _filled(self, value: int, found: Partly | None) -> Sizes | None:
        """What was found, the graph knows, or is what it is."""
        known = self._values.constants.get(value)
        if isinstance(known, np.ndarray):
            return tuple(known.shape)
        tensor = self._values.tensors[value]
        if tensor is None or tensor._dtype is dtypes.resource or tensor._dtype is dtypes.variant:
            return None
        raw: Partly | None = tensor._raw
        if raw is not None and None not in raw:
            return tuple(raw)  # type: ignore[arg-type]
        if value in self._values.changing:  # it may have another shape when somebody looks
            return None
        if raw is None or (found is not None and len(found) != len(raw)):
            raw = found if raw is None else raw
            found = None
        if raw is None:
            return None
        if found is not None:
            raw = [more if size is None else size for size, more in zip(raw, found, strict=True)]
        if None in raw:
            axis = symbolic_sizes.axis
            raw = [axis(value, at) if size is None else size for at, size in enumerate(raw)]
        return tuple(raw)  # type: ignore[arg-type]

    def _same(self, value: int, one: Sizes | None, other: Sizes | None) -> Sizes | None:
        """What is the same in both."""
        if one is None or other is None or len(one) != len(other):
            return self._filled(value, None)
        pairs = zip(one, other, strict=True)
        return self._filled(value, [a if a == b else None for a, b in pairs])

    # -- instructions ---------------------------------------------------------------------------------------------

    def _look(self, code: Iterable[Instr]) -> None:
        for instr in code:
            if instr.detail is None:
                self._look_at(instr)
            elif instr.what == LOOP:
                self._look_at_loop(instr)
            elif instr.what == BRANCH:
                self._look(instr.body[0].code)
            elif isinstance(instr.detail, Select):
                (value,) = instr.outputs
                _, one, other = instr.inputs
                self._shapes[value] = self._same(value, self.shape(one), self.shape(other))
            else:
                self._look_at(instr)

    def _look_at(self, instr: Instr) -> None:
        kind = instr.op.type
        gets = kind in size_rules.GETS
        puts = self._stores.put_before(instr, self._running) if gets else ()
        if not puts and not self._tells(instr):
            return
        shapes: Sequence[Partly | None] = ()
        numbers: Sequence[Numbers | None] = ()
        if puts:
            shapes, numbers = [self._kept_shape(instr, puts)], [self._kept_numbers(puts)]
        elif (node := self.node(instr)) is not None:
            try:
                shapes = size_rules.shapes_of(node)
                if kind in number_rules.NAMES:
                    numbers = number_rules.numbers_of(node)
            except KERNEL_FAILURES:  # it does not fit, which is an error of the step
                shapes = numbers = ()
        for value, shape, found in zip_longest(instr.outputs, shapes, numbers):
            if value is None:  # more is known than it gives
                break
            self._shapes[value] = self._filled(value, shape)
            found = found if puts or not instr.effects else None
            self._numbers[value] = found
            if found is not None:
                given = [*instr.inputs, *[put.value for put in puts]]
                origin = [self.origin[each] for each in given if each in self.origin]
                if OF_SHAPE in instr.op.traits:
                    self.origin[value] = instr.op
                elif origin:
                    self.origin[value] = origin[0]

    def _tells(self, instr: Instr) -> bool:
        """Whether more may follow for what it gives than the graph knows."""
        if instr.op.type in number_rules.NAMES:
            return True
        for value in instr.outputs:
            tensor = self._values.tensors[value]
            if tensor is None or tensor._raw is None or None in tensor._raw:
                return True
        return False

    def _kept_shape(self, instr: Instr, puts: Sequence[Put]) -> Partly | None:
        """Of what comes out of a store."""
        found = []
        for put in puts:
            shape = self.shape(put.value)
            if shape is None or (put.rows and not shape):
                return None
            found.append(shape[1:] if put.rows else shape)
        if any(shape != found[0] for shape in found) or not self._is_for_all(found[0]):
            return None
        if not size_rules.GETS[instr.op.type]:
            return found[0]
        rows = self.shape(instr.inputs[1])
        return None if rows is None or len(rows) != 1 else (*rows, *found[0])

    def _kept_numbers(self, puts: Sequence[Put]) -> Numbers | None:
        found = [None if put.rows else self.numbers(put.value) for put in puts]
        first = found[0]
        if first is None or not self._is_for_all(first.reshape(-1).tolist()):
            return None
        alike = [each is not None and each.shape == first.shape for each in found]
        return first if all(alike) and all((each == first).all() for each in found) else None

    def _is_for_all(self, sizes: Iterable[Any]) -> bool:
        """Whether they are not those of one iteration."""
        asked = {each.value for size in sizes for each in symbolic_sizes.sources(size)}
        return self._inside.isdisjoint(asked)

    def _look_at_loop(self, instr: Instr) -> None:
        detail: Loop = instr.detail
        for variable, start, after in zip(
            detail.variables, detail.starts, detail.nexts, strict=True
        ):
            self._shapes[variable] = self._filled(variable, self.shape(start))
            self._numbers[variable] = self.numbers(start) if after == variable else None
        running = {each for part in instr.body for each in instrs(part.code)} - self._running
        self._running |= running
        self._settle(instr, detail)
        self._running -= running

    def _settle(self, instr: Instr, detail: Loop) -> None:
        for number in range(_MOST_ROUNDS + 1):
            for part in instr.body:
                self._look(part.code)
            changed = False
            for variable, after in zip(detail.variables, detail.nexts, strict=True):
                assumed = self.shape(variable)
                found = self._same(variable, assumed, self.shape(after))
                if found != assumed:
                    changed = True
                    self._shapes[variable] = (
                        found if number < _MOST_ROUNDS - 1 else self._filled(variable, None)
                    )
            if not changed:
                return
        for variable in detail.variables:
            self._shapes[variable] = self._filled(variable, None)
        for part in instr.body:
            self._look(part.code)


def _made_inside(code: Iterable[Instr]) -> set[int]:
    """Values of branches and loops."""
    return {value for instr in code if instr.what in (BRANCH, LOOP) for value in instr.outputs}


def _has_a_shape(tensor: Tensor) -> bool:
    """Whether it is an array that nobody changes."""
    kind = tensor._dtype
    return not (kind._is_ref_dtype or kind is dtypes.resource or kind is dtypes.variant)


# -- what follows -----------------------------------------------------------------------------------------------------

Path = tuple[int, ...]
"""Of a list of instructions: it is inside of those whose paths this path begins with."""


class _Resolving:
    """same: values that are another one.  inside: of what is made in a branch or a loop, the path of its list.

    more: instructions for a list, by its path, and the place that they stand before.
    """

    def __init__(self, step: Step, known: Known) -> None:
        self._step, self._known, self._values = step, known, step.values
        self._awaited = {control for instr in step.everything for control in instr.controls}
        self._fixed = known.taken_by_flow
        self._told = known.told()
        self._same: dict[int, int] = {}
        self._maker: dict[int, Instr] = {}
        self._places: dict[Path, dict[Instr, int]] = {}  # of instructions in each list
        self._inside: dict[int, Path] = {}
        self._loops: dict[int, Path] = {}  # of variables
        self._more: dict[Path, dict[int, list[Instr]]] = {}
        self._ready: dict[Any, int] = {}
        self._given: dict[Instr, tuple[int, ...]] = {}
        self._gone: set[Instr] = set()
        self._instead: dict[Operation, Operation | None] = {}  # of what is waited for
        self._loaded = [*step.loaded]

    def done(self) -> Step:
        self._place(self._step.code, ())
        self._look(self._step.code, ())
        results = [self._first(value) for value in self._step.results]
        if not self._given and not self._gone:
            return self._step
        used = {*results, *self._fixed}
        for more in self._more.values():
            used.update(value for each in more.values() for i in each for value in i.inputs)
        self._drop(self._step, used)
        made = self._made_of(self._step, (), results)
        made.loaded = self._loaded
        return made

    def _place(self, code: Sequence[Instr], path: Path) -> None:
        self._places[path] = dict(zip(code, range(len(code)), strict=True))
        plain = [instr for instr in code if instr.what not in (BRANCH, LOOP)]
        self._maker.update((value, instr) for instr in plain for value in instr.outputs)
        if path:
            self._inside.update((value, path) for instr in plain for value in instr.outputs)
        for at, instr in enumerate(code) if len(plain) < len(code) else ():
            if instr.what in (BRANCH, LOOP):
                inside = (*path, at)
                if isinstance(instr.detail, Loop):
                    self._loops.update(dict.fromkeys(instr.detail.variables, inside))
                for number, body in enumerate(instr.body):
                    self._place(body.code, (*inside, number))

    def _made(self, value: int) -> tuple[Path, int]:
        """Where it is made: the path of the list, and the place there; before all if it is there from the start."""
        maker = self._maker.get(value)
        if maker is None:
            return (), -1
        path = self._inside.get(value, ())
        return path, self._places[path][maker]

    def _first(self, value: int) -> int:
        while value in self._same:
            value = self._same[value]
        return value

    # -- instructions ---------------------------------------------------------------------------------------------

    def _look(self, code: Iterable[Instr], path: Path) -> None:
        told, constants = self._told, self._values.constants.keys()
        for at, instr in enumerate(code):
            if instr.what in (BRANCH, LOOP):
                for number, body in enumerate(instr.body):
                    self._look(body.code, (*path, at, number))
                continue
            given = instr.inputs
            if not self._same.keys().isdisjoint(given):
                given = tuple([self._first(value) for value in given])
            plain = instr.what == NODE and not instr.body
            if plain and instr.op.type in size_rules.MAY_GIVE_FIRST and self._hands_on(instr):
                self._same[instr.outputs[0]] = given[0]
                self._gone.add(instr)
                if instr.op in self._awaited:
                    maker = self._maker.get(given[0])
                    self._instead[instr.op] = None if maker is None else maker.op
                continue
            if plain and not (told.isdisjoint(given) and constants.isdisjoint(given)):
                free = not instr.effects or DRAWS in instr.op.traits
                if free and not self._is_known(instr):
                    given = tuple([self._quickly(value, path) for value in given])
                    if given != instr.inputs and self._folds(instr, given):
                        continue
            if given != instr.inputs:
                self._given[instr] = given

    def _is_known(self, instr: Instr) -> bool:
        """Whether all that it gives is numbers that are known."""
        if instr.op.type not in number_rules.NAMES and instr.op.type not in size_rules.GETS:
            return False
        for value in instr.outputs:
            if self._known.numbers(value) is None:
                return False
        return bool(instr.outputs)

    def _is_free(self, instr: Instr) -> bool:
        """Whether nobody knows it but by what it gives."""
        return not (instr.effects or instr.controls or instr.op in self._awaited)

    def _folds(self, instr: Instr, given: tuple[int, ...]) -> bool:
        """Whether it can be computed now, and is."""
        if not self._is_free(instr) or not all(map(self._values.constants.__contains__, given)):
            return False
        found = from_constants(instr.changed(inputs=given), self._step)
        if found is None:
            return False
        keep(instr, found, self._values)
        self._loaded.append((instr.op, instr.outputs))
        self._gone.add(instr)
        return True

    def _hands_on(self, instr: Instr) -> bool:
        if (
            instr.effects
            or instr.controls
            or len(instr.outputs) != 1
            or instr.outputs[0] in self._fixed
        ):
            return False
        if not instr.inputs or instr.inputs[0] in self._values.changing:
            return False
        tensor = self._values.tensors[instr.inputs[0]]
        if tensor is None or not _has_a_shape(tensor):
            return False
        made = self._known.shape(instr.outputs[0])
        node = self._known.node(instr)
        return node is not None and size_rules.gives_first(node, made)

    # -- numbers --------------------------------------------------------------------------------------------------

    def _quickly(self, value: int, path: Path) -> int:
        """What has the same numbers, and is there before; the value itself if nothing is."""
        maker, numbers = self._maker.get(value), self._known.numbers(value)
        if numbers is None or maker is None or maker.what != NODE:
            return value
        if maker.effects and maker.op.type not in size_rules.GETS:
            return value
        sizes = numbers.reshape(-1).tolist()
        kind = self._values.tensor(value)._dtype._base
        key = kind, numbers.shape, tuple(sizes)
        if all(isinstance(size, int) for size in sizes):
            found = self._ready.get(key)
            if found is None:
                found = self._ready[key] = self._values.new(self._values.tensor(value))
                self._values.constants[found] = _fixed_array(sizes, numbers.shape, kind)
            return found
        asked = list(
            dict.fromkeys(each.value for size in sizes for each in symbolic_sizes.sources(size))
        )
        if OF_SHAPE in maker.op.traits and set(asked) <= set(maker.inputs):
            return value
        return self._made_at_once(value, key, asked, path)

    def _made_at_once(self, value: int, key: Any, asked: Sequence[int], path: Path) -> int:
        """What makes the numbers of the shapes that they follow from, as early as there are these."""
        where, place = self._earliest(asked, path)
        known = self._ready.get((where, key))
        if known is not None:
            return known
        kind, shape, sizes = key
        made = self._ready[where, key] = self._values.new(self._values.tensor(value))
        op = self._known.origin[value]
        after = next(iter(self._places[where])).after
        if not where:
            after = NOTHING.union(*[self._comes_after(each) for each in asked])
        instr = Instr(
            op,
            (),
            tuple(asked),
            (made,),
            device=self._maker[value].device,
            after=after,
            what=SIZES,
            kernel=_kernel(sizes, shape, kind, asked, op.name),
        )
        self._more.setdefault(where, {}).setdefault(place, []).append(instr)
        return made

    def _comes_after(self, value: int) -> frozenset[int]:
        maker = self._maker.get(value)
        if maker is None:
            return NOTHING
        return maker.after | {maker.waiter} if maker.waiter >= 0 else maker.after

    def _earliest(self, asked: Sequence[int], path: Path) -> tuple[Path, int]:
        """The list, and the place in it, where all are there, and that is there where `path` is."""
        found: tuple[Path, int] = (), 0
        apart = False
        for value in asked:
            where, at = self._made(value)
            loop = self._loops.get(value)
            if loop is not None:  # whose variables are there in all of its parts, and after it
                inside = path[: len(loop)] == loop
                where, at = (path[: len(loop) + 1], -1) if inside else (loop[:-1], loop[-1])
            if path[: len(where)] != where:  # on another branch, that has run
                apart = True
            elif (len(where), at) >= (len(found[0]), found[1]):
                found = where, at + 1
        if apart and found[0] != path:
            found = path, 0
        return found

    # -- the next version -----------------------------------------------------------------------------------------

    def _drop(self, step: Step, used: set[int]) -> None:
        """What only made numbers that nobody wants any more."""
        for instr in reversed(step.code):
            if instr in self._gone:
                continue
            if instr.what in (BRANCH, LOOP):
                for body in reversed(instr.body):
                    self._drop(body, used)
                continue
            if used.isdisjoint(instr.outputs) and self._only_makes_numbers(instr):
                self._gone.add(instr)
                continue
            used.update(self._given.get(instr, instr.inputs))

    def _only_makes_numbers(self, instr: Instr) -> bool:
        if instr.op.type not in number_rules.NAMES or instr.what != NODE or instr.body:
            return False
        return self._is_known(instr) and self._is_free(instr)

    def _made_of(self, step: Step, path: Path, results: Sequence[int]) -> Step:
        code: list[Instr] = []
        more = self._more.get(path, {})
        for at, instr in enumerate(step.code):
            if at in more:
                code += more[at]
            if instr in self._gone:
                continue
            if instr.what in (BRANCH, LOOP):
                bodies = tuple(
                    [
                        self._made_of(body, (*path, at, number), body.results)
                        for number, body in enumerate(instr.body)
                    ]
                )
                instr = closed(instr.changed(body=bodies))
            elif instr in self._given:
                instr = instr.changed(inputs=self._given[instr])
            if instr.controls and not self._instead.keys().isdisjoint(instr.controls):
                instr = instr.changed(controls=self._waited_for(instr.controls))
            code.append(instr)
        code += more.get(len(step.code), ())
        return step.with_code(code, list(results))

    def _waited_for(self, controls: Sequence[Operation]) -> list[Operation]:
        """Who has made what others handed on."""
        found: list[Operation] = []
        for op in controls:
            last: Operation | None = op
            while last is not None and last in self._instead:
                last = self._instead[last]
            if last is not None:
                found.append(last)
        return found


def _taken_by_flow(everything: Iterable[Instr]) -> AbstractSet[int]:
    """What branches, loops and decisions know by its number."""
    return {
        value
        for instr in everything
        if instr.what in _FLOW or instr.detail is not None
        for value in _known_by_flow(instr)
    }


def _known_by_flow(instr: Instr) -> Iterator[int]:
    detail = instr.detail
    if isinstance(detail, Loop):
        yield detail.pred
        yield from (*detail.variables, *detail.starts, *detail.nexts)
    elif instr.what == BRANCH:
        yield from (truth for truth, _ in detail)
    elif instr.what == DECIDE:
        yield from instr.inputs


def _fixed_array(sizes: Sequence[int], shape: tuple[int, ...], kind: dtypes.DType) -> Any:
    made = np.array(sizes, np.int64).astype(kind.np).reshape(shape)
    made.flags.writeable = False
    return made


def _kernel(
    sizes: Sequence[Any],
    shape: tuple[int, ...],
    kind: dtypes.DType,
    asked: Sequence[int],
    name: str,
) -> Callable[..., Any]:
    """What makes these numbers of values of which they follow from the shapes."""
    most = np.iinfo(kind.np).max
    last: tuple[Any, Any] | None = None

    def made_of_shapes(*values: Any) -> Any:
        nonlocal last
        shapes = [value.shape for value in values]
        before = last
        if before is not None and before[0] == shapes:
            return before[1]
        arrays = dict(zip(asked, values, strict=True))
        found = [symbolic_sizes.number(size, arrays) for size in sizes]
        if max(found, default=0) > most:
            raise errors.invalid_argument(
                f"{max(found)} elements are too many for {kind.name}, which {name!r} gives: use tf.int64"
            )
        made = _fixed_array(found, shape, kind)
        last = shapes, made
        return made

    return made_of_shapes
