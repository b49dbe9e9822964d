"""Activations: relu and its kin, softplus, softsign, with their gradients, and theirs.

Half-precision types are computed in float32 where the function is transcendental.
Called by: layers, programs.  Threads: any.
Source: TF 1.15 core/ops/nn_ops.cc; Clevert et al., ICLR 2016 (elu); Klambauer et al., NIPS 2017 (selu)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np

from headrace.base import dtypes, errors, shapes
from headrace.base.traits import (
    ELEMENTWISE,
    NEVER_FAILS,
    NONE,
    OF_RAGGED,
    PER_RECORD,
    SHARES,
    Traits,
)
from headrace.graph import scopes
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.graph.ragged import of_ragged
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import merged, unchanged
from headrace.graph.tensor import Tensor
from headrace.ops._kernels import exponentials
from headrace.ops._kernels.blocks import BLOCK, LARGE
from headrace.ops._kernels.choosing import where
from headrace.ops._kernels.narrow import single
from headrace.ops.array.constants import zeros_like
from headrace.ops.array.joining import concat
from headrace.ops.math.casting import cast
from headrace.ops.tables import make
from headrace.run.exec.worker_pool import parallel_for

__all__ = [
    "crelu",
    "elu",
    "leaky_relu",
    "relu",
    "relu6",
    "selu",
    "silu",
    "softplus",
    "softsign",
    "swish",
]

Array = np.ndarray[Any, Any]
_FLOATS = "{half, bfloat16, float, double}"
_RELU = "{float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, qint8}"
_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_SCALE_ALPHA = 1.7580993408473768599402175208123


def in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of arrays, computed in float32 for half and bfloat16."""

    def widened(*arrays: Any) -> Any:
        return function(*map(single, arrays)).astype(arrays[0].dtype, copy=False)

    return widened


def _in_parts(function: Callable[..., Any], takes_out: bool, *arrays: Any) -> Any:
    """function(*arrays), arrays of one shape; of large ones a part at a time (`run.exec.worker_pool`)."""
    first = arrays[0]
    if first.size < LARGE or not all(x.flags.c_contiguous for x in arrays):
        return function(*arrays)
    flat = [x.reshape(-1) for x in arrays]
    out = np.empty(first.shape, first.dtype)
    into = out.reshape(-1)

    def part(start: int) -> None:
        chosen = slice(start, start + BLOCK)
        if takes_out:
            function(*(x[chosen] for x in flat), into[chosen])
        else:
            into[chosen] = function(*(x[chosen] for x in flat))

    parallel_for(part, range(0, first.size, BLOCK))
    return out


def _activation(
    name: str,
    function: Callable[..., Any],
    types: str,
    says: str,
    *,
    takes_out: bool = False,
    singles: Callable[[Any, Any], None] | None = None,
    traits: Traits = NONE,
) -> OpSpec:
    """singles(x, out): what `exponentials.in_pieces` calls for float32, and for half and bfloat16 in it."""

    def kernel(xp: Any, features: Any) -> Any:
        if singles is not None and features.dtype != np.float64:
            found = exponentials.in_pieces(singles, single(features))
            return found.astype(features.dtype, copy=False)
        return _in_parts(function, takes_out, features)

    kernel.__doc__ = f"{says}, element by element."
    spec = op(
        name,
        inputs="features: T",
        outputs="activations: T",
        attrs=f"T: {types}",
        shape=unchanged,
        traits={ELEMENTWISE, SHARES, *traits},
    )(kernel)
    if takes_out:
        spec.into(function)
    return spec


