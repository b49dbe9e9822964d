"""A cluster resolver for Slurm: the tasks of a job step, dealt to jobs in the order of their ranks.

Called by: programs.  Threads: any, as long as nobody sets a property meanwhile.
Source: TF 1.15 and 2.21 python/distribute/cluster_resolver/slurm_cluster_resolver.py, for behaviour; compared with the
oracle
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from typing import Any

from headrace.serve.cluster import ClusterSpec
from headrace.serve.slurm import expand_counts, expand_hostlist, variable
from headrace.training.cluster_resolvers import ClusterResolver

__all__ = ["SlurmClusterResolver"]


class SlurmClusterResolver(ClusterResolver):
    """Jobs made of the tasks of the Slurm step that this process belongs to.

    Ranks are dealt to `jobs` in their order, and tasks of a host listen on `port_base` and the ports after it.
    `task_type`, `task_id` and the master of this task are known once `cluster_spec` has been called.
    """

    def __init__(
        self,
        jobs: Mapping[str, int] | None = None,
        port_base: int = 8888,
        gpus_per_node: int | None = None,
        gpus_per_task: int | None = None,
        tasks_per_node: int | None = None,
        auto_set_gpu: bool = True,
        rpc_layer: str = "grpc",
    ) -> None:
        """jobs: number of tasks by job; by default all are workers.

        gpus_per_node, gpus_per_task: counts; without them as many as there are on this host (CUDA_VISIBLE_DEVICES,
        nvidia-smi; none if there are neither), divided among its tasks.  tasks_per_node: of every node.
        auto_set_gpu: `cluster_spec` sets CUDA_VISIBLE_DEVICES to what is this task's.
        Raises RuntimeError: not started by srun, another number of tasks in the step than in `jobs`, more GPUs
        wanted than there are.  ValueError: a variable of Slurm's that cannot be read.
        """
        environ = os.environ
        self._rank = int(variable("PROCID", environ))
        total = int(variable("STEP_NUM_TASKS", environ)) if jobs is None else None
        self._jobs = dict(jobs) if jobs is not None else {"worker": total or 0}
        self._hosts = expand_hostlist(variable("STEP_NODELIST", environ))
        if tasks_per_node is None:
            counts = expand_counts(variable("STEP_TASKS_PER_NODE", environ))
        else:
            counts = [int(tasks_per_node)] * len(self._hosts)
        self._counts = dict(zip(self._hosts, counts, strict=False))
        self._port_base = port_base
        wanted = sum(self._jobs.values())
        there = sum(self._counts.values())
        if wanted != there:
            raise RuntimeError(
                f"Requested {wanted} tasks but only {there} were assigned: jobs is {self._jobs}, and the step's tasks "
                f"by host are {self._counts}; the two sums must be the same"
            )
        self._gpus_per_node = gpu_count() if gpus_per_node is None else gpus_per_node
        most = max(self._counts.values(), default=1) or 1
        self._gpus_per_task = (
            self._gpus_per_node // most if gpus_per_task is None else gpus_per_task
        )
        if self._gpus_per_task * most > self._gpus_per_node:
            raise RuntimeError(
                f"Requested more GPUs per node than available: {most} tasks of {self._gpus_per_task} each, and "
                f"{self._gpus_per_node} on a node"
            )
        self._auto_set_gpu = auto_set_gpu
        self._rpc_layer = rpc_layer

    def cluster_spec(self) -> ClusterSpec:
        """The cluster; sets `task_type`, `task_id`, and CUDA_VISIBLE_DEVICES if asked to and there are GPUs.

        Raises IndexError if this process is none of its tasks.
        """
        if self._rank >= sum(self._counts.values()):
            raise IndexError(
                f"SLURM_PROCID is {self._rank}, and the cluster has {sum(self._counts.values())} tasks: {self._jobs}, "
                f"by host {self._counts}; this process is none of them"
            )
        places = [(host, index) for host, count in self._counts.items() for index in range(count)]
        cluster: dict[str, list[str]] = {}
        rank = 0
        for job, count in self._jobs.items():
            cluster[job] = []
            for task in range(count):
                host, index = places[rank]
                cluster[job].append(f"{host}:{self._port_base + index}")
                if rank == self._rank:
                    self._task_type, self._task_id = job, task
                    self._set_gpus(index)
                rank += 1
        return ClusterSpec(cluster)

    def _set_gpus(self, index: int) -> None:
        """Those of the task that is the `index`th of its host."""
        if self._auto_set_gpu and self._gpus_per_task > 0:
            first = index * self._gpus_per_task
            numbers = range(first, first + self._gpus_per_task)
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, numbers))

    def get_task_info(self) -> tuple[str | None, int | None]:
        """Job and index of this process; (None, None) before `cluster_spec` was called."""
        return self.task_type, self.task_id

    def master(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> str:
        """The address of a task, by default this one's; '' as long as that is not known.

        Raises ValueError if there is no such task.
        """
        job = self._task_type if task_type is None else task_type
        index = self._task_id if task_id is None else task_id
        if job is None or index is None:
            return ""
        address = self.cluster_spec().task_address(job, index)
        layer = rpc_layer or self._rpc_layer
        return f"{layer}://{address}" if layer else address

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> dict[str, int]:
        """{"GPU": those of a task}; nobody is asked."""
        return {"GPU": self._gpus_per_task}


def gpu_count(environ: Mapping[str, str] = os.environ) -> int:
    """GPUs that CUDA_VISIBLE_DEVICES or else nvidia-smi lists; 0 without either."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([each for each in visible.split(",") if each.strip()])
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--list-gpus"], capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    return len(listed.stdout.strip().splitlines())
