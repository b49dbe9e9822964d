"""A hashable stand-in for an object, equal to another one of the same object only.

For objects whose own equality may mean something else.  Called by: Tensor, Variable.  Threads: any.
Source: TF 1.15 behaviour of experimental_ref
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Reference(Generic[T]):
    """`deref()` gives the object back."""

    __slots__ = ("_referred",)

    def __init__(self, referred: T) -> None:
        self._referred = referred

    def deref(self) -> T:
        """The object."""
        return self._referred

    def __hash__(self) -> int:
        return id(self._referred)

    def __eq__(self, other: object) -> bool:
        """Raises TypeError if `other` is the object itself instead of a reference to one."""
        if isinstance(other, Reference):
            return self._referred is other._referred
        if type(other) is type(self._referred):
            raise TypeError(
                f"compare a reference with {other!r:.80}.ref(), not with the object itself"
            )
        return False

    def __repr__(self) -> str:
        return f"<Reference to {self._referred!r}>"
