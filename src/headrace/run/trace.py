"""Step statistics: which node ran where, from when to when.

A collector belongs to one step on one task; the executor calls it instead of its quick loop.  Times
are wall-clock microseconds of this host with a monotonic clock inside the step.
Called by: run.program, serve (merging tasks), client (local sessions).  Threads: any.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from headrace.codec import protos as pb
from headrace.run.kernel import NodeInfo, StepState
from headrace.run.keys import task_of
from headrace.run.outcome import explain


class StatsCollector:
    """Collects NodeExecStats by device."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._devices: dict[str, list[pb.NodeExecStats]] = {}
        # One offset for the whole step: readings of the monotonic clock become wall-clock times.
        self._offset_ns = time.time_ns() - time.perf_counter_ns()

    def now(self) -> int:
        """Nanoseconds, for `add` and `waiter`."""
        return time.perf_counter_ns()

    def add(self, device: str, name: str, label: str, start_ns: int, end_ns: int) -> None:
        """Record one execution."""
        start, length = start_ns + self._offset_ns, end_ns - start_ns
        stats = pb.NodeExecStats(
            node_name=name, timeline_label=label, thread_id=threading.get_native_id(),
            all_start_micros=start // 1000, op_end_rel_micros=-(-length // 1000),
            all_end_rel_micros=-(-length // 1000), all_start_nanos=start, op_end_rel_nanos=length,
            all_end_rel_nanos=length, scheduled_micros=start // 1000, scheduled_nanos=start,
        )  # fmt: skip
        with self._lock:
            self._devices.setdefault(device, []).append(stats)

    def preloaded(self, nodes: Sequence[NodeInfo]) -> None:
        """Constants: loaded when the plan was made, listed because the user wrote them."""
        now = self.now()
        for node in nodes:
            self.add(node.device, node.name, node.label, now, now)

    def segment(self, segment: Any, registers: list[Any], step: StepState) -> None:
        """Run a segment's instructions and record each node."""
        current: NodeInfo | None = None
        began = ended = 0
        for index, instruction in enumerate(segment.instructions):
            node = segment.nodes[index]
            start = self.now()
            try:
                instruction(registers)
            except Exception as error:  # as in run_segment
                raise explain(
                    error, node, [registers[i] for i in segment.inputs[index]], step
                ) from error.__cause__
            if node is not current:
                if current is not None:
                    self.add(current.device, current.name, current.label, began, ended)
                current, began = node, start
            ended = self.now()
        if current is not None:
            self.add(current.device, current.name, current.label, began, ended)

    def waiter(self, waiter: Any, start_ns: int, value: Any) -> None:
        """Record a node that may have waited.  A receive from another task is a `RecvTensor`."""
        node = waiter.node
        end = self.now()
        if node.op in ("_Recv", "_HostRecv"):
            source, target = (node.attrs[name].decode() for name in ("send_device", "recv_device"))
            if task_of(source) != task_of(target):
                size = getattr(value, "nbytes", 0)
                label = f"[{size}B] {node.attrs['tensor_name'].decode()} from {source} to {target}"
                self.add(node.device, "RecvTensor", label, start_ns, end)
                return
        self.add(node.device, node.name, node.label, start_ns, end)

    def proto(self) -> pb.StepStats:
        """What was collected, devices in name order."""
        stats = pb.StepStats()
        with self._lock:
            for device in sorted(self._devices):
                stats.dev_stats.append(
                    pb.DeviceStepStats(device=device, node_stats=self._devices[device])
                )
        return stats
