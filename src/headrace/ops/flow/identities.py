"""Identities, gates and groups: ops that pass values on or only order others.

Called by: every op family (identity, with_dependencies), training, users.  Threads: any.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.traits import (
    ALIASES,
    AT_ONCE,
    IDENTITY,
    KEEPS_REFS,
    NEVER_FAILS,
    NEVER_FOLDED,
    PER_RECORD,
    STATEFUL,
)
from headrace.graph import scopes
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import name_scope
from headrace.graph.ragged import of_ragged
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext, unchanged
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor

__all__ = [
    "check_numerics",
    "group",
    "identity",
    "identity_n",
    "no_op",
    "stop_gradient",
    "tuple",
]


@op("NoOp", traits={NEVER_FAILS, AT_ONCE, NEVER_FOLDED})
def no_op_op(xp: Any) -> None:
    """Nothing; a place for control dependencies.

    Source: TF 1.15 core/kernels/no_op.h
    """


@op(
    "Identity",
    inputs="input: T",
    outputs="output: T",
    attrs="T: type",
    shape=unchanged,
    traits={NEVER_FAILS, PER_RECORD, AT_ONCE, IDENTITY, ALIASES, KEEPS_REFS},
)
def identity_op(xp: Any, input: Any) -> Any:
    """The input itself, a reference if it is one.

    Source: TF 1.15 core/kernels/identity_op.cc
    """
    return input


@identity_op.gradient
def _(op: Operation, dout: Tensor) -> Tensor:
    return dout


@op(
    "RefIdentity",
    inputs="input: Ref(T)",
    outputs="output: Ref(T)",
    attrs="T: type",
    shape=unchanged,
    traits={IDENTITY, KEEPS_REFS},
)
def ref_identity_op(xp: Any, input: Any) -> Any:
    """The reference itself.

    Source: TF 1.15 core/kernels/identity_op.cc
    """
    return input


@ref_identity_op.gradient
def _(op: Operation, dout: Tensor) -> Tensor:
    return dout


def _all_unchanged(c: ShapeContext) -> list[Any]:
    return c.shapes


@op(
    "IdentityN",
    inputs="input: T",
    outputs="output: T",
    attrs="T: list(type) >= 1",
    shape=_all_unchanged,
    traits={ALIASES},
)
def identity_n_op(xp: Any, *input: Any) -> Any:
    """The inputs themselves.

    Source: TF 1.15 core/kernels/identity_n_op.cc
    """
    return list(input)


@identity_n_op.gradient
def _(op: Operation, *douts: Tensor) -> Any:
    return douts


@op(
    "StopGradient",
    inputs="input: T",
    outputs="output: T",
    attrs="T: type",
    shape=unchanged,
    traits={NEVER_FAILS, PER_RECORD, ALIASES, KEEPS_REFS},
    differentiable=False,
)
def stop_gradient_op(xp: Any, input: Any) -> Any:
    """The input itself; to gradients a constant.

    Source: TF 1.15 core/kernels/identity_op.cc
    """
    return input


@op(
    "PreventGradient",
    inputs="input: T",
    outputs="output: T",
    attrs="T: type; message: string = ''",
    shape=unchanged,
    traits={NEVER_FAILS, ALIASES},
)
def prevent_gradient(xp: Any, input: Any) -> Any:
    """The input itself; asking for a gradient through it is a LookupError with `message`.

    Source: TF 1.15 core/kernels/identity_op.cc
    """
    return input


@prevent_gradient.gradient
def _(op: Operation, dout: Tensor) -> Tensor:
    raise LookupError(
        f"the gradient through {op.name!r} is disabled: {op['message'].decode(errors='replace')}"
    )


_CHECKED = "tensor: T", "output: T", "T: {bfloat16, half, float, double}; message: string"


def _check_numerics(xp: Any, tensor: Any, *, message: bytes) -> Any:
    """The tensor itself.

    Raises InvalidArgument with `message` if an element is NaN or infinite.
    Source: TF 1.15 core/kernels/check_numerics_op.cc
    """
    if np.isfinite(tensor).all():
        return tensor
    kinds = [
        kind
        for kind, there in (("Inf", np.isinf(tensor).any()), ("NaN", np.isnan(tensor).any()))
        if there
    ]
    raise errors.invalid_argument(
        f"{message.decode(errors='replace')} : Tensor had {' and '.join(kinds)} values"
    )


check_numerics_op, check_numerics_v2_op = (
    op(
        name,
        inputs=_CHECKED[0],
        outputs=_CHECKED[1],
        attrs=_CHECKED[2],
        shape=unchanged,
        traits={STATEFUL, ALIASES},
    )(_check_numerics)
    for name in ("CheckNumerics", "CheckNumericsV2")
)


@check_numerics_op.gradient
def _(op: Operation, dout: Tensor) -> Tensor:
    # TensorFlow's own text: GraphDefs are compared, and the message is an attr.
    message = f"Not a number (NaN) or infinity (Inf) values detected in gradient. {op['message']!r}"
    made: Tensor = check_numerics_op(dout, message=message)
    return made


@check_numerics_v2_op.gradient
def _(op: Operation, dout: Tensor) -> Tensor:
    message = f"Not a number (NaN) or infinity (Inf) values detected in gradient. {op['message']!r}"
    made: Tensor = check_numerics_v2_op(dout, message=message)
    return made


def no_op(name: str | None = None) -> Operation:
    """An operation that does nothing; a place for control dependencies."""
    made: Operation = no_op_op(name=name)
    return made


@of_ragged
def check_numerics(tensor: Any, message: str, name: str | None = None) -> Tensor:
    """`tensor`; a step in which it has a NaN or infinite element fails with `message`."""
    made: Tensor = check_numerics_op(tensor, message=message, name=name)
    return made


@of_ragged
def identity(input: Any, name: str | None = None) -> Any:
    """A new tensor with the value of `input`; of an IndexedSlices or a SparseTensor each part anew, without `name`."""
    return _by_parts(identity_op, input, name)


@of_ragged
def stop_gradient(input: Any, name: str | None = None) -> Any:
    """`input` itself; to gradients a constant.  Of an IndexedSlices or a SparseTensor each part."""
    return _by_parts(stop_gradient_op, input, name)


def _by_parts(spec: OpSpec, input: Any, name: str | None) -> Any:
    if isinstance(input, IndexedSlices):
        sizes = input.dense_shape
        values, indices = spec(input.values), spec(input.indices)
        return IndexedSlices(values, indices, None if sizes is None else spec(sizes))
    if isinstance(input, SparseTensor):
        return SparseTensor(spec(input.indices), spec(input.values), spec(input.dense_shape))
    return spec(input, name=name)


def identity_n(input: Any, name: str | None = None) -> list[Tensor]:
    """New tensors with the values of `input`, all computed before any is used."""
    made: list[Tensor] = identity_n_op(input, name=name)
    return made


def with_dependencies(
    dependencies: Iterable[Any], output_tensor: Any, name: str | None = None
) -> Any:
    """`output_tensor`, computed after `dependencies`; placed with it."""
    graph = scopes.get_default_graph()
    with (
        name_scope(name, "control_dependency", [output_tensor]) as scope,
        graph.colocate_with(getattr(output_tensor, "handle", output_tensor)),
        graph.control_dependencies(list(dependencies)),
    ):
        if isinstance(output_tensor, IndexedSlices):
            values = identity_op(output_tensor.values, name=scope)
            return IndexedSlices(values, output_tensor.indices, output_tensor.dense_shape)
        if isinstance(output_tensor, SparseTensor):
            return identity(output_tensor)
        tensor = convert(output_tensor)
        kind = ref_identity_op if tensor._dtype._is_ref_dtype else identity_op
        return kind(tensor, name=scope)


def _flat_ops(inputs: Any) -> Iterable[builtins.tuple[Operation, str]]:
    """Operations and where they are; a changed resource variable is where its handle is."""
    if isinstance(inputs, Mapping):
        for key in sorted(inputs):
            yield from _flat_ops(inputs[key])
    elif isinstance(inputs, (list, builtins.tuple)):
        for item in inputs:
            yield from _flat_ops(item)
    else:
        found = inputs if isinstance(inputs, Operation) else getattr(inputs, "op", None)
        if not isinstance(found, Operation):
            raise TypeError(
                f"'inputs' should be zero or more (nested) Tensors or operations, "
                f"not {inputs!r:.80} of type {type(inputs).__name__}"
            )
        yield found, getattr(inputs, "device", found.device)


def group(*inputs: Any, name: str | None = None, **unknown: Any) -> Operation:
    """An operation that is done when all `inputs` (nested operations and tensors) are.

    Inputs of several devices get one NoOp per device, so that one edge crosses from each.
    Raises TypeError for what is neither, ValueError for other keywords.
    """
    if unknown:
        raise ValueError(f"Unknown keyword arguments: {', '.join(unknown)}")
    items = list(_flat_ops(inputs))
    if not items:
        return no_op(name or "group_deps")
    outputs = [op.outputs[0] for op, _ in items if op.outputs]
    with name_scope(name, "group_deps", outputs) as scope:
        by_device: dict[str, list[Operation]] = {}
        for op, device in items:
            by_device.setdefault(device, []).append(op)
        if len(by_device) == 1:
            ((device, members),) = by_device.items()
            return _no_op_after(members, device, scope)
        parts = [_no_op_after(by_device[device], device, None) for device in sorted(by_device)]
        return _no_op_after(parts, "", scope)


def _no_op_after(ops: list[Operation], device: str, name: str | None) -> Operation:
    graph = ops[0].graph
    with graph.control_dependencies(ops), graph.device(device) if device else nullcontext():
        return no_op(name)


def tuple_(tensors: Any, name: str | None = None, control_inputs: Any = None) -> list[Any]:
    """`tensors`, operations among them (None stays None), of which none is there before all are, and before
    `control_inputs`.

    Raises ValueError if there is no tensor, TypeError if a control input is neither operation nor tensor.
    """
    given = [item for item in tensors if isinstance(item, Tensor)]
    with name_scope(name, "tuple", given):
        tensors = [
            item
            if item is None or isinstance(item, Operation) or hasattr(item, "op")
            else convert(item)
            for item in tensors
        ]
        present = [item for item in tensors if item is not None]
        gating = [item if isinstance(item, Operation) else item.op for item in present]
        for item in control_inputs or ():
            found = item if isinstance(item, Operation) else getattr(item, "op", None)
            if not isinstance(found, Operation):
                raise TypeError(f"control_inputs are operations and tensors, not {item!r:.80}")
            gating.append(found)
        if not gating:
            raise ValueError(
                f"'tensors' must have at least one Tensor or operation: {tensors!r:.80}"
            )
        gate = group(*sorted(set(gating), key=lambda op: op.id))
        return [
            None
            if item is None
            else group(gate, item)
            if isinstance(item, Operation)
            else with_dependencies([gate], item)
            for item in tensors
        ]


tuple = tuple_
