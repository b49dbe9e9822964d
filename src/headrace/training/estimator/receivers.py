"""What an exported model is fed: receivers, and functions that make them.

Called by: programs, training.estimator.exporting.  Threads: as graph.
Source: TF 1.15 behaviour; messages and nodes checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert_to_tensor
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.library.parsing import parse_example
from headrace.ops.array.placeholders import placeholder
from headrace.ops.array.ragged import RaggedTensor

__all__ = [
    "ServingInputReceiver",
    "SupervisedInputReceiver",
    "TensorServingInputReceiver",
    "build_parsing_serving_input_receiver_fn",
    "build_raw_serving_input_receiver_fn",
    "build_raw_supervised_input_receiver_fn",
]

_SINGLE_FEATURE: Final = "feature"
_SINGLE_RECEIVER: Final = "input"
_SINGLE_LABEL: Final = "label"


def _check(tensor: Any, what: str) -> None:
    """Raise ValueError unless it is a tensor of some kind."""
    if not isinstance(tensor, (Tensor, SparseTensor, RaggedTensor)):
        raise ValueError(f"{what} must be a Tensor, SparseTensor, or RaggedTensor.")


def _named(tensors: Any, alone: str, what: str, any_key: bool = False) -> dict[Any, Any]:
    """Tensors by name; `alone` is the name of one without any.  Raises ValueError."""
    if tensors is None:
        raise ValueError(f"{what}s must be defined.")
    found = dict(tensors) if isinstance(tensors, Mapping) else {alone: tensors}
    for name, tensor in found.items():
        if not any_key and not isinstance(name, str):
            raise ValueError(f"{what} keys must be strings: {name}.")
        _check(tensor, f"{what} {name}")
    return found


def _alternatives(given: Any) -> dict[Any, dict[str, Any]] | None:
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise ValueError(f"receiver_tensors_alternatives must be a dict: {given}.")
    return {
        name: _named(tensors, _SINGLE_RECEIVER, "receiver_tensors_alternative")
        for name, tensors in given.items()
    }


class _Receiver(NamedTuple):
    features: Any
    receiver_tensors: Any
    receiver_tensors_alternatives: Any


class ServingInputReceiver(_Receiver):
    """features: tensors by name, for model_fn.  receiver_tensors: those that are fed.  receiver_tensors_alternatives:
    others that can be fed instead, by name.
    """

    __slots__ = ()

    def __new__(
        cls, features: Any, receiver_tensors: Any, receiver_tensors_alternatives: Any = None
    ) -> ServingInputReceiver:
        """features: one alone is called feature; receiver_tensors: one alone is called input.

        Raises ValueError: not tensors, names that are no strings.
        """
        return super().__new__(
            cls,
            _features(features),
            _named(receiver_tensors, _SINGLE_RECEIVER, "receiver_tensor"),
            _alternatives(receiver_tensors_alternatives),
        )


class TensorServingInputReceiver(_Receiver):
    """A receiver for a model_fn whose `features` is one tensor."""

    __slots__ = ()

    def __new__(
        cls, features: Any, receiver_tensors: Any, receiver_tensors_alternatives: Any = None
    ) -> TensorServingInputReceiver:
        """See `ServingInputReceiver`; features: a tensor.  Raises ValueError."""
        if features is None:
            raise ValueError("features must be defined.")
        _check(features, "feature")
        return super().__new__(
            cls,
            features,
            _named(receiver_tensors, _SINGLE_RECEIVER, "receiver_tensor"),
            _alternatives(receiver_tensors_alternatives),
        )


class SupervisedInputReceiver(NamedTuple):
    """What a model that is exported for training or evaluation is fed: features and labels."""

    features: Any
    labels: Any
    receiver_tensors: Any


def _features(features: Any) -> dict[Any, Any]:
    if features is None:
        raise ValueError("features must be defined.")
    return _named(features, _SINGLE_FEATURE, "feature", any_key=True)


def build_parsing_serving_input_receiver_fn(
    feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """A function that makes a receiver of serialized Examples [batch], string, which are parsed by `feature_spec`.

    feature_spec: as tf.parse_example takes it.  default_batch_size: None for any.
    """

    def serving_input_receiver_fn() -> ServingInputReceiver:
        examples = placeholder(
            dtypes.string, shape=[default_batch_size], name="input_example_tensor"
        )
        features = parse_example(examples, feature_spec)
        return ServingInputReceiver(features, {"examples": examples})

    return serving_input_receiver_fn


def _placeholder_like(tensor: Any, batch: int | None) -> Tensor:
    """Of the same dtype, name and shape, but for the first dimension."""
    shape = tensor.get_shape()
    if shape.ndims is not None:
        shape = TensorShape([batch, *shape.as_list()[1:]])
    return placeholder(tensor.dtype.base_dtype, shape=shape, name=tensor.op.name)


def build_raw_serving_input_receiver_fn(
    features: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """A function that makes a receiver of features as they are.

    features: tensors or arrays by name, which say dtypes and shapes, the first dimension being the batch.
    default_batch_size: its size, None for any.
    """

    def serving_input_receiver_fn() -> ServingInputReceiver:
        made = {
            name: _placeholder_like(_tensor(each), default_batch_size)
            for name, each in features.items()
        }
        return ServingInputReceiver(made, made)

    return serving_input_receiver_fn


def build_raw_supervised_input_receiver_fn(
    features: Any, labels: Any, default_batch_size: int | None = None
) -> Callable[[], SupervisedInputReceiver]:
    """A function that makes a receiver of features and labels as they are: see `build_raw_serving_input_receiver_fn`.

    One label alone is fed as label.  Raises ValueError (a name that features and labels both have).
    """
    shared = (
        {*features} & {*labels}
        if isinstance(features, Mapping) and isinstance(labels, Mapping)
        else set()
    )
    if shared:
        raise ValueError(
            f"Features and labels must have distinct keys. Found overlapping keys: {shared}"
        )

    def placeholders(given: Any) -> Any:
        if isinstance(given, Mapping):
            return {
                name: _placeholder_like(_tensor(each), default_batch_size)
                for name, each in given.items()
            }
        return _placeholder_like(_tensor(given), default_batch_size)

    def supervised_input_receiver_fn() -> SupervisedInputReceiver:
        fed_features, fed_labels = placeholders(features), placeholders(labels)
        fed = {
            **_named(fed_features, _SINGLE_RECEIVER, "receiver_tensor"),
            **_named(fed_labels, _SINGLE_LABEL, "receiver_tensor"),
        }
        return SupervisedInputReceiver(fed_features, fed_labels, fed)

    return supervised_input_receiver_fn


def _tensor(value: Any) -> Any:
    return value if hasattr(value, "get_shape") else convert_to_tensor(value)
