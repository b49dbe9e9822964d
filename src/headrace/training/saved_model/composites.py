"""TensorInfos of values of several tensors: ragged tensors, IndexedSlices.

Called by: training.saved_model.signatures.  Threads: as graph.
Source of the format: messages that TensorFlow 2.21 writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.codec import protos as pb
from headrace.graph.indexed_slices import IndexedSlices

Info = Callable[[Any], pb.TensorInfo]


def composite_info(value: Any, info: Info) -> pb.TensorInfo:
    """The TensorInfo of a RaggedTensor or IndexedSlices, by those of its tensors."""
    from headrace.library.type_specs import IndexedSlicesSpec, RaggedTensorSpec

    spec: Any
    if isinstance(value, IndexedSlices):
        number = pb.TypeSpecProto.INDEXED_SLICES_SPEC
        parts = [value.values, value.indices]
        parts += [] if value.dense_shape is None else [value.dense_shape]
        dense = None if value.dense_shape is None else value.dense_shape.dtype
        shape = TensorShape([None]).concatenate(value.values.shape[1:]).merge_with(value.shape)
        spec = IndexedSlicesSpec(
            shape, value.dtype, value.indices.dtype, dense, value.indices.shape
        )
    else:
        number = pb.TypeSpecProto.RAGGED_TENSOR_SPEC
        parts = [value.flat_values, *value.nested_row_splits]
        spec = RaggedTensorSpec.from_value(value)
    state = pb.StructuredValue()
    state.tuple_value.values.extend(map(_structured, spec._serialize()))
    found = pb.TensorInfo()
    found.composite_tensor.type_spec.CopyFrom(
        pb.TypeSpecProto(
            type_spec_class=number,
            type_state=state,
            type_spec_class_name=type(spec).__name__,
            num_flat_components=len(parts),
        )
    )
    found.composite_tensor.components.extend(map(info, parts))
    return found


def _structured(value: Any) -> pb.StructuredValue:
    if isinstance(value, TensorShape):
        return pb.StructuredValue(tensor_shape_value=value.as_proto())
    if isinstance(value, dtypes.DType):
        number: Any = value.as_datatype_enum
        return pb.StructuredValue(tensor_dtype_value=number)
    if isinstance(value, int):
        return pb.StructuredValue(int64_value=value)
    return pb.StructuredValue(none_value=pb.NoneValue())


def composite_of(info: pb.TensorInfo.CompositeTensor, find: Callable[[str], Any]) -> Any:
    """The value that a TensorInfo of several tensors is of; `find` has each tensor by its name.

    Raises ValueError: of another kind.
    """
    parts = [find(component.name) for component in info.components]
    kind = info.type_spec.type_spec_class
    if kind == pb.TypeSpecProto.INDEXED_SLICES_SPEC and len(parts) in (2, 3):
        return IndexedSlices(*parts)
    if kind == pb.TypeSpecProto.RAGGED_TENSOR_SPEC and parts:
        from headrace.ops.array.ragged import RaggedTensor

        return RaggedTensor.from_nested_row_splits(parts[0], parts[1:], validate=False)
    raise ValueError(
        f"The type '{info.type_spec.type_spec_class_name}' of {len(parts)} tensors is not known: of values of several "
        "tensors, those of ragged tensors and IndexedSlices are, beside sparse ones"
    )
