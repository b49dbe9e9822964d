"""Signatures: which tensors of a graph are the inputs and outputs of something that it can be asked to do.

Called by: training.saved_model.builder, programs.  Threads: as graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.base import dtypes
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.export_scopes import prefixed
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.ragged import Ragged
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.training.saved_model import constants
from headrace.training.saved_model.composites import composite_info, composite_of

__all__ = [
    "build_signature_def",
    "build_tensor_info",
    "classification_signature_def",
    "get_tensor_from_tensor_info",
    "is_valid_signature",
    "predict_signature_def",
    "regression_signature_def",
]


def build_tensor_info(tensor: Any) -> pb.TensorInfo:
    """The TensorInfo of a tensor, a sparse or ragged tensor, IndexedSlices or a variable: name, dtype and static shape.

    Raises AttributeError (not one of these).
    """
    if isinstance(tensor, (Ragged, IndexedSlices)):
        return composite_info(tensor, build_tensor_info)
    shape = tensor.get_shape()
    number: Any = dtypes.as_dtype(tensor.dtype).as_datatype_enum
    info = pb.TensorInfo(dtype=number, tensor_shape=shape.as_proto())
    if isinstance(tensor, SparseTensor):
        info.coo_sparse.values_tensor_name = tensor.values.name
        info.coo_sparse.indices_tensor_name = tensor.indices.name
        info.coo_sparse.dense_shape_tensor_name = tensor.dense_shape.name
    else:
        info.name = tensor.name
    return info


def get_tensor_from_tensor_info(
    tensor_info: pb.TensorInfo, graph: Any = None, import_scope: str | None = None
) -> Any:
    """The Tensor, SparseTensor, RaggedTensor or IndexedSlices that a TensorInfo is of.

    graph: the default graph if None.  import_scope: what the graph was imported under.
    Raises KeyError (no such tensor), ValueError (an encoding that there is no object for).
    """
    graph = scopes.get_default_graph() if graph is None else graph

    def found(name: str) -> Any:
        return graph.get_tensor_by_name(prefixed(name, import_scope))

    encoding = tensor_info.WhichOneof("encoding")
    if encoding == "name":
        return found(tensor_info.name)
    if encoding == "coo_sparse":
        sparse = tensor_info.coo_sparse
        return SparseTensor(
            found(sparse.indices_tensor_name),
            found(sparse.values_tensor_name),
            found(sparse.dense_shape_tensor_name),
        )
    if encoding == "composite_tensor":
        return composite_of(tensor_info.composite_tensor, found)
    raise ValueError(
        f"Invalid TensorInfo.encoding: {encoding}: one of `name`, `coo_sparse` and `composite_tensor` has to be there"
    )


def build_signature_def(
    inputs: Mapping[str, pb.TensorInfo] | None = None,
    outputs: Mapping[str, pb.TensorInfo] | None = None,
    method_name: str | None = None,
) -> pb.SignatureDef:
    """A SignatureDef of TensorInfos by the names that callers give them."""
    signature = pb.SignatureDef()
    for given, place in ((inputs, signature.inputs), (outputs, signature.outputs)):
        for name, info in (given or {}).items():
            place[name].CopyFrom(info)
    if method_name is not None:
        signature.method_name = method_name
    return signature


def predict_signature_def(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> pb.SignatureDef:
    """The signature of a prediction: any tensors by name.  Raises ValueError (none)."""
    for what, tensors in (("inputs", inputs), ("outputs", outputs)):
        if not tensors:
            raise ValueError(f"Prediction `{what}` cannot be None or empty.")
    return build_signature_def(
        {name: build_tensor_info(tensor) for name, tensor in inputs.items()},
        {name: build_tensor_info(tensor) for name, tensor in outputs.items()},
        constants.PREDICT_METHOD_NAME,
    )


def _of_type(what: str, tensor: Any, dtype: dtypes.DType) -> pb.TensorInfo:
    info = build_tensor_info(tensor)
    if info.dtype != dtype.as_datatype_enum:
        raise ValueError(
            f"{what} must be of type {dtype.name}, and {tensor.name} is {tensor.dtype.name}"
        )
    return info


def _check_tensor(what: str, given: Any) -> None:
    """Raises ValueError."""
    if given is None:
        raise ValueError(f"{what} cannot be None.")
    if not isinstance(given, Tensor):
        raise ValueError(f"{what} must be a string Tensor. Found one of type {type(given)}.")


def regression_signature_def(examples: Any, predictions: Any) -> pb.SignatureDef:
    """The signature of a regression: serialized Examples (string) in, numbers (float32) out.

    Raises ValueError (None, or of other types).
    """
    _check_tensor("Regression `examples`", examples)
    if predictions is None:
        raise ValueError("Regression `predictions` cannot be None.")
    return build_signature_def(
        {constants.REGRESS_INPUTS: _of_type("Regression input tensors", examples, dtypes.string)},
        {
            constants.REGRESS_OUTPUTS: _of_type(
                "Regression output tensors", predictions, dtypes.float32
            )
        },
        constants.REGRESS_METHOD_NAME,
    )


def classification_signature_def(examples: Any, classes: Any, scores: Any) -> pb.SignatureDef:
    """The signature of a classification: of serialized Examples (string).

    classes: string, or None.  scores: float32, or None if there are classes.
    Raises ValueError (examples are None, classes and scores both are, or of other types).
    """
    _check_tensor("Classification `examples`", examples)
    if classes is None and scores is None:
        raise ValueError("Classification `classes` and `scores` cannot both be None.")
    inputs = {
        constants.CLASSIFY_INPUTS: _of_type("Classification input tensors", examples, dtypes.string)
    }
    outputs = {}
    if classes is not None:
        outputs[constants.CLASSIFY_OUTPUT_CLASSES] = _of_type(
            "Classification classes", classes, dtypes.string
        )
    if scores is not None:
        outputs[constants.CLASSIFY_OUTPUT_SCORES] = _of_type(
            "Classification scores", scores, dtypes.float32
        )
    return build_signature_def(inputs, outputs, constants.CLASSIFY_METHOD_NAME)


def is_valid_signature(signature_def: pb.SignatureDef | None) -> bool:
    """Whether TensorFlow Serving would take the signature."""
    if signature_def is None:
        return False
    method = signature_def.method_name
    if method == constants.PREDICT_METHOD_NAME:
        return bool(signature_def.inputs) and bool(signature_def.outputs)
    takes = {name: info.dtype for name, info in signature_def.inputs.items()}
    gives = {name: info.dtype for name, info in signature_def.outputs.items()}
    text, number = dtypes.string.as_datatype_enum, dtypes.float32.as_datatype_enum
    if method == constants.REGRESS_METHOD_NAME:
        return takes == {constants.REGRESS_INPUTS: text} and gives == {
            constants.REGRESS_OUTPUTS: number
        }
    if method == constants.CLASSIFY_METHOD_NAME:
        known = {
            constants.CLASSIFY_OUTPUT_CLASSES: text,
            constants.CLASSIFY_OUTPUT_SCORES: number,
        }
        return (
            takes == {constants.CLASSIFY_INPUTS: text}
            and bool(gives)
            and gives.items() <= known.items()
        )
    return False
