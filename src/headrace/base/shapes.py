"""Static shapes: what is known of a tensor's shape before the graph runs.

Inside headrace a shape is raw: a tuple of ints and Nones, None standing for a dimension of
unknown size, or None alone when not even the rank is known.  The functions here take and
return raw shapes and raise ValueError, naming both sides, when two of them cannot agree.
`TensorShape` and `Dimension` are the same thing in the clothes that TF 1.x programs expect.
Called by: graph, ops, run, codec (raw); the public API (classes).
Threads: everything is immutable.
Source: TF 1.15 python/framework/tensor_shape.py, core/framework/common_shape_fns.cc
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, SupportsIndex, TypeAlias, overload

Shape: TypeAlias = tuple[int | None, ...] | None
"""A raw shape: (2, None, 3), or None for unknown rank."""


def text(shape: Shape) -> str:
    """`[2,?,3]`, `[]` for a scalar, `<unknown>` for unknown rank."""
    if shape is None:
        return "<unknown>"
    return "[" + ",".join("?" if d is None else str(d) for d in shape) + "]"


def num_elements(shape: Shape) -> int | None:
    """The product of the dimensions; None unless every one is known."""
    if shape is None:
        return None
    total = 1
    for d in shape:
        if d is None:
            return None
        total *= d
    return total


def is_fully_defined(shape: Shape) -> bool:
    """Whether the rank and every dimension are known."""
    return shape is not None and None not in shape


def compatible(a: Shape, b: Shape) -> bool:
    """Whether one run-time shape could be described by both."""
    if a is None or b is None or a == b:
        return True
    return len(a) == len(b) and all(
        x == y or x is None or y is None for x, y in zip(a, b, strict=True)
    )


def merge(a: Shape, b: Shape) -> Shape:
    """All that a and b together know of one shape.  Raises ValueError if they disagree."""
    if a is None or a == b:
        return b
    if b is None:
        return a
    if len(a) != len(b):
        raise ValueError(
            f"Shapes must be equal rank, but are {len(a)} and {len(b)}: "
            f"{text(a)} and {text(b)} are not shapes of one tensor"
        )
    merged = []
    for axis, (x, y) in enumerate(zip(a, b, strict=True)):
        if x is not None and y is not None and x != y:
            raise ValueError(
                f"Dimension {axis} in both shapes must be equal, but are {x} and {y}. "
                f"Shapes are {text(a)} and {text(b)}."
            )
        merged.append(y if x is None else x)
    return tuple(merged)


def merge_sizes(x: int | None, y: int | None, what: str) -> int | None:
    """The known one of two sizes.  Raises ValueError if they differ; `what` says of what they are."""
    if x is not None and y is not None and x != y:
        raise ValueError(f"Dimensions must be equal, but are {x} and {y}: {what}")
    return y if x is None else x


def merge_prefix(whole: Shape, prefix: Shape, what: str) -> None:
    """Check that `whole` may begin with `prefix`.  Raises ValueError; `what` says what they are."""
    if whole is None or prefix is None:
        return
    if len(whole) < len(prefix):
        raise ValueError(
            f"Shape must be at least rank {len(prefix)} but is rank {len(whole)}: "
            f"{what}, {text(whole)} and {text(prefix)}"
        )
    for x, y in zip(whole, prefix, strict=False):
        merge_sizes(x, y, f"{what}, {text(whole)} and {text(prefix)}")


def common(a: Shape, b: Shape) -> Shape:
    """The most that can be said of a shape that is either a or b, as of a Merge's output."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))


def concatenate(a: Shape, b: Shape) -> Shape:
    """a's dimensions, then b's."""
    return None if a is None or b is None else a + b


def broadcast(a: Shape, b: Shape) -> Shape:
    """The static shape of an elementwise op on a and b, by NumPy's rule.

    An unknown dimension against a known one above 1 is taken to fit; against 0 it stays unknown.
    Raises ValueError if two known dimensions differ and neither is 1.
    """
    if a is None or b is None:
        return None
    if a == b:
        return a
    swapped = len(a) < len(b)
    long, short = (b, a) if swapped else (a, b)
    extra = len(long) - len(short)
    result = list(long[:extra])
    for x, y in zip(long[extra:], short, strict=True):
        if x == y or y == 1:
            result.append(x)
        elif x == 1:
            result.append(y)
        elif x is None or y is None:
            known = y if x is None else x
            result.append(known or None)
        else:
            if swapped:
                x, y = y, x
            raise ValueError(
                f"Dimensions must be equal, but are {x} and {y}: shapes {text(a)} and {text(b)} do not broadcast, "
                "as neither is 1"
            )
    return tuple(result)


