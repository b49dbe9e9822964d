"""RunConfig: where an estimator runs, and how often it saves and tells of itself.

Called by: programs, training.estimator.  Threads: immutable.
Source: TF 1.15 behaviour; properties under every TF_CONFIG, and messages, checked against the oracle
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.base import errors, text
from headrace.codec import protos as pb
from headrace.serve.cluster import ClusterSpec, TFConfig, read

__all__ = ["RunConfig", "TaskType"]


class TaskType:
    """The jobs of an estimator's cluster; an evaluator is beside it."""

    MASTER: Final = "master"
    PS: Final = "ps"
    WORKER: Final = "worker"
    CHIEF: Final = "chief"
    EVALUATOR: Final = "evaluator"


class _UseDefault:
    def __repr__(self) -> str:
        return "USE_DEFAULT"


USE_DEFAULT: Final[Any] = _UseDefault()
_DEFAULT_SECS: Final = 600
_PROTOCOLS: Final = (None, "grpc", "grpc+verbs")
_STRATEGIES: Final = (
    "headrace has no DistributionStrategy: train on the tasks of TF_CONFIG with tf.estimator.train_and_evaluate, whose "
    "variables are on its ps; tf.train.SyncReplicasOptimizer makes their steps synchronous"
)
REPLACEABLE: Final = (
    "model_dir",
    "tf_random_seed",
    "save_summary_steps",
    "save_checkpoints_steps",
    "save_checkpoints_secs",
    "session_config",
    "keep_checkpoint_max",
    "keep_checkpoint_every_n_hours",
    "log_step_count_steps",
    "train_distribute",
    "device_fn",
    "protocol",
    "eval_distribute",
    "experimental_distribute",
    "experimental_max_worker_delay_secs",
    "session_creation_timeout_secs",
    "checkpoint_save_graph_def",
)


