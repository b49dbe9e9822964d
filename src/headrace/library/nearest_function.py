"""Functions registered for classes, found by the nearest bases of what they are called with.

Called by: library.distributions, library.linalg.  Threads: any that read; modules register when they are imported.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

__all__: list[str] = []


class NearestFunction:
    """Classes -> function.  name: of what the functions find, for errors."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._registered: dict[tuple[type, ...], Callable[..., Any]] = {}

    def find(self, *classes: type) -> Callable[..., Any] | None:
        """The function whose classes are, counted together, the fewest steps above these."""
        steps = [list(enumerate(each.__mro__)) for each in classes]
        found = [
            (sum(above for above, _ in way), function)
            for way in product(*steps)
            if (function := self._registered.get(tuple(base for _, base in way))) is not None
        ]
        return min(found, key=lambda pair: pair[0])[1] if found else None

    def register(self, classes: tuple[type, ...], function: Any) -> Any:
        """`function`.  Raises TypeError for what is no function, ValueError for classes that have one."""
        if not callable(function):
            raise TypeError(f"{self._name.lower()}_fn must be callable, received: {function}")
        if classes in self._registered:
            shown = " || ".join(each.__name__ for each in classes)
            raise ValueError(
                f"{self._name}({shown}) has already been registered to: {self._registered[classes]}"
            )
        self._registered[classes] = function
        return function
