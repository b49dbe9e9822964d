"""SparseTensorsMap: sparse tensors kept under numbers, so that a queue of numbers can carry them.

Called by: ops.sparse.maps.  Threads: any; one lock.  What is taken is gone; what nobody takes stays until the map's
container is emptied.
Source: TF 1.15 core/kernels/sparse_tensors_map_ops.cc, for behaviour
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.run.state.resources import Resource
from headrace.run.uninterrupted import changes

Array = np.ndarray[Any, Any]
Sparse = tuple[Array, Array, Array]
"""indices [n, rank] int64, values [n], dense shape [rank] int64."""


@changes
class SparseTensorsMap(Resource):
    """Sparse tensors by handle; handles are never used twice."""

    def __init__(self, name: str, container: str = "") -> None:
        super().__init__(name, container)
        self._lock = threading.Lock()
        self._kept: dict[int, tuple[dtypes.DType, Sparse]] = {}
        self._next = 0

    def add(self, dtype: dtypes.DType, tensors: Sequence[Sparse]) -> list[int]:
        """Keep them; their handles.  The arrays are the map's from now on."""
        with self._lock:
            handles = list(range(self._next, self._next + len(tensors)))
            self._next += len(tensors)
            self._kept.update(zip(handles, ((dtype, tensor) for tensor in tensors), strict=True))
        return handles

    def take(self, dtype: dtypes.DType, handles: Sequence[int]) -> list[Sparse]:
        """Take them out, in this order.  Raises InvalidArgument, and then takes none."""
        with self._lock:
            found = []
            for handle in handles:
                kept = self._kept.get(handle)
                if kept is None:
                    raise errors.invalid_argument(
                        f"sparse tensors map {self.label!r} keeps nothing under handle {handle}"
                    )
                if kept[0] != dtype:
                    raise errors.invalid_argument(
                        f"sparse tensors map {self.label!r} keeps {kept[0].name} under handle {handle}, "
                        f"and {dtype.name} is wanted"
                    )
                found.append(kept[1])
            for handle in handles:
                self._kept.pop(handle, None)
        return found

    def size(self) -> int:
        """How many are kept."""
        with self._lock:
            return len(self._kept)
