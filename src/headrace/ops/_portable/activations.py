"""Array kernels of activations and losses.

Called by: ops._portable.table.  Threads: any.
"""

from __future__ import annotations

from typing import Any

from headrace.ops._portable.table import arrays, check, device_of, require

_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_ALPHA = 1.7580993408473768599402175208123  # scale times alpha


def _zero(xp: Any, x: Any) -> Any:
    return xp.zeros_like(x)


@arrays("Relu", reals=True)
def _relu(xp: Any, features: Any) -> Any:
    return xp.maximum(features, _zero(xp, features))


@arrays("ReluGrad", reals=True, alike=True)
def _relu_grad(xp: Any, gradients: Any, features: Any) -> Any:
    return xp.where(features > 0.0, gradients, _zero(xp, gradients))


@arrays("Relu6", reals=True)
def _relu6(xp: Any, features: Any) -> Any:
    return xp.minimum(_relu(xp, features), xp.full_like(features, 6.0))


@arrays("Relu6Grad", reals=True, alike=True)
def _relu6_grad(xp: Any, gradients: Any, features: Any) -> Any:
    inside = xp.logical_and(features > 0.0, features < 6.0)
    return xp.where(inside, gradients, _zero(xp, gradients))


@arrays("LeakyRelu", reals=True)
def _leaky_relu(xp: Any, features: Any, *, alpha: float) -> Any:
    return xp.where(features > 0.0, features, features * alpha)


@arrays("LeakyReluGrad", reals=True, alike=True)
def _leaky_relu_grad(xp: Any, gradients: Any, features: Any, *, alpha: float) -> Any:
    return xp.where(features > 0.0, gradients, gradients * alpha)


@arrays("Elu", reals=True)
def _elu(xp: Any, features: Any) -> Any:
    return xp.where(features < 0.0, xp.expm1(features), features)


@arrays("EluGrad", reals=True, alike=True)
def _elu_grad(xp: Any, gradients: Any, outputs: Any) -> Any:
    return xp.where(outputs < 0.0, gradients * (outputs + 1.0), gradients)


@arrays("Selu", reals=True)
def _selu(xp: Any, features: Any) -> Any:
    return xp.where(features < 0.0, xp.expm1(features) * _SELU_ALPHA, features * _SELU_SCALE)


@arrays("SeluGrad", reals=True, alike=True)
def _selu_grad(xp: Any, gradients: Any, outputs: Any) -> Any:
    return xp.where(outputs < 0.0, gradients * (outputs + _SELU_ALPHA), gradients * _SELU_SCALE)


@arrays("Sigmoid", reals=True)
def _sigmoid(xp: Any, x: Any) -> Any:
    decayed = xp.exp(-xp.abs(x))
    return xp.where(x < 0.0, decayed / (1.0 + decayed), 1.0 / (1.0 + decayed))


@arrays("Softplus", reals=True)
def _softplus(xp: Any, features: Any) -> Any:
    return _relu(xp, features) + xp.log1p(xp.exp(-xp.abs(features)))


@arrays("SoftplusGrad", reals=True, alike=True)
def _softplus_grad(xp: Any, gradients: Any, features: Any) -> Any:
    return gradients * _sigmoid(xp, features)


@arrays("Softsign", reals=True)
def _softsign(xp: Any, features: Any) -> Any:
    return features / (xp.abs(features) + 1.0)


@arrays("SoftsignGrad", reals=True, alike=True)
def _softsign_grad(xp: Any, gradients: Any, features: Any) -> Any:
    return gradients / xp.square(xp.abs(features) + 1.0)


def _shifted(xp: Any, logits: Any) -> tuple[Any, Any]:
    """Logits of which the largest is 0, and the sums of their exponentials."""
    check(logits.ndim > 0)
    shifted = logits - xp.max(logits, axis=-1, keepdims=True)
    return shifted, xp.sum(xp.exp(shifted), axis=-1, keepdims=True)


@arrays("Softmax", reals=True)
def _softmax(xp: Any, logits: Any) -> Any:
    shifted, sums = _shifted(xp, logits)
    return xp.exp(shifted) / sums


@arrays("LogSoftmax", reals=True)
def _log_softmax(xp: Any, logits: Any) -> Any:
    shifted, sums = _shifted(xp, logits)
    return shifted - xp.log(sums)


@arrays("SoftmaxCrossEntropyWithLogits", reals=True)
def _cross_entropy(xp: Any, features: Any, labels: Any) -> tuple[Any, Any]:
    check(features.ndim == labels.ndim == 2)
    shifted, sums = _shifted(xp, features)
    loss = xp.sum(labels * (xp.log(sums) - shifted), axis=-1)
    return loss, xp.exp(shifted) / sums - labels


@arrays("SparseSoftmaxCrossEntropyWithLogits", reals=True)
def _sparse_cross_entropy(xp: Any, features: Any, labels: Any) -> tuple[Any, Any]:
    check(features.ndim == 2 and labels.shape == features.shape[:1])
    classes = features.shape[1]
    inside = xp.logical_and(labels >= 0, labels < classes)
    require(xp, inside, f"not all in [0, {classes})")
    numbers = xp.arange(classes, dtype=labels.dtype, device=device_of(labels))
    is_label = xp.expand_dims(labels, axis=1) == xp.expand_dims(numbers, axis=0)
    return _cross_entropy(xp, features, xp.astype(is_label, features.dtype))
