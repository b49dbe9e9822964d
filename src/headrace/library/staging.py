"""tf.contrib.staging: StagingArea and MapStagingArea, which put tensors aside for a later step.

An area has no handle: every node names it.  Its nodes are placed with one that stands for it, on the
device that was current when the area was made; a get from another device copies.
Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour (python/ops/data_flow_ops.py); node names checked against the oracle
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from headrace.base import dtypes as types
from headrace.base.arguments import several
from headrace.base.shapes import TensorShape
from headrace.graph import scopes
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import colocate_with, name_scope
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.ops.flow.identities import identity, no_op

__all__ = ["BaseStagingArea", "MapStagingArea", "StagingArea"]


class BaseStagingArea:
    """What both kinds share."""

    _default_name: ClassVar[str]

    def __init__(
        self,
        dtypes: Sequence[Any],
        shapes: Sequence[Any] | None = None,
        names: Sequence[str] | None = None,
        shared_name: str | None = None,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        """Tuples of components of `dtypes`; with `names`, dicts.

        shared_name: sessions of one server that use it share the area.  Limits of 0 mean none:
        capacity in tuples, memory_limit in bytes.  Raises ValueError, TypeError.
        """
        self._name = shared_name or scopes.get_default_graph().unique_name(self._default_name)
        self._dtypes = [
            types.as_dtype(dtype) for dtype in several("StagingArea", "dtypes", dtypes, "dtypes")
        ]
        if shapes is None:
            self._shapes = [TensorShape(None)] * len(self._dtypes)
        else:
            shapes = several("StagingArea", "shapes", shapes, "shapes")
            if len(shapes) != len(self._dtypes):
                raise ValueError(
                    f"a staging area of {len(self._dtypes)} components was given {len(shapes)} shapes"
                )
            self._shapes = [TensorShape(shape) for shape in shapes]
        if names is not None and not isinstance(names, str):  # whose letters are names
            names = several("StagingArea", "names", names, "names")
        if names is not None and len(names) != len(self._dtypes):
            raise ValueError(
                f"a staging area of {len(self._dtypes)} components was given {len(names)} names"
            )
        self._names = None if names is None else list(names)
        self._capacity = capacity
        self._memory_limit = memory_limit
        with name_scope(f"{self._name}_root"):
            self._anchor = no_op()

    @property
    def name(self) -> str:
        """The name under which sessions share it."""
        return self._name

    @property
    def dtypes(self) -> list[types.DType]:
        """Of the components of an element, in order."""
        return self._dtypes

    @property
    def shapes(self) -> list[TensorShape]:
        """Of the components of an element, in order; unknown where none were given."""
        return self._shapes

    @property
    def names(self) -> list[str] | None:
        """Of the components, if elements are dictionaries."""
        return self._names

    @property
    def capacity(self) -> int:
        """Most tuples, 0 for any number."""
        return self._capacity

    @property
    def memory_limit(self) -> int:
        """Most bytes, 0 for any number."""
        return self._memory_limit

    def _node(
        self, op: str, *inputs: Any, name: str | None, dtypes: Any = None, **more: Any
    ) -> Any:
        """A node of this area."""
        return get(op)(
            *inputs,
            capacity=self._capacity,
            memory_limit=self._memory_limit,
            dtypes=self._dtypes if dtypes is None else dtypes,
            shared_name=self._name,
            name=name,
            **more,
        )

    def _to_put(self, vals: Any, indices: Sequence[Any] | None) -> tuple[list[Tensor], list[int]]:
        """Tensors of the right types, and which components they are."""
        if isinstance(vals, dict):
            if self._names is None:
                raise ValueError(f"staging area {self._name!r} needs names to put a dictionary")
            if not set(vals) <= set(self._names):
                raise ValueError(
                    f"the keys of the dictionary {sorted(vals)} do not match the names of staging "
                    f"area {self._name!r}, {self._names}"
                )
            indices = [at for at, name in enumerate(self._names) if name in vals]
            vals = [vals[self._names[at]] for at in indices]
        elif self._names is not None:
            raise ValueError(f"staging area {self._name!r} has names, so put a dictionary")
        elif indices is None:
            raise ValueError("indices must be given to put a list of tensors")
        if len(vals) != len(indices):
            raise ValueError(f"{len(vals)} values were given for the components {indices}")
        return [self._component(at, value) for at, value in zip(indices, vals, strict=True)], [
            *indices
        ]

    def _component(self, at: int, value: Any) -> Tensor:
        dtype = self._dtypes[at]
        if isinstance(value, Tensor) and value.dtype.base_dtype != dtype:
            raise ValueError(
                f"Datatypes do not match. Component {at} of staging area {self._name!r} is {dtype.name}, "
                f"and {value.name} is {value.dtype.name}"
            )
        tensor = convert(value, dtype, f"component_{at}")
        tensor.get_shape().assert_is_compatible_with(self._shapes[at])
        return tensor

    def _element(self, tensors: Sequence[Tensor], indices: Sequence[int]) -> Any:
        """What a get gives: tensors with their static shapes, on the device that is current."""
        for at, tensor in zip(indices, tensors, strict=True):
            tensor.set_shape(self._shapes[at])
        found = self._here(tensors)
        if self._names is None:
            return found
        return {self._names[at]: tensor for at, tensor in zip(indices, found, strict=True)}

    def _here(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The tensors, copied if the current device is not the area's."""
        if no_op().device == self._anchor.device:
            return list(tensors)
        return [identity(tensor) for tensor in tensors]


