"""What cells of tf.contrib.rnn share: products with variables of the scope in force, layer norm.

Called by: library.contrib's cells and wrappers.  Threads: as graph.
Source: behaviour of TF 1.15 (contrib/rnn)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.base import nest
from headrace.graph.tensor import Tensor
from headrace.library.variables.initializers import constant_initializer, zeros_initializer
from headrace.library.variables.variable_scope import (
    get_variable,
    get_variable_scope,
    variable_scope,
)
from headrace.ops.array.joining import concat
from headrace.ops.linalg.products import matmul
from headrace.ops.nn.basics import batch_normalization, moments
from headrace.ops.nn.bias import bias_add

__all__ = ["clean_scope", "depth_of", "linear", "normalized", "sharded"]

Cut = Callable[[Any], Any]


def clean_scope(initializer: Any) -> Any:
    """The scope in force, with another initializer."""
    return variable_scope(get_variable_scope(), initializer=initializer)


def depth_of(inputs: Any) -> int:
    """The size of the last axis.  Raises ValueError if it is not known."""
    depth: int | None = inputs.shape.with_rank(2)[1].value
    if depth is None:
        raise ValueError(
            f"Could not infer input size from inputs.get_shape()[-1]: {inputs.name} has shape {inputs.shape}"
        )
    return depth


def linear(
    args: Any,
    output_size: int,
    bias: bool = True,
    bias_initializer: Any = None,
    kernel_initializer: Any = None,
) -> Tensor:
    """[batch, depth], or several side by side, by the variable `kernel`, plus `bias`: [batch, output_size].

    Raises ValueError.
    """
    parts: Sequence[Any] = args if nest.is_nested(args) else [args]
    kind = parts[0].dtype
    total = sum(depth_of(part) for part in parts)
    kernel = get_variable("kernel", [total, output_size], kind, kernel_initializer)
    made: Tensor = matmul(parts[0] if len(parts) == 1 else concat(list(parts), 1), kernel)
    if not bias:
        return made
    with variable_scope(get_variable_scope()) as inner:
        inner.set_partitioner(None)
        added = get_variable(
            "bias", [output_size], kind, bias_initializer or zeros_initializer(dtype=kind)
        )
    return bias_add(made, added)


def normalized(x: Any, scope: str, gain: float, shift: float) -> Tensor:
    """Each row of [batch, units] with mean 0 and variance 1, times `gamma`, plus `beta`, variables of `scope`."""
    units = x.shape[-1:]
    with variable_scope(scope):
        gamma = get_variable("gamma", units, x.dtype, constant_initializer(gain))
        beta = get_variable("beta", units, x.dtype, constant_initializer(shift))
        mean, variance = moments(x, [1], keep_dims=True)
        made: Tensor = batch_normalization(x, mean, variance, beta, gamma, 1e-12)
        made.set_shape(x.shape)
    return made


def sharded(name: str, shape: list[int], dtype: Any, shards: int) -> Any:
    """Variables ``name_0``, … one below the other, `shape` in all.  Raises ValueError."""
    if shards > shape[0]:
        raise ValueError(f"Too many shards: shape={shape}, num_shards={shards}")
    small, more = divmod(shape[0], shards)
    parts = [
        get_variable(f"{name}_{at}", [small + (at < more), *shape[1:]], dtype)
        for at in range(shards)
    ]
    return parts[0] if shards == 1 else concat(parts, 0, name=name)
