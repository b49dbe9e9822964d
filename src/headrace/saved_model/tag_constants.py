"""`tf.saved_model.tag_constants`: tags of graphs in SavedModels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.training.saved_model.constants import GPU, SERVING, TPU, TRAINING

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = [
    "GPU",
    "SERVING",
    "TPU",
    "TRAINING",
]
