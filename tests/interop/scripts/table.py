"""Tables of cases: what to run, and what it gives whoever runs it wherever."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"


@dataclass(frozen=True)
class Here:
    """Where a case runs: ``grpc://`` targets of the tasks, a directory for its files, which worker it is."""

    worker: str
    ps: str
    directory: str = ""
    number: int = 0
    timeline: Any = None  # the class


@dataclass(frozen=True)
class Raises:
    """An error of the class of that name; `node`: the one that the error's `op` must be."""

    kind: str
    node: str | None = None


@dataclass(frozen=True)
class About:
    """A float that differs from `value` by no more than `off`."""

    value: float
    off: float


Run = Callable[[Any, Here], Any]


@dataclass(frozen=True)
class Case:
    run: Run
    expected: Any


@dataclass
class Table:
    """Cases by name."""

    cases: dict[str, Case] = field(default_factory=dict)
    parts: dict[str, Run] = field(default_factory=dict)
    """Functions that tests of their own put together."""

    def gives(self, expected: Any) -> Callable[[Run], Run]:
        """Decorator: a case and the value it returns."""

        def add(run: Run) -> Run:
            assert run.__name__ not in self.cases, run.__name__
            self.cases[run.__name__] = Case(run, expected)
            return run

        return add

    def raises(self, kind: str, node: str | None = None) -> Callable[[Run], Run]:
        """Decorator: a case that ends with an error; see `Raises`."""
        return self.gives(Raises(kind, node))
