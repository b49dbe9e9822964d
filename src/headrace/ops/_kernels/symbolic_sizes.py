"""Sizes that nobody knows before a step runs: what can be said of them anyway.

A size is an int, or a `Product` of atoms: an `Axis` is how long a value of the step is along an axis, whatever that
will be; `Made` is what a function makes of sizes.  Products are in one order, so two sizes that are equal as objects
are equal numbers in every step.  Two that differ may be equal in some steps: then nothing is known.
Sizes are never negative; what `difference` makes may be.
What would take more than a few dozen atoms to say is an OverflowError: a size that is made of others again and again,
each time in several places, would be as long as the step has ways to it.
Called by: ops._kernels.size_rules, plan.sizes.  Threads: any; all are immutable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

_HEAVIEST: Final = 64
"""Atoms that a size may be made of."""


@dataclass(frozen=True)
class Axis:
    """How long a value, by its number in the step, is along an axis."""

    value: int
    axis: int
    weight = 1

    @cached_property
    def key(self) -> str:
        """By which atoms are ordered."""
        return f"{self.value}.{self.axis}"


@dataclass(frozen=True)
class Made:
    """What a function, by its name, makes of sizes."""

    how: str
    of: tuple[Size, ...]

    @cached_property
    def key(self) -> str:
        """By which atoms are ordered."""
        return f"{self.how}({','.join(_key(each) for each in self.of)})"

    @cached_property
    def weight(self) -> int:
        """How many atoms it is made of."""
        return sum(_weight(each) for each in self.of)


Atom = Axis | Made


@dataclass(frozen=True)
class Product:
    """factor · atoms, of which there is at least one; in order."""

    factor: int
    atoms: tuple[Atom, ...]

    @cached_property
    def key(self) -> str:
        """By which sizes are ordered."""
        return f"{self.factor}*{'*'.join(atom.key for atom in self.atoms)}"

    @cached_property
    def weight(self) -> int:
        """How many atoms it is made of."""
        return sum(atom.weight for atom in self.atoms)


Size = int | Product


def _key(size: Size) -> str:
    return str(size) if isinstance(size, int) else size.key


def _weight(size: Size) -> int:
    return 0 if isinstance(size, int) else size.weight


def axis(value: int, number: int) -> Product:
    """The size of a value along an axis."""
    return Product(1, (Axis(value, number),))


def _made(how: str, *of: Size) -> Product:
    return _short(Product(1, (Made(how, of),)))


def _short(size: Product) -> Product:
    if size.weight > _HEAVIEST:
        raise OverflowError(f"a size that takes {size.weight} others to say")
    return size


def _in_order(a: Size, b: Size) -> tuple[Size, Size]:
    return (a, b) if _key(a) <= _key(b) else (b, a)


def product(a: Size, b: Size) -> Size:
    """a · b."""
    factor = _factor(a) * _factor(b)
    if not factor:
        return 0
    atoms = [*_atoms(a), *_atoms(b)]
    if not atoms:
        return factor
    for atom in [each for each in atoms if isinstance(each, Made) and each.how == "positive"]:
        (size,) = atom.of
        rest = list(atoms)
        rest.remove(atom)
        if all(rest.count(each) >= _atoms(size).count(each) for each in _atoms(size)):
            atoms = rest  # it is 0 where the others make 0
    return _short(Product(factor, tuple(sorted(atoms, key=lambda atom: atom.key))))


def product_of(sizes: Iterable[Size]) -> Size:
    """Of all of them."""
    found: Size = 1
    for size in sizes:
        found = product(found, size)
    return found


def _factor(size: Size) -> int:
    return size if isinstance(size, int) else size.factor


def _atoms(size: Size) -> Sequence[Atom]:
    return () if isinstance(size, int) else size.atoms


def total(a: Size, b: Size) -> Size:
    """a + b."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if a == 0 or b == 0:
        return b if a == 0 else a
    if _atoms(a) == _atoms(b):
        return product(_factor(a) + _factor(b), Product(1, tuple(_atoms(a))))
    return _made("+", *_in_order(a, b))


def difference(a: Size, b: Size) -> Size:
    """a - b."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    if a == b:
        return 0
    return a if b == 0 else _made("-", a, b)


def quotient(a: Size, b: Size) -> Size | None:
    """a // b; None where b may be 0, or less."""
    if not _is_positive(b):
        return None
    if isinstance(b, int):
        if isinstance(a, int) or a.factor % b == 0:
            return a // b if isinstance(a, int) else Product(a.factor // b, a.atoms)
        return _made("//", a, b)
    if b == largest(a, 1):
        return _made("positive", a)
    return _made("//", a, b)


