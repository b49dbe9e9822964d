"""ClusterSpec: which jobs there are, and where their tasks listen.

Called by: users, serve.server, training.  Threads: immutable.
Source: TF 1.15 python/training/server_lib.py (forms and error classes checked against the oracle).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.codec import protos as pb


class ClusterSpec:
    """Jobs, each a map from task index to ``host:port``."""

    def __init__(self, cluster: Any) -> None:
        """cluster: {job: [address, …]}, {job: {index: address}}, a ClusterDef, or a ClusterSpec.

        Raises TypeError on anything else, ValueError on an index that is no number.
        """
        self._jobs: dict[str, dict[int, str]] = {}
        if isinstance(cluster, ClusterSpec):
            self._jobs = {job: dict(tasks) for job, tasks in cluster._jobs.items()}
        elif isinstance(cluster, pb.ClusterDef):
            self._jobs = {job.name: dict(job.tasks) for job in cluster.job}
        elif isinstance(cluster, Mapping):
            self._jobs = {
                _text(job, "Job name"): _tasks(job, tasks) for job, tasks in cluster.items()
            }
        else:
            raise TypeError(
                "`cluster` must be a dictionary mapping one or more job names to lists of network addresses (or dicts "
                f"of them), a ClusterDef or a ClusterSpec, not a {type(cluster).__name__}"
            )

    @classmethod
    def from_tf_config(cls) -> ClusterSpec:
        """The cluster that the environment variable TF_CONFIG describes.

        Raises ValueError (it is not set, is not JSON), TypeError (something else than a cluster in it).
        """
        from headrace.serve.tf_config import required

        return cls(required("ClusterSpec.from_tf_config()").cluster)

    @property
    def jobs(self) -> list[str]:
        return list(self._jobs)

    def _job(self, job_name: str) -> dict[int, str]:
        tasks = self._jobs.get(job_name)
        if tasks is None:
            raise ValueError(
                f"No such job in cluster: {job_name!r}; it has {', '.join(map(repr, self._jobs)) or 'none'}"
            )
        return tasks

    def num_tasks(self, job_name: str) -> int:
        """Number of tasks of a job.  Raises ValueError."""
        return len(self._job(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """Indices of a job's tasks, in order.  Raises ValueError."""
        return sorted(self._job(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """Address of a task.  Raises ValueError."""
        tasks = self._job(job_name)
        if task_index not in tasks:
            raise ValueError(
                f"No task with index {task_index} in job {job_name!r}; it has {sorted(tasks)}"
            )
        return tasks[task_index]

    def job_tasks(self, job_name: str) -> list[str | None]:
        """Addresses of a job by index; None where the indices have a gap.  Raises ValueError."""
        tasks = self._job(job_name)
        return [tasks.get(index) for index in range(max(tasks) + 1)] if tasks else []

    def as_dict(self) -> dict[str, Any]:
        """{job: list of addresses}, or {job: {index: address}} for jobs with gaps or without tasks."""
        return {
            job: [tasks[i] for i in range(len(tasks))]
            if tasks and set(tasks) == set(range(len(tasks)))
            else dict(tasks)
            for job, tasks in self._jobs.items()
        }

    def as_cluster_def(self) -> pb.ClusterDef:
        """As a ClusterDef proto, jobs in name order."""
        return pb.ClusterDef(
            job=[pb.JobDef(name=job, tasks=self._jobs[job]) for job in sorted(self._jobs)]
        )

    def task_names(self) -> dict[str, str]:
        """Addresses by full task name (``/job:J/replica:0/task:N``)."""
        return {
            f"/job:{job}/replica:0/task:{index}": address
            for job, tasks in self._jobs.items()
            for index, address in tasks.items()
        }

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterSpec) and self._jobs == other._jobs

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ClusterSpec({self.as_dict()!r})"

    __str__ = __repr__


def _text(value: Any, what: str, where: str = "") -> str:
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise TypeError(f"{what} {value!r} must be bytes or unicode{where}")
    return value


def _tasks(job: Any, tasks: Any) -> dict[int, str]:
    if isinstance(tasks, Mapping):
        pairs: Iterable[tuple[Any, Any]] = tasks.items()
    elif isinstance(tasks, (list, tuple)):
        pairs = enumerate(tasks)
    else:
        raise TypeError(
            f"The tasks for job {job!r} must be a list or a dictionary from integers to strings: {tasks!r} is none"
        )
    found = {}
    for index, address in pairs:
        try:
            number = int(index)
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"{error}: task indices are integers, and job {job!r} has {index!r}"
            ) from None
        found[number] = _text(address, "Task address", f": it is that of job {job!r}, task {index}")
    return found
