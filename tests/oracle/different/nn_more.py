"""Where the outcomes of networks' ops that few programs need are not TensorFlow's."""

from __future__ import annotations

DIFFERENT: dict[str, str] = {
    "Fractional(Max|Avg)Pool": "nothing is pooled to nothing, and gradients need no static shapes; refused there",
    "Quantized(Add|Mul)": "nothing is added to nothing, and multiplied with it; refused there",
    "QuantizedConv2D(PerChannel|And.+|WithBias.*)|QuantizedDepthwiseConv2D.*": "the filter may be any tensor; there it "
    "has to be a constant, with which programs/quantization.txt compares",
    "QuantizedMatMul": "ends of ranges are scalars in every op; there vectors of one element do in some",
    "Quantized(Avg|Max)Pool": "nothing is pooled to nothing, and what has not four dimensions is an InvalidArgument; "
    "InternalError and AbortedError there",
    "QuantizedResizeBilinear": "between numbers of 32 bits the last two bits may differ",
}
