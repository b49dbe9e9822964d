"""Lists, dicts and tuples of trackable objects, and objects whose attributes are their children.

An attribute that is set to a list gets a list that tells its owner of what comes; the list that was given changes
with it.  What was changed behind its back, or lost an element, cannot be saved, since nobody knows which values belong
where.
Called by: training.objects, programs.  Threads: as graph.
Source: TF 1.15 and 2.21 behaviour of objects with lists and dicts as attributes
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final, SupportsIndex

from headrace.library.tracking.trackable import Trackable

__all__: list[str] = []

_ALTERNATIVE: Final = "What is not to be saved can be kept in an object that is not trackable"


class NoDependency:
    """An attribute set to one is set to its value, which is no child."""

    def __init__(self, value: Any) -> None:
        self.value = value


def wrapped(value: Any) -> Any:
    """`value`, as one that tracks its elements, if it is a list, a dict, or a tuple with something to track."""
    if isinstance(value, Trackable):
        return value
    if type(value) is list:
        return ListWrapper(value)
    if type(value) is dict:
        return DictWrapper(value)
    if type(value) is OrderedDict:
        return OrderedDictWrapper(value)
    if isinstance(value, tuple):
        elements = [wrapped(each) for each in value]
        if any(isinstance(each, Trackable) for each in elements):
            return _tuple_class(type(value))(elements)
    return value


def tracked_as(owner: Trackable, name: str, value: Any) -> Any:
    """What stands for `value` in `owner`, of which it is a child if it can be one."""
    if isinstance(value, NoDependency):
        return value.value
    value = wrapped(value)
    if isinstance(value, Trackable):
        owner._track_trackable(value, name, overwrite=True)
    return value


class AutoTrackable(Trackable):
    """An object whose attributes are its children, as far as they can be."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_self_"):
            value = tracked_as(self, name, value)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        if self._children is not None:
            self._children.pop(name, None)


class _Container(Trackable):
    """What lists and dicts have in common: whether their elements are still where they were."""

    _whole: bool = True
    """Whether no element was taken away, replaced or moved."""

    def _unsaveable(self, why: str) -> ValueError:
        return ValueError(f"Unable to save the object {self!r}: {why}.  {_ALTERNATIVE}")


class ListWrapper(_Container, list[Any]):
    """A list whose trackable elements are children of the names 0, 1, …"""

    def __init__(self, given: list[Any]) -> None:
        super().__init__()
        self._given = given
        list.extend(self, (self._entered(at, each) for at, each in enumerate(given)))
        self._given[:] = self

    def _entered(self, at: int, value: Any) -> Any:
        return tracked_as(self, str(at), value)

    def _tracked(self) -> Mapping[str, Trackable]:
        if not self._whole:
            raise self._unsaveable(
                "a list element was replaced, deleted or moved; what is saved may only be appended to, so that it is "
                "known which values an element takes when it is there again"
            )
        if len(self) != len(self._given) or any(
            a is not b for a, b in zip(self, self._given, strict=True)
        ):
            raise self._unsaveable(
                "the wrapped list was modified outside the wrapper, to "
                f"{self._given!r}; change it by the attribute that has it"
            )
        return super()._tracked()

    def _lookup_dependency(self, name: str) -> Trackable | None:
        return (self._children or {}).get(name)

    def _moves(self) -> None:
        """Before elements are moved or go."""
        if any(isinstance(each, Trackable) for each in self):
            self._whole = False

    def _moved(self) -> None:
        self._given[:] = self

    def append(self, value: Any) -> None:
        """See list."""
        list.append(self, self._entered(len(self), value))
        self._given.append(self[-1])

    def extend(self, values: Iterable[Any]) -> None:
        """See list."""
        for each in list(values):
            self.append(each)

    def __iadd__(self, values: Iterable[Any]) -> ListWrapper:  # type: ignore[misc]
        self.extend(values)
        return self

    def __imul__(self, count: SupportsIndex) -> ListWrapper:
        if count.__index__() < 1:
            self.clear()
        else:
            self.extend(list(self) * (count.__index__() - 1))
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, slice):
            self._moves()
            before = list(self)
            list.__setitem__(self, key, value)
            for at, each in enumerate(self):
                if at >= len(before) or each is not before[at]:
                    list.__setitem__(self, at, self._entered(at, each))
        else:
            at = range(len(self))[key]
            if isinstance(self[at], Trackable):
                self._whole = False
            list.__setitem__(self, at, self._entered(at, value))
        self._moved()

    def __delitem__(self, key: Any) -> None:
        self._moves()
        list.__delitem__(self, key)
        self._moved()

    def insert(self, index: SupportsIndex, value: Any) -> None:
        """See list."""
        if index.__index__() == len(self):
            self.append(value)
            return
        self._moves()
        list.insert(self, index, wrapped(value))
        self._moved()

    def pop(self, index: SupportsIndex = -1) -> Any:
        """See list."""
        self._moves()
        value = list.pop(self, index)
        self._moved()
        return value

    def remove(self, value: Any) -> None:
        """See list."""
        self._moves()
        list.remove(self, value)
        self._moved()

    def clear(self) -> None:
        """See list."""
        self._moves()
        list.clear(self)
        self._moved()

    def reverse(self) -> None:
        """See list."""
        self._moves()
        list.reverse(self)
        self._moved()

    def sort(self, **how: Any) -> None:
        """See list."""
        self._moves()
        list.sort(self, **how)
        self._moved()

    def __repr__(self) -> str:
        return f"ListWrapper({list.__repr__(self)})"

    def __reduce__(self) -> Any:
        return list, (list(self),)

    __hash__ = object.__hash__  # type: ignore[assignment]


