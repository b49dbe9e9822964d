"""Where the outcomes of Fourier transforms are not TensorFlow's."""

from __future__ import annotations

DIFFERENT: dict[str, str] = {
    "I?RFFT(2D|3D)?": "of no elements: zeros; TensorFlow leaves the memory as it is, or asks for more elements",
}
