"""Lookup tables: values by key, shared by the steps of a task.

A table holds its values as rows of one array and each key's row in a dict, so that many keys are found in one pass over
the dict, or over an index in arrays, and one gather.
Called by: ops.state.tables.  Threads: any; one lock a table.  Nothing waits.
Source: TF 1.15 core/kernels/lookup_table_op.cc, initializable_lookup_table.cc, for behaviour
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.dtypes import DType
from headrace.base.shapes import text
from headrace.run.state.resources import Resource
from headrace.run.state.table_rows import Finder, index_of
from headrace.run.state.words import ByWord, numbered
from headrace.run.uninterrupted import changes

Array = np.ndarray[Any, Any]

_LEAST_ROWS = 16
_LEAST_BUCKETS = 4
_PATIENCE = 15  # lookups of words


@changes
class LookupTable(Resource):
    """Keys of one type, and a value of one type and shape for each."""

    type_name = "N10tensorflow6lookup15LookupInterfaceE"
    kind = "table"

    def __init__(
        self, name: str, key_dtype: DType, value_dtype: DType, value_shape: tuple[int, ...] = ()
    ) -> None:
        super().__init__(name)
        self.key_dtype = key_dtype
        self.value_dtype = value_dtype
        self.value_shape = value_shape
        self._lock = threading.Lock()
        self._rows: dict[Any, int] = {}
        self._finder = Finder()
        self._values: Array = np.empty((0, *value_shape), value_dtype.np)

    def check_types(self, keys: DType, values: DType) -> None:
        """Raises InvalidArgument if a node takes the table for one of other types."""
        if (keys, values) != (self.key_dtype, self.value_dtype):
            raise errors.invalid_argument(
                f"Conflicting key/value dtypes {keys.name}->{values.name} with {self.key_dtype.name}-"
                f"{self.value_dtype.name} for table {self.label}: give one of them another shared_name"
            )

    # -- reading -----------------------------------------------------------------------------

    def size(self) -> int:
        """How many keys there are."""
        with self._lock:
            return len(self._rows)

    def find(self, keys: Array, default: Array) -> Array:
        """The value of each key, else the default: one for all, or one a key.

        keys: any shape; out: that shape and a value's.  Raises InvalidArgument.
        """
        wanted = (*keys.shape, *self.value_shape)
        if default.shape not in (self.value_shape, wanted):
            raise errors.invalid_argument(
                f"Expected shape {text(self.value_shape)} or {text(wanted)} for default value, got "
                f"{text(default.shape)}: table {self.label!r}"
            )
        with self._lock:
            rows = self._rows_of(keys)
            all_there = len(rows) > 0 and rows.min() >= 0
            missing = rows[:0] if all_there else np.flatnonzero(rows < 0)
            if len(missing) == len(rows):
                return np.broadcast_to(default, wanted).copy()
            found: Array = self._values.take(rows, axis=0)
        if len(missing):
            one_each = default.shape == wanted and keys.ndim
            each = default.reshape((len(rows), *self.value_shape)) if one_each else default
            found[missing] = each[missing] if one_each else each
        return found.reshape(wanted)

    def export(self) -> tuple[Array, Array]:
        """All keys [n] and their values [n, ...], as the table's own copies."""
        with self._lock:
            rows = np.fromiter(self._rows.values(), np.intp, len(self._rows))
            return self._keys(self._rows), self._values[rows]

    # -- changing ----------------------------------------------------------------------------

    def insert(self, keys: Array, values: Array) -> None:
        """Give each key its value, also one that has one.  Raises InvalidArgument, Unimplemented."""
        raise errors.unimplemented(
            f"Insert not supported by InitializableLookupTable implementations: {self.kind} {self.label!r} is "
            "initialized once; a MutableHashTable takes keys at any time"
        )

    def remove(self, keys: Array) -> None:
        """Forget these keys, where they are.  Raises InvalidArgument, Unimplemented."""
        raise errors.unimplemented(
            f"Remove not supported by InitializableLookupTable implementations: {self.kind} {self.label!r}"
        )

    def replace(self, keys: Array, values: Array) -> None:
        """Have these keys and values and no others.  Raises InvalidArgument and as `initialize`."""
        raise NotImplementedError

    def initialize(self, keys: Array, values: Array) -> None:
        """Have these keys and values, once.  Raises InvalidArgument (of another kind), FailedPrecondition."""
        raise errors.invalid_argument(
            f"Table {self.container} {self.label} is not initializable: it is a {self.kind}"
        )

    def _rows_of(self, keys: Array) -> Array:
        """The row of each key, flat, -1 where there is none.  Under the lock."""
        return self._finder.of(self._rows, self._listed(keys))

    # -- inside ------------------------------------------------------------------------------

    def _listed(self, keys: Array) -> list[Any]:
        found: list[Any] = keys.reshape(-1).tolist()
        return found

    def _keys(self, keys: Iterable[Any]) -> Array:
        listed = list(keys)
        out = np.empty(len(listed), self.key_dtype.np)
        out[:] = listed
        return out

    def _checked(self, keys: Array, values: Array) -> tuple[list[Any], Array]:
        """Keys and a row of values each.  Raises InvalidArgument if the shapes do not fit."""
        wanted = (*keys.shape, *self.value_shape)
        if values.shape != wanted:
            raise errors.invalid_argument(
                f"Expected shape {text(wanted)} for value, got {text(values.shape)}: table {self.label!r} takes a "
                f"value of shape {text(self.value_shape)} for each key"
            )
        listed = self._listed(keys)
        return listed, values.reshape((len(listed), *self.value_shape))


