"""What cells of tf.contrib.rnn share: products with variables of the scope in force, layer norm.

Called by: library.contrib's cells and wrappers.  Threads: as graph.
Source: behaviour of TF 1.15 (contrib/rnn)
"""

from __future__ import annotations

from collections.abc import Callable
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

__all__ = ["BIAS", "KERNEL", "Linear", "clean_scope", "depth_of", "linear", "normalized", "sharded"]

KERNEL, BIAS = "kernel", "bias"
"""What weights of cells are called."""

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
    return Linear(args, output_size, bias, bias_initializer, kernel_initializer)(args)


class Linear:
    """As `linear`, with variables that are made once, and used by every call."""

    def __init__(
        self,
        args: Any,
        output_size: int,
        build_bias: bool,
        bias_initializer: Any = None,
        kernel_initializer: Any = None,
    ) -> None:
        """args: such as it will be called with.  Raises ValueError: there are none, or a depth is not known."""
        parts = _listed(args)
        kind = parts[0].dtype
        total = sum(depth_of(part) for part in parts)
        self._bias = None
        self._kernel = get_variable(KERNEL, [total, output_size], kind, kernel_initializer)
        if build_bias:
            with variable_scope(get_variable_scope()) as inner:
                inner.set_partitioner(None)
                start = bias_initializer or zeros_initializer(dtype=kind)
                self._bias = get_variable(BIAS, [output_size], kind, start)

    def __call__(self, args: Any) -> Tensor:
        """[batch, output_size], of [batch, depth] or several side by side."""
        parts = _listed(args)
        made: Tensor = matmul(parts[0] if len(parts) == 1 else concat(parts, 1), self._kernel)
        return made if self._bias is None else bias_add(made, self._bias)


def _listed(args: Any) -> list[Any]:
    parts = list(args) if nest.is_nested(args) else [args]
    if not parts or parts[0] is None:
        raise ValueError("`args` must be specified: one tensor [batch, depth], or a list of them")
    return parts


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
