"""`tf.contrib.staging`: areas where tensors wait for a later step."""

from __future__ import annotations

from headrace.ops.staging import MapStagingArea, StagingArea

__all__ = ["MapStagingArea", "StagingArea"]
