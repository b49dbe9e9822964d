"""What an exported model gives, and the signatures that are made of it.

Called by: training.estimator.specs, training.estimator.exporting, programs.  Threads: as graph.
Source: TF 1.15 behaviour; messages checked against the oracle
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.base import dtypes
from headrace.codec import protos as pb
from headrace.graph.operation import Operation
from headrace.graph.tensor import Tensor
from headrace.training.saved_model import constants
from headrace.training.saved_model.signatures import (
    build_signature_def,
    build_tensor_info,
    classification_signature_def,
    predict_signature_def,
    regression_signature_def,
)

__all__ = [
    "ClassificationOutput",
    "EvalOutput",
    "ExportOutput",
    "PredictOutput",
    "RegressionOutput",
    "TrainOutput",
]

SEPARATOR: Final = "/"
SINGLE_OUTPUT: Final = "output"
SUPERVISED_TRAIN_METHOD: Final = "tensorflow/supervised/training"
SUPERVISED_EVAL_METHOD: Final = "tensorflow/supervised/eval"


class ExportOutput:
    """Outputs of a model, of which `as_signature_def` makes a signature."""

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> pb.SignatureDef:
        """The signature of these outputs for what is fed: tensors by name.  Raises ValueError."""
        raise NotImplementedError(
            "as_signature_def is not implemented: an ExportOutput of one's own defines it"
        )


def _single_string(what: str, receiver_tensors: Mapping[str, Any]) -> Tensor:
    """The only tensor that is fed, of serialized Examples.  Raises ValueError."""
    tensors = list(receiver_tensors.values())
    if len(tensors) == 1 and _is_of(tensors[0], floating=False):
        return tensors[0]  # type: ignore[no-any-return]
    raise ValueError(
        f"{what} signatures can only accept a single tensor input of type tf.string. A serving_input_receiver_fn that "
        "takes serialized Examples (tf.estimator.export.build_parsing_serving_input_receiver_fn) has one; other "
        f"inputs go with a PredictOutput. Received: {dict(receiver_tensors)}"
    )


def _is_of(tensor: Any, floating: bool) -> bool:
    if not isinstance(tensor, Tensor):
        return False
    dtype = tensor.dtype.base_dtype
    return bool(dtype.is_floating) if floating else dtype == dtypes.string


class ClassificationOutput(ExportOutput):
    """Scores of classes [batch, classes] (floating) and their names [batch, classes] (string), or one of the two."""

    def __init__(self, scores: Any = None, classes: Any = None) -> None:
        """Raises ValueError: neither, or of other types."""
        if scores is not None and not _is_of(scores, floating=True):
            raise ValueError(f"Classification scores must be a float32 Tensor; got {scores}")
        if classes is not None and not _is_of(classes, floating=False):
            raise ValueError(f"Classification classes must be a string Tensor; got {classes}")
        if scores is None and classes is None:
            raise ValueError(
                "Cannot create a ClassificationOutput with empty arguments. "
                "At least one of `scores` and `classes` must be defined."
            )
        self._scores = scores
        self._classes = classes

    @property
    def scores(self) -> Any:
        """How likely each class is; or None."""
        return self._scores

    @property
    def classes(self) -> Any:
        """The classes' names; or None."""
        return self._classes

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> pb.SignatureDef:
        """For one tensor of serialized Examples.  Raises ValueError (others are fed)."""
        examples = _single_string("Classification", receiver_tensors)
        return classification_signature_def(examples, self._classes, self._scores)


class RegressionOutput(ExportOutput):
    """One number an example (floating)."""

    def __init__(self, value: Any) -> None:
        """Raises ValueError: not a floating tensor."""
        if not _is_of(value, floating=True):
            raise ValueError(f"Regression output value must be a float32 Tensor; got {value}")
        self._value = value

    @property
    def value(self) -> Any:
        """What is predicted."""
        return self._value

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> pb.SignatureDef:
        """For one tensor of serialized Examples.  Raises ValueError (others are fed)."""
        return regression_signature_def(_single_string("Regression", receiver_tensors), self._value)


def _named(key: Any, what: str) -> str:
    """A name of an output; a tuple is joined with slashes.  Raises ValueError."""
    if isinstance(key, tuple):
        key = SEPARATOR.join(str(part) for part in key)
    if not isinstance(key, str):
        raise ValueError(f"{what} output key must be a string; got {key}.")
    return key


def _tensors_by_name(outputs: Any, what: str, alone: str) -> dict[str, Any]:
    """Tensors by names; `alone` is the name of one without any.  Raises ValueError."""
    if not isinstance(outputs, Mapping):
        outputs = {alone: outputs}
    found = {}
    for key, value in outputs.items():
        name = _named(key, what)
        if not isinstance(value, Tensor):
            raise ValueError(f"{what} output value must be a Tensor; got {value}.")
        found[name] = value
    return found


