"""`tf.contrib.image`: images turned, moved, seen from elsewhere and bent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.library.contrib.image_transforms import (
        angles_to_projective_transforms,
        compose_transforms,
        flat_transforms_to_matrices,
        matrices_to_flat_transforms,
        rotate,
        transform,
        translate,
        translations_to_projective_transforms,
    )
    from headrace.library.contrib.image_warps import (
        dense_image_warp,
        interpolate_spline,
        sparse_image_warp,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.library.contrib.image_transforms": (
                "angles_to_projective_transforms compose_transforms flat_transforms_to_matrices "
                "matrices_to_flat_transforms rotate transform translate "
                "translations_to_projective_transforms"
            ),
            "headrace.library.contrib.image_warps": (
                "dense_image_warp interpolate_spline sparse_image_warp"
            ),
        },
        _names_beneath(__name__),
    )

__all__ = [
    "angles_to_projective_transforms",
    "compose_transforms",
    "dense_image_warp",
    "flat_transforms_to_matrices",
    "interpolate_spline",
    "matrices_to_flat_transforms",
    "rotate",
    "sparse_image_warp",
    "transform",
    "translate",
    "translations_to_projective_transforms",
]