def as_raw(value: Any) -> Shape:
    """The raw shape meant by None, a TensorShape, a size, an iterable of sizes or a shape message.

    A message is anything with `unknown_rank` and `dim[i].size`, where -1 is unknown.
    Raises TypeError for what is no size, ValueError for a negative one.
    """
    if value is None:
        return None
    if isinstance(value, TensorShape):
        return value._raw
    if isinstance(value, (tuple, list)):
        return tuple([_as_size(d) for d in value])
    if hasattr(value, "unknown_rank") and hasattr(value, "dim"):
        if value.unknown_rank:
            return None
        return tuple([None if d.size == -1 else _as_size(d.size) for d in value.dim])
    if isinstance(value, (str, bytes)):
        raise TypeError(f"Failed to convert '{value!r}' to a shape: give a list such as [2, None]")
    if isinstance(value, Iterable):
        return tuple([_as_size(d) for d in value])
    return (_as_size(value),)


def _as_size(value: Any) -> int | None:
    if value is None or (type(value) is int and value >= 0):
        return value
    if isinstance(value, Dimension):
        return value._value
    try:
        size = operator.index(value)
    except TypeError:
        raise TypeError(
            f"Dimension value must be integer or None, not {value!r} of type {type(value).__name__}"
        ) from None
    if size < 0:
        raise ValueError(f"Dimension {size} must be >= 0; an unknown one is None")
    return size


AS_PROTO: list[Callable[[Shape], Any]] = []
"""What makes a TensorShapeProto; codec.tensors, which knows the message, puts it here."""


