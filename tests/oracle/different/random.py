"""Where the outcomes of random ops are not TensorFlow's."""

from __future__ import annotations

DIFFERENT: dict[str, str] = {
    "RandomGamma": "shapes of distributions that are not above 0 are refused; TensorFlow draws something for them",
    "StatelessRandomUniformInt|StatelessTruncatedNormalV2": "TensorFlow looks at no arguments where nothing is drawn",
}