class StagingArea(BaseStagingArea):
    """Tuples of tensors, first in, first out."""

    _default_name = "StagingArea"

    def put(self, values: Any, name: str | None = None) -> Operation:
        """Add a tuple: a tensor, a list of components, or a dict by `names`.

        Running it blocks while the area is full.  Raises ValueError, TypeError.
        """
        if not isinstance(values, (dict, list, tuple)):
            values = [values]
        given = list(values.values()) if isinstance(values, dict) else list(values)
        with name_scope(name, f"{self._name}_put", given) as scope:
            if len(given) != len(self._dtypes):
                raise ValueError(
                    f"staging area {self._name!r} has {len(self._dtypes)} components and was given "
                    f"{len(given)}"
                )
            tensors, _ = self._to_put(values, range(len(given)))
            with colocate_with(self._anchor):
                added: Operation = self._node("Stage", tensors, name=scope)
        return added

    def get(self, name: str | None = None) -> Any:
        """Remove the oldest tuple: a list of tensors, or a dict by `names`.

        Running it blocks while there is none.
        """
        with colocate_with(self._anchor):
            found = self._node("Unstage", name=name or f"{self._name}_get")
        return self._element(found, range(len(self._dtypes)))

    def peek(self, index: Any, name: str | None = None) -> Any:
        """The tuple at `index`, 0 being the oldest, which stays; blocks until there are so many."""
        with colocate_with(self._anchor):
            found = self._node("StagePeek", index, name=name or f"{self._name}_peek")
        return self._element(found, range(len(self._dtypes)))

    def size(self, name: str | None = None) -> Tensor:
        """int32 []: the number of tuples."""
        size: Tensor = self._node("StageSize", name=name or f"{self._name}_size")
        return size

    def clear(self, name: str | None = None) -> Operation:
        """Remove all tuples."""
        cleared: Operation = self._node("StageClear", name=name or f"{self._name}_clear")
        return cleared


