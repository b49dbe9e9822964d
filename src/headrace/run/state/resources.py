"""Resources: state that outlives steps, kept in the containers of a task.

A resource has a container, a kind and a name, and resources of different kinds may bear one name.
The kind is the class that the kernels ask for (all queues are of kind Queue), so that asking for a
FIFO queue under the name of a shuffle queue finds it, and can complain.  A server keeps one manager
per task, a local session one of its own.

Called by: ops (kernels that make or look up state), serve (Reset, CleanupAll), client (local
sessions).
Threads: any; one lock per manager.  Factories run under it, so that a resource is made once: they
must be quick and must not wait.  Resources are told that they were dropped outside it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from headrace.base import errors
from headrace.run.uninterrupted import changes

DEFAULT_CONTAINER = "localhost"

R = TypeVar("R", bound="Resource")


class Resource:
    """State with a name.  `container` is set by the manager that keeps it."""

    type_name = ""
    """As TensorFlow names this kind in handles; empty for a kind of our own."""
    type_code = 0
    """TensorFlow's number for `type_name`."""
    shown_as = ""
    """The kind, as reports name it; empty: the name of the class."""

    def __init__(self, name: str, container: str = "") -> None:
        self.name = name
        self.container = container or DEFAULT_CONTAINER

    @property
    def label(self) -> str:
        """The name for people: of a private resource, the node's."""
        return self.name.partition("/")[2] if self.name.startswith("_") else self.name

    def close(self) -> object:
        """Release what is held.

        The manager calls it, through `dropped`, when the resource is deleted from it.
        """
        return None

    def dropped(self) -> None:
        """Its manager has forgotten it; steps under way may still hold it."""
        self.close()


def private_name(owner: str, node: str) -> str:
    """The name of a resource that belongs to one node of one owner (a session), as a queue or a
    reader without a shared_name does.  No shared_name can be equal to it: see `shared_name`.
    """
    return f"_{owner}/{node}"


def shared_name(name: str) -> str:
    """`name`, unless it is one that only private resources may have: InvalidArgument."""
    if name.startswith("_"):
        raise errors.invalid_argument(
            f"shared_name {name!r} starts with '_', as the names of private resources do; "
            "choose another"
        )
    return name


@changes
class ResourceManager:
    """The containers of one task."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a factory may look up or create other resources
        self._containers: dict[str, dict[tuple[type[Resource], str], Resource]] = {}
        self.generation = 0
        """Grows whenever something is deleted: a resource found under an earlier one may be gone."""

    def lookup_or_create(
        self, container: str, name: str, kind: type[R], factory: Callable[[], R]
    ) -> R:
        """The resource of that `kind` and name, made by `factory` if there is none."""
        container = container or DEFAULT_CONTAINER
        with self._lock:
            found: Any = self._containers.get(container, {}).get((kind, name))
            if found is None:
                found = factory()
                found.name, found.container = name, container
                self._containers.setdefault(container, {})[kind, name] = found
            made: R = found
            return made

    def lookup(self, container: str, name: str, kind: type[R]) -> R:
        """Raises NotFound."""
        container = container or DEFAULT_CONTAINER
        with self._lock:
            found: Any = self._containers.get(container, {}).get((kind, name))
        if found is None:
            raise errors.not_found(self._absent(container, name, kind))
        there: R = found
        return there

    def delete(self, container: str, name: str, kind: type[Resource]) -> None:
        """Forget one resource.  Raises NotFound."""
        container = container or DEFAULT_CONTAINER
        with self._lock:
            gone = self._containers.get(container, {}).pop((kind, name), None)
            if gone is None:
                raise errors.not_found(self._absent(container, name, kind))
            self.generation += 1
        gone.dropped()

    def forget(self, resource: Resource) -> bool:
        """Forget this one; False if it is not kept here."""
        with self._lock:
            kept = self._containers.get(resource.container, {})
            key = next((key for key, found in kept.items() if found is resource), None)
            if key is None:
                return False
            del kept[key]
            self.generation += 1
        resource.dropped()
        return True

    def named(self, container: str, name: str) -> list[Resource]:
        """The resources of that name, of any kind."""
        with self._lock:
            kept = self._containers.get(container or DEFAULT_CONTAINER, {})
            return [resource for (_, known), resource in kept.items() if known == name]

    def cleanup(self, containers: Iterable[str] = ()) -> None:
        """Empty these containers, the default one if none is named.

        A container that does not exist is empty.
        """
        names = [name or DEFAULT_CONTAINER for name in containers] or [DEFAULT_CONTAINER]
        with self._lock:
            gone = [r for name in names for r in self._containers.pop(name, {}).values()]
            self.generation += 1
        for resource in gone:
            resource.dropped()

    def delete_private(self, owner: str) -> None:
        """Forget what belongs to nodes of `owner`, in every container."""
        prefix = private_name(owner, "")
        with self._lock:
            gone = [
                kept.pop(key)
                for kept in self._containers.values()
                for key in [key for key in kept if key[1].startswith(prefix)]
            ]
            if gone:
                self.generation += 1
        for resource in gone:
            resource.dropped()

    def close(self) -> None:
        """Empty every container: the session or server that owns the manager ends."""
        with self._lock:
            names = list(self._containers)
        if names:
            self.cleanup(names)

    def all(self) -> list[Resource]:
        """Every resource there is, for diagnosis."""
        with self._lock:
            return [r for kept in self._containers.values() for r in kept.values()]

    def _absent(self, container: str, name: str, kind: type[Resource]) -> str:
        others = sorted(where for where, kept in self._containers.items() if (kind, name) in kept)
        hint = f"; there is one in {', '.join(map(repr, others))}" if others else ""
        return f"container {container!r} has no {kind.__name__} named {name!r}{hint}"
