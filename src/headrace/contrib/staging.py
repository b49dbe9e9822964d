"""`tf.contrib.staging`: areas where tensors wait for a later step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.library.staging import MapStagingArea, StagingArea
from headrace.unmodified.facade import names_beneath as _names_beneath

if not TYPE_CHECKING:
    __getattr__ = _names_beneath(__name__)

__all__ = ["MapStagingArea", "StagingArea"]
