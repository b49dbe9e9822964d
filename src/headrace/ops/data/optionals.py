"""Optional ops: some tensors, or none, as one variant.

Called by: graphs from elsewhere, library.  Threads: kernels any; gradients as graph.
Source: TF 1.15 core/ops/dataset_ops.cc, core/kernels/data/optional_ops.cc
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base import shapes as shape_rules
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, TensorShape, text
from headrace.base.traits import ALIASES, NEVER_FOLDED, SNAPSHOTS
from headrace.graph.graph import Operation
from headrace.graph.list_elements import name_of
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext, scalar
from headrace.run.state.optionals import Optional
from headrace.run.state.variants import single


def _optional(value: Any, op_name: str) -> Optional:
    refusal = f"Input to {op_name} must be an OptionalVariant object. It is "
    return single(value, Optional, refusal, f"Input to {op_name} must be a scalar. It has shape ")


@op(
    "OptionalFromValue",
    inputs="components: Toutput_types",
    outputs="optional: variant",
    attrs="Toutput_types: list(type) >= 1",
    shape=scalar,
    traits={NEVER_FOLDED, ALIASES, SNAPSHOTS},
)
def optional_from_value_op(xp: Any, *components: Any, Toutput_types: Sequence[DType]) -> Optional:
    """One that has these tensors."""
    return Optional(components, tuple(Toutput_types))


@optional_from_value_op.gradient
def _(op: Operation, dout: Any) -> Any:
    return optional_get_value_op(
        dout,
        output_types=op["Toutput_types"],
        output_shapes=[tensor.shape for tensor in op.inputs],
    )


@op(
    "OptionalNone",
    outputs="optional: variant",
    shape=scalar,
    traits={NEVER_FOLDED},
    differentiable=False,
)
def optional_none_op(xp: Any) -> Optional:
    """One that has none."""
    return Optional((), (), has_value=False)


@op(
    "OptionalHasValue",
    inputs="optional: variant",
    outputs="has_value: bool",
    shape=scalar,
    traits={NEVER_FOLDED},
    differentiable=False,
)
def optional_has_value_op(xp: Any, optional: Any) -> Any:
    """Whether there are tensors [].  Raises InvalidArgument (no optional)."""
    return np.bool_(_optional(optional, "OptionalHasValue").has_value)


def _as_said(c: ShapeContext) -> list[Shape]:
    shapes = c.attr("output_shapes")
    if len(shapes) != len(c.attr("output_types")):
        raise ValueError(
            "`output_shapes` and `output_types` must be the same length: there are "
            f"{len(shapes)} and {len(c.attr('output_types'))}"
        )
    return [shape._raw for shape in shapes]


@op(
    "OptionalGetValue",
    inputs="optional: variant",
    outputs="components: output_types",
    attrs="output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    shape=_as_said,
    traits={NEVER_FOLDED, ALIASES},
)
def optional_get_value_op(
    xp: Any, optional: Any, *, output_types: Sequence[DType], output_shapes: Sequence[TensorShape]
) -> tuple[Any, ...]:
    """The tensors.  Raises InvalidArgument (no optional, one that has none, other types or shapes)."""
    found = _optional(optional, "OptionalGetValue")
    if not found.has_value:
        raise errors.invalid_argument(
            "The given optional does not have a value. OptionalHasValue says whether it has"
        )
    if len(found.values) != len(output_types):
        raise errors.invalid_argument(
            f"The given optional has {len(found.values)} components, expected {len(output_types)}"
        )
    for at, (has, wanted) in enumerate(zip(found.kinds, output_types, strict=True)):
        if has is not wanted:
            raise errors.invalid_argument(
                f"The given optional does not match the expected type for component {at}. Expected: "
                f"{name_of(wanted)}. Actual: {name_of(has)}."
            )
    for at, (value, shape) in enumerate(zip(found.values, output_shapes, strict=False)):
        if not shape_rules.compatible(shape._raw, value.shape):
            raise errors.invalid_argument(
                f"The given optional does not match the expected shape for component {at}. Expected: "
                f"{text(shape._raw)}. Actual: {text(value.shape)}."
            )
    return found.values


@optional_get_value_op.gradient
def _(op: Operation, *dcomponents: Any) -> Any:
    return optional_from_value_op(list(dcomponents))
