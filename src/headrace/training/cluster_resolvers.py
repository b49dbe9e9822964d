"""Cluster resolvers: where a program learns its cluster from, and which task of it it is.

Called by: programs.  Threads: any, as long as nobody sets a property meanwhile.
Source: TF 1.15 python/distribute/cluster_resolver, for behaviour; compared with the oracle
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from typing import Any

from headrace.base.device import DeviceSpec
from headrace.client.session import Session
from headrace.graph.graph import Graph
from headrace.serve.cluster import ClusterSpec, TFConfig, read

__all__ = [
    "ClusterResolver",
    "SimpleClusterResolver",
    "TFConfigClusterResolver",
    "UnionClusterResolver",
]


class ClusterResolver(ABC):
    """Base of the resolvers.  A subclass answers anew each time it is asked, if what it looks at can change."""

    _task_type: Any = None
    _task_id: Any = None
    _rpc_layer: Any = None

    @abstractmethod
    def cluster_spec(self) -> ClusterSpec:
        """The cluster as it is now."""
        raise NotImplementedError

    @abstractmethod
    def master(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> str:
        """The target for `tf.Session`: that of the task, if one is given."""
        raise NotImplementedError

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> dict[str, int]:
        """Number of devices by type (``{"CPU": 1}``), of one task or of all that a session on `master` sees.

        Opens a session with `config_proto`, so it waits until the master serves.  Raises what `tf.Session` raises.
        """
        target = self.master(task_type, task_id)
        with Graph().as_default(), Session(target, config=config_proto) as session:
            devices = session.list_devices()
        found: dict[str, int] = defaultdict(int)
        for device in devices:
            name = DeviceSpec.from_string(device.name)
            if (
                task_type is None
                or task_id is None
                or (name.job, name.task) == (task_type, int(task_id))
            ):
                found[device.device_type] += 1
        return found

    @property
    def environment(self) -> str | None:
        """Where the program runs, if the resolver knows; ''."""
        return ""

    @property
    def task_type(self) -> str | None:
        """The job of this process; None if the resolver does not know."""
        return self._task_type  # type: ignore[no-any-return]

    @task_type.setter
    def task_type(self, task_type: str | None) -> None:
        self._task_type = task_type

    @property
    def task_id(self) -> int | None:
        """Its index in the job; None if the resolver does not know."""
        return self._task_id  # type: ignore[no-any-return]

    @task_id.setter
    def task_id(self, task_id: int | None) -> None:
        self._task_id = task_id

    @property
    def rpc_layer(self) -> str | None:
        """The protocol that `master` puts before an address."""
        return self._rpc_layer  # type: ignore[no-any-return]

    @rpc_layer.setter
    def rpc_layer(self, rpc_layer: str | None) -> None:
        self._rpc_layer = rpc_layer


class SimpleClusterResolver(ClusterResolver):
    """Answers with what it was given."""

    def __init__(
        self,
        cluster_spec: ClusterSpec,
        master: str = "",
        task_type: str | None = None,
        task_id: int | None = None,
        environment: str = "",
        num_accelerators: dict[str, int] | None = None,
        rpc_layer: str | None = None,
    ) -> None:
        """Raises TypeError: no ClusterSpec, a master that is no string."""
        if not isinstance(cluster_spec, ClusterSpec):
            raise TypeError(
                f"cluster_spec must be a tf.train.ClusterSpec, not {cluster_spec!r:.80}; "
                "tf.train.ClusterSpec(it) makes one"
            )
        if not isinstance(master, str):
            raise TypeError(
                f"master must be a string such as 'grpc://HOST:PORT', not {master!r:.80}"
            )
        self._cluster_spec = cluster_spec
        self._master = master
        self._task_type = task_type
        self._task_id = task_id
        self._environment = environment
        self._num_accelerators = num_accelerators
        self._rpc_layer = rpc_layer

    def cluster_spec(self) -> ClusterSpec:
        """The one given."""
        return self._cluster_spec

    def master(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> str:
        """The one given; of a task, its address.  Raises ValueError if the cluster has no such task."""
        address = self._master
        if task_type is not None and task_id is not None:
            address = self.cluster_spec().task_address(task_type, task_id)
        return _url(address, rpc_layer or self._rpc_layer)

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> dict[str, int]:
        """Those given, {} without; nobody is asked."""
        return {} if self._num_accelerators is None else self._num_accelerators

    @property
    def environment(self) -> str:
        """The one given."""
        return self._environment


class TFConfigClusterResolver(ClusterResolver):
    """Answers with what the environment variable TF_CONFIG says when it is asked.

    Its methods and properties raise ValueError and TypeError where TF_CONFIG cannot be understood.
    """

    def __init__(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
        environment: str | None = None,
    ) -> None:
        """What is given goes before what TF_CONFIG says."""
        self._task_type = task_type
        self._task_id = task_id
        self._rpc_layer = rpc_layer
        self._environment = environment

    @property
    def task_type(self) -> str | None:
        """The job of this process; None if nothing says it."""
        return _said().task_type if self._task_type is None else str(self._task_type)

    @task_type.setter
    def task_type(self, task_type: str | None) -> None:
        self._task_type = task_type

    @property
    def task_id(self) -> int | None:
        """Its index in the job; None if nothing says it."""
        return _said().task_index if self._task_id is None else int(self._task_id)

    @task_id.setter
    def task_id(self, task_id: int | None) -> None:
        self._task_id = task_id

    @property
    def rpc_layer(self) -> str | None:
        """The protocol; None if nothing says it."""
        return _said().rpc_layer if self._rpc_layer is None else self._rpc_layer

    @rpc_layer.setter
    def rpc_layer(self, rpc_layer: str | None) -> None:
        self._rpc_layer = rpc_layer

    @property
    def environment(self) -> str | None:
        """The one given, None without."""
        return self._environment

    def cluster_spec(self) -> ClusterSpec:
        """The cluster of TF_CONFIG, an empty one if it has none."""
        return ClusterSpec(_said().cluster)

    def master(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> str:
        """Its "session_master" if it has one; '' for a cluster of one task or none; else the task's address.

        Raises ValueError if the cluster has no such task.
        """
        said = _said()
        if said.session_master is not None:
            return said.session_master
        cluster = said.cluster
        if not cluster or (len(cluster.jobs) == 1 and len(cluster.job_tasks(cluster.jobs[0])) == 1):
            return ""
        job = self.task_type if task_type is None else task_type
        index = self.task_id if task_id is None else task_id
        job, index = said.task(job, index)
        return _url(
            cluster.task_address(job, index), self.rpc_layer if rpc_layer is None else rpc_layer
        )

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> dict[str, int]:
        """As `ClusterResolver.num_accelerators`, of this process's task if none is given."""
        return super().num_accelerators(
            self.task_type if task_type is None else task_type,
            self.task_id if task_id is None else task_id,
            config_proto,
        )


