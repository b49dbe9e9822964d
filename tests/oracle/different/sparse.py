"""Where the outcomes of sparse tensors and sets are not TensorFlow's."""

from __future__ import annotations

DIFFERENT: dict[str, str] = {
    "SparseDenseCwiseAdd": "it has a gradient; TensorFlow refuses to make one",
}
