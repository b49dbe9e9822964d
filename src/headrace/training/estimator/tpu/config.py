"""RunConfig and TPUConfig of tf.contrib.tpu: what programs for TPUs say of their surroundings.

Without TPUs nothing of a TPUConfig has an effect; it is checked, and kept.
Called by: programs.  Threads: immutable.
Source: TF 1.15 behaviour; messages checked against the oracle
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from headrace.base import errors
from headrace.training.estimator.run_config import RunConfig as PlainRunConfig

__all__ = ["InputPipelineConfig", "RunConfig", "TPUConfig"]

_REPLICAS: Final = (1, 2, 4, 8, 16, 32, 64, 128)


class InputPipelineConfig:
    """Where input pipelines of TPUs are made; without TPUs there is one, on the task itself."""

    PER_SHARD_V1: Final = 1
    PER_HOST_V1: Final = 2
    PER_HOST_V2: Final = 3
    BROADCAST: Final = 4
    SLICED: Final = 5


class _TPUFields(NamedTuple):
    iterations_per_loop: Any
    num_shards: int | None
    num_cores_per_replica: int | None
    per_host_input_for_training: int
    tpu_job_name: str | None
    initial_infeed_sleep_secs: float | None
    input_partition_dims: Any
    eval_training_input_configuration: int
    experimental_host_call_every_n_steps: int
    experimental_allow_per_host_v2_parallel_get_next: bool
    experimental_feed_hook: Any


class TPUConfig(_TPUFields):
    """How steps would run on TPUs."""

    __slots__ = ()

    def __new__(
        cls,
        iterations_per_loop: Any = 2,
        num_shards: int | None = None,
        num_cores_per_replica: int | None = None,
        per_host_input_for_training: Any = True,
        tpu_job_name: str | None = None,
        initial_infeed_sleep_secs: float | None = None,
        input_partition_dims: Any = None,
        eval_training_input_configuration: int = InputPipelineConfig.PER_HOST_V1,
        experimental_host_call_every_n_steps: int = 1,
        experimental_allow_per_host_v2_parallel_get_next: bool = False,
        experimental_feed_hook: Any = None,
    ) -> TPUConfig:
        """iterations_per_loop: a number of steps, or a time as "60m".  Raises ValueError, TypeError."""
        if not _is_duration(iterations_per_loop):
            raise ValueError(
                "Invalid TPUConfig `iterations_per_loop` value. Value must be positive integer value or time-based "
                f"value `<N><s|m|h>`, as `3600s`, `60m`, `1h`; got {iterations_per_loop!r}"
            )
        if num_shards is not None and not isinstance(num_shards, int):
            raise TypeError(f"TPUConfig num_shards must be int, got {type(num_shards)}")
        if num_shards is not None and num_shards < 1:
            raise ValueError(f"TPUConfig num_shards must be positive, got {num_shards}")
        if num_cores_per_replica is not None and num_cores_per_replica not in _REPLICAS:
            raise ValueError(
                f"num_cores_per_replica must be {', '.join(map(str, _REPLICAS))}; got {num_cores_per_replica}"
            )
        evaluated = eval_training_input_configuration
        if evaluated not in (InputPipelineConfig.PER_HOST_V1, InputPipelineConfig.SLICED):
            raise ValueError(
                f"eval_training_input_configuration must be PER_HOST_V1 or SLICED; got {evaluated}"
            )
        if initial_infeed_sleep_secs is not None and initial_infeed_sleep_secs < 1:
            raise ValueError(
                f"TPUConfig initial_infeed_sleep_secs must be positive, got {initial_infeed_sleep_secs}"
            )
        per_host = per_host_input_for_training
        if per_host is True:
            per_host = InputPipelineConfig.PER_HOST_V1
        elif per_host is False:
            per_host = InputPipelineConfig.PER_SHARD_V1
        if input_partition_dims is not None:
            _check_partition(input_partition_dims, per_host, num_cores_per_replica)
        return super().__new__(
            cls,
            iterations_per_loop,
            num_shards,
            num_cores_per_replica,
            per_host,
            tpu_job_name,
            initial_infeed_sleep_secs,
            input_partition_dims,
            eval_training_input_configuration,
            experimental_host_call_every_n_steps,
            experimental_allow_per_host_v2_parallel_get_next,
            experimental_feed_hook,
        )


def _check_partition(dims: Any, per_host: int, num_cores_per_replica: int | None) -> None:
    """Raises ValueError: inputs that cannot be cut."""
    if len(dims) not in (1, 2):
        raise ValueError("input_partition_dims must be a list/tuple with one or two elements.")
    if per_host != InputPipelineConfig.PER_HOST_V2:
        raise ValueError("input_partition_dims is only supported in PER_HOST_V2 mode.")
    if num_cores_per_replica is None:
        raise ValueError("input_partition_dims requires setting num_cores_per_replica.")


def _is_duration(value: Any) -> bool:
    if isinstance(value, int):
        return value >= 1
    return isinstance(value, str) and re.fullmatch(r"0*[1-9]\d*[smh]", value) is not None


class RunConfig(PlainRunConfig):
    """As `tf.estimator.RunConfig`, with a TPUConfig."""

    def __init__(
        self,
        tpu_config: TPUConfig | None = None,
        evaluation_master: str | None = None,
        master: str | None = None,
        cluster: Any = None,
        **kwargs: Any,
    ) -> None:
        """master, evaluation_master: targets of sessions, that of TF_CONFIG if None.  cluster: has to be None.

        kwargs: as `tf.estimator.RunConfig` has them.  Raises ValueError, UnimplementedError (a cluster of TPUs).
        """
        super().__init__(**kwargs)
        if cluster is not None and master is not None:
            raise ValueError("Both master and cluster are set.")
        if cluster is not None:
            raise errors.unimplemented(
                "cluster is not offered: there are no TPUs here, whose resolver it would be. Leave it out; tasks of a "
                "cluster are named by TF_CONFIG"
            )
        self._tpu_config = TPUConfig() if tpu_config is None else tpu_config
        self._cluster = cluster
        if master is not None:
            self._master = master
        if evaluation_master is not None:
            self._evaluation_master = evaluation_master
        elif master is not None:
            self._evaluation_master = master

    @property
    def tpu_config(self) -> TPUConfig:
        """See `__init__`."""
        return self._tpu_config

    @property
    def cluster(self) -> Any:
        """None."""
        return self._cluster

    def replace(self, **kwargs: Any) -> RunConfig:
        """As `tf.estimator.RunConfig.replace`; tpu_config may be replaced, too.  Raises ValueError."""
        tpu_config = kwargs.pop("tpu_config", self._tpu_config)
        made = super().replace(**kwargs)
        assert isinstance(made, RunConfig)
        made._tpu_config = tpu_config
        return made