class RunConfig:
    """What an `Estimator` is to know of its surroundings: the arguments, and the cluster that TF_CONFIG describes."""

    _model_dir: str | None
    _tf_random_seed: int | None
    _save_summary_steps: int | None
    _save_checkpoints_steps: int | None
    _save_checkpoints_secs: float | None
    _session_config: pb.ConfigProto | None
    _keep_checkpoint_max: int | None
    _keep_checkpoint_every_n_hours: float | None
    _log_step_count_steps: int | None
    _train_distribute: None
    _eval_distribute: None
    _device_fn: Callable[[Any], str] | None
    _protocol: str | None
    _experimental_max_worker_delay_secs: int | None
    _session_creation_timeout_secs: float | None
    _checkpoint_save_graph_def: bool
    _experimental_distribute: None
    _evaluation_master: str
    _master: str

    def __init__(
        self,
        model_dir: str | None = None,
        tf_random_seed: int | None = None,
        save_summary_steps: int | None = 100,
        save_checkpoints_steps: int | None = USE_DEFAULT,
        save_checkpoints_secs: float | None = USE_DEFAULT,
        session_config: pb.ConfigProto | None = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float | None = 10000,
        log_step_count_steps: int | None = 100,
        train_distribute: Any = None,
        device_fn: Callable[[Any], str] | None = None,
        protocol: str | None = None,
        eval_distribute: Any = None,
        experimental_distribute: Any = None,
        experimental_max_worker_delay_secs: int | None = None,
        session_creation_timeout_secs: float | None = 7200,
        checkpoint_save_graph_def: bool = True,
    ) -> None:
        """model_dir: where checkpoints and events go; that of TF_CONFIG if None.  tf_random_seed: of each graph.

        save_checkpoints_steps, save_checkpoints_secs: one of them, or None for no checkpoints on the way; without
        either, every 600 s.  session_config: of all sessions; by default a task's session on a cluster sees the ps and
        itself.  keep_checkpoint_max: 0 or None for all.  device_fn: places operations; by default, on a cluster with
        ps, variables go there in turn.  experimental_max_worker_delay_secs: bounds a worker's delayed start.
        session_creation_timeout_secs: how long a session is waited for.  train_distribute, eval_distribute,
        experimental_distribute: have to be None.
        Raises ValueError (an argument, TF_CONFIG), TypeError (TF_CONFIG), UnimplementedError (a DistributionStrategy).
        """
        if save_checkpoints_steps is USE_DEFAULT and save_checkpoints_secs is USE_DEFAULT:
            save_checkpoints_steps, save_checkpoints_secs = None, _DEFAULT_SECS
        elif save_checkpoints_secs is USE_DEFAULT:
            save_checkpoints_secs = None
        elif save_checkpoints_steps is USE_DEFAULT:
            save_checkpoints_steps = None
        elif save_checkpoints_steps is not None and save_checkpoints_secs is not None:
            raise ValueError(
                "`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set. "
                f"They are {save_checkpoints_steps} and {save_checkpoints_secs}; leave one out"
            )
        said = read() or TFConfig(ClusterSpec({}))
        self._set(
            model_dir=_model_dir(said, model_dir),
            tf_random_seed=tf_random_seed,
            save_summary_steps=save_summary_steps,
            save_checkpoints_steps=save_checkpoints_steps,
            save_checkpoints_secs=save_checkpoints_secs,
            session_config=session_config,
            keep_checkpoint_max=keep_checkpoint_max,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            log_step_count_steps=log_step_count_steps,
            train_distribute=train_distribute,
            device_fn=device_fn,
            protocol=protocol,
            eval_distribute=eval_distribute,
            experimental_distribute=experimental_distribute,
            experimental_max_worker_delay_secs=experimental_max_worker_delay_secs,
            session_creation_timeout_secs=session_creation_timeout_secs,
            checkpoint_save_graph_def=checkpoint_save_graph_def,
        )
        self._find_task(said)
        if session_config is None:
            self._session_config = self._default_session_config()

    def _set(self, **values: Any) -> None:
        """Keep those of `REPLACEABLE`.  Raises as `__init__`."""
        for name, value in values.items():
            _check(name, value)
            setattr(self, f"_{name}", value)

    def _find_task(self, said: TFConfig) -> None:
        """Which task this is, of which cluster.  Raises ValueError, TypeError."""
        if said.service is not None and not isinstance(said.service, dict):
            raise TypeError(
                f'If "service" is set in TF_CONFIG, it must be a dict. Given {type(said.service)}'
            )
        self._service = said.service
        self._evaluation_master = ""
        self._cluster_spec = said.cluster
        if not said.cluster:
            if said.task_type not in (None, TaskType.WORKER) or said.task_index not in (None, 0):
                raise ValueError(
                    'If "cluster" is not set in TF_CONFIG, task type must be WORKER. '
                    f'Its "task" is {said.task_type!r} {said.task_index}: add the cluster, or leave "task" out'
                )
            self._task_type, self._task_id = TaskType.WORKER, 0
            self._global_id_in_cluster: int | None = 0
            self._master = said.session_master or ""
            self._evaluation_master = said.eval_session_master or ""
            self._is_chief = True
            self._num_ps_replicas, self._num_worker_replicas = 0, 1
            return
        chief = _chief_job(said.cluster)
        task_type, task_id = _task(said, chief)
        self._task_type, self._task_id = task_type, task_id
        if task_type == TaskType.EVALUATOR:
            self._cluster_spec = ClusterSpec({})
            self._master = ""
            self._is_chief = False
            self._num_ps_replicas, self._num_worker_replicas = 0, 0
            self._global_id_in_cluster = None
            return
        self._is_chief = task_type == chief
        self._num_ps_replicas = _count(said.cluster, TaskType.PS)
        self._num_worker_replicas = _count(said.cluster, TaskType.WORKER) + 1
        self._global_id_in_cluster = _global_id(said.cluster, task_type, task_id, chief)
        self._master = said.session_master or _address(
            said.cluster, task_type, task_id, self._protocol
        )

    def _default_session_config(self) -> pb.ConfigProto | None:
        """What a session of this task sees: the ps and itself; of a ps, everybody.  None in one process."""
        if self._task_type in (TaskType.CHIEF, TaskType.MASTER):
            filters = ["/job:ps", f"/job:{self._task_type}"]
        elif self._task_type == TaskType.WORKER and self._cluster_spec:
            filters = ["/job:ps", f"/job:worker/task:{self._task_id}"]
        elif self._task_type == TaskType.PS:
            filters = ["/job:ps", "/job:worker", "/job:chief", "/job:master"]
        else:
            return None
        config = pb.ConfigProto(allow_soft_placement=True, device_filters=filters)
        rewriting = config.graph_options.rewrite_options
        rewriting.meta_optimizer_iterations = pb.RewriterConfig.ONE
        return config

    def replace(self, **kwargs: Any) -> RunConfig:
        """A copy that differs in the arguments: those of the constructor.

        Either of `save_checkpoints_steps` and `save_checkpoints_secs` takes the place of the other.
        Raises ValueError (what cannot be replaced, a wrong value), UnimplementedError (a DistributionStrategy).
        """
        for name in kwargs:
            if name not in REPLACEABLE:
                raise ValueError(
                    f"Replacing {name} is not supported. Allowed properties are {list(REPLACEABLE)}."
                )
        steps, secs = (
            kwargs.get(f"save_checkpoints_{unit}", USE_DEFAULT) for unit in ("steps", "secs")
        )
        if steps not in (None, USE_DEFAULT) and secs not in (None, USE_DEFAULT):
            raise ValueError(
                "`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set. "
                f"They are {steps} and {secs}; leave one out"
            )
        made = copy.deepcopy(self)
        if steps is not USE_DEFAULT and secs is USE_DEFAULT:
            kwargs["save_checkpoints_secs"] = None
        elif secs is not USE_DEFAULT and steps is USE_DEFAULT:
            kwargs["save_checkpoints_steps"] = None
        made._set(**kwargs)
        return made

    def __repr__(self) -> str:
        values = {
            name[1:]: " ".join(str(value).split()) if isinstance(value, pb.ConfigProto) else value
            for name, value in sorted(vars(self).items())
        }
        return f"RunConfig({values})"

    def __deepcopy__(self, memo: dict[int, Any]) -> RunConfig:
        made = object.__new__(type(self))
        for name, value in vars(self).items():
            keep = name in ("_device_fn",)
            setattr(made, name, value if keep else copy.deepcopy(value, memo))
        return made

    # -- the task, as TF_CONFIG says it -------------------------------------------------------------

    @property
    def cluster_spec(self) -> ClusterSpec:
        """The cluster; empty in one process, and for an evaluator."""
        return self._cluster_spec

    @property
    def task_type(self) -> str:
        """The job of this process: see `TaskType`."""
        return self._task_type

    @property
    def task_id(self) -> int:
        """Its index in the job."""
        return self._task_id

    @property
    def global_id_in_cluster(self) -> int | None:
        """Its number among all tasks: the chief, other jobs by name, the ps.  None for an evaluator."""
        return self._global_id_in_cluster

    @property
    def is_chief(self) -> bool:
        """Whether it initializes and saves."""
        return self._is_chief

    @property
    def master(self) -> str:
        """The target of its sessions; '' where it is alone."""
        return self._master

    @property
    def evaluation_master(self) -> str:
        """The target of sessions that evaluate and predict."""
        return self._evaluation_master

    @property
    def num_ps_replicas(self) -> int:
        """Number of parameter servers."""
        return self._num_ps_replicas

    @property
    def num_worker_replicas(self) -> int:
        """Number of tasks that train: the workers and the chief."""
        return self._num_worker_replicas

    @property
    def service(self) -> Any:
        """What TF_CONFIG calls "service"; None."""
        return self._service

    # -- the arguments ------------------------------------------------------------------------------

    @property
    def model_dir(self) -> str | None:
        """Where checkpoints and events are written; None: the Estimator says it."""
        return self._model_dir

    @property
    def tf_random_seed(self) -> int | None:
        """The graph's seed; None: another one each time."""
        return self._tf_random_seed

    @property
    def save_summary_steps(self) -> int | None:
        """Summaries are written every so many steps; None: never."""
        return self._save_summary_steps

    @property
    def save_checkpoints_steps(self) -> int | None:
        """A checkpoint is saved every so many steps; None: by time, or never."""
        return self._save_checkpoints_steps

    @property
    def save_checkpoints_secs(self) -> float | None:
        """A checkpoint is saved every so many seconds; None: by steps, or never."""
        return self._save_checkpoints_secs

    @property
    def session_config(self) -> pb.ConfigProto | None:
        """The ConfigProto of its sessions."""
        return self._session_config

    @property
    def keep_checkpoint_max(self) -> int | None:
        """How many of the latest checkpoints are kept; None or 0: all."""
        return self._keep_checkpoint_max

    @property
    def keep_checkpoint_every_n_hours(self) -> float | None:
        """One is kept for good for every so many hours of training."""
        return self._keep_checkpoint_every_n_hours

    @property
    def log_step_count_steps(self) -> int | None:
        """Steps per second are logged every so many steps; None: never."""
        return self._log_step_count_steps

    @property
    def train_distribute(self) -> None:
        """None: there are no strategies."""
        return self._train_distribute

    @property
    def eval_distribute(self) -> None:
        """See `train_distribute`."""
        return self._eval_distribute

    @property
    def device_fn(self) -> Callable[[Any], str] | None:
        """(an operation) -> its device; None: TensorFlow's, with variables on the parameter servers."""
        return self._device_fn

    @property
    def protocol(self) -> str | None:
        """That of the servers, "grpc"; None is the same."""
        return self._protocol

    @property
    def experimental_max_worker_delay_secs(self) -> int | None:
        """At most so many seconds does a worker wait before it begins; None: as TensorFlow."""
        return self._experimental_max_worker_delay_secs

    @property
    def session_creation_timeout_secs(self) -> float | None:
        """Seconds that a session is waited for at most."""
        return self._session_creation_timeout_secs

    @property
    def checkpoint_save_graph_def(self) -> bool:
        """Whether a checkpoint has the graph beside it."""
        return self._checkpoint_save_graph_def


