"""Lookup tables that are initialized once, from tensors or from files, and buckets for keys that they lack.

Called by: public namespaces, library.vocabularies, training.tables.  Threads: as graph.
Source: TF 1.15 python/ops/lookup_ops.py, contrib/lookup, for behaviour; nodes checked against the oracle
"""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

from headrace.base import dtypes
from headrace.base.dtypes import DType
from headrace.base.shapes import TensorShape
from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import add_to_collection, device, name_scope
from headrace.graph.registry import get
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant
from headrace.ops.math.arithmetic import add
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import not_equal, where_v2
from headrace.ops.string.strings import as_string

__all__ = [
    "FastHashSpec",
    "HashTable",
    "HasherSpec",
    "IdTableWithHashBuckets",
    "InitializableLookupTableBase",
    "KeyValueTensorInitializer",
    "LookupInterface",
    "StaticHashTable",
    "StaticVocabularyTable",
    "StrongHashSpec",
    "TableInitializerBase",
    "TextFileIdTableInitializer",
    "TextFileIndex",
    "TextFileInitializer",
    "TextFileStringTableInitializer",
]


class TextFileIndex:
    """What a text file gives for a key or a value where it is no column."""

    WHOLE_LINE = -2
    LINE_NUMBER = -1


# -- tables -----------------------------------------------------------------------------------