@changes
class StaticTable(LookupTable):
    """A table that is initialized once."""

    kind = "HashTable"

    def __init__(self, name: str, key_dtype: DType, value_dtype: DType) -> None:
        super().__init__(name, key_dtype, value_dtype)
        self._ready = False
        self._index: Callable[[Array], Array] | None = None
        """See `table_rows`."""
        self._one_by_one = 0  # so many lookups of words, since in the last one hardly any repeated
        self._by_word = ByWord(self._rows_of_words)

    def find(self, keys: Array, default: Array) -> Array:
        """See `LookupTable`.  Raises FailedPrecondition before it is initialized."""
        if not self._ready:
            raise errors.failed_precondition(
                f"Table not initialized. {self.kind} {self.label!r}: run tf.tables_initializer() in a session on this "
                "task first"
            )
        if default.ndim and default.size == 1:
            default = default.reshape(())
        return super().find(keys, default)

    def export(self) -> tuple[Array, Array]:
        """See `LookupTable`.  Raises Aborted before it is initialized."""
        if not self._ready:
            raise errors.aborted(
                f"HashTable is not initialized. {self.label!r}: run tf.tables_initializer() first"
            )
        return super().export()

    def initialize(self, keys: Array, values: Array) -> None:
        """See `LookupTable`.  Again with as many keys changes nothing; with none it is refused."""
        if keys.ndim != 1 or keys.shape != values.shape:
            raise errors.invalid_argument(
                f"keys and values must be vectors of one length, not {text(keys.shape)} and {text(values.shape)}"
            )
        if not len(keys):
            raise errors.invalid_argument(
                f"keys and values cannot be empty tensors. Table {self.label!r} is given no keys, and can have none "
                "later; one that begins empty is a MutableHashTable"
            )
        listed, values = self._checked(keys, values)
        rows = dict(zip(listed, range(len(listed)), strict=True))
        if len(rows) < len(listed):
            self._check_same(listed, values, rows)
        with self._lock:
            if not self._ready:
                self._rows, self._values = rows, values.copy()
                self._index = index_of(keys, rows)
                self._ready = True
            elif len(listed) != len(self._rows):
                raise errors.failed_precondition(
                    f"Table was already initialized with different data. {self.label!r} has {len(self._rows)} keys, "
                    f"and {len(listed)} are given"
                )

    replace = initialize

    def _rows_of(self, keys: Array) -> Array:
        """See `LookupTable`."""
        if self._index is not None:
            return self._index(keys.reshape(-1))
        return self._rows_of_listed(self._listed(keys))

    def _rows_of_listed(self, keys: list[Any]) -> Array:
        if self.key_dtype is dtypes.string and self._ready:
            if self._one_by_one > 0:
                self._one_by_one -= 1
            else:
                known = numbered(keys)
                if known is not None:
                    return self._by_word.found(*known)
                self._one_by_one = _PATIENCE
        return self._rows_of_words(keys)

    def _rows_of_words(self, words: Sequence[Any]) -> Array:
        return self._finder.of(self._rows, words)

    def _check_same(self, keys: list[Any], values: Array, rows: dict[Any, int]) -> None:
        """Raises FailedPrecondition if a key that comes twice has two values."""
        for at, key in enumerate(keys):
            if values[at] != values[rows[key]]:
                shown = key.decode(errors="replace") if isinstance(key, bytes) else key
                raise errors.failed_precondition(
                    f"HashTable has different value for same key. Key {shown} has {values[at]} and trying to add value "
                    f"{values[rows[key]]}"
                )