def _of_gradient(
    name: str,
    function: Callable[..., Any],
    types: str,
    second: str,
    *,
    takes_out: bool = False,
    traits: Traits = NONE,
) -> OpSpec:
    """The gradient op: gradients times the derivative at `second` (the features or the outputs)."""

    def kernel(xp: Any, gradients: Any, at: Any) -> Any:
        _check_same(gradients, at, second)
        return _in_parts(function, takes_out, gradients, at)

    kernel.__doc__ = f"gradients times the derivative at {second}.  Raises InvalidArgument unless both have one shape."
    spec = op(
        name,
        inputs=f"gradients: T; {second}: T",
        outputs="backprops: T",
        attrs=f"T: {types}",
        shape=merged,
        traits={ELEMENTWISE, SHARES, *traits},
    )(kernel)
    if takes_out:
        spec.into(function)
    return spec


def _check_same(gradients: Any, at: Any, second: str) -> None:
    if gradients.shape != at.shape:
        raise errors.invalid_argument(
            f"gradients and {second} must have one shape, not {shapes.text(gradients.shape)} and "
            f"{shapes.text(at.shape)}"
        )


# -- relu, relu6, leaky relu ------------------------------------------------------------------


def _all(value: int, x: Any) -> Any:
    """`value`, to be compared with x: NumPy compares two arrays four times as fast as an array and a scalar."""
    return _all_of(value, x.dtype, x.shape)


@lru_cache(1024)
def _all_of(value: int, dtype: Any, shape: tuple[int, ...]) -> Any:
    number = dtype.type(value)
    if math.prod(shape) < 2048:
        return number
    kept = _kept(value, dtype)
    first, size = len(shape), 1  # as many of the last dimensions as there are values kept
    while first and size * shape[first - 1] <= kept.size:
        first -= 1
        size *= shape[first]
    return kept[:size].reshape(shape[first:]) if size > 1 else number


@cache
def _kept(value: int, dtype: Any) -> Array:
    return np.full(BLOCK, value, dtype)


def _relu(x: Any, out: Any = None) -> Any:
    return np.maximum(x, _all(0, x), out=out)


def _relu6(x: Any, out: Any = None) -> Any:
    larger = np.maximum(x, _all(0, x), out=out)
    return np.minimum(larger, _all(6, x), out=out)


def _masked(gradients: Any, mask: Any, out: Any = None) -> Any:
    if out is None or np.may_share_memory(gradients, out):
        return np.multiply(gradients, mask.astype(gradients.dtype), out=out)
    np.copyto(out, mask)
    return np.multiply(gradients, out, out=out)


def _relu_grad(gradients: Any, features: Any, out: Any = None) -> Any:
    _check_same(gradients, features, "features")
    return _masked(gradients, features > features.dtype.type(0), out)


relu = _activation(
    "Relu", _relu, _RELU, "max(x, 0)", takes_out=True, traits={NEVER_FAILS, PER_RECORD, OF_RAGGED}
)
relu6_op = _activation(
    "Relu6", _relu6, "realnumbertype", "min(max(x, 0), 6)", takes_out=True, traits={PER_RECORD}
)
relu_grad = _of_gradient(
    "ReluGrad", _relu_grad, "realnumbertype", "features", takes_out=True, traits={NEVER_FAILS}
)
relu6_grad = _of_gradient(
    "Relu6Grad",
    lambda dy, x: _masked(dy, (x > x.dtype.type(0)) & (x < x.dtype.type(6))),
    "realnumbertype",
    "features",
    traits={NEVER_FAILS},
)


@relu.gradient
def _(op: Operation, dout: Tensor) -> Any:
    return relu_grad(dout, op.outputs[0])


@relu6_op.gradient
def _(op: Operation, dout: Tensor) -> Any:
    return relu6_grad(dout, op.outputs[0])


@relu_grad.gradient
def _(op: Operation, dout: Tensor) -> Any:
    x = op.inputs[1]
    return relu_grad(dout, x), zeros_like(x)


@relu6_grad.gradient
def _(op: Operation, dout: Tensor) -> Any:
    x = op.inputs[1]
    return relu6_grad(dout, x), zeros_like(x)


_LEAKY = f"alpha: float = 0.20000000298023224; T: {_FLOATS} = float"


