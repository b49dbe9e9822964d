"""`tf.saved_model.main_op`: what a SavedModel runs when it is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.training.saved_model.main_op import main_op, main_op_with_restore

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = [
    "main_op",
    "main_op_with_restore",
]
