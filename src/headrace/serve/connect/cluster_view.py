"""A master's view of its cluster: which devices there are, and how to reach the tasks.

The devices that placement sees follow from the cluster spec alone; a task is asked for its
incarnation only when a plan needs it.
Called by: serve.master.master, serve.master.master_session.  Threads: any.
"""

from __future__ import annotations

import contextlib
import ipaddress
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from headrace.base import errors
from headrace.base.device import DeviceSpec
from headrace.codec import protos as pb
from headrace.run.exec.keys import task_of
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.connect.peers import Peers
from headrace.serve.connect.readiness import ServerReadiness, wait_for_all
from headrace.serve.connect.restart_check import RestartCheck, check_restarts
from headrace.serve.rpc import methods
from headrace.serve.rpc.peer import Peer


class OutstandingPart(Protocol):
    """A part of a step that a task has been asked to run."""

    @property
    def task(self) -> str:
        """Who was asked."""

    @property
    def makes(self) -> Sequence[str]:
        """The tensors that are to come of it."""


OutstandingParts = dict[int, tuple[Sequence[OutstandingPart], float]]
"""By step: the parts that somebody waits for, and since when (time.monotonic seconds)."""

_Devices = Sequence[pb.DeviceAttributes]


class ClusterView:
    """Tasks (after device filters), their devices and incarnations."""

    def __init__(
        self,
        peers: Peers,
        own_task: str,
        scope: Scope,
        filters: Sequence[str] = (),
        renames: bool = False,
    ) -> None:
        """filters: a task is seen if any matches it, or if it is the master's own; none: all are.

        renames: tasks have other names here than the servers know.
        """
        self._peers = peers
        self.worker: Callable[[str], Peer] = peers.get
        """The worker service of a task."""
        self.own_worker = peers.own_worker
        self.pool = peers.pool
        self._renames = renames
        self.scope = scope
        self.tasks = [task for task in peers.tasks if task == own_task or _seen(task, filters)]
        self._lock = threading.Lock()
        self._reported: Mapping[str, _Devices] = {}
        self._waits: dict[int, tuple[float, list[ServerReadiness[pb.GetStatusResponse]]]] = {}
        self._pushing: set[str] = set()
        self.outstanding: OutstandingParts = {}  # to the master

    def devices_for(self, wanted: Iterable[str], scope: Scope) -> list[str]:
        """Full names of the devices that nodes can be placed on, if they ask for `wanted`.

        Every task has a CPU:0; whether it has more, it is asked only if a node may want that.
        Then raises Unavailable naming a task that does not answer.
        """
        asking = {text for text in set(wanted) if _wants_more(text)}
        tasks = [
            task
            for task in self.tasks
            if any(_may_be_on(DeviceSpec.from_string(text), task) for text in asking)
        ]
        reported = self._ask(tasks, scope)
        found = []
        for task in self.tasks:
            devices = reported[task] if task in tasks else None
            found += [d.name for d in devices] if devices else [f"{task}/device:CPU:0"]
        return found

    def with_gpus(
        self, available: Sequence[str], used: Iterable[str], scope: Scope
    ) -> list[str] | None:
        """`available` with all devices of the tasks of `used`, which a step needs anyway; None if they have no GPUs
        beyond those.  Raises Unavailable naming the task.
        """
        tasks = sorted({task_of(device) for device in used})
        reported = self._ask(tasks, scope)
        known = set(available)
        more = [d.name for task in tasks for d in reported[task] if d.name not in known]
        if not any(DeviceSpec.from_string(name).device_type == "GPU" for name in more):
            return None
        return [*available, *more]

    def address(self, task: str) -> str:
        """Where it is, as host:port."""
        return self._peers.address(task)

    def incarnations(
        self, devices: Iterable[str], scope: Scope
    ) -> tuple[dict[str, int], dict[str, int]]:
        """The numbers of the starts of devices, and those of their tasks.  A task of ours is asked once; one that would
        take what is meant for another start of it each time.

        Waits for tasks that are not up yet.  Raises Unavailable naming the task.
        """
        wanted = set(devices)
        tasks = sorted({task_of(device) for device in wanted})
        with self._lock:
            trusted = {
                t: e for t, e in self._reported.items() if t in self._pushing or t not in tasks
            }
            self._reported = trusted
        reported = self._ask(tasks, scope)
        known = {d.name: d.incarnation for task in tasks for d in reported[task]}
        starts = {task: reported[task][0].incarnation for task in tasks if reported[task]}
        return {device: known[device] for device in wanted}, starts

    def pushing(self, tasks: Iterable[str]) -> set[str]:
        """Those of `tasks`, which have been asked for their incarnations, that take SendTensor."""
        return self._pushing.intersection(tasks)

    def _ask(self, tasks: Iterable[str], scope: Scope) -> Mapping[str, _Devices]:
        """What tasks report, these at least; they are asked unless they have been."""
        reported = self._reported
        unknown = [task for task in tasks if task not in reported]
        if unknown:
            found = self.attributes(unknown, scope)
            with self._lock:
                reported = self._reported = {**found, **self._reported}
        return reported

    def restarted(self, known: Mapping[str, int], scope: Scope) -> RestartCheck:
        """Whether tasks are in another start now than the one that is `known`; that is remembered.

        That takes no longer than the step of `scope` may; see serve.connect.restart_check.
        """
        found = check_restarts(
            {task: self.worker(task) for task in known}, known, scope, self.scope
        )
        with self._lock:
            reported = dict(self._reported)
            for task, status in found.restarted.items():
                if any(device.incarnation == known[task] for device in reported.get(task, ())):
                    reported[task] = self._understood(task, status)
            self._reported = reported
        return found

    def _understood(self, task: str, status: pb.GetStatusResponse) -> _Devices:
        """Its devices; and that it takes SendTensor, if it does."""
        if status.headrace_pushes:
            self._pushing.add(task)
        if status.device_attributes and not self._renames:
            self._peers.has_start(task, status.device_attributes[0].incarnation)
        return _as_of(task, status.device_attributes)

    def attributes(self, tasks: Iterable[str], scope: Scope) -> dict[str, _Devices]:
        """The devices that tasks report, by task; as `incarnations`."""
        tasks = list(tasks)
        with Scope(parent=scope) as asking:
            awaited = [self._awaited(task, asking) for task in tasks]
            self._waits[id(awaited)] = time.monotonic(), awaited
            try:
                answers = wait_for_all(awaited, scope, self._peers.pool)
            finally:
                del self._waits[id(awaited)]
                asking.cancel(errors.cancelled("nobody waits for this any more"))
        return {
            task: self._understood(task, status)
            for task, status in zip(tasks, answers, strict=True)
        }

    def awaited(self) -> list[pb.AwaitedState]:
        """Whom steps wait for now, each once; the longest wait first."""
        found: dict[str, pb.AwaitedState] = {}
        now = time.monotonic()
        for since, awaited in sorted(self._waits.copy().values(), key=lambda wait: wait[0]):
            for each in awaited:
                if not each.over and each.peer.name not in found:
                    found[each.peer.name] = pb.AwaitedState(
                        task=each.peer.name, reason=each.reason, waited_s=now - since
                    )
        return list(found.values())

    def _awaited(self, task: str, scope: Scope) -> ServerReadiness[pb.GetStatusResponse]:
        """A task that is asked for its status."""
        cluster = b"" if self._renames else self._peers.digest
        request = pb.GetStatusRequest(headrace_cluster=cluster)

        def ask() -> Pending[pb.GetStatusResponse]:
            return self.worker(task).call(methods.GET_STATUS, request, scope, wait_for_ready=True)

        return ServerReadiness(
            self.worker(task), ask, lambda status: self._wrong_server(task, status)
        )

    def _wrong_server(self, task: str, status: pb.GetStatusResponse) -> str:
        """Why what answers is not that task of this cluster; "" if it is."""
        if self._renames:
            return ""
        other = next((task_of(d.name) for d in status.device_attributes), task)
        if other != task:
            return (
                f"what answers there is {other}: of another cluster, or the addresses are mixed up"
            )
        for name, there in status.headrace_addresses.items():
            here = self._peers.addresses.get(name)
            if here is not None and here != there and _disagree(here, there):
                return f"what answers there is of another cluster, in which {name} is at {there}, not at {here}"
        return ""


