"""`tf.quantization`: numbers of few bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.ops.quantization.fake import (
        fake_quant_with_min_max_args,
        fake_quant_with_min_max_args_gradient,
        fake_quant_with_min_max_vars,
        fake_quant_with_min_max_vars_gradient,
        fake_quant_with_min_max_vars_per_channel,
        fake_quant_with_min_max_vars_per_channel_gradient,
        quantize_and_dequantize,
    )
    from headrace.ops.quantization.ranges import dequantize, quantize, quantized_concat
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.ops.quantization.ranges": "dequantize quantize quantized_concat",
            "headrace.ops.quantization.fake": (
                "fake_quant_with_min_max_args fake_quant_with_min_max_args_gradient fake_quant_with_min_max_vars "
                "fake_quant_with_min_max_vars_gradient fake_quant_with_min_max_vars_per_channel "
                "fake_quant_with_min_max_vars_per_channel_gradient quantize_and_dequantize"
            ),
        },
    )

__all__ = [
    "dequantize",
    "fake_quant_with_min_max_args",
    "fake_quant_with_min_max_args_gradient",
    "fake_quant_with_min_max_vars",
    "fake_quant_with_min_max_vars_gradient",
    "fake_quant_with_min_max_vars_per_channel",
    "fake_quant_with_min_max_vars_per_channel_gradient",
    "quantize",
    "quantize_and_dequantize",
    "quantized_concat",
]
