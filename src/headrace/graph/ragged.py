"""Ragged tensors as sessions see them, values and where each row begins; and how functions of tensors take them.

`ops.array.ragged` has the class that programs use.  An op that takes ragged tensors has a trait, a function that does a
decorator from here.
Called by: client (feeds and fetches), registry, ops.  Threads: as graph.
"""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, TypeVar, cast

import numpy as np

from headrace.graph.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])
Call = Callable[..., Any]

ONE: Final = "of one"
TWO: Final = "of two"
CHECK: Final = "a check of two"
LIST: Final = "of a list"
ELEMENTWISE: Final[dict[str, Callable[[Call, Sequence[Any], Mapping[str, Any]], Any]]] = {}
"""How functions of one operand, of two, checks of two and functions of a list are applied to innermost values: of
(function, arguments, keyword arguments); `ops.array.ragged_dispatch` fills it."""

TAKING_RAGGED: Final[set[str]] = set()
"""Names of the functions that have one of the decorators."""


class Ragged:
    """Values in rows: row i is values[row_splits[i]:row_splits[i + 1]]; the values may be ragged themselves."""

    _values: Any
    _row_splits: Any
    _uniform: Any = None

    @property
    def values(self) -> Any:
        """The rows end to end: a tensor, or a ragged one."""
        return self._values

    @property
    def row_splits(self) -> Any:
        """Where each row begins, and where the last one ends, [rows + 1]."""
        return self._row_splits

    @property
    def uniform_row_length(self) -> Any:
        """How long all rows are, if they are known to have one length: an int, or a tensor []; else None."""
        return self._uniform

    @property
    def flat_values(self) -> Any:
        """The innermost values."""
        return self._values.flat_values if isinstance(self._values, Ragged) else self._values

    @property
    def nested_row_splits(self) -> tuple[Any, ...]:
        """row_splits of this and of the values within, from the outermost on."""
        inner = self._values.nested_row_splits if isinstance(self._values, Ragged) else ()
        return (self._row_splits, *inner)

    def of_parts(self, flat_values: Any, *nested_row_splits: Any) -> Any:
        """The same kind of thing, of other values and row_splits; rows that all have one known length keep it."""
        inner, rest = self._values, nested_row_splits[1:]
        values = inner.of_parts(flat_values, *rest) if rest else flat_values
        made: Any = copy.copy(self)
        made._values, made._row_splits = values, nested_row_splits[0]
        made._uniform = self._uniform if isinstance(self._uniform, int) else None
        return made

    @property
    def ragged_rank(self) -> int:
        """How many dimensions are ragged, one within the other."""
        return len(self.nested_row_splits)


class RaggedTensorValue(Ragged):
    """A ragged tensor as arrays: what a session returns for one, and what one is fed."""

    def __init__(self, values: Any, row_splits: Any) -> None:
        """Raises TypeError, ValueError unless row_splits is a vector of int32 or int64."""
        splits = row_splits
        if not isinstance(splits, np.ndarray | np.generic) or splits.dtype not in (
            np.int64,
            np.int32,
        ):
            raise TypeError("row_splits must be a numpy array with dtype int32 or int64")
        if np.ndim(splits) != 1:
            raise ValueError(f"row_splits must be a vector, and has shape {np.shape(splits)}")
        if not isinstance(values, np.ndarray | np.generic | RaggedTensorValue):
            raise TypeError("values must be a numpy array or a RaggedTensorValue")
        self._values = values
        self._row_splits = splits

    @classmethod
    def from_nested(cls, flat_values: Any, splits: Any) -> Any:
        """Of innermost values and the row_splits of every dimension, from the outermost on."""
        found = flat_values
        for each in reversed(list(splits)):
            found = cls(found, each)
        return found

    @property
    def dtype(self) -> Any:
        """NumPy's, of the values."""
        return self._values.dtype

    @property
    def shape(self) -> tuple[int | None, ...]:
        """None for a ragged dimension."""
        return (len(self._row_splits) - 1, None, *self._values.shape[1:])

    def to_list(self) -> list[Any]:
        """The rows as lists."""
        ends = self._row_splits.tolist()
        whole = (
            self._values.to_list()
            if isinstance(self._values, RaggedTensorValue)
            else self._values.tolist()
        )
        return [whole[a:b] for a, b in itertools.pairwise(ends)]

    def __repr__(self) -> str:
        return f"tf.RaggedTensorValue(values={self._values!r}, row_splits={self._row_splits!r})"

    def __str__(self) -> str:
        return f"<tf.RaggedTensorValue {self.to_list()}>"


_PLAIN: Final = frozenset({Tensor, np.ndarray, int, float, bool, str, bytes, type(None)})
"""Classes of most arguments, of which nothing is ragged."""


def any_ragged(values: Iterable[Any]) -> bool:
    """Whether one of some arguments is ragged, or a list that has something ragged in it."""
    return not _PLAIN.issuperset(map(type, values)) and any(map(_is_ragged, values))


def _is_ragged(value: Any) -> bool:
    """Whether it is ragged, or a list that has something ragged in it."""
    if value.__class__ is list or value.__class__ is tuple:
        return any(isinstance(each, Ragged) for each in value)
    return isinstance(value, Ragged)


def of_ragged(function: F) -> F:
    """The first argument may be ragged: then the function is applied to its innermost values."""
    return _or(function, functools.partial(_elementwise, ONE, function))


def of_two_ragged(function: F) -> F:
    """The first two arguments may be ragged, which broadcast as operators do."""
    return _or(function, functools.partial(_elementwise, TWO, function))


def of_two_ragged_checked(function: F) -> F:
    """The first two arguments may be ragged, and broadcast; what comes of it is no tensor."""
    return _or(function, functools.partial(_elementwise, CHECK, function))


def of_ragged_list(function: F) -> F:
    """The first argument is a list of which some may be ragged."""
    return _or(function, functools.partial(_elementwise, LIST, function))


def of_ragged_by(module: str) -> Callable[[F], F]:
    """A function of the same name there, imported when it is needed, sees to ragged tensors.

    It is called with the function for tensors and a mapping of the call's arguments by their names.
    """

    def decorate(function: F) -> F:
        def otherwise(given: inspect.BoundArguments) -> Any:
            return getattr(import_module(module), function.__name__)(function, given.arguments)

        return _or(function, otherwise)

    return decorate


def _elementwise(how: str, function: Call, given: inspect.BoundArguments) -> Any:
    return ELEMENTWISE[how](function, given.args, given.kwargs)


def _or(function: F, otherwise: Callable[[inspect.BoundArguments], Any]) -> F:
    """The function; `otherwise` where an argument is ragged."""
    TAKING_RAGGED.add(function.__name__)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if any_ragged(args) or (kwargs and any_ragged(kwargs.values())):
            return otherwise(inspect.signature(function).bind(*args, **kwargs))
        return function(*args, **kwargs)

    return cast("F", wrapper)
