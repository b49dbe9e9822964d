"""Which jobs there are, where their tasks listen, and which of them this process is: ClusterSpec and TF_CONFIG.

TF_CONFIG is a variable of the environment that holds JSON, as schedulers write it for TensorFlow:
``{"cluster": {job: [address, …]}, "task": {"type": job, "index": 0}}``.  "rpc_layer", "session_master" and
"environment" may stand beside them, for estimators "eval_session_master", "model_dir" and "service", and whatever else
its writer had to say.
Called by: users, serve.server, training, tools.serve.  Threads: immutable, both.
Source: TF 1.15 python/training/server_lib.py (forms and error classes checked against the oracle),
python/distribute/cluster_resolver/tfconfig_cluster_resolver.py, for behaviour
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from headrace.codec import protos as pb

VARIABLE = "TF_CONFIG"
EXAMPLE = '{"cluster": {"ps": ["HOST:PORT"], "worker": ["HOST:PORT"]}, "task": {"type": "worker", "index": 0}}'

_SYNONYMS = {"chief": "master", "master": "chief"}
_SHOWN = 60  # characters of what is quoted


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
        return cls(required("ClusterSpec.from_tf_config()").cluster)

    @property
    def jobs(self) -> list[str]:
        """Their names, in the order in which they were given."""
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


@dataclass(frozen=True)
class TFConfig:
    """What TF_CONFIG says; None is what it leaves out."""

    cluster: ClusterSpec
    task_type: str | None = None
    task_index: int | None = None
    rpc_layer: str | None = None
    session_master: str | None = None
    environment: str | None = None
    eval_session_master: str | None = None
    model_dir: str | None = None
    service: Any = None

    def task(self, job_name: str | None = None, task_index: int | None = None) -> tuple[str, int]:
        """Job and index of this process; the arguments go before what TF_CONFIG says.

        What nobody says is the only task of the cluster, or of the job, if there is one only.
        Raises ValueError: not said, or not in the cluster.
        """
        given = job_name is not None
        job = self.task_type if job_name is None else job_name
        index = task_index
        if index is None and (not given or job_name == self.task_type):
            index = self.task_index
        jobs = self.cluster.jobs
        if not jobs:
            raise ValueError(
                f"{VARIABLE} has no cluster, so there is no task to be; it should look like {EXAMPLE}"
            )
        if job is None:
            if len(jobs) > 1:
                _fail_for_task(
                    f'has no task: add "task": {{"type": one of {_listed(jobs)}, "index": 0}}'
                )
            job = jobs[0]
        if job not in jobs:
            _fail_for_job(job, index, jobs, given)
        indices = self.cluster.task_indices(job)
        if index is None:
            if len(indices) != 1:
                _fail_for_task(
                    f"says that this process is a task of job {job!r}, and not which: that job has the tasks "
                    f'{indices}; add "index" to its "task"'
                )
            index = indices[0]
        if index not in indices:
            said = "the program asks for" if task_index is not None else f"{VARIABLE} says"
            raise ValueError(
                f"{said} /job:{job}/task:{index}, and job {job!r} of the cluster in {VARIABLE} has the tasks "
                f"{indices}; one of the two is wrong"
            )
        return job, index


def read(environ: Mapping[str, str] | None = None) -> TFConfig | None:
    """What the environment says; None without TF_CONFIG, or with an empty one.

    Raises ValueError (no JSON, a value that cannot be), TypeError (a value of another kind).
    """
    text = (os.environ if environ is None else environ).get(VARIABLE, "")
    return parse(text) if text.strip() else None


def required(what: str, environ: Mapping[str, str] | None = None) -> TFConfig:
    """As `read`, for `what`, which cannot do without.  Raises ValueError if it is not set."""
    found = read(environ)
    if found is None:
        raise ValueError(
            f"{what} takes the cluster from {VARIABLE}, which is not set in this process's environment; "
            f"say which cluster, or set {VARIABLE}='{EXAMPLE}'"
        )
    return found


def parse(text: str) -> TFConfig:
    """What that text says.  Raises ValueError, TypeError; see `read`."""
    fields = _object(_loaded(text), "the whole")
    task = _object(fields.get("task", {}), '"task"')
    return TFConfig(
        cluster=_cluster(fields.get("cluster", {})),
        task_type=_string(task.get("type"), 'the "type" of "task"'),
        task_index=_index(task.get("index")),
        rpc_layer=_string(fields.get("rpc_layer"), '"rpc_layer"'),
        session_master=_string(fields.get("session_master"), '"session_master"'),
        environment=_string(fields.get("environment"), '"environment"'),
        eval_session_master=_string(fields.get("eval_session_master"), '"eval_session_master"'),
        model_dir=_string(fields.get("model_dir"), '"model_dir"'),
        service=fields.get("service"),
    )


def _loaded(text: str) -> Any:
    import json  # which `import headrace` does without

    try:
        return json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        near = text[max(error.pos - 20, 0) : error.pos + 20]
        quotes = " (JSON has double quotes)" if "'" in near else ""
        raise ValueError(
            f"{VARIABLE} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}, near {near!r}{quotes}; "
            f"it should look like {EXAMPLE}"
        ) from None
    except RecursionError:
        raise ValueError(
            f"{VARIABLE} is nested too deeply; it should look like {EXAMPLE}"
        ) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, none of whose names stands there twice, of which one would silently count."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(
                f"{VARIABLE} has {name!r} twice in one object: {_short(found[name])} and {_short(value)}; "
                "put the tasks of a job into one list"
            )
        found[name] = value
    return found


def _cluster(value: Any) -> ClusterSpec:
    _object(value, '"cluster"')
    try:
        return ClusterSpec(value)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f'the "cluster" of {VARIABLE} is not one: {error}; it should look like {EXAMPLE}'
        ) from None


def _object(value: Any, what: str) -> dict[str, Any]:
    if value is None and what == '"task"':
        return {}
    if not isinstance(value, dict):
        raise TypeError(
            f"{what} in {VARIABLE} must be an object in braces, not {_short(value)}; it should look like {EXAMPLE}"
        )
    return value


def _string(value: Any, what: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{what} in {VARIABLE} must be a string, not {_short(value)}")
    return value


def _index(value: Any) -> int | None:
    """Some schedulers write it as a string."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError(
            f'the "index" of "task" in {VARIABLE} must be a number, not {_short(value)}'
        )
    try:
        index = int(value)
    except (ValueError, OverflowError):
        index = -1
    if index < 0 or (isinstance(value, float) and index != value):
        raise ValueError(
            f'the "index" of "task" in {VARIABLE} must be a whole number from 0 on, not {_short(value)}'
        )
    return index


def _fail_for_job(job: str, index: int | None, jobs: list[str], given: bool) -> NoReturn:
    task = f"/job:{job}" + ("" if index is None else f"/task:{index}")
    said = "the program asks for" if given else f"{VARIABLE} says that this process is"
    if job == "evaluator":
        raise ValueError(
            f"{said} {task}: an evaluator is no part of the cluster, which has the jobs {_listed(jobs)}, and runs no "
            "server; evaluate in a local session (tf.Session()) from the checkpoints"
        )
    other = _SYNONYMS.get(job)
    hint = (
        f"{other!r} is another word for {job!r}: use the same one in both places"
        if other in jobs
        else "name the task after one of them, or add the job to the cluster"
    )
    raise ValueError(f"{said} {task}, and its cluster has the jobs {_listed(jobs)}; {hint}")


def _fail_for_task(problem: str) -> NoReturn:
    raise ValueError(f"{VARIABLE} {problem}")


def _listed(jobs: list[str]) -> str:
    return ", ".join(repr(job) for job in jobs)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
