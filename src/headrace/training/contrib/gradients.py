"""From a loss to a training op: `slim.learning.create_train_op`, `tf.contrib.training.create_train_op` and their parts.

Called by: training.contrib.learning, programs.  Threads: as graph.
Source: behaviour of TensorFlow 1.15's contrib; tests compare nodes with tf-slim's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from headrace.graph.collections import GraphKeys
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import control_dependencies, get_collection, name_scope
from headrace.graph.scopes import get_default_graph
from headrace.library.variables.variable_lists import trainable_variables
from headrace.ops.flow.identities import group, with_dependencies
from headrace.ops.io.summaries import histogram, scalar
from headrace.ops.math.casting import cast
from headrace.ops.math.clipping import clip_by_norm, global_norm
from headrace.ops.tables import make
from headrace.training import logging
from headrace.training.global_step import get_or_create_global_step
from headrace.training.optimizer import Optimizer

__all__ = [
    "add_gradients_summaries",
    "clip_gradient_norms",
    "clip_gradient_norms_fn",
    "create_train_op",
    "multiply_gradients",
]

USE_GLOBAL_STEP: Final = 0
"""As global_step: that of the graph."""
Pairs = list[tuple[Any, Any]]
"""Gradients and variables."""


def clip_gradient_norms(gradients_to_variables: Iterable[tuple[Any, Any]], max_norm: Any) -> Pairs:
    """Each gradient with a length of at most max_norm; None stays None."""
    found: Pairs = []
    for gradient, variable in gradients_to_variables:
        if isinstance(gradient, IndexedSlices):
            values = clip_by_norm(gradient.values, max_norm)
            gradient = IndexedSlices(values, gradient.indices, gradient.dense_shape)
        elif gradient is not None:
            gradient = clip_by_norm(gradient, max_norm)
        found.append((gradient, variable))
    return found


def clip_gradient_norms_fn(max_norm: Any) -> Callable[[Pairs], Pairs]:
    """`clip_gradient_norms` for `transform_grads_fn`."""
    return lambda pairs: clip_gradient_norms(pairs, max_norm)


def multiply_gradients(
    grads_and_vars: Iterable[tuple[Any, Any]], gradient_multipliers: Mapping[Any, Any]
) -> Pairs:
    """Gradients times a number, by variable or its name without ``:0``.

    Raises ValueError: no list, no dict, a number for a gradient that is None.
    """
    if not isinstance(grads_and_vars, list):
        raise ValueError("`grads_and_vars` must be a list.")
    if not gradient_multipliers:
        raise ValueError("`gradient_multipliers` is empty.")
    if not isinstance(gradient_multipliers, dict):
        raise ValueError("`gradient_multipliers` must be a dict.")
    found: Pairs = []
    for gradient, variable in grads_and_vars:
        key = variable if variable in gradient_multipliers else variable.op.name
        if key in gradient_multipliers:
            if gradient is None:
                raise ValueError(f"Requested multiple of `None` gradient: that of {variable.name}.")
            factor = cast(gradient_multipliers[key], gradient.dtype)
            if isinstance(gradient, IndexedSlices):
                values = gradient.values * factor
                gradient = IndexedSlices(values, gradient.indices, gradient.dense_shape)
            else:
                gradient = gradient * factor
        found.append((gradient, variable))
    return found


def add_gradients_summaries(grads_and_vars: Iterable[tuple[Any, Any]]) -> list[Any]:
    """A histogram and the length of each gradient, under the variable's name."""
    return _summaries(grads_and_vars, "/")


def _summaries(grads_and_vars: Iterable[tuple[Any, Any]], separator: str) -> list[Any]:
    found = []
    for gradient, variable in grads_and_vars:
        if gradient is None:
            logging.info("Var %s has no gradient", variable.op.name)
            continue
        values = gradient.values if isinstance(gradient, IndexedSlices) else gradient
        found.append(histogram(f"{variable.op.name}{separator}gradient", values))
        found.append(scalar(f"{variable.op.name}{separator}gradient_norm", global_norm([values])))
    return found


def create_train_op(
    total_loss: Any,
    optimizer: Any,
    global_step: Any = USE_GLOBAL_STEP,
    update_ops: Iterable[Any] | None = None,
    variables_to_train: Sequence[Any] | None = None,
    transform_grads_fn: Callable[[Pairs], Pairs] | None = None,
    summarize_gradients: bool = False,
    gate_gradients: int = Optimizer.GATE_OP,
    aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False,
    check_numerics: bool = True,
) -> Any:
    """The loss, which is the value of a training step: updates are run before it, gradients applied after.

    global_step: counts steps; that of the graph if it is not given, none if None.  update_ops: UPDATE_OPS if None.
    Raises ValueError: a variable to train is not trainable; AssertionError: none are to be trained.
    """
    if isinstance(global_step, int) and global_step == USE_GLOBAL_STEP:
        global_step = get_or_create_global_step()
    loss = _after_updates(total_loss, update_ops)
    if variables_to_train is None:
        trained = trainable_variables()
    else:
        trained = list(variables_to_train)
        known = set(trainable_variables())
        for variable in trained:
            if variable not in known:
                raise ValueError(
                    f"{variable.name} is not among the trainable variables of the graph"
                )
    assert trained, "there are no variables to train"
    pairs = optimizer.compute_gradients(
        loss,
        trained,
        gate_gradients=gate_gradients,
        aggregation_method=aggregation_method,
        colocate_gradients_with_ops=colocate_gradients_with_ops,
    )
    if transform_grads_fn is not None:
        pairs = transform_grads_fn(pairs)
    if summarize_gradients:
        with name_scope("summarize_grads"):
            _summaries(pairs, "_")
    applied = optimizer.apply_gradients(pairs, global_step=global_step)
    with name_scope("train_op"):
        if check_numerics:
            loss = make.CheckNumerics(loss, message="LossTensor is inf or nan")
        train_op = with_dependencies([applied], loss)
    known_ops = get_default_graph().get_collection_ref(GraphKeys.TRAIN_OP)
    if not any(each is train_op for each in known_ops):
        known_ops.append(train_op)
    return train_op


def _after_updates(loss: Any, update_ops: Iterable[Any] | None) -> Any:
    """The loss, computed after the updates."""
    usual = get_collection(GraphKeys.UPDATE_OPS)
    updates = list(usual if update_ops is None else update_ops)
    if update_ops is not None and not {*usual} <= {*updates}:
        logging.warning(
            "update_ops in create_train_op does not contain all the update_ops in GraphKeys.UPDATE_OPS"
        )
    if not updates:
        return loss
    with control_dependencies(updates):
        barrier = group(name="update_barrier")
    return with_dependencies([barrier], loss)