@op(
    "LeakyRelu",
    inputs="features: T",
    outputs="activations: T",
    attrs=_LEAKY,
    shape=unchanged,
    traits={ELEMENTWISE, SHARES},
)
def leaky_relu_op(xp: Any, features: Any, *, alpha: float) -> Any:
    """x where x > 0, alpha x elsewhere."""
    return _in_parts(partial(_leaky, alpha), 0 < alpha <= 1, features)


def _leaky(alpha: float, x: Any, out: Any = None) -> Any:
    """out: other memory than that of x, only for an alpha in (0, 1]."""
    scaled = np.multiply(x, x.dtype.type(alpha), out=out)
    return np.maximum(x, scaled, out=out) if 0 < alpha <= 1 else where(x > 0, x, scaled)


@op(
    "LeakyReluGrad",
    inputs="gradients: T; features: T",
    outputs="backprops: T",
    attrs=_LEAKY,
    shape=merged,
    traits={NEVER_FAILS, ELEMENTWISE, SHARES},
)
def leaky_relu_grad(xp: Any, gradients: Any, features: Any, *, alpha: float) -> Any:
    """gradients where features > 0, alpha gradients elsewhere.  Raises as ReluGrad."""
    _check_same(gradients, features, "features")
    return _in_parts(partial(_leaky_grad, alpha), 0 <= alpha <= 1, gradients, features)


def _leaky_grad(alpha: float, gradients: Any, features: Any, out: Any = None) -> Any:
    """out: other memory than theirs, only for an alpha in [0, 1]."""
    kind, above = gradients.dtype.type, features > features.dtype.type(0)
    if not 0 <= alpha <= 1:
        return where(above, gradients, gradients * kind(alpha))
    if out is None:
        out = np.empty(gradients.shape, gradients.dtype)
    np.copyto(out, above)
    np.maximum(out, kind(alpha), out=out)
    return np.multiply(out, gradients, out=out)


@leaky_relu_op.gradient
def _(op: Operation, dout: Tensor) -> Any:
    return leaky_relu_grad(dout, op.inputs[0], alpha=op["alpha"])


@leaky_relu_grad.gradient
def _(op: Operation, dout: Tensor) -> Any:
    x = op.inputs[1]
    return leaky_relu_grad(dout, x, alpha=op["alpha"]), zeros_like(x)


# -- elu and selu -----------------------------------------------------------------------------


def _elu(x: Any) -> Any:
    return where(x < 0, np.expm1(x), x)


@in_float32
def _elu_grad(dy: Any, y: Any) -> Any:
    slope = np.asarray(np.fmin(y, y.dtype.type(0)))
    slope += 1
    slope *= dy
    return slope


def _selu(x: Any) -> Any:
    return where(x < 0, _SELU_SCALE_ALPHA * np.expm1(x), _SELU_SCALE * x)


@in_float32
def _selu_grad(dy: Any, y: Any) -> Any:
    slope = where(y < 0, y + y.dtype.type(_SELU_SCALE_ALPHA), y.dtype.type(_SELU_SCALE))
    slope *= dy
    return slope


elu = _activation(
    "Elu",
    _elu,
    _FLOATS,
    "x where x >= 0, exp(x) - 1 elsewhere",
    singles=exponentials.elu,
    traits={OF_RAGGED},
)
selu = _activation(
    "Selu",
    _selu,
    _FLOATS,
    "scaled elu, which keeps mean 0 and variance 1",
    singles=partial(exponentials.selu, _SELU_SCALE, _SELU_SCALE_ALPHA),
    traits={OF_RAGGED},
)
elu_grad = _of_gradient("EluGrad", _elu_grad, _FLOATS, "outputs", traits={NEVER_FAILS})
selu_grad = _of_gradient("SeluGrad", _selu_grad, _FLOATS, "outputs", traits={NEVER_FAILS})


@elu.gradient
def _(op: Operation, dout: Tensor) -> Any:
    return elu_grad(dout, op.outputs[0])


@selu.gradient
def _(op: Operation, dout: Tensor) -> Any:
    return selu_grad(dout, op.outputs[0])


