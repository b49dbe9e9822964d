"""Trackable: what an object-based checkpoint can hold.  An object has children by name; variables are the leaves.

A checkpoint is matched with objects along these names, and may be loaded before all of them are there: what waits
for a child of some name is kept by its parent, and told when the child comes.
Called by: library.variables, library.layers, library.rnn, training.optimizer, training.objects.  Threads: as graph.
Source: TF 1.15 python/training/tracking/base.py, for behaviour and for names that subclasses use
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

__all__: list[str] = []


class Restoration(Protocol):
    """An object of a checkpoint that waits for the one that takes its values."""

    @property
    def uid(self) -> int:
        """Which load of a checkpoint it belongs to; later ones have higher numbers."""

    def restore(self, trackable: Any) -> None:
        """Add what gives `trackable`, and all that it is made of, the values of the checkpoint."""


class TrackableReference(NamedTuple):
    """A child and its name."""

    name: str
    ref: Trackable


class Trackable:
    """Base of what has, or consists of, state.

    Its attributes are made when they are needed: most objects are never part of a checkpoint.
    """

    _children: dict[str, Trackable] | None = None
    _deferred: dict[str, list[Restoration]] | None = None
    _update_uid: int = -1
    """Which load of a checkpoint last gave it values."""

    @property
    def _checkpoint_dependencies(self) -> list[TrackableReference]:
        """Its children, in the order in which they came."""
        return [TrackableReference(name, child) for name, child in self._tracked().items()]

    def _tracked(self) -> Mapping[str, Trackable]:
        return self._children or {}

    def _lookup_dependency(self, name: str) -> Trackable | None:
        """The child of that name; None if there is none."""
        return self._tracked().get(name)

    def _track_trackable(self, trackable: Any, name: str, overwrite: bool = False) -> Any:
        """Have `trackable` be a child; gives it back.

        Raises TypeError (it is no Trackable), ValueError (another one has that name, unless it is to be overwritten).
        """
        if not isinstance(trackable, Trackable):
            raise TypeError(
                "Trackable._track_trackable() can only be used to track objects of type Trackable. Got type "
                f"{type(trackable)}."
            )
        children = self._children
        if children is None:
            children = self.__dict__["_children"] = {}
        there = children.get(name)
        if there is trackable:
            return trackable
        if there is not None and not overwrite:
            raise ValueError(
                f"Called Trackable._track_trackable() with name='{name}', but a Trackable with this name is already "
                "declared as a dependency. Names must be unique (or overwrite=True)."
            )
        children[name] = trackable
        self._handle_deferred_dependencies(name, trackable)
        return trackable

    def _handle_deferred_dependencies(self, name: str, trackable: Trackable) -> None:
        """Restore a child that has just come, if a checkpoint that was loaded has values for it."""
        waiting = (self._deferred or {}).pop(name, [])
        for each in sorted(waiting, key=lambda position: position.uid, reverse=True):
            each.restore(trackable)

    def _defer(self, name: str, position: Restoration) -> None:
        """Have `position` wait for the child of that name."""
        if self._deferred is None:
            self.__dict__["_deferred"] = {}
        assert self._deferred is not None
        self._deferred.setdefault(name, []).append(position)

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        """Its own values by name: each a variable, a SaveableObject, or a function that makes one of a name."""
        return {}


VARIABLE_VALUE = "VARIABLE_VALUE"
"""The name of the only value of a variable."""
