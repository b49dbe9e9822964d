"""`tf.app`: run a program with flags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import flags
from headrace.base.missing import explaining as _explaining
from headrace.training.app import run

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = [
    "flags",
    "run",
]
