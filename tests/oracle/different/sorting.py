"""Where the outcomes of searching, counting and incomplete functions are not TensorFlow's."""

from __future__ import annotations

DIFFERENT: dict[str, str] = {
    "UnravelIndex": "no indices have no coordinates, and those below 0 are refused; TensorFlow has it the other way",
}