def _through_outputs(spec: OpSpec) -> None:
    """The gradient of a gradient op that was given the outputs: their part counts where y < 0."""

    @spec.gradient
    def _(op: Operation, dout: Tensor) -> Any:
        y = op.inputs[1]
        first = spec(dout, y)
        return first, make.Select(y < 0, dout * op.inputs[0], zeros_like(y))


_through_outputs(elu_grad)
_through_outputs(selu_grad)


# -- softplus and softsign --------------------------------------------------------------------


def _softplus(x: Any) -> Any:
    # `logaddexp` takes ten times as long, an element at a time.
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, x.dtype.type(0))


@in_float32
def _softplus_grad(dy: Any, x: Any) -> Any:
    return dy / (np.exp(-x) + 1)


@in_float32
def _softsign(x: Any) -> Any:
    whole = np.asarray(np.abs(x))
    whole += 1
    return np.divide(x, whole, out=whole)


@in_float32
def _softsign_grad(dy: Any, x: Any) -> Any:
    whole = np.asarray(np.abs(x))
    whole += 1
    np.square(whole, out=whole)
    return np.divide(dy, whole, out=whole)


softplus_op = _activation(
    "Softplus",
    _softplus,
    _FLOATS,
    "log(exp(x) + 1)",
    singles=exponentials.softplus,
    traits={PER_RECORD},
)
softsign = _activation("Softsign", _softsign, _FLOATS, "x / (|x| + 1)", traits={OF_RAGGED})
softplus_grad = _of_gradient(
    "SoftplusGrad", _softplus_grad, _FLOATS, "features", traits={NEVER_FAILS}
)
softsign_grad = _of_gradient("SoftsignGrad", _softsign_grad, _FLOATS, "features")


@softplus_op.gradient
def _(op: Operation, dout: Tensor) -> Any:
    return dout * make.Sigmoid(op.inputs[0])


@softsign.gradient
def _(op: Operation, dout: Tensor) -> Any:
    return softsign_grad(dout, op.inputs[0])


@softplus_grad.gradient
def _(op: Operation, dout: Tensor) -> Any:
    dy, x = op.inputs
    with scopes.get_default_graph().control_dependencies([dout]):
        first = softplus_grad(dout, x)
        return first, dout * dy / (make.Exp(-x) + 2.0 + make.Exp(x))


# -- functions --------------------------------------------------------------------------------


@of_ragged
def relu6(features: Any, name: str | None = None) -> Tensor:
    """min(max(features, 0), 6)."""
    with name_scope(name, "Relu6", [features]) as scope:
        result: Tensor = relu6_op(convert(features, name="features"), name=scope)
        return result


@of_ragged
def leaky_relu(features: Any, alpha: float = 0.2, name: str | None = None) -> Tensor:
    """features where positive, alpha features elsewhere; integers become float32."""
    with name_scope(name, "LeakyRelu", [features, alpha]) as scope:
        values = convert(features, name="features")
        if values.dtype.is_integer:
            values = cast(values, dtypes.float32)
        result: Tensor = leaky_relu_op(values, alpha=alpha, name=scope)
        return result


@of_ragged
def softplus(features: Any, name: str | None = None) -> Tensor:
    """log(exp(features) + 1)."""
    result: Tensor = softplus_op(features, name=name)
    return result


def silu(features: Any, beta: Any = 1.0) -> Tensor:
    """features * sigmoid(beta * features)."""
    values = convert(features, name="features")
    factor = convert(beta, values.dtype.base_dtype, name="beta")
    made: Tensor = values * make.Sigmoid(factor * values)
    return made


swish = silu


def crelu(features: Any, name: str | None = None, axis: int = -1) -> Tensor:
    """relu of features and of -features, joined along `axis`."""
    with name_scope(name, "CRelu", [features]) as scope:
        values = convert(features, name="features")
        both = concat([values, -values], axis, name=scope)
        result: Tensor = relu(both)
        return result
