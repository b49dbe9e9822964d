"""Handles: what stands for a resource where the resource itself is not.

On its own task a handle is the `Resource`.  A handle that leaves (fetched, sent to another task) becomes a message that
names the resource; one that comes (fed, received) is looked up again.  It is of use only on the task that has the
resource, so one that names another task is refused where it arrives.
Called by: run.exec.outcome (fetches), ops.flow.sendrecv, serve.worker.worker and client.local (feeds).  Threads: any.
Source: TF 1.15 core/framework/resource_handle.{h,proto}
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.exec.kernel import Runtime
from headrace.run.exec.keys import task_of
from headrace.run.state.resources import Resource
from headrace.run.state.variable import ResourceVariable

Array = np.ndarray[Any, Any]


def leaving(resource: Resource, device: str) -> Array:
    """The message for `resource`, which lives on `device` (full name), as a scalar array."""
    kind = type(resource)
    message = pb.ResourceHandleProto(
        device=device,
        container=resource.container,
        name=resource.name,
        hash_code=kind.type_code,
        maybe_type_name=kind.type_name or kind.__name__,
    )
    if isinstance(resource, ResourceVariable):
        known = message.dtypes_and_shapes.add(dtype=resource.dtype.as_datatype_enum)
        if resource.shape is None:
            known.shape.unknown_rank = True
        for size in resource.shape or ():
            known.shape.dim.add(size=-1 if size is None else size)
    array = np.empty((), object)
    array[()] = message
    return array


def arriving(value: Any, runtime: Runtime) -> Any:
    """The resource on this task that `value`, a scalar array with a message, names.

    A Resource is itself.  Raises InvalidArgument (no handle, another task's), NotFound (no such resource here).
    """
    if isinstance(value, Resource):
        return value
    message = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
    if not isinstance(message, pb.ResourceHandleProto):
        raise errors.invalid_argument(f"the handle of a resource is needed, not {message!r:.100}")
    if message.device and task_of(message.device) != task_of(runtime.device):
        raise errors.invalid_argument(
            f"the handle names {_described(message)}, and arrived on {runtime.device}: a resource can be used on its "
            "own task only; place the ops that use it there"
        )
    found = runtime.resources.named(message.container, message.name)
    fitting = [resource for resource in found if _is_of(resource, message.maybe_type_name)]
    if len(fitting) != 1:
        raise errors.not_found(
            f"there is no {_described(message)} (any more); run the op that makes it in this session first, and fetch "
            "its handle again"
        )
    return fitting[0]


def _is_of(resource: Resource, type_name: str) -> bool:
    kind = type(resource)
    return not type_name or type_name in (kind.type_name, kind.__name__)


def _described(message: pb.ResourceHandleProto) -> str:
    kind = message.maybe_type_name or "resource"
    return f"{kind} {message.name!r} in container {message.container!r} of {message.device or 'this task'}"
