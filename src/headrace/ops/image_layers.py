"""tf.layers of images: convolutions with variables of their own, and pooling.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour: variables ``conv2d/kernel`` and ``conv2d/bias``, nodes ``conv2d/Conv2D``, ``conv2d/BiasAdd``,
``max_pooling2d/MaxPool``
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.ops.bias import bias_add
from headrace.ops.initializers import zeros_initializer
from headrace.ops.neural import conv2d_transpose as transposed
from headrace.ops.neural import convolved_over_space
from headrace.ops.packing import stack
from headrace.ops.pools import avg_pool, max_pool
from headrace.ops.shape_ops import shape as shape_of
from headrace.ops.variable_scope import get_variable, variable_scope

__all__ = [
    "average_pooling2d", "conv1d", "conv2d", "conv2d_transpose", "conv3d", "max_pooling2d",
]  # fmt: skip

_FORMATS = {"channels_last": ("NWC", "NHWC", "NDHWC"), "channels_first": ("NCW", "NCHW", "NCDHW")}
Initializer = Any


def _format(data_format: str, spatial: int) -> str:
    if data_format not in _FORMATS:
        raise ValueError(f"data_format is channels_last or channels_first, not {data_format!r}")
    return _FORMATS[data_format][spatial - 1]


def _each(value: Any, spatial: int, name: str) -> list[int]:
    """A number for each spatial dimension.  Raises ValueError."""
    listed = [value] * spatial if isinstance(value, int) else [int(n) for n in value]
    if len(listed) != spatial:
        raise ValueError(f"{name} is a number or {spatial} of them, not {value}")
    return listed


def _padding(padding: str) -> str:
    if padding.upper() not in ("SAME", "VALID"):
        raise ValueError(f"padding is 'same' or 'valid', not {padding!r}")
    return padding.upper()


def _channels(values: Tensor, format_: str) -> int:
    raw = values.raw_shape
    if raw is not None and len(raw) != len(format_):
        raise ValueError(
            f"the input must have the {len(format_)} dimensions {format_}, and {values.name} has shape {values.shape}"
        )
    found = None if raw is None else raw[-1] if format_.endswith("C") else raw[1]
    if found is None:
        raise ValueError(
            f"the number of channels must be known ({format_}), and {values.name} has shape {values.shape}"
        )
    return found


class _Parameters:
    """What all layers with a kernel and a bias take beside their window."""

    def __init__(
        self,
        activation: Any,
        use_bias: bool,
        kernel_initializer: Initializer,
        bias_initializer: Initializer,
        kernel_regularizer: Any,
        bias_regularizer: Any,
        activity_regularizer: Any,
        kernel_constraint: Any,
        bias_constraint: Any,
        trainable: bool,
    ) -> None:
        if activity_regularizer is not None:
            raise NotImplementedError(
                "activity_regularizer is not available; add the loss with tf.add_to_collection("
                "tf.GraphKeys.REGULARIZATION_LOSSES, …)"
            )
        self.activation, self.use_bias, self.trainable = activation, use_bias, trainable
        self.of_kernel = kernel_initializer, kernel_regularizer, kernel_constraint
        self.of_bias = bias_initializer, bias_regularizer, bias_constraint

    def kernel(self, shape: Sequence[int], dtype: Any) -> Any:
        return self._variable("kernel", shape, dtype, *self.of_kernel)

    def finished(self, outputs: Tensor, count: int, data_format: str) -> Tensor:
        """With a bias, if wanted, and the activation applied."""
        if self.use_bias:
            bias = self._variable("bias", [count], outputs.dtype.base_dtype, *self.of_bias)
            outputs = bias_add(outputs, bias, data_format=data_format)
        made: Tensor = outputs if self.activation is None else self.activation(outputs)
        return made

    def _variable(
        self, name: str, shape: Sequence[int], dtype: Any, initializer: Any, regularizer: Any, constraint: Any
    ) -> Any:  # fmt: skip
        return get_variable(
            name, shape, dtype, initializer, regularizer, self.trainable, constraint=constraint
        )


def _layer(spatial: int) -> Callable[..., Tensor]:
    op_name, scope_name = f"Conv{spatial}D", f"conv{spatial}d"

    def layer(
        inputs: Any,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1,
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
        parameters = _Parameters(
            activation, use_bias, kernel_initializer, bias_initializer, kernel_regularizer,
            bias_regularizer, activity_regularizer, kernel_constraint, bias_constraint, trainable,
        )  # fmt: skip
        values, format_ = convert(inputs), _format(data_format, spatial)
        window = _each(kernel_size, spatial, "kernel_size")
        with variable_scope(name, scope_name, [values], reuse=reuse):
            shape = [*window, _channels(values, format_), filters]
            kernel = convert(parameters.kernel(shape, values.dtype.base_dtype))
            outputs = convolved_over_space(
                values, kernel, _padding(padding), _each(strides, spatial, "strides"),
                _each(dilation_rate, spatial, "dilation_rate"), format_, op_name,
            )  # fmt: skip
            return parameters.finished(outputs, filters, "NHWC" if format_[-1] == "C" else "NCHW")

    layer.__name__ = layer.__qualname__ = scope_name
    return layer


conv1d = _layer(1)
conv1d.__doc__ = """activation(convolution + bias) of sequences [n, w, c]: [n, w', filters]."""
conv2d = _layer(2)
conv2d.__doc__ = """activation(convolution + bias) of images [n, h, w, c]: [n, h', w', filters].

    kernel_size, strides, dilation_rate: a number or two.  Variables kernel [kh, kw, c, filters] and bias [filters].
    Raises ValueError if the number of channels is not known.
    """
conv3d = _layer(3)
conv3d.__doc__ = (
    """activation(convolution + bias) of volumes [n, d, h, w, c]: [n, d', h', w', filters]."""
)


def conv2d_transpose(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
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
    """What the convolution with a kernel [kh, kw, filters, c] turns into `inputs` [n, h, w, c]: [n, h', w', filters].

    h' = h · stride (same), or that and what the window reaches beyond the stride (valid).
    """
    parameters = _Parameters(
        activation, use_bias, kernel_initializer, bias_initializer, kernel_regularizer,
        bias_regularizer, activity_regularizer, kernel_constraint, bias_constraint, trainable,
    )  # fmt: skip
    values, format_ = convert(inputs), _format(data_format, 2)
    window, steps = _each(kernel_size, 2, "kernel_size"), _each(strides, 2, "strides")
    with variable_scope(name, "conv2d_transpose", [values], reuse=reuse):
        channels = _channels(values, format_)
        kernel = parameters.kernel([*window, filters, channels], values.dtype.base_dtype)
        assert values.raw_shape is not None
        first = 1 if format_ == "NHWC" else 2
        dynamic = shape_of(values)
        sizes: list[Any] = []
        static: list[int | None] = []
        for axis, (w, s) in enumerate(zip(window, steps, strict=True)):
            known = values.raw_shape[first + axis]
            beyond = max(w - s, 0) if _padding(padding) == "VALID" else 0
            static.append(None if known is None else known * s + beyond)
            sizes.append(dynamic[first + axis] * s + beyond if known is None else static[-1])
        count: Any = values.raw_shape[0]
        whole = [*sizes, filters] if first == 1 else [filters, *sizes]
        outputs = transposed(
            values, kernel, stack([dynamic[0] if count is None else count, *whole]), steps,
            _padding(padding), format_,
        )  # fmt: skip
        outputs.set_shape([count, *static, filters] if first == 1 else [count, filters, *static])
        return parameters.finished(outputs, filters, format_)


def _pooled(
    make: Any, scope_name: str, inputs: Any, pool_size: Any, strides: Any, padding: str, data_format: str,
    name: str | None,
) -> Tensor:  # fmt: skip
    format_ = _format(data_format, 2)
    with name_scope(name, scope_name, [inputs]):
        values = convert(inputs)
        made: Tensor = make(
            values, _each(pool_size, 2, "pool_size"), _each(strides, 2, "strides"),
            _padding(padding), format_,
        )  # fmt: skip
        return made


def max_pooling2d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """The largest value under each window of images [n, h, w, c]; pool_size, strides: a number or two."""
    return _pooled(
        max_pool, "max_pooling2d", inputs, pool_size, strides, padding, data_format, name
    )


def average_pooling2d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """The mean under each window of images [n, h, w, c], padding not counted; pool_size, strides: a number or two."""
    return _pooled(
        avg_pool, "average_pooling2d", inputs, pool_size, strides, padding, data_format, name
    )
