"""Mutable lookup tables, which checkpoints hold.

Called by: public namespaces.  Threads: as graph.
Source: TF 1.15 python/ops/lookup_ops.py, for behaviour; nodes checked against the oracle
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import add_to_collection, colocate_with, name_scope
from headrace.graph.registry import get
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.library.lookup import LookupInterface, like
from headrace.training.saver.saveables import SaveableObject, SaveSpec

__all__ = ["DenseHashTable", "MutableDenseHashTable", "MutableHashTable"]


class _Saveable(SaveableObject):
    """A table as two tensors, its keys and its values, which follow its name in a checkpoint."""

    def __init__(self, table: _MutableTable, name: str) -> None:
        keys, values = table.export()
        specs = [SaveSpec(keys, "", f"{name}-keys"), SaveSpec(values, "", f"{name}-values")]
        super().__init__(table, specs, name)
        self._table = table

    def restore(self, restored_tensors: Sequence[Tensor], restored_shapes: Any) -> Any:
        """See `SaveableObject`."""
        handle = self._table.resource_handle
        with name_scope(None, f"{self._table.name}_table_restore"), colocate_with(handle):
            return get("LookupTableImportV2")(handle, restored_tensors[0], restored_tensors[1])


class _MutableTable(LookupInterface):
    """What the mutable tables have in common."""

    def __init__(self, key_dtype: Any, value_dtype: Any, name: str) -> None:
        super().__init__(key_dtype, value_dtype)
        self._name = name
        self._default_value: Any = None
        self._resource_handle: Any = None

    def _save(self) -> None:
        add_to_collection(GraphKeys.SAVEABLE_OBJECTS, _Saveable(self, self._name))

    @property
    def resource_handle(self) -> Tensor:
        """The handle that the ops of tables take."""
        handle: Tensor = self._resource_handle
        return handle

    @property
    def name(self) -> str:
        """See `LookupInterface`."""
        return self.resource_handle.op.name.rpartition("/")[2]

    def size(self, name: str | None = None) -> Tensor:
        """See `LookupInterface`."""
        handle = self.resource_handle
        with name_scope(name, f"{self.name}_Size", [handle]), colocate_with(handle):
            made: Tensor = get("LookupTableSizeV2")(handle)
            return made

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """See `LookupInterface`; keys that are not there have the default value.  Raises ValueError, TypeError."""
        handle = self.resource_handle
        given = keys.values if isinstance(keys, SparseTensor) else keys
        with name_scope(name, f"{self.name}_lookup_table_find", [handle, given]):
            wanted = convert(given, self._key_dtype, "keys")
            with colocate_with(handle):
                made: Tensor = get("LookupTableFindV2")(handle, wanted, self._default_value)
        return like(keys, made)

    def insert(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        """The operation that gives each key its value, also one that has one.  Raises ValueError, TypeError."""
        handle = self.resource_handle
        with name_scope(name, f"{self.name}_lookup_table_insert", [handle, keys, values]):
            keys = convert(keys, self._key_dtype, "keys")
            values = convert(values, self._value_dtype, "values")
            with colocate_with(handle):
                made: Operation = get("LookupTableInsertV2")(handle, keys, values)
                return made

    def remove(self, keys: Any, name: str | None = None) -> Operation:
        """The operation that forgets keys; those that are not there count for nothing.  Raises TypeError."""
        handle = self.resource_handle
        keys = convert(keys)
        if keys.dtype.base_dtype != self._key_dtype:
            raise TypeError(
                f"Dtype of argument `keys` must be {self._key_dtype!r}, received: {keys.dtype!r}"
            )
        with name_scope(name, f"{self.name}_lookup_table_remove", [handle, keys]):
            made: Operation = get("LookupTableRemoveV2")(handle, keys)
            return made

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """All keys and their values."""
        handle = self.resource_handle
        with (
            name_scope(name, f"{self.name}_lookup_table_export_values", [handle]),
            colocate_with(handle),
        ):
            keys, values = get("LookupTableExportV2")(
                handle, Tkeys=self._key_dtype, Tvalues=self._value_dtype
            )
            return keys, values


class MutableHashTable(_MutableTable):
    """A hash table whose keys come and go; values are scalars or tensors of one shape."""

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        shared_name: str | None = None,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
    ) -> None:
        """default_value: of keys that are not there; its shape is that of all values.

        Tables of one shared_name are one on each task.  checkpoint: savers save and restore it.  Raises ValueError.
        """
        super().__init__(key_dtype, value_dtype, name)
        self._default_value = convert(default_value, self._value_dtype)
        shape = self._default_value.shape
        common: dict[str, Any] = {
            "shared_name": shared_name or "",
            "use_node_name_sharing": checkpoint and shared_name is None,
            "key_dtype": self._key_dtype,
            "value_dtype": self._value_dtype,
            "name": name,
        }
        if shape.ndims == 0:
            self._resource_handle = get("MutableHashTableV2")(**common)
        else:
            self._resource_handle = get("MutableHashTableOfTensorsV2")(value_shape=shape, **common)
        if checkpoint:
            self._save()


class MutableDenseHashTable(_MutableTable):
    """A mutable hash table of open addressing: two keys that no entry has mark empty and deleted buckets."""

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        empty_key: Any,
        deleted_key: Any,
        initial_num_buckets: int | None = None,
        shared_name: str | None = None,
        name: str = "MutableDenseHashTable",
        checkpoint: bool = True,
    ) -> None:
        """initial_num_buckets: a power of 2, from 4 on.  Others: as of `MutableHashTable`.  Raises ValueError."""
        super().__init__(key_dtype, value_dtype, name)
        self._default_value = convert(default_value, self._value_dtype, "default_value")
        empty = convert(empty_key, self._key_dtype, "empty_key")
        deleted = convert(deleted_key, self._key_dtype, "deleted_key")
        buckets = (
            {} if initial_num_buckets is None else {"initial_num_buckets": initial_num_buckets}
        )
        self._resource_handle = get("MutableDenseHashTableV2")(
            empty,
            deleted,
            shared_name=shared_name or "",
            use_node_name_sharing=checkpoint and shared_name is None,
            value_dtype=self._value_dtype,
            value_shape=self._default_value.shape,
            name=name,
            **buckets,
        )
        if checkpoint:
            self._save()

    def insert_or_assign(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        """As `insert`."""
        return self.insert(keys, values, name)

    def erase(self, keys: Any, name: str | None = None) -> Operation:
        """As `remove`."""
        return self.remove(keys, name)


class DenseHashTable(MutableDenseHashTable):
    """`MutableDenseHashTable` of the graph alone, as `tf.lookup.experimental` has it."""

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        empty_key: Any,
        deleted_key: Any,
        initial_num_buckets: int | None = None,
        name: str = "MutableDenseHashTable",
        checkpoint: bool = True,
    ) -> None:
        """As of `MutableDenseHashTable`, without a shared_name.  Raises ValueError."""
        super().__init__(
            key_dtype,
            value_dtype,
            default_value,
            empty_key,
            deleted_key,
            initial_num_buckets,
            name=name,
            checkpoint=checkpoint,
        )