@changes
class MutableTable(LookupTable):
    """A table whose keys come and go."""

    kind = "MutableHashTable"

    def __init__(
        self, name: str, key_dtype: DType, value_dtype: DType, value_shape: tuple[int, ...] = ()
    ) -> None:
        super().__init__(name, key_dtype, value_dtype, value_shape)
        self._free: list[int] = []

    def insert(self, keys: Array, values: Array) -> None:
        """See `LookupTable`; of equal keys the last one's value stays."""
        listed, values = self._checked(keys, values)
        with self._lock:
            self._put(listed, values)

    def _put(self, listed: list[Any], values: Array) -> None:
        rows, free = self._rows, self._free
        known = rows.get
        places = np.empty(len(listed), np.intp)
        for at, key in enumerate(listed):
            row = known(key)
            if row is None:
                row = rows[key] = free.pop() if free else len(rows)
            places[at] = row
        if len(listed):
            self._make_room(int(places.max()) + 1)
            self._values[places] = values

    def _make_room(self, rows: int) -> None:
        if rows > len(self._values):
            larger = np.empty(
                (max(rows, 2 * len(self._values), _LEAST_ROWS), *self.value_shape),
                self._values.dtype,
            )
            larger[: len(self._values)] = self._values
            self._values = larger

    def remove(self, keys: Array) -> None:
        """See `LookupTable`."""
        with self._lock:
            for key in self._listed(keys):
                row = self._rows.pop(key, None)
                if row is not None:
                    self._free.append(row)

    def replace(self, keys: Array, values: Array) -> None:
        """See `LookupTable`."""
        listed, values = self._checked(keys, values)
        with self._lock:
            self._rows, self._free = {}, []
            self._values = np.empty((0, *self.value_shape), self._values.dtype)
            self._put(listed, values)


@changes
class DenseTable(MutableTable):
    """A mutable table that is exported as the buckets of an open hash table, where two keys mean that there is none."""

    kind = "MutableDenseHashTable"

    def __init__(
        self,
        name: str,
        key_dtype: DType,
        value_dtype: DType,
        value_shape: tuple[int, ...],
        empty_key: Any,
        deleted_key: Any,
        buckets: int,
        max_load: float,
        hashes: Callable[[list[Any]], list[int]],
    ) -> None:
        """empty_key, deleted_key: keys that cannot be used; None for no deleted one.  hashes: of keys, which say in
        which bucket each is.  Raises InvalidArgument.
        """
        super().__init__(name, key_dtype, value_dtype, value_shape)
        if buckets < _LEAST_BUCKETS or buckets & (buckets - 1):
            raise errors.invalid_argument(
                f"Number of buckets must be at least 4 and a power of 2, got: {buckets}"
            )
        if empty_key == deleted_key:
            raise errors.invalid_argument(
                f"Empty and deleted keys cannot be equal: both are {empty_key!r}"
            )
        if not 0 < max_load < 1:
            raise errors.invalid_argument(
                f"max_load_factor must be between 0 and 1, got: {max_load}"
            )
        self._marks = {"empty": empty_key, "deleted": deleted_key}
        self._buckets, self._max_load, self._hashes = buckets, max_load, hashes

    def _listed(self, keys: Array) -> list[Any]:
        listed = super()._listed(keys)
        for what, mark in self._marks.items():
            if mark is not None and mark in listed:
                raise errors.invalid_argument(
                    f"Using the {what}_key as a table key is not allowed: {mark!r} in table {self.label!r}"
                )
        return listed

    def _put(self, listed: list[Any], values: Array) -> None:
        super()._put(listed, values)
        while len(self._rows) > self._max_load * self._buckets:
            self._buckets *= 2

    def export(self) -> tuple[Array, Array]:
        """The buckets: keys [buckets, 1], the empty one where there is none, and values [buckets, ...]."""
        with self._lock:
            keys = np.empty((self._buckets, 1), self.key_dtype.np)
            keys[:, 0] = [self._marks["empty"]] * self._buckets
            shape = self.value_shape or (1,)
            values = np.zeros((self._buckets, *shape), self._values.dtype)
            if values.dtype.kind == "O":
                values.reshape(-1)[:] = [b""] * values.size
            places = self._places(list(self._rows))
            rows = np.fromiter(self._rows.values(), np.intp, len(self._rows))
            keys[places, 0] = self._keys(self._rows)
            values[places] = self._values[rows].reshape((len(rows), *shape))
        return keys, values

    def _places(self, keys: list[Any]) -> list[int]:
        """The bucket of each key: by its hash, then further on in growing steps."""
        taken: set[int] = set()
        found = []
        for at in self._hashes(keys):
            at, step = at & (self._buckets - 1), 0
            while at in taken:
                step += 1
                at = (at + step) & (self._buckets - 1)
            taken.add(at)
            found.append(at)
        return found

    def replace(self, keys: Array, values: Array) -> None:
        """See `LookupTable`: of buckets, those that hold something.  Raises InvalidArgument."""
        if keys.ndim == 2 and keys.shape[1] == 1:
            keys = keys[:, 0]
        if keys.ndim != 1 or len(values) != len(keys):
            raise errors.invalid_argument(
                f"Expected key shape [buckets, 1] and values by buckets, got {text(keys.shape)} and "
                f"{text(values.shape)}"
            )
        values = values.reshape((len(keys), *self.value_shape))
        marks = self._marks.values()
        used = [at for at, key in enumerate(keys.tolist()) if key not in marks]
        with self._lock:
            buckets = max(len(keys), _LEAST_BUCKETS)
            self._buckets = 1 << (buckets - 1).bit_length()
        super().replace(keys[used], values[used])
