"""Gradients whose nodes or registrations are not TensorFlow's, as patterns, and why.  What is not needed fails."""

from __future__ import annotations

OTHER_NODES: dict[str, str] = {}
OTHER_REGISTRATIONS: dict[str, str] = {
    "(TruncateDiv|FloorDiv|Floor|Ceil|Rint|Round) none": "TensorFlow's functions give None",
    "SparseSparse(Maximum|Minimum) none": "TensorFlow's functions cannot be called",
    "TensorScatter(Min|Max) not registered": "as in 1.15",
    "ScatterNd(Min|Max) none": "as of the other updates of references",
    "StackPushV2 none": "what loops keep for their gradients",
    "DestroyTemporaryVariable none": "as of the other variables",
    "(DecodeCSV|Parse.*) none": "what is parsed is no function of the defaults",
    "(LSTM|GRU)BlockCell function": "contrib's, as in 1.15",
    "(MaxPoolGradGradV2|I?RFFT3D) function": "they have one here",
}
"""Patterns of "OP registration", where registration is function, none or not registered."""