class Dimension:
    """A size that may be unknown, with arithmetic that stays unknown once it is.

    Comparisons return None when a side is unknown.  Not hashable, for the same reason.
    Operands are sizes (ints, None, Dimensions): in sums, differences and so on anything else is
    a TypeError; in == it is simply unequal.
    """

    __slots__ = ("_value",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any) -> None:
        self._value = _as_size(value)

    @property
    def value(self) -> int | None:
        """The size; None if unknown."""
        return self._value

    def __repr__(self) -> str:
        return f"Dimension({self._value})"

    def __str__(self) -> str:
        return "?" if self._value is None else str(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __index__(self) -> int:
        """Raises TypeError if unknown."""
        if self._value is None:
            raise TypeError("an unknown dimension has no integer value; look at .value first")
        return self._value

    __int__ = __index__

    def __reduce__(self) -> tuple[object, ...]:
        return Dimension, (self._value,)

    def is_compatible_with(self, other: Any) -> bool:
        """Whether both could be the same size."""
        size = _as_size(other)
        return self._value is None or size is None or self._value == size

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raises ValueError if both are known and differ."""
        if not self.is_compatible_with(other):
            raise ValueError(
                f"Dimensions {self} and {other} are not compatible: both are known, and differ"
            )

    def merge_with(self, other: Any) -> Dimension:
        """The known one of the two.  Raises ValueError if both are known and differ."""
        self.assert_is_compatible_with(other)
        return Dimension(other) if self._value is None else self

    def __eq__(self, other: object) -> bool | None:  # type: ignore[override]
        try:
            size = _as_size(other)
        except (TypeError, ValueError):
            return NotImplemented
        return None if self._value is None or size is None else self._value == size

    def __ne__(self, other: object) -> bool | None:  # type: ignore[override]
        equal = self.__eq__(other)
        return equal if equal is None or equal is NotImplemented else not equal

    def __lt__(self, other: Any) -> bool | None:
        size = _as_size(other)
        return None if self._value is None or size is None else self._value < size

    def __le__(self, other: Any) -> bool | None:
        size = _as_size(other)
        return None if self._value is None or size is None else self._value <= size

    def __gt__(self, other: Any) -> bool | None:
        size = _as_size(other)
        return None if self._value is None or size is None else self._value > size

    def __ge__(self, other: Any) -> bool | None:
        size = _as_size(other)
        return None if self._value is None or size is None else self._value >= size

    def __add__(self, other: Any) -> Dimension:
        return _apply(operator.add, self, other)

    def __sub__(self, other: Any) -> Dimension:
        """Raises ValueError if the difference is negative."""
        return _apply(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Dimension:
        return _apply(operator.sub, other, self)

    def __mul__(self, other: Any) -> Dimension:
        return _apply(operator.mul, self, other)

    def __floordiv__(self, other: Any) -> Dimension:
        return _apply(operator.floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> Dimension:
        return _apply(operator.floordiv, other, self)

    def __mod__(self, other: Any) -> Dimension:
        return _apply(operator.mod, self, other)

    def __rmod__(self, other: Any) -> Dimension:
        return _apply(operator.mod, other, self)

    __radd__ = __add__
    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> NoReturn:
        raise TypeError(_no_division(self, other))

    def __rtruediv__(self, other: Any) -> NoReturn:
        raise TypeError(_no_division(other, self))


def _no_division(a: Any, b: Any) -> str:
    kinds = f"{type(a).__name__!r} and {type(b).__name__!r}"
    return f"unsupported operand type(s) for /: {kinds}, please use //, as / gives fractions"


def _apply(op: Callable[[int, int], int], a: Any, b: Any) -> Dimension:
    try:
        x, y = _as_size(a), _as_size(b)
    except TypeError:
        return NotImplemented  # type: ignore[no-any-return]
    if x is None or y is None:
        return Dimension(None)
    return Dimension(op(x, y))


class TensorShape:
    """A possibly partly known shape, built from anything `as_raw` takes.

    Indexing and iterating give Dimensions (TF 1.x behaviour); `as_list` gives ints and Nones.
    True unless the rank is unknown.  Hashable; equal to whatever means the same shape.
    """

    __slots__ = ("_raw",)

    def __init__(self, dims: Any) -> None:
        self._raw: Shape = as_raw(dims)

    @classmethod
    def _of(cls, raw: Shape) -> TensorShape:
        """What `as_raw` has made, or is made of such."""
        made = cls.__new__(cls)
        made._raw = raw
        return made

    @property
    def rank(self) -> int | None:
        """The number of dimensions; None if unknown."""
        return None if self._raw is None else len(self._raw)

    @property
    def ndims(self) -> int | None:
        """The same as `rank`."""
        return self.rank

    @property
    def dims(self) -> list[Dimension] | None:
        """None if the rank is unknown."""
        return None if self._raw is None else [Dimension(d) for d in self._raw]

    def as_list(self) -> list[int | None]:
        """Raises ValueError if the rank is unknown."""
        return list(self._known("as_list() is not defined on an unknown TensorShape"))

    def as_proto(self) -> Any:
        """As a TensorShapeProto."""
        return AS_PROTO[0](self._raw)

    @property
    def _dims(self) -> list[Dimension] | None:
        return self.dims

    def num_elements(self) -> int | None:
        """None unless every dimension is known."""
        return num_elements(self._raw)

    def is_fully_defined(self) -> bool:
        """Whether the rank and every dimension are known."""
        return is_fully_defined(self._raw)

    def is_compatible_with(self, other: Any) -> bool:
        """Whether a tensor could have both shapes."""
        return compatible(self._raw, as_raw(other))

    def most_specific_compatible_shape(self, other: Any) -> TensorShape:
        """What can be said of a shape that is either this or `other`."""
        return TensorShape(common(self._raw, as_raw(other)))

    def merge_with(self, other: Any) -> TensorShape:
        """What both together know.  Raises ValueError if they disagree."""
        shape = as_shape(other)
        try:
            return TensorShape(merge(self._raw, shape._raw))
        except ValueError as error:
            raise ValueError(f"Shapes {self} and {shape} are not compatible: {error}") from None

    def concatenate(self, other: Any) -> TensorShape:
        """These dimensions, then the other's; unknown if either rank is."""
        return TensorShape(concatenate(self._raw, as_raw(other)))

    def with_rank(self, rank: int) -> TensorShape:
        """This shape, known to have that rank.  Raises ValueError if it has another."""
        if self._raw is None:
            return unknown_shape(rank)
        if len(self._raw) != rank:
            raise ValueError(f"Shape {self} must have rank {rank}, and has {len(self._raw)}")
        return self

    def with_rank_at_least(self, rank: int) -> TensorShape:
        """This shape.  Raises ValueError if it is known to have fewer dimensions."""
        if self._raw is not None and len(self._raw) < rank:
            raise ValueError(
                f"Shape {self} must have rank at least {rank}, and has {len(self._raw)}"
            )
        return self

    def with_rank_at_most(self, rank: int) -> TensorShape:
        """This shape.  Raises ValueError if it is known to have more dimensions."""
        if self._raw is not None and len(self._raw) > rank:
            raise ValueError(
                f"Shape {self} must have rank at most {rank}, and has {len(self._raw)}"
            )
        return self

    def assert_has_rank(self, rank: int) -> None:
        """Raises ValueError if the rank is known and another."""
        self.with_rank(rank)

    def assert_same_rank(self, other: Any) -> None:
        """Raises ValueError if both ranks are known and differ."""
        shape = TensorShape(other)
        if None not in (self.rank, shape.rank) and self.rank != shape.rank:
            raise ValueError(
                f"Shapes {self} and {shape} must have the same rank, not {self.rank} and "
                f"{shape.rank}"
            )

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raises ValueError if no tensor could have both shapes."""
        try:
            merge(self._raw, as_raw(other))
        except ValueError as error:
            raise ValueError(f"Shapes {self} and {other} are incompatible: {error}") from None

    def assert_is_fully_defined(self) -> None:
        """Raises ValueError if a dimension or the rank is unknown."""
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined: a size, or the rank, is unknown")

    def _known(self, refusal: str) -> tuple[int | None, ...]:
        if self._raw is None:
            raise ValueError(f"{refusal}: set_shape says what is known of a tensor's")
        return self._raw

    def __len__(self) -> int:
        return len(self._known("Cannot take the length of shape with unknown rank"))

    def __iter__(self) -> Iterator[Dimension]:
        return iter(
            [Dimension(d) for d in self._known("Cannot iterate over a shape with unknown rank")]
        )

    def __bool__(self) -> bool:
        return self._raw is not None

    @overload
    def __getitem__(self, key: SupportsIndex) -> Dimension: ...
    @overload
    def __getitem__(self, key: slice) -> TensorShape: ...
    def __getitem__(self, key: SupportsIndex | slice) -> Dimension | TensorShape:
        """One Dimension, or the TensorShape of a slice; of unknown rank, what is known of it.

        Raises IndexError beyond the rank, ValueError for a step on a shape of unknown rank.
        """
        if not isinstance(key, slice):
            return Dimension(None if self._raw is None else self._raw[key])
        if self._raw is not None:
            return TensorShape(self._raw[key])
        if key.step is not None:
            raise ValueError(
                f"Steps are not yet handled: a step ({key.step}) needs a shape of known rank, and this one's is unknown"
            )
        start = 0 if key.start is None else operator.index(key.start)
        if key.stop is None or start < 0 or (stop := operator.index(key.stop)) < 0:
            return TensorShape(None)
        return unknown_shape(max(stop - start, 0))

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __radd__(self, other: Any) -> TensorShape:
        return TensorShape(other).concatenate(self)

    def __eq__(self, other: object) -> bool:
        try:
            return self._raw == as_raw(other)
        except (TypeError, ValueError):
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self._raw)

    def __str__(self) -> str:
        if self._raw is None:
            return "<unknown>"
        sizes = ["?" if d is None else str(d) for d in self._raw]
        return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"

    def __repr__(self) -> str:
        return f"TensorShape({self.dims})"

    def __reduce__(self) -> tuple[object, ...]:
        return TensorShape, (self._raw,)


def as_shape(value: Any) -> TensorShape:
    """`value` itself if it is a TensorShape, else a new one."""
    return value if isinstance(value, TensorShape) else TensorShape(value)


def unknown_shape(rank: int | None = None) -> TensorShape:
    """Nothing known but perhaps the rank."""
    return TensorShape(None if rank is None else [None] * rank)


def dimension_value(dimension: Any) -> Any:
    """The int or None inside a Dimension; anything else as it is."""
    return dimension._value if isinstance(dimension, Dimension) else dimension


def dimension_at_index(shape: TensorShape, index: int) -> Dimension:
    """The Dimension there, unknown if the rank is.  Raises IndexError beyond the rank."""
    return shape[index]
