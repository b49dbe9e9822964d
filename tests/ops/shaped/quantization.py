"""Operands that fit: numbers of few bits, and sound.  (See the package for what a row is.)"""

from __future__ import annotations

import numpy as np

from headrace.codec import wav
from tests.ops.shaped import Row

_WAV = wav.encode(np.linspace(-1, 1, 12, dtype=np.float32).reshape(6, 2), 8000)

SHAPED: dict[str, list[Row]] = {
    "FakeQuantWithMinMaxVars": [((2, 3), -1.0, 2.0), ((0,), -1.0, 2.0), ((), 0.0, 0.0)],
    "FakeQuantWithMinMaxVarsGradient": [((2, 3), (2, 3), -1.0, 2.0), ((0,), (0,), 0.0, 0.0)],
    "FakeQuantWithMinMaxVarsPerChannel": [((2, 3), [-1, -1, -1], [1, 2, 3]), ((2,), [0, 0], [0, 1])],
    "FakeQuantWithMinMaxVarsPerChannelGradient": [((2, 3), (2, 3), [-1, -1, -1], [1, 2, 3])],
    "QuantizeAndDequantizeV2": [((2, 3), -1.0, 2.0), ((0,), 0.0, 1.0)],
    "QuantizeAndDequantizeV3": [((2, 3), -1.0, 2.0, 8), ((0,), 0.0, 1.0, 4)],
    "QuantizeV2": [((2, 3), -1.0, 2.0), ((0,), 0.0, 1.0), ((), -1.0, -0.5), ((3,), 2.0, 1.0)],
    "DecodeWav": [(_WAV,), (_WAV[:40],), (b"RIFF",)],
    "EncodeWav": [((4, 2), 8000), ((1, 1), 1)],
}  # fmt: skip