def _seen(task: str, filters: Sequence[str]) -> bool:
    if not filters:
        return True
    full = DeviceSpec.from_string(task)
    return any(DeviceSpec.from_string(text).matches(full) for text in filters)


def _disagree(one: str, other: str) -> bool:
    """Whether two addresses of a task cannot be two names of the same: not if a host may have several."""
    (host, _, port), (other_host, _, other_port) = one.rpartition(":"), other.rpartition(":")
    if "0" in (port, other_port):  # the system chooses
        return False
    if host == other_host:
        return port != other_port
    ips = [_ip(host), _ip(other_host)]
    return all(ip is not None and not (ip.is_loopback or ip.is_unspecified) for ip in ips)


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]"))
    return None


def _as_of(task: str, reported: Iterable[pb.DeviceAttributes]) -> list[pb.DeviceAttributes]:
    """A task's devices by the name that this cluster has for the task."""
    found = []
    for attributes in reported:
        renamed = pb.DeviceAttributes()
        renamed.CopyFrom(attributes)
        renamed.name = task + attributes.name[len(task_of(attributes.name)) :]
        found.append(renamed)
    return found


def _wants_more(device: str) -> bool:
    """Whether a device string asks for anything but the first CPU of a task."""
    spec = DeviceSpec.from_string(device)
    return spec.device_type not in (None, "CPU") or bool(spec.device_index)


def _may_be_on(spec: DeviceSpec, task: str) -> bool:
    return DeviceSpec(spec.job, spec.replica, spec.task).matches(DeviceSpec.from_string(task))
