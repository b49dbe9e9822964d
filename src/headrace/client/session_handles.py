"""Tensors that stay where they were computed, between steps of a session: `tf.get_session_handle` and its kin.

A step that fetches a handle leaves the tensor on its task and gives a TensorHandle; a later step of the same session
feeds the handle's text to what `get_session_tensor` made, and reads the tensor there.
Called by: programs, client.fetches.  Threads: as sessions'; handles that are dropped may be so by any.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base.device import DeviceSpec
from headrace.graph import scopes
from headrace.graph.graph import Graph, Operation
from headrace.graph.registry import get as op_spec
from headrace.graph.tensor import Tensor

__all__ = ["TensorHandle", "delete_session_tensor", "get_session_handle", "get_session_tensor"]

_DELETED_TOGETHER = 10

_lock = threading.Lock()
_dropped: weakref.WeakKeyDictionary[Any, list[str]] = weakref.WeakKeyDictionary()


class TensorHandle:
    """Stands for a tensor that a session keeps; when it is dropped, the session forgets the tensor some time later.

    Where an array is wanted (a feed, NumPy) it is the tensor's value.
    """

    def __init__(self, handle: str, dtype: dtypes.DType, session: Any) -> None:
        self._handle = handle
        self._dtype = dtype
        self._session = session
        self._forgets = True

    @classmethod
    def fetched(cls, handle: Any, dtype: dtypes.DType, session: Any) -> TensorHandle:
        """Of what a step gave.  Deletes what was dropped before, some at a time."""
        kept = np.asarray(handle).item()  # GetSessionHandleV2 gives a resource of that name
        made = cls(kept.decode() if isinstance(kept, bytes) else kept.name, dtype, session)
        _delete_dropped(session)
        return made

    @property
    def handle(self) -> str:
        """What is fed to the placeholder of `get_session_tensor`."""
        return self._handle

    def __str__(self) -> str:
        return self._handle

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.eval(), dtype=dtype)

    def eval(self) -> Any:
        """The tensor's value.  Raises TypeError if it was deleted."""
        self._check()
        holder, reader = _reader(self._session.graph, self._handle, self._dtype)
        return self._session.run(reader, feed_dict={holder: self._handle})

    def delete(self) -> None:
        """Have the session forget the tensor.  Raises TypeError if it was deleted."""
        self._check()
        self._forgets = False
        holder, deleter = _deleter(self._session.graph, self._handle)
        self._session.run(deleter, feed_dict={holder: self._handle})
        self._session = None

    def get_raw_handle(self) -> str:
        """The handle; from now on the tensor stays until it is deleted."""
        self._forgets = False
        return self._handle

    def _check(self) -> None:
        if self._session is None:
            raise TypeError(f"Persistent tensor {self._handle} may have already been deleted.")

    def __del__(self) -> None:
        session = getattr(self, "_session", None)
        if session is not None and self._forgets and not session._closed:
            with _lock:
                _dropped.setdefault(session, []).append(self._handle)


def _delete_dropped(session: Any) -> None:
    """Have the session forget tensors whose handles were dropped, when there are some."""
    with _lock:
        gone = _dropped.get(session, [])
        if len(gone) < _DELETED_TOGETHER:
            return
        del _dropped[session]
    if session.graph.finalized:
        return  # nothing can be added that would delete them; they end with the session
    for handle in gone:
        holder, deleter = _deleter(session.graph, handle)
        session.run(deleter, feed_dict={holder: handle})


def _device_of(handle: Any) -> str:
    """Where the tensor is.  Raises ValueError for what is no handle."""
    return DeviceSpec.from_string(str(handle).rpartition(";")[2]).to_string()


def _reader(graph: Graph, handle: str, dtype: dtypes.DType) -> tuple[Tensor, Tensor]:
    known: dict[Any, tuple[Tensor, Tensor]] = graph.__dict__.setdefault("_handle_readers", {})
    key = (_device_of(handle), dtype)
    if key not in known:
        with graph.as_default(), graph.control_dependencies(None):
            known[key] = get_session_tensor(handle, dtype)
    return known[key]


def _deleter(graph: Graph, handle: str) -> tuple[Tensor, Operation]:
    known: dict[Any, tuple[Tensor, Operation]] = graph.__dict__.setdefault("_handle_deleters", {})
    key = _device_of(handle)
    if key not in known:
        with graph.as_default(), graph.control_dependencies(None):
            known[key] = delete_session_tensor(handle)
    return known[key]


def get_session_handle(data: Any, name: str | None = None) -> Tensor:
    """A tensor whose fetch keeps `data` on its task and gives a TensorHandle.  Raises TypeError for no Tensor."""
    if not isinstance(data, Tensor):
        raise TypeError(f"`data` must be of type Tensor. It is a {type(data).__name__}")
    with data.graph.colocate_with(data):
        handle: Tensor = op_spec("GetSessionHandle")(data, name=name)
    return handle


def get_session_tensor(
    handle: Any, dtype: dtypes.DType, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """(placeholder, tensor): the tensor of type `dtype` that the handle fed to the placeholder stands for.

    handle: the text of any handle from the same device.  Raises ValueError for what is none.
    """
    with scopes.get_default_graph().device(_device_of(handle)):
        holder: Tensor = op_spec("Placeholder")(dtype=dtypes.string)
        tensor: Tensor = op_spec("GetSessionTensor")(
            holder, dtype=dtypes.as_dtype(dtype), name=name
        )
    return holder, tensor


def delete_session_tensor(handle: Any, name: str | None = None) -> tuple[Tensor, Operation]:
    """(placeholder, operation): the operation has the session forget the tensor whose handle is fed.

    handle: the text of any handle from the same device.  Raises ValueError for what is none.
    """
    with scopes.get_default_graph().device(_device_of(handle)):
        holder: Tensor = op_spec("Placeholder")(dtype=dtypes.string)
        deleter: Operation = op_spec("DeleteSessionTensor")(holder, name=name)
    return holder, deleter
