"""Tensors that a session keeps on a task between its steps, by handle.

Called by: ops.state.session_handles.  Threads: any; one lock for the store.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.run.state.resources import Resource
from headrace.run.uninterrupted import changes

__all__ = ["SessionTensor", "SessionTensors"]

Array = np.ndarray[Any, Any]


class SessionTensor(Resource):
    """A handle as a resource: its name is the handle, its container the device, as in TensorFlow."""

    type_name = "TensorHandle"


@changes
class SessionTensors(Resource):
    """Those of one session on one task; forgotten with the session."""

    type_name = "SessionTensors"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._lock = threading.Lock()
        self._made = 0
        self._kept: dict[str, Array] = {}

    def keep(self, node: str, device: str, value: Array) -> str:
        """Keep `value`, which nobody changes any more; its handle, of the form that TensorFlow's have."""
        with self._lock:
            handle = f"{node};{self._made};{device}"
            self._made += 1
            self._kept[handle] = value
        return handle

    def value(self, handle: str) -> Array:
        """Raises InvalidArgument if it is not here."""
        with self._lock:
            found = self._kept.get(handle)
        if found is None:
            raise errors.invalid_argument(
                f"The tensor with handle {handle!r} is not in the session store: it was deleted, or another session's "
                "step made it"
            )
        return found

    def delete(self, handle: str) -> None:
        """Raises InvalidArgument if it is not here."""
        with self._lock:
            found = self._kept.pop(handle, None)
        if found is None:
            raise errors.invalid_argument(
                f"Failed to delete a tensor with handle {handle!r} in the session store. It is not there"
            )

    def close(self) -> None:
        """Forget all."""
        with self._lock:
            self._kept.clear()
