"""Numbers of few bits: their gradients are no slopes."""

from __future__ import annotations

from tests.ops.slopes import Cases

CASES: Cases = {}
# Straight through: tests/oracle/programs/quantization.txt has TensorFlow's.
ELSEWHERE = {
    "FakeQuantWithMinMaxArgs",
    "FakeQuantWithMinMaxVars",
    "FakeQuantWithMinMaxVarsPerChannel",
    "QuantizeAndDequantizeV2",
    "QuantizeAndDequantizeV3",
}
