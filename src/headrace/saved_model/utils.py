"""`tf.saved_model.utils`: tensors of signatures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.training.saved_model.signatures import build_tensor_info, get_tensor_from_tensor_info

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = [
    "build_tensor_info",
    "get_tensor_from_tensor_info",
]
