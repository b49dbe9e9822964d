"""The objects that a checkpoint is made of: found from a root, numbered, and described in a TrackableObjectGraph.

A key of the checkpoint is the shortest way from the root to an object, ``model/layers/0/.ATTRIBUTES/VARIABLE_VALUE``;
a slot's is that of its variable, ``model/w/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE``.
Called by: training.objects.  Threads: as graph.
Source: TF 1.15 and 2.21 behaviour of tf.train.Checkpoint; messages compared with the oracle
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from headrace.codec import protos as pb
from headrace.library.tracking.trackable import Trackable
from headrace.library.variables.variables import Variable
from headrace.ops.state.references import is_resource_variable
from headrace.training.saver.saveables import (
    ReferenceVariableSaveable,
    ResourceVariableSaveable,
    SaveableObject,
)

__all__: list[str] = []


class Slot(NamedTuple):
    """A variable that an optimizer keeps for another one; all three are numbers of objects."""

    original: int
    name: str
    variable: int


class ObjectGraph:
    """All objects that are found from a root, nearest first, then the slots of optimizers among them."""

    def __init__(self, root: Trackable) -> None:
        """Raises ValueError (a list or dict that cannot be saved), NotImplementedError (a slot that is a child)."""
        self.objects: list[Trackable] = []
        self.paths: list[str] = []
        self.children: list[list[tuple[str, int]]] = []
        self.slots: dict[int, list[Slot]] = {}
        self._ids: dict[int, int] = {}
        self._enter(root, "")
        at = 0
        while at < len(self.objects):
            self._enter_children(at)
            at += 1
        self._enter_slots()

    def _enter(self, found: Trackable, path: str) -> int:
        number = self._ids[id(found)] = len(self.objects)
        self.objects.append(found)
        self.paths.append(path)
        self.children.append([])
        return number

    def _enter_children(self, at: int) -> None:
        prefix = f"{self.paths[at]}/" if self.paths[at] else ""
        for name, child in self.objects[at]._checkpoint_dependencies:
            number = self._ids.get(id(child))
            if number is None:
                number = self._enter(child, prefix + _escaped(name))
            self.children[at].append((name, number))

    def _enter_slots(self) -> None:
        count = len(self.objects)
        for at in range(count):
            optimizer: Any = self.objects[at]
            if not hasattr(optimizer, "_create_or_restore_slot_variable"):
                continue
            for name in optimizer.get_slot_names():
                for original in range(count):
                    variable = self.objects[original]
                    if isinstance(variable, Variable):
                        self._enter_slot(at, name, original, optimizer.get_slot(variable, name))

    def _enter_slot(self, optimizer: int, name: str, original: int, slot: Any) -> None:
        if slot is None:
            return
        if id(slot) in self._ids:
            raise NotImplementedError(
                f"A slot variable was re-used as a dependency of a Trackable object: {slot!r}. This is not currently "
                "allowed: its optimizer saves it"
            )
        path = f"{self.paths[original]}/.OPTIMIZER_SLOT/{self.paths[optimizer]}/{_escaped(name)}"
        number = self._enter(slot, path)
        self.slots.setdefault(optimizer, []).append(Slot(original, name, number))

    # -- what is saved ----------------------------------------------------------------------------

    def described(self) -> tuple[pb.TrackableObjectGraph, list[SaveableObject]]:
        """The message, and what is to be saved, in the order of the objects."""
        message = pb.TrackableObjectGraph()
        saveables: list[SaveableObject] = []
        for at, found in enumerate(self.objects):
            node = message.nodes.add()
            for name, number in self.children[at]:
                node.children.add(node_id=number, local_name=name)
            for key, attribute, saveable in attributes_of(found, self.paths[at]):
                node.attributes.add(name=attribute, full_name=full_name(found), checkpoint_key=key)
                saveables.append(saveable)
            for slot in self.slots.get(at, []):
                node.slot_variables.add(
                    original_variable_node_id=slot.original,
                    slot_name=slot.name,
                    slot_variable_node_id=slot.variable,
                )
        _mark_values(message)
        return message, saveables


def _escaped(name: str) -> str:
    """A name as part of a key, where slashes separate and a leading dot is not a name's."""
    return name.replace(".", "..").replace("/", ".S")


def attributes_of(found: Trackable, path: str) -> Iterator[tuple[str, str, SaveableObject]]:
    """(key, name, what saves it) of an object's own values."""
    prefix = f"{path}/.ATTRIBUTES/" if path else ".ATTRIBUTES/"
    for name, given in found._gather_saveables_for_checkpoint().items():
        key = prefix + _escaped(name)
        yield key, name, saveable_of(given, key)


def saveable_of(given: Any, key: str) -> SaveableObject:
    """What saves a value of an object under `key`.  Raises TypeError."""
    if isinstance(given, Variable):
        kind = (
            ResourceVariableSaveable if is_resource_variable(given) else ReferenceVariableSaveable
        )
        return kind(given, "", key)
    make: Callable[..., Any] | None = given if callable(given) else None
    saveable = given if make is None else make(name=key)
    if isinstance(saveable, Variable):
        return saveable_of(saveable, key)
    if not isinstance(saveable, SaveableObject):
        raise TypeError(
            f"what is saved as {key!r} must be a variable, a SaveableObject or a function of its name, not {given!r}"
        )
    return saveable


def full_name(found: Trackable) -> str:
    """The name by which a saver saves a variable; that of other objects is empty."""
    if not isinstance(found, Variable):
        return ""
    info = found._save_slice_info
    return found.op.name if info is None or not info.full_name else info.full_name


def _mark_values(message: pb.TrackableObjectGraph) -> None:
    """Say of each object whether there are values in it or in what it is made of."""
    parents: dict[int, list[int]] = {}
    for at, node in enumerate(message.nodes):
        for child in node.children:
            parents.setdefault(child.node_id, []).append(at)
        node.has_checkpoint_values.value = bool(node.attributes or node.slot_variables)
    waiting = deque(at for at, node in enumerate(message.nodes) if node.has_checkpoint_values.value)
    while waiting:
        for parent in parents.get(waiting.popleft(), []):
            if not message.nodes[parent].has_checkpoint_values.value:
                message.nodes[parent].has_checkpoint_values.value = True
                waiting.append(parent)


def shown_names(message: pb.TrackableObjectGraph) -> list[str]:
    """How a person names each object: ``(root).model.layers[0]``, roughly."""
    names: list[str | None] = [None] * len(message.nodes)
    if names:
        names[0] = "(root)"
    waiting = deque([0] if names else [])
    while waiting:
        at = waiting.popleft()
        for child in message.nodes[at].children:
            if names[child.node_id] is None:
                names[child.node_id] = f"{names[at]}.{child.local_name}"
                waiting.append(child.node_id)
    for at, node in enumerate(message.nodes):
        for slot in node.slot_variables:
            of = names[slot.original_variable_node_id]
            if names[slot.slot_variable_node_id] is None:
                names[slot.slot_variable_node_id] = (
                    f"{names[at]}'s state '{slot.slot_name}' for {of}"
                )
    return [name or f"object {at}" for at, name in enumerate(names)]
