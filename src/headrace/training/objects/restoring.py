"""A checkpoint that is being loaded: which of its objects are which of the program's, and what still waits.

An object of the checkpoint is matched with one of the program's along the names of their children, once.  Where a
child, or an optimizer's slot, is not there yet, its place waits for it; the nodes that restore it are added when it
comes.
Called by: training.objects.  Threads: as graph.
Source: TF 1.15 and 2.21 behaviour of tf.train.Checkpoint.restore in graphs; checked against the oracle
"""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from headrace.codec import protos as pb
from headrace.graph.names import init_scope
from headrace.graph.tensor import Tensor
from headrace.library.tracking.trackable import Trackable
from headrace.training import logging
from headrace.training.objects.nodes import restoring
from headrace.training.objects.object_graph import saveable_of, shown_names
from headrace.training.saver.saveables import SaveableObject

__all__: list[str] = []

_UIDS: Final = itertools.count(1)
_MOST_SHOWN: Final = 20

Made = dict[str, tuple[Trackable, Any]]
"""By key of the checkpoint: who is restored from it, and by which operation."""


def next_uid() -> int:
    """The number of a load of a checkpoint; they grow."""
    return next(_UIDS)


class _Slot(NamedTuple):
    optimizer: int
    original: int
    name: str
    variable: int


class LoadedCheckpoint:
    """What is known of a checkpoint while objects take its values."""

    def __init__(
        self, objects: pb.TrackableObjectGraph, path: str, prefix: Tensor, made: Made
    ) -> None:
        """prefix: what is fed `path`; made: operations of earlier loads, which are used again."""
        self.uid = next_uid()
        self.objects, self.path, self.prefix = objects, path, prefix
        self.matched: dict[int, Trackable] = {}
        """By number in the checkpoint."""
        self.unused: dict[int, list[str]] = {}
        """Values that the matched object does not have, by number in the checkpoint."""
        self.restore_ops: list[Any] = []
        self.is_partial = False
        """Whether the program expects that not all is used."""
        self._made = made
        self._slots: dict[int, list[_Slot]] = {}  # by number of the variable
        self._slots_of: dict[int, list[_Slot]] = {}  # by number of the optimizer that is missing
        for optimizer, node in enumerate(objects.nodes):
            for ref in node.slot_variables:
                slot = _Slot(
                    optimizer,
                    ref.original_variable_node_id,
                    ref.slot_name,
                    ref.slot_variable_node_id,
                )
                self._slots.setdefault(slot.original, []).append(slot)

    def match(self, number: int, trackable: Trackable) -> bool:
        """Whether `trackable` is the first that is matched with that object."""
        there = self.matched.get(number)
        if there is None:
            self.matched[number] = trackable
            return True
        if there is not trackable:
            logging.warning(
                "Inconsistent references when loading the checkpoint into this object graph: one object of checkpoint "
                "%s is two here, %s and %s. The first takes its values.",
                self.path,
                there,
                trackable,
            )
        return False

    def waiting_slots(self, number: int) -> Iterator[_Slot]:
        """Slots that can be restored now that the object of that number, a variable or an optimizer, is matched."""
        yield from self._slots_of.pop(number, [])
        for slot in self._slots.pop(number, []):
            if slot.optimizer in self.matched:
                yield slot
            else:
                self._slots_of.setdefault(slot.optimizer, []).append(slot)

    def restore(self, saveables: list[tuple[Trackable, SaveableObject]]) -> None:
        """Add what restores these, unless an earlier load has."""
        new = []
        for trackable, each in saveables:
            known = self._made.get(each.name)
            if known is None or known[0] is not trackable:
                new.append((trackable, each))
        if new:
            made = restoring(self.prefix, [each for _, each in new])
            for (trackable, each), op in zip(new, made, strict=True):
                self._made[each.name] = trackable, op
        self.restore_ops += [self._made[each.name][1] for _, each in saveables]

    def unresolved(self) -> Iterator[int]:
        """Numbers of the objects with values for which there is nothing in the program."""
        for number, node in enumerate(self.objects.nodes):
            if node.attributes and number not in self.matched:
                yield number

    def __del__(self) -> None:
        if self.is_partial or sys is None or sys.is_finalizing():
            return
        names = shown_names(self.objects)
        left = [names[number] for number in self.unresolved()]
        if left:
            logging.warning(
                "A checkpoint was restored, %s, and %d of its values were not used: %s%s.  "
                "`expect_partial()` of what `restore` gave says that this is well, `assert_consumed()` raises it.",
                self.path,
                len(left),
                ", ".join(left[:_MOST_SHOWN]),
                ", ..." if len(left) > _MOST_SHOWN else "",
            )


class Position:
    """An object of a checkpoint that is being loaded; a `Restoration`."""

    def __init__(self, checkpoint: LoadedCheckpoint, number: int) -> None:
        self.checkpoint, self.number = checkpoint, number

    @property
    def uid(self) -> int:
        """Which load it belongs to."""
        return self.checkpoint.uid

    def restore(self, trackable: Trackable) -> None:
        """See `Restoration`: match, and add the nodes that restore what is there."""
        with init_scope():
            if not self.checkpoint.match(self.number, trackable):
                return
            saveables: list[tuple[Trackable, SaveableObject]] = []
            waiting = deque([self])
            while waiting:
                position = waiting.popleft()
                saveables += position._saveables()
                waiting.extend(position._children())
                position._restore_slots()
            self.checkpoint.restore(saveables)

    @property
    def _trackable(self) -> Trackable:
        return self.checkpoint.matched[self.number]

    @property
    def _node(self) -> pb.TrackableObjectGraph.TrackableObject:
        return self.checkpoint.objects.nodes[self.number]

    def _saveables(self) -> Iterator[tuple[Trackable, SaveableObject]]:
        """Its own values, unless a later load has given it others."""
        trackable = self._trackable
        if trackable._update_uid >= self.uid:
            return
        trackable._update_uid = self.uid
        there = trackable._gather_saveables_for_checkpoint()
        for attribute in self._node.attributes:
            given = there.get(attribute.name)
            if given is None:
                self.checkpoint.unused.setdefault(self.number, []).append(attribute.name)
            else:
                yield trackable, saveable_of(given, attribute.checkpoint_key)

    def _children(self) -> Iterator[Position]:
        """Those that are there and were not matched before; the others are waited for."""
        for child in self._node.children:
            position = Position(self.checkpoint, child.node_id)
            found = self._trackable._lookup_dependency(child.local_name)
            if found is None:
                self._trackable._defer(child.local_name, position)
            elif self.checkpoint.match(child.node_id, found):
                yield position

    def _restore_slots(self) -> None:
        matched = self.checkpoint.matched
        for slot in self.checkpoint.waiting_slots(self.number):
            optimizer: Any = matched[slot.optimizer]
            if hasattr(optimizer, "_create_or_restore_slot_variable"):
                optimizer._create_or_restore_slot_variable(
                    slot_variable_position=Position(self.checkpoint, slot.variable),
                    slot_name=slot.name,
                    variable=matched[slot.original],
                )
