"""The nodes that control flow is made of: Switch, Merge, Enter, Exit, NextIteration, built as the contexts want them.

Each takes a tensor, a reference, or a bundle of tensors (IndexedSlices, SparseTensor, RaggedTensor), and gives the same
kind back.
Called by: graph.control_flow, graph.while_context, graph.loop_gradients, ops.flow.control_flow.  Threads: as graph.
Source of node names: GraphDefs of TensorFlow 2.21 with control flow v1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base import shapes as shape_rules
from headrace.base.traits import ENTER, IDENTITY, SWITCH
from headrace.codec.tensors import make_tensor_proto
from headrace.graph import registry
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.handles import behind
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import name_scope
from headrace.graph.ragged import Ragged
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor

_SMALL = 1000  # elements; larger zeros are a Fill instead of a constant in the graph


def tensors_of(value: Any) -> list[Tensor]:
    """The tensors that `value` is made of: itself, or the parts of a bundle."""
    if isinstance(value, IndexedSlices):
        parts = [value.values, value.indices]
        return parts if value.dense_shape is None else [*parts, value.dense_shape]
    if isinstance(value, SparseTensor):
        return [value.indices, value.values, value.dense_shape]
    if isinstance(value, Ragged):
        return [value.flat_values, *value.nested_row_splits]
    return [value]


def is_bundle(value: Any) -> bool:
    """Whether `value` is several tensors in one."""
    if isinstance(value, Ragged):
        return isinstance(value.row_splits, Tensor)
    return isinstance(value, (IndexedSlices, SparseTensor))


def kind_of(value: Any) -> tuple[Any, ...]:
    """What has to be the same of two values of which one may stand for the other; of IndexedSlices, whatever it is."""
    if isinstance(value, Ragged):
        return "RaggedTensor", value.ragged_rank, value.row_splits.dtype, value.flat_values.dtype
    if isinstance(value, SparseTensor):
        return "SparseTensor", value.dtype
    return ("Tensor",)


def bundled(like: Any, parts: Sequence[Tensor]) -> Any:
    """`parts` as what `like` is."""
    if isinstance(like, IndexedSlices):
        return IndexedSlices(*parts)
    if isinstance(like, SparseTensor):
        return SparseTensor(*parts)
    if isinstance(like, Ragged):
        return like.of_parts(*parts)
    return parts[0]


def converted(value: Any, name: str | None = None) -> Any:
    """`value` as a tensor, a reference if it is a variable; a bundle stays one."""
    return value if is_bundle(value) else convert(value, None, name, None, as_ref=True)


def _node(kind: str, value: Any, name: str | None, **attrs: Any) -> Any:
    """One node of op `kind`, or of its twin for references, for each tensor of `value`."""
    if not is_bundle(value):
        prefix = "Ref" if value.dtype._is_ref_dtype else ""
        return registry.get(prefix + kind)(value, name=name, **attrs)
    return bundled(value, [registry.get(kind)(part, **attrs) for part in tensors_of(value)])


# -- branches -----------------------------------------------------------------------------------


def switch(data: Any, pred: Any, name: str | None = None) -> tuple[Any, Any]:
    """`data` where `pred` is false, and where it is true; the other one is dead."""
    with name_scope(name, "Switch", tensors_of(data)) as scope:
        data = data if is_bundle(data) else convert(data, None, "data")
        pred = convert(pred, None, "pred")
        if is_bundle(data):
            pairs = [registry.get("Switch")(part, pred) for part in tensors_of(data)]
            return bundled(data, [pair[0] for pair in pairs]), bundled(
                data, [pair[1] for pair in pairs]
            )
        no, yes = registry.get("Switch")(data, pred, name=scope)
        return no, yes


def switch_beside(data: Any, pred: Tensor, name: str = "Switch") -> tuple[Any, Any]:
    """As `switch`, a reference staying one, placed with `data`."""
    data = data if is_bundle(data) else convert(data, None, "data")
    with data.graph.colocate_with(data.op, ignore_existing=True):
        if isinstance(data, Tensor) and data.dtype._is_ref_dtype:
            no, yes = registry.get("RefSwitch")(data, pred, name=name)
            return no, yes
        return switch(data, pred, name)


def merge(inputs: Sequence[Any], name: str | None = None) -> tuple[Any, Tensor]:
    """The one of `inputs` that is alive, and which one that is.

    With IndexedSlices among them, tensors become IndexedSlices.  Raises ValueError (a None), TypeError.
    """
    if any(value is None for value in inputs):
        raise ValueError(f"an input of a merge is None: {inputs!r:.200}")
    flat = [part for value in inputs for part in tensors_of(value)]
    with name_scope(name, "Merge", flat) as scope:
        values = [converted(value) for value in inputs]
        if not any(is_bundle(value) for value in values):
            prefix = "Ref" if all(value.dtype._is_ref_dtype for value in values) else ""
            merged, index = registry.get(f"{prefix}Merge")(values, name=scope)
            return merged, index
        if any(isinstance(value, IndexedSlices) for value in values):
            values = _as_slices(values)
        if len({type(value) for value in values}) > 1:
            raise TypeError(f"the inputs of a merge differ in kind: {inputs!r:.200}")
        columns = zip(*map(tensors_of, values), strict=True)
        pairs = [registry.get("Merge")(list(column)) for column in columns]
        return bundled(values[0], [pair[0] for pair in pairs]), pairs[0][1]


def _as_slices(values: Sequence[Any]) -> list[IndexedSlices]:
    """Tensors among IndexedSlices as IndexedSlices of all their rows, with indices of one type."""
    made = []
    for value in values:
        if isinstance(value, Tensor):
            shape: Tensor = registry.get("Shape")(value, name="Shape")
            rows: Tensor = registry.get("Range")(0, shape[0], 1, name="range")
            value = IndexedSlices(value, rows, shape)
        if not isinstance(value, IndexedSlices):
            raise TypeError(f"a merge takes tensors and IndexedSlices together, not {value!r:.80}")
        made.append(value)
    if not any(value.indices.dtype == dtypes.int64 for value in made):
        return made
    return [with_indices(value, dtypes.int64) for value in made]


def with_indices(value: IndexedSlices, kind: dtypes.DType) -> IndexedSlices:
    """`value` with its indices cast to `kind`."""
    if value.indices.dtype == kind:
        return value
    indices = registry.get("Cast")(value.indices, DstT=kind, name="Cast")
    return IndexedSlices(value.values, indices, value.dense_shape)


# -- loops --------------------------------------------------------------------------------------


def enter(
    value: Any,
    frame: str,
    *,
    is_constant: bool = False,
    parallel_iterations: int = 10,
    keep_shape: bool = True,
    name: str | None = None,
) -> Any:
    """`value` inside the frame: in its first iteration, or in all of them if `is_constant`."""
    value = converted(value)
    made = _node(
        "Enter",
        value,
        name,
        frame_name=frame,
        is_constant=is_constant,
        parallel_iterations=parallel_iterations,
    )
    for inside, outside in zip(tensors_of(made), tensors_of(value), strict=True):
        inside._raw = outside.raw_shape if keep_shape else None
    return made


def leave(value: Any, name: str | None = None) -> Any:
    """`value` outside the frame, from the iteration in which it is alive: an Exit."""
    return _node("Exit", converted(value), name)


def next_iteration(value: Any, name: str | None = None) -> Any:
    """`value` in the following iteration."""
    return _node("NextIteration", converted(value), name)


def identity(value: Any, name: str | None = None) -> Any:
    """`value` again, a reference if it is one."""
    return _node("Identity", converted(value), name)


def loop_cond(pred: Tensor, name: str | None = None) -> Tensor:
    """The loop's predicate."""
    made: Tensor = registry.get("LoopCond")(pred, name=name)
    return made