class PredictOutput(ExportOutput):
    """Any tensors by name, for any that are fed."""

    def __init__(self, outputs: Any) -> None:
        """outputs: a dict of tensors by string (or tuple of strings), or one tensor, which is called output.

        Raises ValueError: a key that is no string, a value that is no tensor.
        """
        self._outputs = _tensors_by_name(outputs, "Prediction", SINGLE_OUTPUT)

    @property
    def outputs(self) -> dict[str, Any]:
        """The tensors by name."""
        return self._outputs

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> pb.SignatureDef:
        """For what is fed, whatever it is."""
        return predict_signature_def(receiver_tensors, self._outputs)


class _SupervisedOutput(ExportOutput):
    """What training or evaluation gives: a loss, predictions and metrics."""

    _METHOD: str

    def __init__(self, loss: Any = None, predictions: Any = None, metrics: Any = None) -> None:
        """loss: one tensor; predictions: tensors by name; metrics: (value, update_op) by name.

        Raises ValueError: a key that is no string, a value that is no tensor.
        """
        self._loss = None if loss is None else _prefixed("loss", loss)
        self._predictions = None if predictions is None else _prefixed("predictions", predictions)
        self._metrics = None if metrics is None else _metrics_by_name(metrics)

    @property
    def loss(self) -> dict[str, Any] | None:
        """The loss by its name, loss."""
        return self._loss

    @property
    def predictions(self) -> dict[str, Any] | None:
        """Predictions by name, predictions/NAME."""
        return self._predictions

    @property
    def metrics(self) -> dict[str, Any] | None:
        """Values and updates of metrics, metrics/NAME/value and metrics/NAME/update_op."""
        return self._metrics

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> pb.SignatureDef:
        """For features and labels as they are fed.  Raises ValueError (nothing is)."""
        if not receiver_tensors:
            raise ValueError(f"{self._METHOD} `inputs` cannot be None or empty.")
        outputs: dict[str, Any] = {}
        for some in (self._loss, self._predictions, self._metrics):
            outputs.update(some or {})
        return build_signature_def(
            {name: build_tensor_info(each) for name, each in receiver_tensors.items()},
            {name: build_tensor_info(each) for name, each in outputs.items()},
            self._METHOD,
        )


def _prefixed(what: str, outputs: Any) -> dict[str, Any]:
    """`outputs` under names that begin with `what`; one alone has that name."""
    found = {}
    for name, tensor in _tensors_by_name(outputs, what, what).items():
        full = name if name.split(SEPARATOR, 1)[0] == what else what + SEPARATOR + name
        found[full] = tensor
    return found


def _metrics_by_name(metrics: Any) -> dict[str, Any]:
    if not isinstance(metrics, Mapping):
        metrics = {"metrics": metrics}
    found = {}
    for key, (value, update) in metrics.items():
        name = _named(key, "metrics")
        if not isinstance(value, Tensor):
            raise ValueError(f"metrics/{name} output value must be a Tensor; got {value}.")
        if not isinstance(update, (Tensor, Operation)):
            raise ValueError(
                f"metrics/{name} update_op must be a Tensor or Operation; got {update}."
            )
        full = name if name.split(SEPARATOR, 1)[0] == "metrics" else f"metrics{SEPARATOR}{name}"
        found[f"{full}/value"] = value
        found[f"{full}/update_op"] = _as_tensor(update)
    return found


def _as_tensor(update: Any) -> Any:
    """An update that is an operation gives an empty constant once it has run: signatures have tensors only."""
    if isinstance(update, Tensor):
        return update
    from headrace.graph import scopes
    from headrace.ops.array.constants import constant

    with scopes.get_default_graph().control_dependencies([update]):
        return constant([], name="metric_op_wrapper")


class TrainOutput(_SupervisedOutput):
    """What a step of training gives; its signature is of `tensorflow/supervised/training`."""

    _METHOD = SUPERVISED_TRAIN_METHOD


class EvalOutput(_SupervisedOutput):
    """What a step of evaluation gives; its signature is of `tensorflow/supervised/eval`."""

    _METHOD = SUPERVISED_EVAL_METHOD


def with_default(export_outputs: Mapping[str, ExportOutput]) -> dict[str, ExportOutput]:
    """`export_outputs`, of which one is the default: the only one, or that of the key serving_default.

    Raises ValueError if there are several and none is the default.
    """
    found = dict(export_outputs)
    key = constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    if len(found) == 1:
        found.setdefault(key, next(iter(found.values())))
    elif len(found) > 1 and key not in found:
        raise ValueError(
            "Multiple `export_outputs` were provided, but none of them are specified as the default. Call one of "
            f"{sorted(found)} {key!r} (tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY)"
        )
    return found