def _check(name: str, value: Any) -> None:
    """Raises ValueError, UnimplementedError: an argument that cannot be."""
    if value is None:
        return
    if name in ("train_distribute", "eval_distribute", "experimental_distribute"):
        raise errors.UnimplementedError(None, None, f"{name} is not offered: {_STRATEGIES}")
    if name == "model_dir" and not value:
        raise ValueError("model_dir should be non-empty.")
    if name == "experimental_max_worker_delay_secs" and not _is_integer(value):
        raise ValueError("experimental_max_worker_delay_secs must be an integer if set.")
    if name == "tf_random_seed" and not _is_integer(value):
        raise ValueError("tf_random_seed must be integer.")
    if name in _AT_LEAST_0 and value < 0:
        raise ValueError(f"{name} should be >= 0")
    if name in _ABOVE_0 and value <= 0:
        raise ValueError(f"{name} should be > 0")
    if name == "session_config" and not isinstance(value, pb.ConfigProto):
        raise ValueError("session_config must be instance of ConfigProto")
    if name == "device_fn" and not _takes_an_op(value):
        raise ValueError('device_fn must be callable with exactly one argument "op".')
    if name == "protocol" and value not in _PROTOCOLS:
        raise ValueError("protocol should be grpc or grpc+verbs")


_AT_LEAST_0: Final = (
    "save_summary_steps",
    "save_checkpoints_steps",
    "save_checkpoints_secs",
    "keep_checkpoint_max",
)
_ABOVE_0: Final = (
    "keep_checkpoint_every_n_hours",
    "log_step_count_steps",
    "session_creation_timeout_secs",
)


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer))


