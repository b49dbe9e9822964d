"""EstimatorSpec: what a model_fn returns, checked when it is made.

Called by: programs' model_fns, training.estimator.  Threads: as graph.
Source: TF 1.15 behaviour; messages checked against the oracle
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headrace.graph import scopes
from headrace.graph.behavior import is_tensor
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.operation import Operation
from headrace.graph.sparse import SparseTensor
from headrace.library.variables.variables import Variable
from headrace.ops.array.shapes import reshape
from headrace.training.estimator.export_outputs import ExportOutput, PredictOutput, with_default
from headrace.training.estimator.modes import ModeKeys
from headrace.training.hooks.protocol import SessionRunHook
from headrace.training.saved_model.constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY
from headrace.training.scaffold import Scaffold

__all__ = ["EstimatorSpec"]


class _Fields(NamedTuple):
    mode: Any
    predictions: Any
    loss: Any
    train_op: Any
    eval_metric_ops: Any
    export_outputs: Any
    training_chief_hooks: Any
    training_hooks: Any
    scaffold: Any
    evaluation_hooks: Any
    prediction_hooks: Any


class EstimatorSpec(_Fields):
    """The model for one mode: ops that are run, and what is run around them."""

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: Mapping[str, Any] | None = None,
        export_outputs: Mapping[str, ExportOutput] | None = None,
        training_chief_hooks: Sequence[SessionRunHook] | None = None,
        training_hooks: Sequence[SessionRunHook] | None = None,
        scaffold: Scaffold | None = None,
        evaluation_hooks: Sequence[SessionRunHook] | None = None,
        prediction_hooks: Sequence[SessionRunHook] | None = None,
    ) -> EstimatorSpec:
        """mode: of `ModeKeys`; TRAIN needs loss and train_op, EVAL loss, PREDICT predictions.

        predictions: a tensor, or tensors by name.  loss: of one element, kept as a scalar.  train_op: runs a step.
        eval_metric_ops: (value, update_op) by name, as tf.metrics gives them.  export_outputs: `ExportOutput`s by the
        name of their signature; in PREDICT without them, a `PredictOutput` of the predictions.
        hooks: of all tasks, or (training_chief_hooks) of the chief.  scaffold: an own one if None.
        Raises ValueError (something is missing, is not of the default graph, or a loss of several elements) and
        TypeError (of another type).
        """
        train_op = _train_op(train_op, mode)
        loss = _loss(loss, mode)
        predictions = _predictions(predictions, mode)
        export_outputs = _export_outputs(export_outputs, predictions, mode)
        eval_metric_ops = dict(_metrics(eval_metric_ops))
        _check_graph(predictions, loss, train_op, eval_metric_ops)
        hooks = [
            _hooks(each)
            for each in (training_chief_hooks, training_hooks, evaluation_hooks, prediction_hooks)
        ]
        scaffold = scaffold or Scaffold()
        if not isinstance(scaffold, Scaffold):
            raise TypeError(f"scaffold must be tf.train.Scaffold. Given: {scaffold}")
        return super().__new__(
            cls,
            mode=mode,
            predictions=predictions,
            loss=loss,
            train_op=train_op,
            eval_metric_ops=eval_metric_ops,
            export_outputs=export_outputs,
            training_chief_hooks=hooks[0],
            training_hooks=hooks[1],
            scaffold=scaffold,
            evaluation_hooks=hooks[2],
            prediction_hooks=hooks[3],
        )

    def _replace(self, **changes: Any) -> EstimatorSpec:
        """A spec that differs in `changes`, checked again.  Raises ValueError (another mode, no such field)."""
        if changes.get("mode", self.mode) != self.mode:
            raise ValueError("mode of EstimatorSpec cannot be changed.")
        unknown = sorted(changes.keys() - set(self._fields))
        if unknown:
            raise ValueError(f"Got unexpected field names: {unknown!r}")
        return type(self)(**{**self._asdict(), **changes})


def _is_tensor(value: Any) -> bool:
    """Whether it is one tensor, or a variable."""
    return is_tensor(value) and not isinstance(value, (SparseTensor, IndexedSlices))


def _train_op(train_op: Any, mode: str) -> Any:
    if train_op is None:
        if mode == ModeKeys.TRAIN:
            raise ValueError("Missing train_op. An EstimatorSpec for training needs one")
    elif not isinstance(train_op, Operation) and not _is_tensor(train_op):
        raise TypeError(f"train_op must be Operation or Tensor, given: {train_op}")
    return train_op.op if isinstance(train_op, Variable) else train_op


def _loss(loss: Any, mode: str) -> Any:
    if loss is None:
        if mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
            raise ValueError(f"Missing loss. An EstimatorSpec for mode {mode!r} needs one")
        return None
    if not _is_tensor(loss):
        raise TypeError(f"loss must be Tensor, given: {loss}")
    shape = loss.get_shape()
    if shape.num_elements() not in (None, 1):
        raise ValueError(f"Loss must be scalar, given: {loss}; reduce it, as with tf.reduce_mean")
    return loss if shape.is_compatible_with([]) else reshape(loss, [])


def _predictions(predictions: Any, mode: str) -> Any:
    if predictions is None:
        if mode == ModeKeys.PREDICT:
            raise ValueError("Missing predictions. An EstimatorSpec for prediction needs them")
        return {}
    named = predictions if isinstance(predictions, dict) else {None: predictions}
    for name, value in named.items():
        if not _is_tensor(value):
            what = "predictions" if name is None else f"predictions[{name}]"
            raise TypeError(f"{what} must be Tensor, given: {value}")
    return predictions


def _export_outputs(export_outputs: Any, predictions: Any, mode: str) -> Any:
    if mode != ModeKeys.PREDICT:
        return export_outputs
    if export_outputs is None:
        return {DEFAULT_SERVING_SIGNATURE_DEF_KEY: PredictOutput(predictions)}
    if not isinstance(export_outputs, dict):
        raise TypeError(f"`export_outputs` must be dict, received: {export_outputs}.")
    for output in export_outputs.values():
        if not isinstance(output, ExportOutput):
            raise TypeError(
                f"Values in `export_outputs` must be ExportOutput objects, received: {export_outputs}."
            )
    return with_default(export_outputs)


def _metrics(eval_metric_ops: Any) -> dict[str, Any]:
    if eval_metric_ops is None:
        return {}
    if not isinstance(eval_metric_ops, dict):
        raise TypeError(f"eval_metric_ops must be a dict, given: {eval_metric_ops}")
    for name, metric in eval_metric_ops.items():
        if not isinstance(metric, tuple) or len(metric) != 2:
            raise TypeError(
                f"Values of eval_metric_ops must be (metric_value, update_op) tuples, given: {metric} for key: {name}"
            )
        for part in metric:
            if not isinstance(part, Operation) and not _is_tensor(part):
                raise TypeError(
                    f"eval_metric_ops[{name}] must be Operation or Tensor, given: {part}"
                )
    return eval_metric_ops


def _hooks(hooks: Any) -> tuple[SessionRunHook, ...]:
    found = tuple(hooks or ())
    for hook in found:
        if not isinstance(hook, SessionRunHook):
            raise TypeError(f"All hooks must be SessionRunHook instances, given: {hook}")
    return found


def _check_graph(
    predictions: Any, loss: Any, train_op: Any, eval_metric_ops: Mapping[str, Any]
) -> None:
    """Everything is of the default graph.  Raises ValueError."""
    graph = scopes.get_default_graph()
    parts: list[tuple[str, str, Any]] = [("loss", "", loss), ("train_op", "", train_op)]
    if isinstance(predictions, dict):
        parts += [("prediction values", f"{name}: ", each) for name, each in predictions.items()]
    else:
        parts.append(("prediction values", "", predictions))
    for name, metric in eval_metric_ops.items():
        parts += [("eval_metric_ops", f"{name}: ", part) for part in metric]
    for what, key, value in parts:
        if value is not None and value.graph is not graph:
            raise ValueError(
                f'{what} with "{key}{value.name}" must be from the default graph: the one in which model_fn is called. '
                "It was made outside of that, or in an earlier call of model_fn"
            )
