"""`tf.contrib.learn`: documents as ids of words, and the data of tutorials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contrib.learn import preprocessing
from headrace.library.contrib.mode_keys import ModeKeys
from headrace.unmodified.facade import names_beneath as _names_beneath

if not TYPE_CHECKING:
    __getattr__ = _names_beneath(__name__)

__all__ = ["ModeKeys", "preprocessing"]