class LookupInterface:
    """A table: keys of one dtype to values of another."""

    def __init__(self, key_dtype: Any, value_dtype: Any) -> None:
        self._key_dtype = dtypes.as_dtype(key_dtype)
        self._value_dtype = dtypes.as_dtype(value_dtype)

    @property
    def key_dtype(self) -> DType:
        """Of keys."""
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        """Of values."""
        return self._value_dtype

    @property
    def name(self) -> str:
        """The table's name, without scopes."""
        raise NotImplementedError

    def size(self, name: str | None = None) -> Tensor:
        """How many keys there are, int64."""
        raise NotImplementedError

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The values of `keys`, a tensor or a SparseTensor."""
        raise NotImplementedError


def checked_keys(keys: Any, wanted: DType, what: str = "keys") -> tuple[Any, Tensor]:
    """(keys, the tensor of them).  Raises TypeError if they are not of dtype `wanted`."""
    values = keys.values if isinstance(keys, SparseTensor) else convert(keys, None, "keys", wanted)
    if values.dtype.base_dtype != wanted.base_dtype:
        raise TypeError(
            f"Dtype of argument `{what}` must be {wanted!r}, received: {values.dtype!r}; the table's keys are "
            f"{wanted.name}"
        )
    return keys, values


def like(keys: Any, values: Tensor) -> Any:
    """Values in the places of sparse keys, or as they are."""
    if isinstance(keys, SparseTensor):
        return SparseTensor(keys.indices, values, keys.dense_shape)
    return values


class InitializableLookupTableBase(LookupInterface):
    """A table that its initializer fills, once."""

    def __init__(self, default_value: Any, initializer: TableInitializerBase) -> None:
        super().__init__(initializer.key_dtype, initializer.value_dtype)
        self._default_value = convert(default_value, self._value_dtype)
        if self._default_value.raw_shape is not None and self._default_value.raw_shape != ():
            raise ValueError(
                f"Shapes {TensorShape(self._default_value.raw_shape)} and () are incompatible: the default value of a "
                "table is a scalar"
            )
        self._initializer = initializer
        self._resource_handle = self._create_resource()
        self._init_op = initializer.initialize(self)

    def _create_resource(self) -> Tensor:
        raise NotImplementedError

    @property
    def resource_handle(self) -> Tensor:
        """The handle that the ops of tables take."""
        return self._resource_handle

    @property
    def table_ref(self) -> Tensor:
        """Old name of `resource_handle`."""
        return self._resource_handle

    @property
    def name(self) -> str:
        """See `LookupInterface`."""
        return self._resource_handle.op.name.rpartition("/")[2]

    @property
    def default_value(self) -> Tensor:
        """The value of keys that are not there."""
        return self._default_value

    @property
    def initializer(self) -> Operation:
        """The operation that fills the table; tf.tables_initializer() runs it."""
        return self._init_op

    @property
    def init(self) -> Operation:
        """Old name of `initializer`."""
        return self._init_op

    def size(self, name: str | None = None) -> Tensor:
        """See `LookupInterface`."""
        with name_scope(name, f"{self.name}_Size", [self._resource_handle]):
            made: Tensor = get("LookupTableSizeV2")(self._resource_handle)
            return made

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """See `LookupInterface`.  Raises TypeError on keys of another dtype."""
        keys, wanted = checked_keys(keys, self._key_dtype)
        given = [self._resource_handle, wanted, self._default_value]
        with name_scope(name, f"{self.name}_Lookup", given):
            values: Tensor = get("LookupTableFindV2")(*given)
        values.set_shape(wanted.shape)
        return like(keys, values)


class StaticHashTable(InitializableLookupTableBase):
    """A hash table that is filled by its initializer once and then read."""

    def __init__(
        self,
        initializer: TableInitializerBase,
        default_value: Any,
        name: str | None = None,
        shared_name: str | None = None,
    ) -> None:
        """default_value: of keys that are not there.  Tables of one shared_name are one on each task; without one,
        those of one file and columns.
        """
        self._name = name or "hash_table"
        own = shared_name or initializer._shared_name or f"hash_table_{uuid.uuid4()}"
        self._shared_name = own
        super().__init__(default_value, initializer)

    def _create_resource(self) -> Tensor:
        made: Tensor = get("HashTableV2")(
            shared_name=self._shared_name,
            key_dtype=self._key_dtype,
            value_dtype=self._value_dtype,
            name=self._name,
        )
        return made

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """All keys and their values."""
        with name_scope(name, f"{self.name}_Export", [self._resource_handle]):
            keys, values = get("LookupTableExportV2")(
                self._resource_handle, Tkeys=self._key_dtype, Tvalues=self._value_dtype
            )
        return keys, values


class HashTable(StaticHashTable):
    """`StaticHashTable`, with its arguments in the order of tf.contrib.lookup."""

    def __init__(
        self,
        initializer: TableInitializerBase,
        default_value: Any,
        shared_name: str | None = None,
        name: str | None = None,
    ) -> None:
        """See `StaticHashTable`."""
        super().__init__(initializer, default_value, name, shared_name)


# -- initializers -----------------------------------------------------------------------------


class TableInitializerBase:
    """What fills a table."""

    _shared_name = ""

    def __init__(self, key_dtype: Any, value_dtype: Any) -> None:
        self._key_dtype = dtypes.as_dtype(key_dtype)
        self._value_dtype = dtypes.as_dtype(value_dtype)

    @property
    def key_dtype(self) -> DType:
        """Of keys."""
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        """Of values."""
        return self._value_dtype

    def initialize(self, table: Any) -> Operation:
        """The operation that fills `table`, which the TABLE_INITIALIZERS collection has from now on."""
        raise NotImplementedError

    def _check(self, table: Any) -> None:
        for what, own, other in (
            ("key", self._key_dtype, table.key_dtype),
            ("value", self._value_dtype, table.value_dtype),
        ):
            if own.base_dtype != other.base_dtype:
                raise TypeError(
                    f"Invalid {what} dtype for table, expected {own.name} but got {other.name}."
                )


class KeyValueTensorInitializer(TableInitializerBase):
    """Fills a table with keys and values that tensors hold."""

    def __init__(
        self,
        keys: Any,
        values: Any,
        key_dtype: Any = None,
        value_dtype: Any = None,
        name: str | None = None,
    ) -> None:
        """keys, values: vectors of one length.  name: of the operation."""
        self._keys = convert(keys, key_dtype, "keys")
        self._values = convert(values, value_dtype, "values")
        self._name = name or "key_value_init"
        super().__init__(self._keys.dtype, self._values.dtype)

    def initialize(self, table: Any) -> Operation:
        """See `TableInitializerBase`.  Raises TypeError."""
        self._check(table)
        with name_scope(self._name, None, [table.resource_handle, self._keys, self._values]):
            made: Operation = get("LookupTableImportV2")(
                table.resource_handle, self._keys, self._values
            )
        add_to_collection(GraphKeys.TABLE_INITIALIZERS, made)
        return made


class TextFileInitializer(TableInitializerBase):
    """Fills a table with columns of a text file."""

    def __init__(
        self,
        filename: Any,
        key_dtype: Any,
        key_index: int,
        value_dtype: Any,
        value_index: int,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str | None = None,
    ) -> None:
        """key_index, value_index: a column, from 0 on, or one of `TextFileIndex`.  vocab_size: how many lines count.

        Raises ValueError.
        """
        if not isinstance(filename, Tensor) and not filename:
            raise ValueError("`filename` argument required for tf.lookup.TextFileInitializer")
        key_dtype, value_dtype = dtypes.as_dtype(key_dtype), dtypes.as_dtype(value_dtype)
        for what, index, kind in (
            ("key", key_index, key_dtype),
            ("value", value_index, value_dtype),
        ):
            if index < -2:
                raise ValueError(f"`{what}_index` should be >= -2, received: {index}.")
            if index == TextFileIndex.LINE_NUMBER and kind is not dtypes.int64:
                raise ValueError(
                    f"`{what}_dtype` must be int64 if `{what}_index` is -1, received: {kind!r}"
                )
            if index == TextFileIndex.WHOLE_LINE and not (kind.is_integer or kind is dtypes.string):
                raise ValueError(
                    f"`{what}_dtype` should be either integer or string for `{what}_index` -2, received: {kind!r}"
                )
        if vocab_size is not None and vocab_size <= 0:
            raise ValueError(f"`vocab_size` should be > 0, received: {vocab_size}")
        self._file = filename
        self._columns = (key_index, value_index)
        self._vocab_size, self._delimiter, self._name = vocab_size, delimiter, name
        with device("CPU"):
            self._filename = convert(filename, dtypes.string, "asset_path")
        add_to_collection(GraphKeys.ASSET_FILEPATHS, self._filename)
        super().__init__(key_dtype, value_dtype)

    @property
    def _shared_name(self) -> str:  # type: ignore[override]
        parts = [self._file if isinstance(self._file, str) else self._filename.name]
        if self._vocab_size is not None:
            parts.append(str(self._vocab_size))
        return "_".join(["hash_table", *parts, *map(str, self._columns)])

    def initialize(self, table: Any) -> Operation:
        """See `TableInitializerBase`.  Raises TypeError."""
        self._check(table)
        with name_scope(self._name, "text_file_init", [table.resource_handle]):
            made: Operation = get("InitializeTableFromTextFileV2")(
                table.resource_handle,
                self._filename,
                key_index=self._columns[0],
                value_index=self._columns[1],
                vocab_size=-1 if self._vocab_size is None else self._vocab_size,
                delimiter=self._delimiter,
            )
        add_to_collection(GraphKeys.TABLE_INITIALIZERS, made)
        return made


class TextFileStringTableInitializer(TextFileInitializer):
    """Fills a table of int64 keys and strings: line numbers and lines."""

    def __init__(
        self,
        filename: Any,
        key_column_index: int = TextFileIndex.LINE_NUMBER,
        value_column_index: int = TextFileIndex.WHOLE_LINE,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str | None = "text_file_string_table_init",
    ) -> None:
        """See `TextFileInitializer`."""
        super().__init__(
            filename,
            dtypes.int64,
            key_column_index,
            dtypes.string,
            value_column_index,
            vocab_size,
            delimiter,
            name,
        )


class TextFileIdTableInitializer(TextFileInitializer):
    """Fills a table of strings (or integers) and int64 ids: lines and their numbers."""

    def __init__(
        self,
        filename: Any,
        key_column_index: int = TextFileIndex.WHOLE_LINE,
        value_column_index: int = TextFileIndex.LINE_NUMBER,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str | None = "text_file_id_table_init",
        key_dtype: Any = dtypes.string,
    ) -> None:
        """See `TextFileInitializer`."""
        super().__init__(
            filename,
            key_dtype,
            key_column_index,
            dtypes.int64,
            value_column_index,
            vocab_size,
            delimiter,
            name,
        )


# -- words that a vocabulary lacks --------------------------------------------------------------


class HasherSpec(NamedTuple("HasherSpec", [("hasher", str), ("key", Any)])):
    """How words that a vocabulary lacks are spread over its buckets."""

    __slots__ = ()


FastHashSpec = HasherSpec("fasthash", None)


class StrongHashSpec(HasherSpec):
    """A keyed hash, for words that somebody may choose so that they meet."""

    __slots__ = ()

    def __new__(cls, key: Any) -> StrongHashSpec:
        """key: two unsigned integers.  Raises ValueError, TypeError."""
        if len(key) != 2:
            raise ValueError(f"`key` must have size 2, received {len(key)}")
        if not all(isinstance(each, int) for each in key):
            raise TypeError(f"Invalid key {key!r}. Must be unsigned integer values.")
        return super().__new__(cls, "stronghash", key)


class IdTableWithHashBuckets(LookupInterface):
    """Ids of words: those of a table, and beyond them a bucket for each word that it lacks."""

    def __init__(
        self,
        table: Any,
        num_oov_buckets: int,
        hasher_spec: HasherSpec = FastHashSpec,
        name: str | None = None,
        key_dtype: Any = None,
    ) -> None:
        """table: from strings or integers to int64, or None for buckets alone.  Raises ValueError, TypeError."""
        if key_dtype is None:
            key_dtype = dtypes.string if table is None else table.key_dtype
        kind = dtypes.as_dtype(key_dtype)
        if not (kind.is_integer or kind is dtypes.string):
            raise TypeError(f"Invalid `key_dtype`, expected integer or string, got {kind.name}.")
        if table is None:
            if num_oov_buckets <= 0:
                raise ValueError("`oov_buckets` must be > 0 if no `table` is supplied.")
        else:
            if table.key_dtype.is_integer != kind.is_integer:
                raise TypeError(
                    f"Invalid `key dtype`, got {table.key_dtype.name} for a table of {kind.name}"
                )
            if table.value_dtype.base_dtype is not dtypes.int64:
                raise TypeError(
                    f"Values of `table` must be int64, and are {table.value_dtype.name}"
                )
        if not isinstance(hasher_spec, HasherSpec):
            raise TypeError(f"`hasher_spec` must be of type HasherSpec, got {type(hasher_spec)}.")
        if hasher_spec.hasher not in ("fasthash", "stronghash"):
            raise TypeError(f"Invalid value for `hasher_spec.hasher`: {hasher_spec.hasher!r}")
        self._table, self._num_oov_buckets, self._hasher = table, num_oov_buckets, hasher_spec
        default = "hash_bucket" if table is None else table.name
        self._table_name = name.rpartition("/")[2] if name else default
        super().__init__(kind, dtypes.int64)

    @property
    def name(self) -> str:
        """See `LookupInterface`."""
        return self._table_name

    @property
    def resource_handle(self) -> Tensor | None:
        """Of the table; None if there is none."""
        return None if self._table is None else self._table.resource_handle

    @property
    def initializer(self) -> Operation:
        """The table's."""
        if self._table is not None:
            found: Operation = self._table.initializer
            return found
        with name_scope(None, "initialize"):
            made: Operation = get("NoOp")()
            return made

    @property
    def init(self) -> Operation:
        """Old name of `initializer`."""
        return self.initializer

    def size(self, name: str | None = None) -> Tensor:
        """How many ids there are, buckets included."""
        with name_scope(name, f"{self.name}_Size"):
            own: Any = constant(0, dtypes.int64) if self._table is None else self._table.size()
            made: Tensor = own + self._num_oov_buckets
            return made

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """See `LookupInterface`.  Raises TypeError on keys of another dtype."""
        keys, values = checked_keys(keys, self._key_dtype)
        if self._table is not None and self._table.key_dtype.base_dtype is dtypes.int64:
            values = cast(values, dtypes.int64)
        if self._num_oov_buckets == 0:
            return like(keys, self._table.lookup(values, name=name))
        with name_scope(name, f"{self.name}_Lookup"):
            ids = self._buckets(values)
            if self._table is not None:
                found = self._table.lookup(values)
                beyond = add(ids, self._table.size(), name="Add")
                ids = where_v2(not_equal(found, self._table.default_value), found, beyond)
        return like(keys, ids)

    def _buckets(self, values: Tensor) -> Tensor:
        texts = values if values.dtype.base_dtype is dtypes.string else as_string(values)
        given: dict[str, Any] = {"num_buckets": self._num_oov_buckets, "name": "hash_bucket"}
        made: Tensor
        if self._hasher.hasher == "stronghash":
            made = get("StringToHashBucketStrong")(texts, key=list(self._hasher.key), **given)
        else:
            made = get("StringToHashBucketFast")(texts, **given)
        return made


class StaticVocabularyTable(IdTableWithHashBuckets):
    """Ids of the words that an initializer gives, and buckets beyond them for words that it lacks."""

    def __init__(
        self,
        initializer: TableInitializerBase | None,
        num_oov_buckets: int,
        lookup_key_dtype: Any = None,
        name: str | None = None,
    ) -> None:
        """initializer: of strings or integers and int64 ids from 0 on; None for buckets alone.

        Raises TypeError, ValueError.
        """
        if num_oov_buckets <= 0:
            raise ValueError(
                f"`num_oov_buckets` must be > 0; use StaticHashTable. It is {num_oov_buckets}"
            )
        table = None
        if initializer is not None:
            if initializer.value_dtype is not dtypes.int64:
                raise TypeError(
                    f"Invalid `value_dtype`, expected int64 but got {initializer.value_dtype.name}."
                )
            table = HashTable(initializer, default_value=-1)
        super().__init__(table, num_oov_buckets, name=name, key_dtype=lookup_key_dtype)
