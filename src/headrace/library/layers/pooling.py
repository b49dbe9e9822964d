"""tf.layers of pooling.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour: nodes ``max_pooling2d/MaxPool``, ``max_pooling1d/ExpandDims``, …
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.graph.convert import convert
from headrace.graph.tensor import Tensor
from headrace.library.layers.base import layer_name_scope
from headrace.library.layers.parameters import check_rank, for_each, format_named, padding_named
from headrace.ops.array.shapes import expand_dims, squeeze
from headrace.ops.nn.pooling_calls import avg_pool, avg_pool3d, max_pool, max_pool3d

__all__ = [
    "average_pooling1d",
    "average_pooling2d",
    "average_pooling3d",
    "max_pooling1d",
    "max_pooling2d",
    "max_pooling3d",
]


def _layer(
    scope_name: str, spatial: int, make: Callable[..., Tensor], says: str
) -> Callable[..., Tensor]:
    def layer(
        inputs: Any,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: str | None = None,
    ) -> Tensor:
        format_, pads = format_named(data_format, spatial), padding_named(padding)
        window = for_each(pool_size, spatial, "pool_size")
        steps = for_each(strides, spatial, "strides")
        with layer_name_scope(name, scope_name, [inputs]):
            values = convert(inputs)
            check_rank(values, spatial + 2, name or scope_name, least=False)
            if spatial > 1:
                return make(values, window, steps, pads, format_)
            # Sequences are images that are one wide.
            at, of_images = (2, "NHWC") if format_ == "NWC" else (3, "NCHW")
            made = make(expand_dims(values, at), [*window, 1], [*steps, 1], pads, of_images)
            return squeeze(made, [at])

    layer.__name__ = layer.__qualname__ = scope_name
    layer.__doc__ = says
    return layer


_LARGEST = "The largest value under each window of {}; pool_size, strides: {}."
_MEAN = "The mean under each window of {}, padding not counted; pool_size, strides: {}."
_SEQUENCES = "sequences [n, w, c]", "a number"
_IMAGES = "images [n, h, w, c]", "a number or two"
_VOLUMES = "volumes [n, d, h, w, c]", "a number or three"

max_pooling1d = _layer("max_pooling1d", 1, max_pool, _LARGEST.format(*_SEQUENCES))
max_pooling2d = _layer("max_pooling2d", 2, max_pool, _LARGEST.format(*_IMAGES))
max_pooling3d = _layer("max_pooling3d", 3, max_pool3d, _LARGEST.format(*_VOLUMES))
average_pooling1d = _layer("average_pooling1d", 1, avg_pool, _MEAN.format(*_SEQUENCES))
average_pooling2d = _layer("average_pooling2d", 2, avg_pool, _MEAN.format(*_IMAGES))
average_pooling3d = _layer("average_pooling3d", 3, avg_pool3d, _MEAN.format(*_VOLUMES))
