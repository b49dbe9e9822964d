"""Staging ops: put values aside for a later step, take them back, by turns or by key.

Each node names its area by container and shared_name; the first that runs makes it.  Map and
OrderedMap ops differ only in the order of a get without key.
Called by: library.staging (the Python classes), programs that name these ops.
Threads: any step's thread.
Source: TF 1.15 core/ops/data_flow_ops.cc; rules of waiting in run.state.staging
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.base.traits import MAY_WAIT, STAGES, STATEFUL
from headrace.graph.registry import op
from headrace.graph.shape_fns import scalar, unknown
from headrace.run.devices.there import here
from headrace.run.exec.kernel import KernelContext
from headrace.run.pending import Pending
from headrace.run.state.staging import StagingArea, StagingMap

__all__: list[str] = []

_AREA = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; "
_SHARED = "container: string = ''; shared_name: string = ''"
_TYPES = _AREA + "dtypes: list(type) >= 1; " + _SHARED
_ANY_TYPES = _AREA + "dtypes: list(type); " + _SHARED
_blocking: dict[str, Any] = {"traits": {STATEFUL, MAY_WAIT, STAGES}, "differentiable": False}
_quick: dict[str, Any] = {"traits": {STATEFUL, STAGES}, "differentiable": False}


def _here(found: Any) -> Any:
    """What was put aside, as the host has it."""
    return [here(value) for value in found]


def _area(
    ctx: KernelContext, capacity: int, memory_limit: int, container: bytes, shared_name: bytes
) -> StagingArea:
    return ctx.resource(
        StagingArea,
        lambda: StagingArea(ctx.node.name, capacity, memory_limit),
        container,
        shared_name,
    )


@op("Stage", inputs="values: dtypes", attrs=_TYPES, **_blocking)
def stage_op(
    ctx: KernelContext,
    *values: Any,
    capacity: int,
    memory_limit: int,
    container: bytes,
    shared_name: bytes,
) -> Pending[None]:
    """Add a tuple, waiting for room.  Raises ResourceExhausted (larger than the memory limit)."""
    return _area(ctx, capacity, memory_limit, container, shared_name).put(values)


@op("Unstage", outputs="values: dtypes", attrs=_TYPES, shape=unknown, **_blocking)
def unstage_op(
    ctx: KernelContext,
    *,
    capacity: int,
    memory_limit: int,
    dtypes: list[DType],
    container: bytes,
    shared_name: bytes,
) -> Pending[Any]:
    """Remove the oldest tuple, waiting for one.  Raises InvalidArgument (types)."""
    return _area(ctx, capacity, memory_limit, container, shared_name).get(dtypes)


unstage_op.finish(_here)


@op(
    "StagePeek",
    inputs="index: int32",
    outputs="values: dtypes",
    attrs=_TYPES,
    shape=unknown,
    **_blocking,
)
def stage_peek_op(
    ctx: KernelContext,
    index: Any,
    *,
    capacity: int,
    memory_limit: int,
    dtypes: list[DType],
    container: bytes,
    shared_name: bytes,
) -> Pending[Any]:
    """The tuple at index [], 0 being the oldest, which stays; waits for so many."""
    area = _area(ctx, capacity, memory_limit, container, shared_name)
    return area.peek(_scalar("index", index), dtypes)


stage_peek_op.finish(_here)


@op("StageSize", outputs="size: int32", attrs=_ANY_TYPES, shape=scalar, **_quick)
def stage_size_op(
    ctx: KernelContext, *, capacity: int, memory_limit: int, container: bytes, shared_name: bytes
) -> Any:
    """How many tuples are there."""
    return np.int32(_area(ctx, capacity, memory_limit, container, shared_name).size())


@op("StageClear", attrs=_ANY_TYPES, **_quick)
def stage_clear_op(
    ctx: KernelContext, *, capacity: int, memory_limit: int, container: bytes, shared_name: bytes
) -> None:
    """Remove all tuples."""
    _area(ctx, capacity, memory_limit, container, shared_name).clear()


def _scalar(what: str, value: Any) -> int:
    if value.ndim:
        raise errors.invalid_argument(f"{what} must be a scalar, and has shape {list(value.shape)}")
    return int(value)


def _vector(indices: Any) -> list[int]:
    if indices.ndim != 1:
        raise errors.invalid_argument(
            f"indices must be a vector, and have shape {list(indices.shape)}"
        )
    found: list[int] = indices.tolist()
    return found


def _map(
    ctx: KernelContext, capacity: int, memory_limit: int, container: bytes, shared_name: bytes
) -> StagingMap:
    ordered = ctx.node.op.startswith("Ordered")
    found = ctx.resource(
        StagingMap,
        lambda: StagingMap(ctx.node.name, capacity, memory_limit, ordered),
        container,
        shared_name,
    )
    if found.ordered != ordered:
        raise errors.invalid_argument(
            f"{found} is {'' if found.ordered else 'not '}ordered, and the node's is "
            f"{'' if ordered else 'not '}; give it another shared_name"
        )
    return found


def _map_stage(
    ctx: KernelContext,
    key: Any,
    indices: Any,
    *values: Any,
    capacity: int,
    memory_limit: int,
    dtypes: list[DType],
    container: bytes,
    shared_name: bytes,
) -> Pending[None]:
    """Add the components indices [n] of the tuple key []; waits for room.

    Raises InvalidArgument (indices; a component that is there), ResourceExhausted.
    """
    area = _map(ctx, capacity, memory_limit, container, shared_name)
    return area.put(_scalar("key", key), _vector(indices), values, len(dtypes))


def _map_unstage(
    ctx: KernelContext,
    key: Any,
    indices: Any,
    *,
    capacity: int,
    memory_limit: int,
    dtypes: list[DType],
    container: bytes,
    shared_name: bytes,
) -> Pending[Any]:
    """Remove components indices [n] of the tuple key [], waiting until all of it is there."""
    area = _map(ctx, capacity, memory_limit, container, shared_name)
    return area.get(_scalar("key", key), _vector(indices), dtypes)


def _map_unstage_no_key(
    ctx: KernelContext,
    indices: Any,
    *,
    capacity: int,
    memory_limit: int,
    dtypes: list[DType],
    container: bytes,
    shared_name: bytes,
) -> Pending[Any]:
    """The key [] of the first tuple, whose components indices [n] are removed; waits for one."""
    area = _map(ctx, capacity, memory_limit, container, shared_name)
    return area.get(None, _vector(indices), dtypes)


def _map_peek(
    ctx: KernelContext,
    key: Any,
    indices: Any,
    *,
    capacity: int,
    memory_limit: int,
    dtypes: list[DType],
    container: bytes,
    shared_name: bytes,
) -> Pending[Any]:
    """The components indices [n] of the tuple key [], which stay; waits for it."""
    area = _map(ctx, capacity, memory_limit, container, shared_name)
    return area.peek(_scalar("key", key), _vector(indices), dtypes)


def _map_size(
    ctx: KernelContext, *, capacity: int, memory_limit: int, container: bytes, shared_name: bytes
) -> Any:
    """How many complete tuples are there."""
    return np.int32(_map(ctx, capacity, memory_limit, container, shared_name).size())


def _map_incomplete_size(
    ctx: KernelContext, *, capacity: int, memory_limit: int, container: bytes, shared_name: bytes
) -> Any:
    """How many incomplete tuples are there."""
    return np.int32(_map(ctx, capacity, memory_limit, container, shared_name).incomplete_size())


def _map_clear(
    ctx: KernelContext, *, capacity: int, memory_limit: int, container: bytes, shared_name: bytes
) -> None:
    """Remove all tuples."""
    _map(ctx, capacity, memory_limit, container, shared_name).clear()


def _family(prefix: str) -> None:
    """The ops of one kind of map."""
    at = "key: int64; indices: int32"
    put_types = _AREA + "dtypes: list(type); fake_dtypes: list(type) >= 1; " + _SHARED
    op(prefix + "Stage", inputs=at + "; values: fake_dtypes", attrs=put_types, **_blocking)(
        _map_stage
    )
    taken: dict[str, Any] = {"outputs": "values: dtypes", "attrs": _TYPES, "shape": unknown}
    op(prefix + "Unstage", inputs=at, **taken, **_blocking)(_map_unstage).finish(_here)
    op(prefix + "Peek", inputs=at, **taken, **_blocking)(_map_peek).finish(_here)
    taken["outputs"] = "key: int64; values: dtypes"
    without = op(prefix + "UnstageNoKey", inputs="indices: int32", **taken, **_blocking)
    without(_map_unstage_no_key).finish(_here)
    sizes: dict[str, Any] = {"outputs": "size: int32", "attrs": _ANY_TYPES, "shape": scalar}
    op(prefix + "Size", **sizes, **_quick)(_map_size)
    op(prefix + "IncompleteSize", **sizes, **_quick)(_map_incomplete_size)
    op(prefix + "Clear", attrs=_ANY_TYPES, **_quick)(_map_clear)


_family("Map")
_family("OrderedMap")