# -- constants ----------------------------------------------------------------------------------


def constant(
    value: Any, dtype: dtypes.DType, shape: Sequence[int] = (), name: str = "Const"
) -> Tensor:
    """`value` everywhere in `shape`; written into graphs once."""
    kind = dtype.base_dtype
    proto = make_tensor_proto(np.array(value, kind.np), kind, tuple(shape))
    made: Tensor = registry.get("Const")(value=proto, dtype=kind, name=name)
    return made


def zeros(shape: Tensor | Sequence[int], dtype: dtypes.DType) -> Tensor:
    """Zeros of a shape that is known, or of one that a tensor holds."""
    with name_scope(None, "zeros", [shape]) as scope:
        if not isinstance(shape, Tensor):
            if np.prod(shape, dtype=np.int64) < _SMALL:
                return constant(0, dtype, shape, scope)
            shape = convert(np.array(shape, np.int32), dtypes.int32, "shape_as_tensor")
        made: Tensor = registry.get("Fill")(shape, constant(0, dtype), name=scope)
        return made


def zeros_like(tensor: Tensor) -> Tensor:
    """Zeros of the shape that `tensor`, or the variable behind that handle, will have."""
    known = behind(tensor)
    if known is not None:
        return zeros(variable_shape(tensor), known[0])
    made: Tensor = registry.get("ZerosLike")(tensor, name="zeros_like")
    return made


def shape_of(tensor: Tensor, kind: dtypes.DType = dtypes.int32) -> Tensor:
    """The shape that `tensor` will have, as a node even where it is known; of a handle, that of its variable."""
    made: Tensor
    if tensor.dtype is dtypes.resource:
        made = registry.get("VariableShape")(tensor, out_type=kind)
    else:
        made = registry.get("Shape")(tensor, out_type=kind, name="Shape")
    return made


def variable_shape(handle: Tensor) -> Tensor:
    """The shape of the variable behind `handle`: a constant if it is known."""
    known = behind(handle)
    if known is not None and shape_rules.is_fully_defined(known[1]):
        assert known[1] is not None
        return convert(np.array(known[1], np.int32), dtypes.int32, "Const")
    return shape_of(handle)


def known_shape(tensor: Tensor) -> tuple[int, ...] | None:
    """The static shape, if all of it is known."""
    raw = tensor.raw_shape
    return raw if shape_rules.is_fully_defined(raw) else None  # type: ignore[return-value]


# -- what a node is -----------------------------------------------------------------------------


def constant_enter(tensor: Tensor) -> Operation | None:
    """The Enter by which `tensor` is the same in all iterations, behind identities and branches."""
    op = tensor.op
    while SWITCH in op.traits or IDENTITY in op.traits:
        op = op.inputs[0].op
    return op if is_constant_enter(op) else None


def is_constant_enter(op: Operation) -> bool:
    """Whether `op` brings a loop invariant into a frame."""
    return ENTER in op.traits and bool(op["is_constant"])
