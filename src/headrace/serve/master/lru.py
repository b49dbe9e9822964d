"""A table of bounded size: what was not used lately falls out.

Called by: serve.master.master_session, serve.master.planner.  Threads: under the caller's lock, but for `used`.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar


class Entry(Protocol):
    """What such a table keeps.

    used: set by whoever uses it, from any thread.  pins: how many need it kept for now.
    """

    used: bool
    pins: int


K = TypeVar("K")
V = TypeVar("V", bound=Entry)


class LruTable(Generic[K, V]):
    """At most `most` values, and those that are pinned: the oldest that was not used since it was last
    considered goes (the clock algorithm).
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """The value, which counts as used."""
        found = self._kept.get(key)
        if found is not None:
            found.used = True
        return found

    def add(self, key: K, value: V) -> list[tuple[K, V]]:
        """Keep a value; what fell out for it."""
        fallen = []
        for _ in range(2 * len(self._kept)):
            if len(self._kept) < self._most:
                break
            oldest, other = next(iter(self._kept.items()))
            del self._kept[oldest]
            if other.used or other.pins:
                other.used = False
                self._kept[oldest] = other
            else:
                fallen.append((oldest, other))
        self._kept[key] = value
        value.used = True
        return fallen

    def pop(self, key: K) -> V | None:
        """Keep it no longer."""
        return self._kept.pop(key, None)

    def items(self) -> list[tuple[K, V]]:
        """All of them, the oldest first."""
        return list(self._kept.items())

    def clear(self) -> None:
        """Keep nothing."""
        self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)
