"""`tf.raw_ops`: every op that is registered, as a function that adds one node; arguments are given by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.unmodified.raw_functions import finding as _finding

if not TYPE_CHECKING:
    __getattr__, __dir__ = _finding(__name__)

__all__: list[str] = []
