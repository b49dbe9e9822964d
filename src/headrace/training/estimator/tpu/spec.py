"""TPUEstimatorSpec: what the model_fn of a TPUEstimator returns.

Called by: programs' model_fns, training.estimator.tpu.estimator.  Threads: as graph.
Source: TF 1.15 behaviour; messages checked against the oracle
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from headrace.ops.io import summary_writers as io
from headrace.training.estimator.export_outputs import ExportOutput
from headrace.training.estimator.specs import EstimatorSpec
from headrace.training.graph_summaries import summary_writer_initializer_op
from headrace.training.hooks.protocol import SessionRunArgs, SessionRunHook

__all__ = ["TPUEstimatorSpec"]


class _Fields(NamedTuple):
    mode: Any
    predictions: Any
    loss: Any
    train_op: Any
    eval_metrics: Any
    export_outputs: Any
    scaffold_fn: Any
    host_call: Any
    training_hooks: Any
    evaluation_hooks: Any
    prediction_hooks: Any


class TPUEstimatorSpec(_Fields):
    """As `tf.estimator.EstimatorSpec`, with metrics and summaries as functions of tensors."""

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metrics: Any = None,
        export_outputs: Mapping[str, ExportOutput] | None = None,
        scaffold_fn: Callable[[], Any] | None = None,
        host_call: Any = None,
        training_hooks: Sequence[SessionRunHook] | None = None,
        evaluation_hooks: Sequence[SessionRunHook] | None = None,
        prediction_hooks: Sequence[SessionRunHook] | None = None,
    ) -> TPUEstimatorSpec:
        """eval_metrics: (function, tensors), which gives (value, update_op) by name; tensors: a list, or a dict by
        argument.  host_call: the same, and what it gives runs in each step.  scaffold_fn: makes the scaffold.
        The rest: as `EstimatorSpec` has them.  Raises ValueError, TypeError, RuntimeError (the function takes others).
        """
        for name, call in (("eval_metrics", eval_metrics), ("host_call", host_call)):
            if call is not None:
                _check_call(name, call)
        checked = EstimatorSpec(
            mode,
            predictions=predictions,
            loss=loss,
            train_op=train_op,
            export_outputs=export_outputs,
            training_hooks=training_hooks,
            evaluation_hooks=evaluation_hooks,
            prediction_hooks=prediction_hooks,
        )
        return super().__new__(
            cls,
            mode,
            predictions,
            checked.loss,
            checked.train_op,
            eval_metrics,
            export_outputs,
            scaffold_fn,
            host_call,
            checked.training_hooks,
            checked.evaluation_hooks,
            checked.prediction_hooks,
        )

    def as_estimator_spec(self) -> EstimatorSpec:
        """The spec of an Estimator: the functions are called, and what host_call gives is fetched by hooks.

        Raises ValueError, TypeError.
        """
        metrics = None if self.eval_metrics is None else _called(self.eval_metrics)
        more = () if self.host_call is None else (_HostCall(_called(self.host_call)),)
        scaffold = self.scaffold_fn() if self.scaffold_fn else None
        return EstimatorSpec(
            self.mode,
            predictions=self.predictions,
            loss=self.loss,
            train_op=self.train_op,
            eval_metric_ops=metrics,
            export_outputs=self.export_outputs,
            scaffold=scaffold,
            training_hooks=(*self.training_hooks, *more),
            evaluation_hooks=(*self.evaluation_hooks, *more),
            prediction_hooks=(*self.prediction_hooks, *more),
        )


def _check_call(name: str, call: Any) -> None:
    """Raises ValueError, TypeError, RuntimeError: not a function and tensors for it."""
    if not isinstance(call, (tuple, list)):
        raise ValueError(f"{name} should be tuple or list")
    if len(call) != 2:
        raise ValueError(f"{name} should have two elements: a function, and tensors for it")
    function, tensors = call
    if not callable(function):
        raise TypeError(f"{name}[0] should be callable.")
    if not isinstance(tensors, (tuple, list, dict)):
        raise ValueError(f"{name}[1] should be tuple or list, or dict.")
    if isinstance(tensors, dict):
        return
    kinds = [each.kind for each in inspect.signature(function).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL not in kinds and len(tensors) != len(kinds):
        raise RuntimeError(
            f"In TPUEstimatorSpec.{name}, length of tensors {len(tensors)} does not match method args of the function, "
            f"which takes {len(kinds)}."
        )


def _called(call: Any) -> Any:
    function, tensors = call
    return function(**tensors) if isinstance(tensors, dict) else function(*tensors)


class _HostCall(SessionRunHook):
    """Runs what a host_call made in each step, and begins and flushes the writers of its summaries."""

    def __init__(self, made: Any) -> None:
        self._args = None if made is None else SessionRunArgs(made)
        self._beginning: list[Any] = []
        self._flushing: list[Any] = []

    def begin(self) -> None:
        """Make the nodes that flush."""
        self._beginning = list(summary_writer_initializer_op())
        self._flushing = [io.flush_summary_writer(each.inputs[0]) for each in self._beginning]

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Begin the writers."""
        session.run(self._beginning)

    def before_run(self, run_context: Any) -> SessionRunArgs | None:
        """Run it in the step."""
        return self._args

    def end(self, session: Any) -> None:
        """All that was written is in the files."""
        session.run(self._flushing)
