"""replica_device_setter: variables to parameter servers, everything else to the worker.

Called by: users, under `tf.device`.  Threads: as the graph's.
Source: TF 1.15 python/training/device_setter.py and contrib/training (behaviour, checked against the oracle).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

from headrace.base.device import DeviceSpec
from headrace.graph.graph import Operation
from headrace.serve.cluster import ClusterSpec

STANDARD_PS_OPS = (
    "Variable",
    "VariableV2",
    "AutoReloadVariable",
    "MutableHashTable",
    "MutableHashTableV2",
    "MutableHashTableOfTensors",
    "MutableHashTableOfTensorsV2",
    "MutableDenseHashTable",
    "MutableDenseHashTableV2",
    "VarHandleOp",
    "BoostedTreesEnsembleResourceHandleOp",
    "BoostedTreesQuantileStreamResourceHandleOp",
    "ResourceConditionalAccumulator",
    "DecisionTreeResource",
)

Strategy = Callable[[Operation], int]


class RoundRobinStrategy:
    """Task 0, 1, …, num_tasks-1, 0, … in the order in which nodes are made."""

    def __init__(self, num_tasks: int) -> None:
        self._num_tasks = num_tasks
        self._next = 0

    def __call__(self, op: Operation) -> int:
        task = self._next
        self._next = (task + 1) % self._num_tasks
        return task


class GreedyLoadBalancingStrategy:
    """The task with the least load so far; `load_fn(op)` says what a node adds to it."""

    def __init__(self, num_tasks: int, load_fn: Callable[[Operation], float]) -> None:
        self._loads = [0.0] * num_tasks
        self._load_fn = load_fn

    def __call__(self, op: Operation) -> int:
        task = min(range(len(self._loads)), key=self._loads.__getitem__)
        self._loads[task] += self._load_fn(op)
        return task


def byte_size_load_fn(op: Operation) -> float:
    """Bytes of a node's only output (strings count nothing).

    Raises ValueError if the node has several outputs or its static shape is not fully known.
    """
    if len(op.outputs) != 1:
        raise ValueError(f"{op.name!r} has {len(op.outputs)} outputs; a load by bytes needs one")
    (tensor,) = op.outputs
    raw = tensor.raw_shape
    if raw is None or None in raw:
        raise ValueError(f"the shape of {tensor.name} is not known, so its bytes cannot be counted")
    return float(tensor.dtype.base_dtype.size * math.prod(size for size in raw if size is not None))


def replica_device_setter(
    ps_tasks: int = 0,
    ps_device: str | None = "/job:ps",
    worker_device: str | None = "/job:worker",
    merge_devices: bool = True,
    cluster: Any = None,
    ps_ops: Collection[str] | None = None,
    ps_strategy: Strategy | None = None,
) -> Callable[[Operation], str] | None:
    """A device function for `tf.device`; None when there are no parameter servers.

    cluster: a ClusterSpec, ClusterDef or dict, which gives the number of tasks of ps_device's job.
    ps_ops: types of nodes that go to parameter servers.  ps_strategy: picks the task of each.
    Raises TypeError if cluster, ps_ops or ps_strategy is of the wrong kind.
    """
    if cluster is not None:
        jobs = ClusterSpec(cluster).as_dict()
        job = DeviceSpec.from_string(ps_device or "").job or "ps"
        if job not in jobs or not jobs[job]:
            return None
        ps_tasks = len(jobs[job])
    if ps_tasks == 0:
        return None
    if ps_ops is None:
        ps_ops = STANDARD_PS_OPS
    if ps_strategy is None:
        ps_strategy = RoundRobinStrategy(ps_tasks)
    if not callable(ps_strategy):
        raise TypeError(f"ps_strategy must be a function of an operation, not {ps_strategy!r}")
    strategy = ps_strategy
    servers = DeviceSpec.from_string(ps_device or "")
    worker = DeviceSpec.from_string(worker_device or "")
    types = frozenset(ps_ops)

    def device(op: Operation) -> str:
        if not merge_devices and op.device:
            return op.device
        asked = DeviceSpec.from_string(op.device or "")
        if ps_device and op.type in types:
            chosen = servers
            if servers.job and (not asked.job or asked.job == servers.job):
                chosen = servers.replace(task=strategy(op))
            return chosen.make_merged_spec(asked).to_string()
        return worker.make_merged_spec(asked).to_string()

    return device
