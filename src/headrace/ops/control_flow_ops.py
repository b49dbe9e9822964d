"""Control flow primitives: Switch, Merge, and the frames of loops.

Their semantics are the executor's (run.dataflow); the kernels here say what one execution with live
inputs gives.  The functions that users call (cond, while_loop) build graphs of these.
Source: TF 1.15 core/kernels/control_flow_ops.cc
"""

from __future__ import annotations

from typing import Any

from headrace.base import errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext, scalar, unchanged


def _executor_only(xp: Any, *values: Any) -> Any:
    """Never called: the dataflow executor moves the values itself."""
    raise errors.internal("a control-flow node was run outside the dataflow executor")


def _both_unchanged(c: ShapeContext) -> list[Shape]:
    c.with_rank(1, 0)
    return [c.shape(0), c.shape(0)]


def _merged(c: ShapeContext) -> list[Shape]:
    found = c.shape(0)
    for shape in c.shapes[1:]:
        found = shape_rules.common(found, shape)
    return [found, ()]


def _rows(prefix: str, ref: str) -> tuple[OpSpec, ...]:
    """The five primitives, for values and for references."""
    value = f"{ref}(T)" if ref else "T"
    flags: dict[str, Any] = {"foldable": False, "aliases": True}
    frame = "T: type; frame_name: string; is_constant: bool = false; parallel_iterations: int = 10"
    return (
        op(
            f"{prefix}Switch", inputs=f"data: {value}; pred: bool",
            outputs=f"output_false: {value}; output_true: {value}", attrs="T: type",
            shape=_both_unchanged, allows_uninitialized=bool(ref), **flags,
        )(_executor_only),
        op(
            f"{prefix}Merge", inputs=f"inputs: N * {value}", outputs=f"output: {value}; value_index: int32",
            attrs="T: type; N: int >= 1", shape=_merged, **flags,
        )(_executor_only),
        op(
            f"{prefix}Enter", inputs=f"data: {value}", outputs=f"output: {value}", attrs=frame,
            shape=unchanged, **flags,
        )(_executor_only),
        op(
            f"{prefix}Exit", inputs=f"data: {value}", outputs=f"output: {value}", attrs="T: type",
            shape=unchanged, **flags,
        )(_executor_only),
        op(
            f"{prefix}NextIteration", inputs=f"data: {value}", outputs=f"output: {value}", attrs="T: type",
            shape=unchanged, **flags,
        )(_executor_only),
    )  # fmt: skip


switch_op, merge_op, enter_op, exit_op, next_iteration_op = _rows("", "")
ref_switch_op, ref_merge_op, ref_enter_op, ref_exit_op, ref_next_iteration_op = _rows("Ref", "Ref")


@op("LoopCond", inputs="input: bool", outputs="output: bool", shape=scalar, foldable=False)
def loop_cond_op(xp: Any, input: Any) -> Any:
    """The loop's predicate, by which its Switches are found."""
    return input


@op("ControlTrigger", foldable=False)
def control_trigger_op(xp: Any) -> None:
    """Nothing; runs even when its control inputs are dead."""
