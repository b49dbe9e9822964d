"""`tf.saved_model.builder`: who writes SavedModels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.training.saved_model.builder import SavedModelBuilder

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = [
    "SavedModelBuilder",
]
