"""TPUEstimator without TPUs: an Estimator that tells its functions the batch size.

Called by: programs.  Threads: as `Estimator`.
Source: TF 1.15 behaviour with use_tpu=False; compared with the oracle (tests/estimator_oracle)
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from typing import Any, Final

from headrace.base import errors
from headrace.training.estimator import calls
from headrace.training.estimator.estimator import Estimator
from headrace.training.estimator.modes import ModeKeys
from headrace.training.estimator.specs import EstimatorSpec
from headrace.training.estimator.tpu.config import RunConfig
from headrace.training.estimator.tpu.spec import TPUEstimatorSpec
from headrace.training.hooks.reporting import StepCounterHook

__all__ = ["TPUEstimator"]

log = logging.getLogger("headrace")

_RESERVED: Final = ("batch_size", "context")


class TPUEstimator(Estimator):
    """An Estimator whose input_fn and model_fn find the batch size in ``params["batch_size"]``."""

    def __init__(
        self,
        model_fn: Callable[..., Any] | None = None,
        model_dir: str | None = None,
        config: RunConfig | None = None,
        params: Any = None,
        use_tpu: bool = True,
        train_batch_size: int | None = None,
        eval_batch_size: int | None = None,
        predict_batch_size: int | None = None,
        batch_axis: Any = None,
        eval_on_tpu: bool = True,
        export_to_tpu: bool = True,
        export_to_cpu: bool = True,
        warm_start_from: Any = None,
        embedding_config_spec: Any = None,
        export_saved_model_api_version: Any = 1,
    ) -> None:
        """use_tpu: has to be False.  config: of tf.contrib.tpu.  params: a dict, or HParams.

        model_fn takes params, and returns a TPUEstimatorSpec or an EstimatorSpec.  train_batch_size, eval_batch_size,
        predict_batch_size: what params["batch_size"] is in each mode, which input_fn has to take.  batch_axis,
        eval_on_tpu, export_to_tpu, export_to_cpu, export_saved_model_api_version: have no effect.
        Raises ValueError, UnimplementedError (use_tpu).
        """
        if not isinstance(config, RunConfig):
            raise ValueError(
                "`config` must be provided with type `tpu_config.RunConfig`, which is tf.contrib.tpu.RunConfig. "
                f"Given: {config}"
            )
        for reserved in _RESERVED:
            if params is not None and reserved in params:
                raise ValueError(
                    f"{list(_RESERVED)} are reserved keys but existed in params {params}."
                )
        if export_saved_model_api_version not in (1, 2):
            raise ValueError(
                f"export_saved_model_api_version should be 1 or 2; got {export_saved_model_api_version}."
            )
        if use_tpu:
            raise errors.unimplemented(
                "TPUEstimator(use_tpu=True) is not offered: there are no TPUs here. Give it use_tpu=False, with which "
                "it trains where tf.estimator.Estimator does; model_fn then finds params['use_tpu'] to be False"
            )
        if embedding_config_spec is not None:
            raise errors.unimplemented(
                "embedding_config_spec is not offered: there are no TPUs here, on which embeddings would lie. Use "
                "tf.feature_column.embedding_column, and leave it out"
            )
        if model_fn is not None and "params" not in calls.takes(model_fn):
            raise ValueError(
                f"model_fn ({model_fn}) does not include params argument, required by TPUEstimator to pass batch size "
                "as params['batch_size']"
            )
        self._batch_sizes = {
            ModeKeys.TRAIN: train_batch_size,
            ModeKeys.EVAL: eval_batch_size,
            ModeKeys.PREDICT: predict_batch_size,
        }
        self._exports = False
        super().__init__(
            model_fn,  # type: ignore[arg-type]
            model_dir,
            config,
            params={} if params is None else params,
            warm_start_from=warm_start_from,
        )

    def _assert_members_are_not_overridden(self) -> None:
        """This class overrides members itself; so may those that are made of it."""

    def _params_for(self, mode: str, **more: Any) -> Any:
        found = copy.deepcopy(self._params)
        size = self._batch_sizes.get(mode)
        for key, value in {**more, "batch_size": size}.items():
            if value is not None:
                _set(found, key, value)
        return found

    def _export_all_saved_models(self, *args: Any, **kwargs: Any) -> bytes:
        self._exports = True
        try:
            return super()._export_all_saved_models(*args, **kwargs)
        finally:
            self._exports = False

    def _call_input_fn(self, input_fn: Callable[..., Any], mode: str) -> Any:
        """See `Estimator`.  Raises ValueError: input_fn takes no params."""
        if "params" not in calls.takes(input_fn):
            raise ValueError(
                f"input_fn ({input_fn}) does not include params argument, required by TPUEstimator to pass batch size "
                'as params["batch_size"]'
            )
        return calls.called_input_fn(input_fn, mode, self._params_for(mode), self.config)

    def _call_model_fn(self, features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        """See `Estimator`.  An export, which calls no input_fn, has no batch size."""
        names = calls.takes(self._model_fn)
        params = self._params_for("" if self._exports else mode, use_tpu=False)
        given = {"labels": labels, "mode": mode, "params": params, "config": config}
        if labels is not None and "labels" not in names:
            raise ValueError("model_fn does not take labels, but input_fn returns labels.")
        log.info("Calling model_fn.")
        found: Any = self._model_fn(
            features=features, **{name: each for name, each in given.items() if name in names}
        )
        log.info("Done calling model_fn.")
        if isinstance(found, TPUEstimatorSpec):
            found = found.as_estimator_spec()
        if not isinstance(found, EstimatorSpec):
            raise ValueError(
                f"model_fn should return a TPUEstimatorSpec or an EstimatorSpec. It returned {found!r:.80}"
            )
        size = self._batch_sizes[ModeKeys.TRAIN]
        if mode == ModeKeys.TRAIN and size and not self._exports:
            every = self._config.log_step_count_steps or 100
            counter = _ExamplesPerSecond(size, every, self._model_dir)
            return found._replace(training_hooks=(*found.training_hooks, counter))
        return found


def _set(params: Any, key: str, value: Any) -> None:
    """Of a dict, or of tf.contrib.training.HParams."""
    if not hasattr(params, "add_hparam"):
        params[key] = value
    elif key in params:
        params.set_hparam(key, value)
    else:
        params.add_hparam(key, value)


class _ExamplesPerSecond(StepCounterHook):
    """Logs how many examples a second are trained on."""

    def __init__(self, batch_size: int, every_n_steps: int, output_dir: str) -> None:
        super().__init__(every_n_steps=every_n_steps, output_dir=output_dir)
        self._batch_size = batch_size

    def begin(self) -> None:
        """See `StepCounterHook`."""
        super().begin()
        self._tag = "examples/sec"

    def _log_and_record(self, elapsed_steps: int, elapsed_time: float, global_step: int) -> None:
        super()._log_and_record(elapsed_steps * self._batch_size, elapsed_time, global_step)