def _takes_an_op(function: Any) -> bool:
    return callable(function) and list(inspect.signature(function).parameters) == ["op"]


def _model_dir(said: TFConfig, given: str | None) -> str | None:
    """The argument, or what TF_CONFIG says.  Raises ValueError."""
    given = None if given is None else text.path_to_str(given)
    if said.model_dir is None:
        return given
    if not said.model_dir:
        raise ValueError("model_dir in TF_CONFIG should be non-empty.")
    if given and given != said.model_dir:
        raise ValueError(
            "`model_dir` provided in RunConfig construct, if set, must have the same value as the model_dir in "
            f'TF_CONFIG. model_dir: {given}\nTF_CONFIG["model_dir"]: {said.model_dir}.\n'
        )
    return said.model_dir


def _count(cluster: ClusterSpec, job: str) -> int:
    return cluster.num_tasks(job) if job in cluster.jobs else 0


def _chief_job(cluster: ClusterSpec) -> str:
    """chief, or master in older clusters.  Raises ValueError."""
    chief = TaskType.MASTER if TaskType.MASTER in cluster.jobs else TaskType.CHIEF
    if chief == TaskType.MASTER and TaskType.CHIEF in cluster.jobs:
        raise ValueError("If `master` node exists in `cluster`, job `chief` is not supported.")
    if chief not in cluster.jobs:
        raise ValueError(
            'If "cluster" is set in TF_CONFIG, it must have one "chief" node. '
            f"It has the jobs {cluster.jobs}; call the first worker chief (`headrace launch --chief`)"
        )
    if cluster.num_tasks(chief) > 1:
        raise ValueError(
            f'The "cluster" in TF_CONFIG must have only one "{chief}" node. The others are workers'
        )
    return chief


