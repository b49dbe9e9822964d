"""Tables of cases: what to run, and what it gives whoever runs it wherever."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

AREAS = {
    "variables": "variables, shared by name",
    "resource_variables": "resource variables",
    "containers": "containers and reset",
    "queues": "queues: blocking, cancelling, closing",
    "files": "files that the server reads and writes",
    "checkpoints": "savers: shards, formats, errors",
    "training": "training to the same numbers",
    "optimizers": "optimizers: dense and sparse gradients, both kinds of variables",
    "control_flow": "branches and loops across tasks",
    "loops": "loops: frames, gradients, failures",
    "functions": "functions: calls, branches, loops, gradients",
    "datasets": "datasets, iterators and functions of elements",
    "tables": "lookup tables and metrics",
    "sessions": "methods and options of sessions",
    "failures": "errors of the same class and node",
    "tracing": "tracing",
}
"""Modules of this package that have cases for every client, and what they are about."""

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"


@dataclass(frozen=True)
class Here:
    """Where a case runs: ``grpc://`` targets of the tasks, a directory for its files, which worker it is."""

    worker: str
    ps: str
    directory: str = ""
    number: int = 0
    timeline: Any = None  # the class
    callable_options: Any = None  # the class
    attr_value: Any = None  # the class


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


@dataclass(frozen=True)
class Updates:
    """How many updates a variable has had that several sessions made at once, without asking for a lock.

    lost: how many may be missing.  headrace loses none; TensorFlow's variables may.
    """

    count: int
    lost: int = 0


def of_tensorflow(expected: Any) -> Any:
    """The same where the variables are TensorFlow's, which may lose one update of a hundred."""
    if isinstance(expected, list):
        return [of_tensorflow(each) for each in expected]
    return (
        Updates(expected.count, expected.count // 100)
        if isinstance(expected, Updates)
        else expected
    )


Run = Callable[[Any, Here], Any]


@dataclass(frozen=True)
class Unless:
    """Where a case is not asked: where `role` (client, master or ps) is of that kind, and why."""

    role: str
    kind: str
    because: str


@dataclass(frozen=True)
class Case:
    run: Run
    expected: Any
    unless: Unless | None = None

    def is_asked(self, kinds: dict[str, str]) -> bool:
        """Whether it is, of processes of these kinds by role."""
        return self.unless is None or kinds[self.unless.role] != self.unless.kind


@dataclass
class Table:
    """Cases by name."""

    cases: dict[str, Case] = field(default_factory=dict)
    parts: dict[str, Run] = field(default_factory=dict)
    """Functions that tests of their own put together."""

    def gives(self, expected: Any, unless: Unless | None = None) -> Callable[[Run], Run]:
        """Decorator: a case and the value it returns."""

        def add(run: Run) -> Run:
            assert run.__name__ not in self.cases, run.__name__
            self.cases[run.__name__] = Case(run, expected, unless)
            return run

        return add

    def raises(self, kind: str, node: str | None = None) -> Callable[[Run], Run]:
        """Decorator: a case that ends with an error; see `Raises`."""
        return self.gives(Raises(kind, node))


def close(found: Any, expected: Any) -> bool:
    """Equal, floats to a relative 1e-5."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and found.keys() == expected.keys() and all(
            close(found[key], expected[key]) for key in expected
        )  # fmt: skip
    if isinstance(expected, (list, tuple)):
        return (
            isinstance(found, list)
            and len(found) == len(expected)
            and all(map(close, found, expected))
        )
    if isinstance(expected, Updates):
        least = expected.count - expected.lost
        return isinstance(found, int) and least <= found <= expected.count
    if isinstance(expected, About):
        return isinstance(found, float) and abs(found - expected.value) <= expected.off
    if isinstance(expected, float):
        return isinstance(found, float) and math.isclose(found, expected, rel_tol=1e-5)
    return type(found) is type(expected) and bool(found == expected)


def plain(value: Any) -> Any:
    """The value with lists in place of arrays and tuples, Python's scalars in place of NumPy's."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value
