"""tf.layers, the functional ones that need nothing but matrices: dense, dropout, flatten.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour: variables ``dense/kernel`` and ``dense/bias``, nodes ``dense/MatMul``, …
"""

from __future__ import annotations

from typing import Any

from headrace.base import shapes
from headrace.graph.convert import convert
from headrace.graph.tensor import Tensor
from headrace.library.layers.base import layer_name_scope, layer_scope
from headrace.library.layers.parameters import OfVariable, Parameters, check_rank, chosen
from headrace.library.tensordot import tensordot
from headrace.library.variables.initializers import zeros_initializer
from headrace.ops.array.shapes import reshape, transpose
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.identities import identity
from headrace.ops.linalg.products import matmul
from headrace.ops.nn.basics import dropout as nn_dropout

__all__ = ["dense", "dropout", "flatten"]


def dense(
    inputs: Any,
    units: int,
    activation: Any = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = zeros_initializer(),  # noqa: B008 (it has no state)
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    kernel_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Tensor:
    """activation(inputs @ kernel + bias): inputs [..., in], kernel [in, units], bias [units].

    Raises ValueError if the size of the last dimension is not known.
    """
    parameters = Parameters(
        activation,
        use_bias,
        (bias_initializer, bias_regularizer, bias_constraint),
        activity_regularizer,
        trainable,
    )
    units = _units(units, name or "dense")
    values = convert(inputs)
    check_dense(values, name or "dense")
    with layer_scope(name, "dense", [values], reuse=reuse):
        of_kernel = kernel_initializer, kernel_regularizer, kernel_constraint
        return dense_in_scope(values, units, parameters, of_kernel)


def _units(units: Any, name: str) -> int:
    """Raises TypeError, ValueError."""
    try:
        return int(units)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"dense layer {name!r}: units must be an integer, and is {units!r:.200}"
        ) from None


def check_dense(values: Tensor, name: str) -> None:
    """Raises TypeError, ValueError: what a dense layer of this name cannot take."""
    if not (values.dtype.is_floating or values.dtype.is_complex):
        raise TypeError(
            f"Unable to build `Dense` layer with non-floating point dtype {values.dtype}: {values.name}; "
            "tf.cast converts"
        )
    check_rank(values, 2, name, least=True)
    raw = values.raw_shape
    if not raw or raw[-1] is None:
        raise ValueError(
            f"The last dimension of the inputs to `Dense` should be defined, and {values.name} has "
            f"shape {values.shape}"
        )


def dense_in_scope(
    values: Tensor, units: int, parameters: Parameters, of_kernel: OfVariable
) -> Tensor:
    """What `dense` makes within its scope, of inputs that `check_dense` has seen."""
    raw = values.raw_shape
    assert raw is not None
    kernel = parameters.variable("kernel", [raw[-1], units], values.dtype.base_dtype, of_kernel)
    if len(raw) > 2:
        outputs: Tensor = tensordot(values, kernel, [[len(raw) - 1], [0]])
        outputs.set_shape((*raw[:-1], units))
    else:
        outputs = matmul(values, kernel)
    return parameters.finished(outputs, units)


def dropout(
    inputs: Any,
    rate: Any = 0.5,
    noise_shape: Any = None,
    seed: int | None = None,
    training: Any = False,
    name: str | None = None,
) -> Tensor:
    """While `training` (a bool, or a tensor of one) `tf.nn.dropout`, otherwise the inputs."""
    if isinstance(rate, (int, float)) and not 0 <= rate <= 1:
        raise ValueError(
            f"Invalid value {rate} received for `rate`, expected a value between 0 and 1: the part that is dropped"
        )
    with layer_name_scope(name, "dropout", [inputs]):
        return chosen(  # type: ignore[no-any-return]
            training,
            lambda: nn_dropout(inputs, rate=rate, noise_shape=noise_shape, seed=seed),
            lambda: identity(inputs),
        )


def flatten(inputs: Any, name: str | None = None, data_format: str = "channels_last") -> Tensor:
    """[batch, the rest]: all dimensions but the first as one.

    data_format: channels_first inputs are flattened as if their channels came last.
    """
    with layer_name_scope(name, "flatten", [inputs]):
        values = convert(inputs)
        raw = values.raw_shape
        check_rank(values, 1, name or "flatten", least=True)
        rest = None if raw is None else shapes.num_elements(raw[1:])
        if data_format == "channels_first" and raw is not None and len(raw) > 2:
            values = transpose(values, [0, *range(2, len(raw)), 1])
        target: Any = [-1, rest]
        if rest is None:
            target = [shape_of(values)[0], -1]
        flat: Tensor = reshape(values, target)
        if raw is not None:
            flat.set_shape((raw[0], rest))
        return flat