def _task(said: TFConfig, chief: str) -> tuple[str, int]:
    """Job and index of this process.  Raises ValueError."""
    if not said.task_type:
        raise ValueError(
            'If "cluster" is set in TF_CONFIG, task type must be set. Add "task": {"type": …, "index": …}'
        )
    if said.task_index is None:
        raise ValueError(
            'If "cluster" is set in TF_CONFIG, task index must be set. Add "index" to "task"'
        )
    if said.task_type == TaskType.EVALUATOR:
        if chief == TaskType.MASTER:
            raise ValueError(
                "If `master` node exists in `cluster`, task_type `evaluator` is not supported. "
                "The master evaluates; call it chief to have an evaluator"
            )
        return said.task_type, said.task_index
    known = (
        f"the cluster_spec:\n{said.cluster}\n\n"
        "Note that these values may be coming from the TF_CONFIG environment variable."
    )
    if said.task_type not in said.cluster.jobs:
        raise ValueError(f"{said.task_type} is not a valid task_type in {known}")
    if said.task_index not in said.cluster.task_indices(said.task_type):
        raise ValueError(
            f"{said.task_index} is not a valid task_id for task_type {said.task_type} in {known}"
        )
    return said.task_type, said.task_index


def _global_id(cluster: ClusterSpec, task_type: str, task_id: int, chief: str) -> int:
    """The chief is 0, then come the other jobs by name, and the ps."""
    jobs = sorted(cluster.jobs, key=lambda job: (job != chief, job == TaskType.PS, job))
    before = jobs[: jobs.index(task_type)]
    return (
        sum(cluster.task_indices(job)[-1] + 1 for job in before if cluster.num_tasks(job)) + task_id
    )


def _address(cluster: ClusterSpec, task_type: str, task_id: int, protocol: str | None) -> str:
    """The target of a session of the task; '' where it is the only one."""
    if len(cluster.jobs) == 1 and cluster.num_tasks(task_type) == 1:
        return ""
    return f"{protocol or 'grpc'}://{cluster.task_address(task_type, task_id)}"