class _Mapping(_Container):
    """A dict whose trackable values are children of the names that are their keys."""

    _given: dict[Any, Any]

    def _begin(self, given: dict[Any, Any]) -> None:
        self._given = given
        for key, value in list(given.items()):
            self[key] = value

    def _tracked(self) -> Mapping[str, Trackable]:
        mine: Any = self
        other = [
            key for key, value in mine.items() if isinstance(value, Trackable) and not _is_name(key)
        ]
        if other:
            raise self._unsaveable(
                "the wrapped dictionary contains a non-string key which maps to a trackable object, "
                f"{other[0]!r}; keys are names in the checkpoint"
            )
        given = self._given
        if len(given) != len(mine) or any(
            key not in given or given[key] is not value for key, value in mine.items()
        ):
            raise self._unsaveable(
                "the wrapped dictionary was modified outside the wrapper, to "
                f"{given!r}; change it by the attribute that has it"
            )
        return super()._tracked()

    def _lookup_dependency(self, name: str) -> Trackable | None:
        return (self._children or {}).get(name)

    def __setitem__(self, key: Any, value: Any) -> None:
        kept = tracked_as(self, key, value) if _is_name(key) else wrapped(value)
        super().__setitem__(key, kept)  # type: ignore[misc]
        self._given[key] = kept

    def __delitem__(self, key: Any) -> None:
        super().__delitem__(key)  # type: ignore[misc]
        self._given.pop(key, None)
        if self._children is not None:
            self._children.pop(key, None)

    def pop(self, key: Any, *default: Any) -> Any:
        """See dict."""
        mine: Any = self
        if key not in mine:
            if default:
                return default[0]
            raise KeyError(key)
        value = mine[key]
        del mine[key]
        return value

    def popitem(self) -> tuple[Any, Any]:
        """See dict."""
        mine: Any = self
        if not mine:
            raise KeyError("popitem(): dictionary is empty")
        key = list(mine)[-1]
        return key, self.pop(key)

    def clear(self) -> None:
        """See dict."""
        mine: Any = self
        for key in list(mine):
            del mine[key]

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """See dict."""
        mine: Any = self
        if key not in mine:
            self[key] = default
        return mine[key]

    def update(self, *others: Any, **named: Any) -> None:
        """See dict."""
        for key, value in dict(*others, **named).items():
            self[key] = value

    def __ior__(self, others: Any) -> Any:
        self.update(others)
        return self

    __hash__ = object.__hash__


def _is_name(key: Any) -> bool:
    return isinstance(key, str)


class DictWrapper(_Mapping, dict[Any, Any]):  # type: ignore[misc]
    """A dict that tells of what comes."""

    def __init__(self, given: dict[Any, Any]) -> None:
        super().__init__()
        self._begin(given)

    def __repr__(self) -> str:
        return f"DictWrapper({dict.__repr__(self)})"

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


class OrderedDictWrapper(_Mapping, OrderedDict[Any, Any]):  # type: ignore[misc]
    """As `DictWrapper`, of an OrderedDict."""

    def __init__(self, given: OrderedDict[Any, Any]) -> None:
        OrderedDict.__init__(self)
        self._begin(given)

    def __repr__(self) -> str:
        return f"DictWrapper({OrderedDict(self)!r})"

    def __reduce__(self) -> Any:
        return OrderedDict, (list(self.items()),)


@cache
def _tuple_class(kind: type[tuple[Any, ...]]) -> Any:
    """A subclass of `kind` whose trackable elements are children; called with the elements."""
    fields = getattr(kind, "_fields", ())

    def make(cls: type[Any], elements: list[Any]) -> Any:
        return tuple.__new__(cls, elements)

    def tracked(self: Any) -> Mapping[str, Trackable]:
        names = [*zip(fields, self, strict=False), *((str(at), e) for at, e in enumerate(self))]
        return {name: each for name, each in names if isinstance(each, Trackable)}

    def shown(self: Any) -> str:
        return f"_TupleWrapper({kind.__repr__(self)})"

    return type(
        "_TupleWrapper",
        (Trackable, kind),
        {
            "__new__": make,
            "__init__": lambda self, elements: None,
            "__repr__": shown,
            "__reduce__": lambda self: (_plain_tuple, (kind, list(self))),
            "_tracked": tracked,
        },
    )


def _plain_tuple(kind: type[tuple[Any, ...]], elements: list[Any]) -> Any:
    return tuple.__new__(kind, elements)
