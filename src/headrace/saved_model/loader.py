"""`tf.saved_model.loader`: who loads SavedModels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.training.saved_model.loader import load, maybe_saved_model_directory

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = [
    "load",
    "maybe_saved_model_directory",
]