class MapStagingArea(BaseStagingArea):
    """Tuples of tensors by key, which may be put and taken in parts."""

    _default_name = "MapStagingArea"

    def __init__(
        self,
        dtypes: Sequence[Any],
        shapes: Sequence[Any] | None = None,
        names: Sequence[str] | None = None,
        shared_name: str | None = None,
        ordered: bool = False,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        """As StagingArea.  ordered: a get without key takes the smallest one, else the oldest."""
        super().__init__(dtypes, shapes, names, shared_name, capacity, memory_limit)
        self._prefix = "OrderedMap" if ordered else "Map"

    def put(
        self, key: Any, vals: Any, indices: Sequence[int] | None = None, name: str | None = None
    ) -> Operation:
        """Add components of the tuple `key`, int64 []: a dict by `names`, or a list with `indices`.

        Nobody gets the tuple before all components are there.  Running it blocks while the area is
        full; InvalidArgumentError for a component that is there.  Raises ValueError, TypeError.
        """
        given = list(vals.values()) if isinstance(vals, dict) else vals
        with name_scope(name, f"{self._name}_put", given) as scope:
            tensors, at = self._to_put(vals, indices)
            if len(tensors) > len(self._dtypes):
                raise ValueError(
                    f"staging area {self._name!r} has {len(self._dtypes)} components and was given "
                    f"{len(tensors)}"
                )
            with colocate_with(self._anchor):
                added: Operation = self._node(f"{self._prefix}Stage", key, at, tensors, name=scope)
        return added

    def get(
        self, key: Any = None, indices: Sequence[Any] | None = None, name: str | None = None
    ) -> tuple[Any, Any]:
        """The key and the components `indices` (numbers or names; all by default), which are removed.

        Without a key, of the first tuple.  Running it blocks until the tuple is complete;
        InvalidArgumentError for a component that was taken already.
        """
        at = self._numbers(indices)
        chosen = [self._dtypes[number] for number in at]
        with colocate_with(self._anchor):
            if key is None:
                name = name or f"{self._name}_get_nokey"
                first, found = self._node(
                    f"{self._prefix}UnstageNoKey", at, name=name, dtypes=chosen
                )
            else:
                name = name or f"{self._name}_get"
                found = self._node(f"{self._prefix}Unstage", key, at, name=name, dtypes=chosen)
        if key is None:
            (key,) = self._here([first])
        return key, self._element(found, at)

    def peek(self, key: Any, indices: Sequence[Any] | None = None, name: str | None = None) -> Any:
        """The components `indices` of the tuple `key`, which stay; blocks until it is complete."""
        at = self._numbers(indices)
        chosen = [self._dtypes[number] for number in at]
        with colocate_with(self._anchor):
            name = name or f"{self._name}_pop"
            found = self._node(f"{self._prefix}Peek", key, at, name=name, dtypes=chosen)
        return self._element(found, at)

    def size(self, name: str | None = None) -> Tensor:
        """int32 []: the number of complete tuples."""
        size: Tensor = self._node(f"{self._prefix}Size", name=name or f"{self._name}_size")
        return size

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """int32 []: the number of tuples that lack components."""
        name = name or f"{self._name}_incomplete_size"
        size: Tensor = self._node(f"{self._prefix}IncompleteSize", name=name)
        return size

    def clear(self, name: str | None = None) -> Operation:
        """Remove all tuples."""
        cleared: Operation = self._node(f"{self._prefix}Clear", name=name or f"{self._name}_clear")
        return cleared

    def _numbers(self, indices: Sequence[Any] | None) -> list[int]:
        """Component numbers.  Raises ValueError (none, names of nothing)."""
        if indices is None:
            return list(range(len(self._dtypes)))
        if not isinstance(indices, (tuple, list)):
            raise TypeError(f"indices must be a list or tuple, not {indices!r}")
        if not indices:
            raise ValueError("indices must not be empty")
        if any(isinstance(index, str) for index in indices):
            if self._names is None:
                raise ValueError(
                    f"indices {indices!r} hold names, and staging area {self._name!r} has none"
                )
            return [
                self._names.index(index) if isinstance(index, str) else index for index in indices
            ]
        return list(indices)