class UnionClusterResolver(ClusterResolver):
    """The clusters of several resolvers in one; all else is as the first one says."""

    def __init__(
        self,
        *args: ClusterResolver,
        rpc_layer: str | None = None,
        task_type: str | None = None,
        task_id: int | None = None,
        **kwargs: Any,
    ) -> None:
        """What is given by name goes before what the first resolver says.

        Raises ValueError (no resolver, another keyword), TypeError (something else than a resolver).
        """
        if kwargs:
            raise ValueError(
                f"a union of resolvers takes rpc_layer, task_type and task_id by name, not {', '.join(sorted(kwargs))}"
            )
        if not args:
            raise ValueError("a union of resolvers needs at least one ClusterResolver")
        for each in args:
            if not isinstance(each, ClusterResolver):
                raise TypeError(f"a union is of ClusterResolvers, and {each!r:.80} is none")
        self._cluster_resolvers = args
        self._rpc_layer = rpc_layer
        self._task_type = task_type
        self._task_id = task_id

    def cluster_spec(self) -> ClusterSpec:
        """All jobs of all of them.

        Tasks of a job that several have are listed one after the other, or joined by index if one of the clusters has
        gaps there.  Raises KeyError if two then have the same index.
        """
        clusters = [resolver.cluster_spec().as_dict() for resolver in self._cluster_resolvers]
        merged: dict[str, Any] = {}
        for job in dict.fromkeys(job for cluster in clusters for job in cluster):
            parts = [cluster[job] for cluster in clusters if job in cluster]
            if all(isinstance(part, list) for part in parts):
                merged[job] = [address for part in parts for address in part]
            else:
                merged[job] = _joined(job, parts)
        return ClusterSpec(merged)

    def master(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> str:
        """The first resolver's; of a task, its address.  Raises ValueError if no cluster has such a task."""
        if task_type is not None and task_id is not None:
            address = self.cluster_spec().task_address(task_type, task_id)
            return _url(address, rpc_layer or self._rpc_layer)
        return self._cluster_resolvers[0].master(rpc_layer=rpc_layer)

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> dict[str, int]:
        """The first resolver's."""
        return self._cluster_resolvers[0].num_accelerators(task_type, task_id, config_proto)

    @property
    def environment(self) -> str | None:
        """The first resolver's."""
        return self._cluster_resolvers[0].environment

    @property
    def task_type(self) -> str | None:
        """The job that was given by name, or the first resolver's."""
        first = self._cluster_resolvers[0]
        return first.task_type if self._task_type is None else self._task_type

    @task_type.setter
    def task_type(self, task_type: str | None) -> None:
        self._task_type = task_type

    @property
    def task_id(self) -> int | None:
        """The index that was given by name, or the first resolver's."""
        return self._cluster_resolvers[0].task_id if self._task_id is None else self._task_id

    @task_id.setter
    def task_id(self, task_id: int | None) -> None:
        self._task_id = task_id

    @property
    def rpc_layer(self) -> str | None:
        """The protocol that was given by name, or the first resolver's."""
        first = self._cluster_resolvers[0]
        return first.rpc_layer if self._rpc_layer is None else self._rpc_layer

    @rpc_layer.setter
    def rpc_layer(self, rpc_layer: str | None) -> None:
        self._rpc_layer = rpc_layer


def _joined(job: str, parts: list[Any]) -> dict[int, str]:
    """Tasks by index.  Raises KeyError if two parts have the same one."""
    found: dict[int, str] = {}
    for part in parts:
        tasks = dict(enumerate(part)) if isinstance(part, list) else part
        both = sorted(found.keys() & tasks.keys())
        if both:
            raise KeyError(
                f"two of the clusters have task {both[0]} of job {job!r}: {found[both[0]]} and {tasks[both[0]]}; "
                "give the tasks of one of them other indices"
            )
        found.update(tasks)
    return found


def _said() -> TFConfig:
    return read() or TFConfig(ClusterSpec({}))


def _url(address: str, rpc_layer: str | None) -> str:
    return f"{rpc_layer}://{address}" if rpc_layer else address
