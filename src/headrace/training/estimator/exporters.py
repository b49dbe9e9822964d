"""Exporters: which of the models that `train_and_evaluate` evaluates are exported, and how many exports are kept.

Called by: programs, training.estimator.distributed.  Threads: the caller's.
Source: TF 1.15 behaviour; compared with the oracle
"""

from __future__ import annotations

import glob
import logging
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from headrace.base import errors
from headrace.codec.tensors import make_ndarray
from headrace.training.estimator.calls import takes
from headrace.training.estimator.evaluating import LOSS
from headrace.training.estimator.exporting import exports_in
from headrace.training.event_reader import summary_iterator

__all__ = ["BestExporter", "Exporter", "FinalExporter", "LatestExporter"]

log = logging.getLogger("headrace")


class Exporter(ABC):
    """Exports models: what a `tf.estimator.EvalSpec` is given."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the directory of its exports."""

    @abstractmethod
    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any] | None,
        is_the_final_export: bool,
    ) -> Any:
        """Export the checkpoint to a directory in `export_path`, if it is to be; the directory, or None.

        eval_result: what its evaluation gave.  is_the_final_export: the training has ended.
        """


class _SavedModels(Exporter):
    """Of what is served."""

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], Any] | None,
        assets_extra: Mapping[str, Any] | None,
        as_text: bool,
    ) -> None:
        self._name = name
        self._serving_input_receiver_fn = serving_input_receiver_fn
        self._assets_extra = assets_extra
        self._as_text = as_text

    @property
    def name(self) -> str:
        """See `Exporter`."""
        return self._name

    def _export(self, estimator: Any, export_path: str, checkpoint_path: str) -> Any:
        return estimator.export_saved_model(
            export_path,
            self._serving_input_receiver_fn,
            assets_extra=self._assets_extra,
            as_text=self._as_text,
            checkpoint_path=checkpoint_path,
        )


def _check_kept(exports_to_keep: int | None) -> None:
    if exports_to_keep is not None and exports_to_keep <= 0:
        raise ValueError(
            f"`exports_to_keep`, if provided, must be a positive number. Got {exports_to_keep}"
        )


def _remove_old(export_path: str, exports_to_keep: int | None) -> None:
    """Leave the newest."""
    if exports_to_keep is None:
        return
    for path in exports_in(export_path)[:-exports_to_keep]:
        try:
            shutil.rmtree(path)
        except OSError as error:
            log.warning("Can not delete %s recursively: %s", path, error)


class FinalExporter(_SavedModels):
    """Exports once, when the training has ended."""

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Mapping[str, Any] | None = None,
        as_text: bool = False,
    ) -> None:
        """See `Estimator.export_saved_model`."""
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any] | None,
        is_the_final_export: bool,
    ) -> Any:
        """See `Exporter`."""
        if not is_the_final_export:
            return None
        log.info("Performing the final export in the end of training.")
        return self._export(estimator, export_path, checkpoint_path)


class LatestExporter(_SavedModels):
    """Exports after each evaluation, and keeps the newest."""

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Mapping[str, Any] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        """exports_to_keep: None for all.  Raises ValueError; see also `Estimator.export_saved_model`."""
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)
        if exports_to_keep is not None and exports_to_keep <= 0:
            raise ValueError("`exports_to_keep`, if provided, must be positive number")
        self._exports_to_keep = exports_to_keep

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any] | None,
        is_the_final_export: bool,
    ) -> Any:
        """See `Exporter`."""
        found = self._export(estimator, export_path, checkpoint_path)
        _remove_old(export_path, self._exports_to_keep)
        return found


def _loss_smaller(
    best_eval_result: Mapping[str, Any] | None, current_eval_result: Mapping[str, Any] | None
) -> bool:
    """Whether the loss of the current result is smaller.  Raises ValueError (a result without loss)."""
    for which, result in (("best", best_eval_result), ("current", current_eval_result)):
        if not result or LOSS not in result:
            raise ValueError(
                f"{which}_eval_result cannot be empty or no loss is found in it: another compare_fn can compare others"
            )
    assert best_eval_result is not None
    assert current_eval_result is not None
    return bool(best_eval_result[LOSS] > current_eval_result[LOSS])


class BestExporter(_SavedModels):
    """Exports a model that was evaluated as better than all before it, and the first in any case; keeps the newest."""

    def __init__(
        self,
        name: str = "best_exporter",
        serving_input_receiver_fn: Callable[[], Any] | None = None,
        event_file_pattern: str | None = "eval/*.tfevents.*",
        compare_fn: Callable[..., bool] = _loss_smaller,
        assets_extra: Mapping[str, Any] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        """event_file_pattern: of files in the model's directory with earlier results, among which the best is sought
        when the first model is exported; None: it is not.  compare_fn(best_eval_result, current_eval_result): whether
        the current one is better; by default, of smaller loss.  exports_to_keep: None for all.
        Raises ValueError.
        """
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)
        if compare_fn is None:
            raise ValueError("`compare_fn` must not be None.")
        names = takes(compare_fn)
        for wanted in ("best_eval_result", "current_eval_result"):
            if wanted not in names:
                raise ValueError(f"compare_fn ({compare_fn}) must include {wanted} argument.")
        unknown = sorted(set(names) - {"best_eval_result", "current_eval_result"})
        if unknown:
            raise ValueError(
                f"compare_fn ({compare_fn}) has following not expected args: {unknown}"
            )
        _check_kept(exports_to_keep)
        self._compare_fn = compare_fn
        self._event_file_pattern = event_file_pattern
        self._exports_to_keep = exports_to_keep
        self._model_dir: str | None = None
        self._best: Mapping[str, Any] | None = None
        self._has_exported = False

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any] | None,
        is_the_final_export: bool,
    ) -> Any:
        """See `Exporter`."""
        if self._model_dir != estimator.model_dir and self._event_file_pattern:
            log.info("Loading best metric from event files.")
            self._model_dir = estimator.model_dir
            self._best = self._from_events(
                os.path.join(estimator.model_dir, self._event_file_pattern)
            )
        if (
            self._has_exported
            and self._best is not None
            and not self._compare_fn(best_eval_result=self._best, current_eval_result=eval_result)
        ):
            return None
        log.info("Performing best model export.")
        self._best = eval_result
        found = self._export(estimator, export_path, checkpoint_path)
        _remove_old(export_path, self._exports_to_keep)
        self._has_exported = True
        return found

    def _from_events(self, pattern: str) -> Mapping[str, Any] | None:
        """The best result in files of that pattern; None if there is none."""
        best: dict[str, Any] | None = None
        for path in sorted(glob.glob(pattern)):
            try:
                for event in summary_iterator(path):
                    result = _result_of(event)
                    if result and (
                        best is None
                        or self._compare_fn(best_eval_result=best, current_eval_result=result)
                    ):
                        best = result
            except errors.DataLossError as error:  # the last event of a process that was killed
                log.warning("The rest of %s cannot be read: %s", path, error)
        return best


def _result_of(event: Any) -> dict[str, Any]:
    """The results that an event of an evaluation holds."""
    found = {}
    for value in event.summary.value:
        if value.HasField("simple_value"):
            found[value.tag] = value.simple_value
        elif value.HasField("tensor") and value.tag != "checkpoint_path":
            found[value.tag] = make_ndarray(value.tensor)
    return found
