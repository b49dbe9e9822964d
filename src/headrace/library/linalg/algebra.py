"""Which operator an adjoint, an inverse, a product, a solution or a Cholesky factor is: functions by classes.

What is registered for the nearest classes makes it (library.linalg.registrations); programs register functions for
operators of their own.
Called by: library.linalg.operator, programs.  Threads: as graph.
Source: TF 1.15 behaviour
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.graph.names import name_scope
from headrace.library.nearest_function import NearestFunction

__all__ = [
    "RegisterAdjoint",
    "RegisterCholesky",
    "RegisterInverse",
    "RegisterMatmul",
    "RegisterSolve",
    "adjoint",
    "cholesky",
    "inverse",
    "matmul",
    "solve",
]

_ADJOINTS = NearestFunction("Adjoint")
_CHOLESKY = NearestFunction("Cholesky")
_INVERSES = NearestFunction("Inverse")
_PRODUCTS = NearestFunction("Matmul")
_SOLUTIONS = NearestFunction("Solve")


def _made(table: NearestFunction, what: str, operators: tuple[Any, ...], name: str | None) -> Any:
    """Raises ValueError for classes of which nobody said what it is."""
    function = table.find(*(type(each) for each in operators))
    if function is None:
        shown = ", ".join(type(each).__name__ for each in operators)
        raise ValueError(f"No {what} registered for {shown}")
    with name_scope(name or what):
        return function(*operators)


def adjoint(lin_op_a: Any, name: str | None = None) -> Any:
    """The operator of the conjugate transpose."""
    return _made(_ADJOINTS, "Adjoint", (lin_op_a,), name)


def cholesky(lin_op_a: Any, name: str | None = None) -> Any:
    """A lower triangular operator whose product with its adjoint is the operator."""
    return _made(_CHOLESKY, "Cholesky", (lin_op_a,), name)


def inverse(lin_op_a: Any, name: str | None = None) -> Any:
    """The operator of the inverse."""
    return _made(_INVERSES, "Inverse", (lin_op_a,), name)


def matmul(lin_op_a: Any, lin_op_b: Any, name: str | None = None) -> Any:
    """The operator of a · b."""
    return _made(_PRODUCTS, "Matmul", (lin_op_a, lin_op_b), name)


def solve(lin_op_a: Any, lin_op_b: Any, name: str | None = None) -> Any:
    """The operator of a⁻¹ · b."""
    return _made(_SOLUTIONS, "Solve", (lin_op_a, lin_op_b), name)


class _Register:
    """Decorator: the function makes it of operators of the classes, and of those derived from them."""

    _table: NearestFunction

    def __init__(self, *classes: type) -> None:
        self._classes = classes

    def __call__(self, function: Callable[..., Any]) -> Any:
        """Raises TypeError for what is no function, ValueError for classes that have one."""
        return self._table.register(self._classes, function)


class RegisterAdjoint(_Register):
    """Decorator: (operator) -> its adjoint."""

    _table = _ADJOINTS

    def __init__(self, lin_op_cls_a: type) -> None:
        super().__init__(lin_op_cls_a)


class RegisterCholesky(_Register):
    """Decorator: (operator) -> its Cholesky factor."""

    _table = _CHOLESKY

    def __init__(self, lin_op_cls_a: type) -> None:
        super().__init__(lin_op_cls_a)


class RegisterInverse(_Register):
    """Decorator: (operator) -> its inverse."""

    _table = _INVERSES

    def __init__(self, lin_op_cls_a: type) -> None:
        super().__init__(lin_op_cls_a)


class RegisterMatmul(_Register):
    """Decorator: (a, b) -> a · b."""

    _table = _PRODUCTS

    def __init__(self, lin_op_cls_a: type, lin_op_cls_b: type) -> None:
        super().__init__(lin_op_cls_a, lin_op_cls_b)


class RegisterSolve(_Register):
    """Decorator: (a, b) -> a⁻¹ · b."""

    _table = _SOLUTIONS

    def __init__(self, lin_op_cls_a: type, lin_op_cls_b: type) -> None:
        super().__init__(lin_op_cls_a, lin_op_cls_b)
