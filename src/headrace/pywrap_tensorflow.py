"""`tf.pywrap_tensorflow`: what programs use of the module beneath TensorFlow's, which is compiled there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.training.saver.checkpoint_readers import NewCheckpointReader

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = ["NewCheckpointReader"]
