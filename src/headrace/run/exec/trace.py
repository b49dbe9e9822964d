"""Step statistics: which node ran where, from when to when, and what it made.

A collector belongs to one step on one task; the executor calls it instead of its quick loop.  Times
are wall-clock readings of this task, with a monotonic clock inside the step.  A node is *scheduled*
when the last of its inputs is there, *starts* when its kernel is called, and *ends* when its result
is: what it waits, for a queue or a peer, lies between the last two.
Names and labels are TensorFlow's: a ``_SOURCE`` per device, ``name = Op(inputs)`` for nodes,
``RecvTensor`` for what another task sent; transfers within a task are not listed.
Called by: run.exec.program, run.exec.dataflow, serve (merging tasks), client (local sessions).  Threads: any.
Source: TF 1.15 core/framework/step_stats.proto, and what its executor puts there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base.traits import CONST, RECEIVE, SEND, VARIABLE
from headrace.codec import protos as pb
from headrace.run.exec.instructions import RELEASE
from headrace.run.exec.kernel import NodeInfo
from headrace.run.exec.keys import task_of
from headrace.run.exec.straight import Code
from headrace.run.state.resources import Resource
from headrace.run.state.variable import Variable
from headrace.run.state.variants import Variant

ALLOCATOR = "cpu"
_TSTRING = 24  # bytes that TensorFlow counts for a string, whatever its length

NodeOutputs = Sequence[tuple[int, Any]]
"""(slot, value) of the outputs that have a value."""


@dataclass(frozen=True, slots=True)
class _Output:
    slot: int
    dtype: int
    shape: tuple[int, ...]
    num_bytes: int
    address: int
    made: bool  # its memory is new, not an input's or the state's


@dataclass(frozen=True, slots=True)
class _Execution:
    name: str
    label: str
    scheduled_ns: int
    start_ns: int
    end_ns: int
    thread: int
    outputs: tuple[_Output, ...]
    kept_bytes: int


class StatsCollector:
    """Collects NodeExecStats by device."""

    def __init__(self, clock_ns: Callable[[], int] = time.time_ns) -> None:
        """clock_ns: this task's wall clock, in nanoseconds since the Unix epoch."""
        self._lock = threading.Lock()
        self._devices: dict[str, list[_Execution]] = {}
        self._threads: dict[int, str] = {}
        self._ended: dict[str, int] = {}
        self._renamed: dict[str, str] = {}
        self._began = self.now()
        # One offset for the whole step: readings of the monotonic clock become wall-clock times.
        self._offset_ns = clock_ns() - time.perf_counter_ns()

    def now(self) -> int:
        """Nanoseconds, for `add`."""
        return time.perf_counter_ns()

    def begin(
        self,
        devices: Iterable[str],
        preloaded: Iterable[tuple[NodeInfo, Sequence[int]]] = (),
        registers: Sequence[Any] = (),
    ) -> None:
        """The start of a partition: a source per device, then the constants.

        Constants are loaded when the plan is made; they are listed because the user wrote them.
        """
        now = self.now()
        for device in sorted(set(devices)):
            self._record(device, "_SOURCE", "_SOURCE = NoOp()", self._began, now, now)
        for node, outputs in preloaded:
            now = self.now()
            self.add(node, now, now, [(i, registers[r]) for i, r in enumerate(outputs)])

    def feeds(self, device: str, fed: Sequence[tuple[str, int, Any]]) -> None:
        """What a local session was fed, as (node, output, value): `_Arg` nodes on `device`."""
        for number, (name, index, value) in enumerate(sorted(fed, key=_by_tensor)):
            given = f"_arg_{name}_{index}_{number}"
            self._renamed[_input(name, index)] = given
            now = self.now()
            found = _unmade(_described(0, value, ()))
            self._record(device, given, f"{given} = _Arg()", now, now, now, (found,))

    def fetches(self, device: str, fetched: Iterable[tuple[str, int]]) -> None:
        """What a local session fetched, as (node, output): `_Retval` nodes on `device`."""
        for number, (name, index) in enumerate(sorted(set(fetched), key=_by_tensor)):
            given, source = f"_retval_{name}_{index}_{number}", _input(name, index)
            now = self.now()
            label = f"{given} = _Retval({self._renamed.get(source, source)})"
            self._record(device, given, label, self._ended.get(name, now), now, now)

    def add(
        self,
        node: NodeInfo,
        start_ns: int,
        end_ns: int,
        outputs: NodeOutputs = (),
        inputs: Sequence[Any] = (),
    ) -> None:
        """Record one execution.  Of transfers only what came from another task is listed."""
        self._ended[node.name] = end_ns
        if SEND in node.traits:
            return
        if RECEIVE in node.traits:
            self._transfer(node, start_ns, end_ns, outputs[0][1] if outputs else None)
            return
        known = [_root(value) for value in inputs]
        found = tuple(_described(slot, value, known) for slot, value in outputs)
        kept = 0
        if CONST in node.traits or VARIABLE in node.traits:  # their bytes outlive the step
            kept = sum(output.num_bytes for output in found)
            found = tuple(_unmade(output) for output in found)
        # TensorFlow writes constants without the control inputs that keep them in their loop.
        shown = node.inputs if CONST not in node.traits else ()
        names = [self._renamed.get(name, name) for name in shown]
        label = f"{node.name} = {node.op}({', '.join(names)})"
        scheduled = min(self._scheduled(node.inputs), start_ns)
        self._record(node.device, node.name, label, scheduled, start_ns, end_ns, found, kept)

    def _scheduled(self, inputs: Iterable[str]) -> int:
        ended = self._ended
        times = (ended.get(name.removeprefix("^").partition(":")[0], 0) for name in inputs)
        return max(self._began, *times, 0)

    def _transfer(self, node: NodeInfo, start_ns: int, end_ns: int, value: Any) -> None:
        source, target = (node.attrs[name].decode() for name in ("send_device", "recv_device"))
        if task_of(source) == task_of(target):
            return
        found = _described(0, value, ()) if value is not None else None
        size = found.num_bytes if found is not None else 0
        label = (
            f"{_amount(size)} {_rate(size, end_ns - start_ns)} {node.attrs['tensor_name'].decode()} "
            f"from {source} to {target}"
        )
        outputs = (_unmade(found),) if found is not None else ()
        self._record(node.device, "RecvTensor", label, start_ns, start_ns, end_ns, outputs)

    def _record(
        self,
        device: str,
        name: str,
        label: str,
        scheduled_ns: int,
        start_ns: int,
        end_ns: int,
        outputs: tuple[_Output, ...] = (),
        kept_bytes: int = 0,
    ) -> None:
        thread = threading.get_native_id()
        done = _Execution(name, label, scheduled_ns, start_ns, end_ns, thread, outputs, kept_bytes)
        with self._lock:
            self._devices.setdefault(device, []).append(done)
            if thread not in self._threads:
                self._threads[thread] = threading.current_thread().name

    def code(self, code: Code, registers: list[Any]) -> None:
        """Run a segment's instructions and record each node.  Raises what they raise."""
        current: NodeInfo | None = None
        began = ended = 0
        inputs: list[Any] = []
        outputs: list[tuple[int, Any]] = []
        for each in code.instructions:
            given = each.given(registers)
            start = self.now()
            Code([each]).run(registers)
            end = self.now()
            if each.node is not current:
                if current is not None:
                    self.add(current, began, ended, outputs, inputs)
                current, began, inputs, outputs = each.node, start, [], []
            ended = end
            inputs += given
            if each.kind != RELEASE:  # the last is the node's own, after what it loads
                outputs = [(i, registers[r]) for i, r in enumerate(each.outputs)]
        if current is not None:
            self.add(current, began, ended, outputs, inputs)

    def proto(self) -> pb.StepStats:
        """What was collected, devices in name order."""
        stats = pb.StepStats()
        with self._lock:
            for device in sorted(self._devices):
                done = self._devices[device]
                used = {execution.thread for execution in done}
                stats.dev_stats.append(
                    pb.DeviceStepStats(
                        device=device,
                        node_stats=[self._node_stats(execution) for execution in done],
                        thread_names={thread: self._threads[thread] for thread in used},
                    )
                )
        return stats

    def _node_stats(self, done: _Execution) -> pb.NodeExecStats:
        start = done.start_ns + self._offset_ns
        scheduled = done.scheduled_ns + self._offset_ns
        length = done.end_ns - done.start_ns
        stats = pb.NodeExecStats(
            node_name=done.name,
            timeline_label=done.label,
            thread_id=done.thread,
            all_start_micros=start // 1000,
            op_end_rel_micros=-(-length // 1000),
            all_end_rel_micros=-(-length // 1000),
            all_start_nanos=start,
            op_end_rel_nanos=length,
            all_end_rel_nanos=length,
            scheduled_micros=scheduled // 1000,
            scheduled_nanos=scheduled,
            output=[_output_proto(output, done.name != "RecvTensor") for output in done.outputs],
        )
        if done.kept_bytes:
            stats.memory_stats.persistent_memory_size = done.kept_bytes
        made = sum(output.num_bytes for output in done.outputs if output.made)
        if made:
            at = (done.end_ns + self._offset_ns) // 1000
            stats.memory.append(
                pb.AllocatorMemoryUsed(
                    allocator_name=ALLOCATOR,
                    total_bytes=made,
                    peak_bytes=made,
                    live_bytes=made,
                    allocation_records=[pb.AllocationRecord(alloc_micros=at, alloc_bytes=made)],
                )
            )
        return stats


def shift(stats: pb.StepStats, by_ns: int) -> None:
    """Move all times, from the clock of one task to that of another."""
    if not by_ns:
        return
    for device in stats.dev_stats:
        for node in device.node_stats:
            for name in ("all_start", "scheduled"):
                nanos, micros = f"{name}_nanos", f"{name}_micros"
                if getattr(node, nanos):
                    moved = getattr(node, nanos) + by_ns
                    setattr(node, nanos, moved)
                    setattr(node, micros, moved // 1000)
                elif getattr(node, micros):
                    setattr(node, micros, getattr(node, micros) + by_ns // 1000)
            for used in node.memory:
                for record in used.allocation_records:
                    record.alloc_micros += by_ns // 1000


def _by_tensor(tensor: tuple[Any, ...]) -> str:
    return f"{tensor[0]}:{tensor[1]}"


def _input(name: str, index: int) -> str:
    return name if index == 0 else f"{name}:{index}"


def _amount(num_bytes: int) -> str:
    mib = num_bytes / (1 << 20)
    return f"[{mib:.1f}MB]" if mib >= 0.1 else f"[{num_bytes}B]"


def _rate(num_bytes: int, length_ns: int) -> str:
    megabits = 8000.0 * num_bytes / length_ns if length_ns > 0 else 0.0
    return f"[{megabits / 1000:.1f}Gb/s]" if megabits >= 1000.0 else f"[{megabits:f}Mb/s]"


def _root(value: Any) -> Any:
    """The array whose memory `value` shows."""
    if isinstance(value, Variable):
        value = value.held()
    while isinstance(value, np.ndarray) and isinstance(value.base, np.ndarray):
        value = value.base
    return value


def _kind_on_device(value: Any) -> dtypes.DType | None:
    """The dtype of a device's array; None of all else."""
    if isinstance(value, Resource | Variant) or not (
        hasattr(value, "device") and hasattr(value, "dtype")
    ):
        return None
    name = getattr(value.dtype, "name", "") or str(value.dtype).rpartition(".")[2]
    return dtypes.as_dtype(name)


def _described(slot: int, value: Any, known: Sequence[Any]) -> _Output:
    """known: what the inputs' memory is; an output that shares it was not allocated."""
    array = value.held() if isinstance(value, Variable) else value
    if not isinstance(array, np.ndarray | np.generic):
        kind = value.dtype if isinstance(value, Variable) else _kind_on_device(array)
        if kind is not None and array is not None:
            size = int(array.size) * kind.np.itemsize
            made = not isinstance(value, Variable)
            return _Output(slot, kind.as_datatype_enum, tuple(array.shape), size, 0, made)
        held = dtypes.resource if array is not None else dtypes.float32
        if isinstance(value, Variable):
            held = value.dtype
        elif isinstance(value, Variant):
            held = dtypes.variant
        return _Output(slot, held.as_datatype_enum, (), 0, 0, False)
    is_text = array.dtype == object
    kind = value.dtype if isinstance(value, Variable) else dtypes.from_numpy(array.dtype)
    size = array.size * _TSTRING if is_text else array.nbytes
    root = _root(array)
    made = not isinstance(value, Variable) and not any(root is other for other in known)
    address = array.ctypes.data if isinstance(array, np.ndarray) else 0
    return _Output(slot, kind.as_datatype_enum, array.shape, size, address, made)


def _unmade(output: _Output) -> _Output:
    return _Output(output.slot, output.dtype, output.shape, output.num_bytes, output.address, False)


def _output_proto(output: _Output, allocated_here: bool) -> pb.NodeOutput:
    found = pb.NodeOutput(slot=output.slot)
    description = found.tensor_description
    description.dtype = output.dtype  # type: ignore[assignment]
    description.shape.SetInParent()
    for size in output.shape:
        description.shape.dim.add(size=size)
    allocation = description.allocation_description
    allocation.requested_bytes = output.num_bytes
    if allocated_here:
        allocation.allocator_name = ALLOCATOR
        allocation.ptr = output.address
    if output.made:
        allocation.allocated_bytes = output.num_bytes
        allocation.allocation_id = 1
        allocation.has_single_reference = True
    return found
