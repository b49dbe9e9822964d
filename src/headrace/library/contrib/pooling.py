"""`tf.contrib.layers.max_pool2d` and its kin.

Called by: programs.  Threads: as graph.
Source: behaviour of TensorFlow 1.15's contrib: nodes ``MaxPool2D/MaxPool``; tests compare nodes with tf-slim's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.base.arguments import check_word
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.library.contrib.arg_scope import add_arg_scope
from headrace.library.contrib.layer_utils import collect_named_outputs
from headrace.library.layers.parameters import check_rank, for_each, padding_named
from headrace.ops.nn import pooling_calls

__all__ = ["avg_pool2d", "avg_pool3d", "max_pool2d", "max_pool3d", "pool"]


def _layer(
    name: str, default_name: str, usual: str, make: Callable[..., Any], says: str
) -> Callable[..., Any]:
    space = len(usual) - 2
    formats = usual, f"NC{usual[1:-1]}"

    def layer(
        inputs: Any,
        kernel_size: Any,
        stride: Any = 2,
        padding: str = "VALID",
        data_format: str = usual,
        outputs_collections: Any = None,
        scope: Any = None,
    ) -> Any:
        if data_format not in formats:
            raise ValueError(f"data_format has to be either {' or '.join(formats[::-1])}.")
        with name_scope(scope, default_name, [inputs]) as inner:
            values = convert(inputs)
            check_rank(values, space + 2, inner.rstrip("/"), least=False)
            outputs = make(
                values,
                for_each(kernel_size, space, "pool_size"),
                for_each(stride, space, "strides"),
                padding_named(padding),
                data_format,
            )
            return collect_named_outputs(outputs_collections, inner, outputs)

    layer.__name__ = layer.__qualname__ = name
    layer.__doc__ = says
    return add_arg_scope(layer)


max_pool2d = _layer(
    "max_pool2d",
    "MaxPool2D",
    "NHWC",
    pooling_calls.max_pool,
    "The largest value under each window of images.",
)
avg_pool2d = _layer(
    "avg_pool2d",
    "AvgPool2D",
    "NHWC",
    pooling_calls.avg_pool,
    "The mean under each window of images.",
)
max_pool3d = _layer(
    "max_pool3d",
    "MaxPool3D",
    "NDHWC",
    pooling_calls.max_pool3d,
    "The largest value under each window of volumes.",
)
avg_pool3d = _layer(
    "avg_pool3d",
    "AvgPool3D",
    "NDHWC",
    pooling_calls.avg_pool3d,
    "The mean under each window of volumes.",
)


@add_arg_scope
def pool(
    inputs: Any,
    kernel_size: Any,
    pooling_type: str,
    padding: str = "VALID",
    data_format: str | None = None,
    dilation_rate: Any = 1,
    stride: Any = 1,
    outputs_collections: Any = None,
    scope: Any = None,
) -> Any:
    """`tf.nn.pool` with a window and strides that may be one number for all of space.  pooling_type: "AVG" or "MAX"."""
    check_word("pool", "pooling_type", pooling_type, ("AVG", "MAX"))
    with name_scope(scope, f"{pooling_type.lower()}_pool", [inputs]) as inner:
        values = convert(inputs)
        rank = values.shape.ndims
        if rank is None:
            raise ValueError("Rank of inputs must be known")
        if rank < 3:
            raise ValueError("Rank of inputs must be >= 3")
        space = rank - 2
        outputs = pooling_calls.pool(
            values,
            for_each(kernel_size, space, "kernel_size"),
            pooling_type=pooling_type,
            padding=padding,
            data_format=data_format,
            dilation_rate=for_each(dilation_rate, space, "dilation_rate"),
            strides=for_each(stride, space, "stride"),
            name=inner,
        )
        return collect_named_outputs(outputs_collections, inner, outputs)
