"""Shapes of what loops keep in stacks and TensorArrays: what is got back is like what was put there.

All that is put into one has to be known, and to have shapes that follow from values outside of loops and branches:
those of an iteration say nothing of another one.  The gradient of a TensorArray has the shapes of that one, too, since
elements that nobody has written are zeros like those.
Called by: plan.sizes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from headrace.ops._kernels import size_rules
from headrace.plan.ir import BRANCH, LOOP, NODE, Instr


class Put(NamedTuple):
    """A value that is put into a store; rows: each of its rows for itself."""

    instr: Instr
    value: int
    rows: bool


class Stores:
    """The stacks and TensorArrays of a step.  everything: its instructions, those that make handles before others."""

    def __init__(self, everything: Iterable[Instr], elsewhere: AbstractSet[int]) -> None:
        """elsewhere: values that loops, branches and results know, too."""
        self._store: dict[int, object] = {}  # of handles
        self._of: dict[object, object] = {}  # of those of gradients, that of which they are
        self._puts: dict[object, list[Put]] = {}
        self._unknown: set[object] = set()
        for instr in everything:
            if self._store or instr.op.type in size_rules.STORES:
                self._look_at(instr)
        self._unknown.update(self._store[value] for value in elsewhere if value in self._store)

    def _look_at(self, instr: Instr) -> None:
        if instr.what in (BRANCH, LOOP):  # what is in them comes by itself
            return
        kind, inputs = instr.op.type, instr.inputs
        plain = instr.what == NODE and not instr.body
        if plain and kind in size_rules.STORES:
            self._store[instr.outputs[0]] = instr.outputs[0]
            return
        stores = [self._store[value] for value in inputs if value in self._store]
        if not stores:
            return
        store = stores[0]
        put = size_rules.PUTS.get(kind)
        if not plain or len(stores) > 1 or inputs[0] not in self._store:
            self._unknown.update(stores)
        elif kind in size_rules.STORES_OF_GRADIENTS:
            of = self._store[instr.outputs[0]] = store, instr.op.attrs["source"]
            self._of[of] = store
        elif put is not None:
            place, rows = put
            self._puts.setdefault(store, []).append(Put(instr, inputs[place], rows))
        elif kind not in size_rules.GETS and kind not in size_rules.LOOKS:
            self._unknown.add(store)

    def put_before(self, instr: Instr, running: AbstractSet[Instr]) -> list[Put]:
        """What is put into the store that a node gets its value from; nothing if something may not be known.

        running: instructions of the loops that the node is in, whose values are those of other iterations.
        """
        if instr.op.type not in size_rules.GETS or instr.inputs[0] not in self._store:
            return []
        found: list[Put] = []
        for store in self._behind(self._store[instr.inputs[0]]):
            puts = self._puts.get(store, ())
            if not puts or store in self._unknown or any(put.instr in running for put in puts):
                return []
            found += puts
        return found

    def _behind(self, store: object) -> Iterator[object]:
        yield store
        while store in self._of:
            store = self._of[store]
            yield store
