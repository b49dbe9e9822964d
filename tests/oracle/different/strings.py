"""Where the outcomes of strings in rows and of ragged tensors are not TensorFlow's."""

from __future__ import annotations

DIFFERENT: dict[str, str] = {
    "RaggedTensorTo(Sparse|Tensor)": "splits that do not go from 0 to the number of values are refused",
    "StringNGrams": "data and splits that are no vectors are refused",
}