def exact_quotient(a: Size, b: Size) -> Size | None:
    """a / b where that is a size whatever the atoms are; None where it may not be, or b may be 0."""
    if not isinstance(b, int) or b <= 0 or _factor(a) % b:
        return None
    return quotient(a, b)


def remainder(a: Size, b: Size) -> Size | None:
    """a mod b, of the sign of b; None where b may be 0, or less."""
    if not _is_positive(b):
        return None
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    if isinstance(b, int) and _factor(a) % b == 0:
        return 0
    return _made("%", a, b)


def largest(a: Size, b: Size) -> Size:
    """The larger one."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    if a == b:
        return a
    for one, other in ((a, b), (b, a)):
        if isinstance(one, int) and one <= 0 and _is_size(other):
            return other
    return _made("max", *_in_order(a, b))


def smallest(a: Size, b: Size) -> Size:
    """The smaller one."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    if a == b:
        return a
    for one, other in ((a, b), (b, a)):
        if isinstance(one, int) and one <= 0 and _is_size(other):
            return one
    return _made("min", *_in_order(a, b))


def stretched(a: Size, b: Size) -> Size:
    """What dimensions of two arrays that broadcast become together."""
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if isinstance(a, int):
        return a  # the other one is 1, or the same
    if isinstance(b, int):
        return b
    parts = sorted({*_stretching(a), *_stretching(b)}, key=_key)
    return parts[0] if len(parts) == 1 else _made("stretched", *parts)


def _stretching(size: Size) -> Sequence[Size]:
    """What has become this size together."""
    atoms = _atoms(size)
    if len(atoms) == 1 and _factor(size) == 1:
        (atom,) = atoms
        if isinstance(atom, Made) and atom.how == "stretched":
            return atom.of
    return (size,)


def broadcast(a: Sequence[Size], b: Sequence[Size]) -> tuple[Size, ...]:
    """What two shapes broadcast to, if they do."""
    rank = max(len(a), len(b))
    pairs = zip(padded(a, rank), padded(b, rank), strict=True)
    return tuple([stretched(one, other) for one, other in pairs])


def padded(sizes: Sequence[Size], rank: int) -> tuple[Size, ...]:
    """With as many dimensions of 1 before them."""
    return (1,) * (rank - len(sizes)) + tuple(sizes)


def _is_size(size: Size) -> bool:
    """Whether it cannot be negative."""
    if isinstance(size, int):
        return size >= 0
    return size.factor > 0 and all(map(_is_whole, size.atoms))


def _is_whole(atom: Atom) -> bool:
    if isinstance(atom, Axis):
        return True
    if atom.how == "max":
        return any(map(_is_size, atom.of))
    return atom.how != "-" and all(map(_is_size, atom.of))


def _is_positive(size: Size) -> bool:
    if isinstance(size, int):
        return size > 0
    return size.factor > 0 and all(
        isinstance(atom, Made) and atom.how == "max" and any(map(_is_positive, atom.of))
        for atom in size.atoms
    )


def sources(size: Size) -> Iterator[Axis]:
    """What it follows from."""
    for atom in _atoms(size):
        if isinstance(atom, Axis):
            yield atom
        else:
            for each in atom.of:
                yield from sources(each)


# -- when the step runs -----------------------------------------------------------------------------------------------


def _stretched(*sizes: int) -> int:
    return next((size for size in sizes if size != 1), 1)


_DOES: Final[Mapping[str, Callable[..., int]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "max": max,
    "min": min,
    "positive": lambda a: int(a > 0),
    "stretched": _stretched,
}


def number(size: Size, arrays: Mapping[int, Any]) -> int:
    """What it is where values, by their numbers in the step, are these arrays."""
    if isinstance(size, int):
        return size
    return size.factor * math.prod([_number(atom, arrays) for atom in size.atoms])


def _number(atom: Atom, arrays: Mapping[int, Any]) -> int:
    if isinstance(atom, Axis):
        found: int = arrays[atom.value].shape[atom.axis]
        return found
    return _DOES[atom.how](*[number(each, arrays) for each in atom.of])
