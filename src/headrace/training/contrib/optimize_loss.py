"""`tf.contrib.layers.optimize_loss`: from a loss to a training step in one call.

Called by: programs.  Threads: as graph.
Source: behaviour of TensorFlow 1.15's contrib; tests compare nodes with tf-slim's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headrace.base import dtypes
from headrace.base.arguments import check_mapping, check_tensor, several
from headrace.graph.collections import GraphKeys
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import get_collection
from headrace.graph.tensor import Tensor
from headrace.library.variables.initializers import constant_initializer, zeros_initializer
from headrace.library.variables.moving_average import assign_moving_average
from headrace.library.variables.variable_lists import trainable_variables
from headrace.library.variables.variable_scope import get_variable, variable_scope
from headrace.ops.array.constants import ones_like
from headrace.ops.array.gathering import where
from headrace.ops.flow.identities import with_dependencies
from headrace.ops.io.summaries import histogram, scalar
from headrace.ops.math.casting import cast
from headrace.ops.math.clipping import clip_by_global_norm, global_norm
from headrace.ops.random.draws import truncated_normal
from headrace.ops.tables import make
from headrace.training.adagrad import AdagradOptimizer
from headrace.training.adam import AdamOptimizer
from headrace.training.ftrl import FtrlOptimizer
from headrace.training.global_step import assert_global_step, get_global_step
from headrace.training.gradient_descent import GradientDescentOptimizer
from headrace.training.momentum import MomentumOptimizer
from headrace.training.optimizer import Optimizer
from headrace.training.rmsprop import RMSPropOptimizer

__all__ = [
    "OPTIMIZER_CLS_NAMES",
    "OPTIMIZER_SUMMARIES",
    "adaptive_clipping_fn",
    "optimize_loss",
]

OPTIMIZER_CLS_NAMES: Final[dict[str, Any]] = {
    "Adagrad": AdagradOptimizer,
    "Adam": AdamOptimizer,
    "Ftrl": FtrlOptimizer,
    "Momentum": lambda learning_rate: MomentumOptimizer(learning_rate, momentum=0.9),
    "RMSProp": RMSPropOptimizer,
    "SGD": GradientDescentOptimizer,
}
OPTIMIZER_SUMMARIES: Final = [
    "learning_rate",
    "loss",
    "gradients",
    "gradient_norm",
    "global_gradient_norm",
]
_USUAL_SUMMARIES: Final = ("learning_rate", "loss", "global_gradient_norm")
Pairs = list[tuple[Any, Any]]
"""Gradients and variables."""


def optimize_loss(
    loss: Any,
    global_step: Any,
    learning_rate: Any,
    optimizer: Any,
    gradient_noise_scale: float | None = None,
    gradient_multipliers: Mapping[Any, Any] | None = None,
    clip_gradients: Any = None,
    learning_rate_decay_fn: Callable[[Any, Any], Any] | None = None,
    update_ops: Sequence[Any] | None = None,
    variables: Sequence[Any] | None = None,
    name: str | None = None,
    summaries: Sequence[str] | None = None,
    colocate_gradients_with_ops: bool = False,
    increment_global_step: bool = True,
) -> Tensor:
    """The loss, which is the value of a training step: gradients, changed as is said, are applied before it is given.

    global_step: the variable that counts, that of the graph if None.  optimizer: a name of OPTIMIZER_CLS_NAMES, a
    class, an object or a function of the learning rate.  gradient_multipliers: by variable or name.  clip_gradients:
    the largest global norm, or a function of the gradients and variables.  update_ops: what is run before, UPDATE_OPS
    if None.  summaries: of OPTIMIZER_SUMMARIES.
    Raises ValueError: what cannot be meant.
    """
    if loss is None:
        raise ValueError("None values not supported: optimize_loss needs the loss, a tensor")
    check_tensor("optimize_loss", "loss", loss)
    if gradient_multipliers is not None:
        check_mapping(
            "optimize_loss", "gradient_multipliers", gradient_multipliers, "factors by variables"
        )
    named = _USUAL_SUMMARIES if summaries is None else summaries
    chosen = several("optimize_loss", "summaries", named, "names of summaries")
    if update_ops is not None:
        update_ops = several("optimize_loss", "update_ops", update_ops, "operations")
    if variables is not None:
        variables = several("optimize_loss", "variables", variables, "variables")
    for each in chosen:
        if each not in OPTIMIZER_SUMMARIES:
            raise ValueError(
                f"Summaries should be one of [{', '.join(OPTIMIZER_SUMMARIES)}], you provided {each}."
            )
    if global_step is None:
        global_step = get_global_step()
    else:
        assert_global_step(global_step)
    with variable_scope(name, "OptimizeLoss", [loss, global_step]):
        loss = _after_updates(loss, update_ops)
        rate = _rate(learning_rate, learning_rate_decay_fn, global_step, chosen)
        applying = _optimizer(optimizer, learning_rate, rate)
        trained = trainable_variables() if variables is None else list(variables)
        pairs = applying.compute_gradients(
            loss, trained, colocate_gradients_with_ops=colocate_gradients_with_ops
        )
        if gradient_noise_scale is not None:
            pairs = _with_noise(pairs, gradient_noise_scale)
        if gradient_multipliers is not None:
            pairs = _multiplied(pairs, gradient_multipliers)
        if "global_gradient_norm" in chosen or "gradient_norm" in chosen:
            scalar("global_norm/gradient_norm", global_norm([pair[0] for pair in pairs]))
        pairs = _clipped(pairs, clip_gradients)
        if "loss" in chosen:
            scalar("loss", loss)
        _summarize(pairs, chosen)
        if clip_gradients is not None and (
            "global_gradient_norm" in chosen or "gradient_norm" in chosen
        ):
            scalar("global_norm/clipped_gradient_norm", global_norm([pair[0] for pair in pairs]))
        step = global_step if increment_global_step else None
        applied = applying.apply_gradients(pairs, global_step=step, name="train")
        trained_loss: Tensor = with_dependencies([applied], loss)
        return trained_loss


def _after_updates(loss: Any, update_ops: Sequence[Any] | None) -> Any:
    updates = get_collection(GraphKeys.UPDATE_OPS) if update_ops is None else list(update_ops)
    return with_dependencies(list(updates), loss) if updates else loss


def _rate(learning_rate: Any, decay: Any, global_step: Any, summaries: Sequence[str]) -> Any:
    """The learning rate as a tensor, or None."""
    if learning_rate is None:
        return None
    if isinstance(learning_rate, Tensor) and learning_rate.get_shape().ndims == 0:
        rate: Any = learning_rate
    elif isinstance(learning_rate, float):
        if learning_rate < 0.0:
            raise ValueError(f"Invalid learning_rate {learning_rate}.")
        start = constant_initializer(learning_rate)
        rate = get_variable("learning_rate", [], trainable=False, initializer=start)
    else:
        raise ValueError(
            f"Learning rate should be 0d Tensor or float. Got {learning_rate} of type {type(learning_rate)}"
        )
    if decay is not None:
        if global_step is None:
            raise ValueError("global_step is required for learning_rate_decay_fn.")
        rate = decay(rate, global_step)
        if "learning_rate" in summaries:
            scalar("learning_rate", rate)
    return rate


def _optimizer(given: Any, learning_rate: Any, rate: Any) -> Optimizer:
    if isinstance(given, str):
        if rate is None:
            raise ValueError(
                f"Learning rate is None, but should be specified if optimizer is string ({given})."
            )
        if given not in OPTIMIZER_CLS_NAMES:
            raise ValueError(
                f"Optimizer name should be one of [{', '.join(OPTIMIZER_CLS_NAMES)}], you provided {given}."
            )
        made = OPTIMIZER_CLS_NAMES[given](learning_rate=rate)
    elif isinstance(given, type) and issubclass(given, Optimizer):
        if rate is None:
            raise ValueError(
                f"Learning rate is None, but should be specified if optimizer is class ({given})."
            )
        made = given(learning_rate=rate)  # type: ignore[call-arg]
    elif isinstance(given, Optimizer):
        made = given
    elif callable(given):
        made = given(rate) if learning_rate is not None else given()
        if not isinstance(made, Optimizer):
            raise ValueError(
                f"Unrecognized optimizer: function should return subclass of Optimizer. Got {made}."
            )
    else:
        raise ValueError(
            "Unrecognized optimizer: should be string, subclass of Optimizer, instance of subclass of Optimizer or "
            f"function with one argument. Got {given}."
        )
    found: Optimizer = made
    return found


def _with_noise(pairs: Pairs, scale: float) -> Pairs:
    """Gradients with normal noise added."""
    found: Pairs = []
    for gradient, variable in pairs:
        if gradient is None:
            found.append((None, variable))
            continue
        rows = isinstance(gradient, IndexedSlices)
        shape = gradient.dense_shape if rows else gradient.get_shape()
        noise = truncated_normal(shape) * scale
        found.append((gradient + noise, variable))
    return found


def _multiplied(pairs: Pairs, multipliers: Mapping[Any, Any]) -> Pairs:
    found: Pairs = []
    for gradient, variable in pairs:
        factor = multipliers.get(variable, multipliers.get(variable.name))
        if gradient is not None and factor is not None:
            factor = cast(factor, gradient.dtype)
            if isinstance(gradient, IndexedSlices):
                values = gradient.values * factor
                gradient = IndexedSlices(values, gradient.indices, gradient.dense_shape)
            else:
                gradient = gradient * factor
        found.append((gradient, variable))
    return found


def _clipped(pairs: Pairs, clip: Any) -> Pairs:
    if clip is None:
        return pairs
    if isinstance(clip, float):
        gradients, _ = clip_by_global_norm([pair[0] for pair in pairs], clip)
        return [(each, pair[1]) for each, pair in zip(gradients, pairs, strict=True)]
    if callable(clip):
        return list(clip(pairs))
    raise ValueError(f"Unknown type {type(clip)} for clip_gradients")


def _summarize(pairs: Pairs, summaries: Sequence[str]) -> None:
    for gradient, variable in pairs:
        values = gradient.values if isinstance(gradient, IndexedSlices) else gradient
        if values is None:
            continue
        name = variable.name.replace(":", "_")
        if "gradients" in summaries:
            histogram(f"gradients/{name}", values)
        if "gradient_norm" in summaries:
            scalar(f"gradient_norm/{name}", global_norm([values]))


def adaptive_clipping_fn(
    std_factor: float = 2.0,
    decay: Any = 0.95,
    static_max_norm: float | None = None,
    global_step: Any = None,
    report_summary: bool = False,
    epsilon: float = 1e-8,
    name: str | None = None,
) -> Callable[[Pairs], Pairs]:
    """For `clip_gradients`: norms whose logs are std_factor standard deviations above the mean are cut to it.

    decay: of the moving mean and variance; with global_step it is smaller at first.  static_max_norm: the most that is
    left in any case.
    """

    def clip(pairs: Pairs) -> Pairs:
        gradients = [pair[0] for pair in pairs]
        norm = global_norm(gradients)
        most, mean = _usual_norm(norm, std_factor, decay, global_step, epsilon, name)
        if report_summary:
            scalar("global_norm/adaptive_max_gradient_norm", most)
        factor = where(norm < most, ones_like(norm), make.Exp(mean) / norm)
        if static_max_norm is not None:
            factor = make.Minimum(static_max_norm / norm, factor)
        found: Pairs = []
        for gradient, variable in pairs:
            if isinstance(gradient, IndexedSlices):
                values = gradient.values * factor
                gradient = IndexedSlices(values, gradient.indices, gradient.dense_shape)
            elif gradient is not None:
                gradient = gradient * factor
            found.append((gradient, variable))
        return found

    return clip


def _usual_norm(
    norm: Any, std_factor: float, decay: Any, global_step: Any, epsilon: float, name: str | None
) -> tuple[Any, Any]:
    """The largest usual norm, and the mean of logs of norms."""
    with variable_scope(name, "AdaptiveMaxNorm", [norm]):
        log_norm = make.Log(norm + epsilon)

        def average(what: str, value: Any, rate: Any) -> Any:
            kept = get_variable(
                what,
                shape=value.get_shape(),
                dtype=value.dtype,
                initializer=zeros_initializer(),
                trainable=False,
            )
            return assign_moving_average(kept, value, rate, zero_debias=False)

        if global_step is not None:
            done = cast(global_step, dtypes.float32)
            decay = make.Minimum(decay, done / (done + 1.0))
        mean = average("mean", log_norm, decay)
        squares = average("sq_mean", make.Square(log_norm), decay)
        deviation = make.Sqrt(make.Maximum(epsilon, squares - make.Square(mean)))
        return make.Exp(mean + std_factor * deviation), mean
