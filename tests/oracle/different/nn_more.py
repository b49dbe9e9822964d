"""Where the outcomes of networks' ops that few programs need are not TensorFlow's."""

from __future__ import annotations

DIFFERENT: dict[str, str] = {
    "Fractional(Max|Avg)Pool": "nothing is pooled to nothing, and gradients need no static shapes; refused there",
    "QuantizeV2": "fetched as records of one field, as from 1.15 (programs/quantization.txt compares the numbers)",
}
