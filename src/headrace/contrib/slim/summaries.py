"""`slim.summaries`: summaries of tensors under their own names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.library.contrib.summaries import (
        add_histogram_summaries,
        add_histogram_summary,
        add_image_summaries,
        add_image_summary,
        add_scalar_summaries,
        add_scalar_summary,
        add_zero_fraction_summaries,
        add_zero_fraction_summary,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.library.contrib.summaries": (
                "add_histogram_summaries add_histogram_summary add_image_summaries "
                "add_image_summary add_scalar_summaries add_scalar_summary "
                "add_zero_fraction_summaries add_zero_fraction_summary"
            ),
        },
        _names_beneath(__name__),
    )

__all__ = [
    "add_histogram_summaries",
    "add_histogram_summary",
    "add_image_summaries",
    "add_image_summary",
    "add_scalar_summaries",
    "add_scalar_summary",
    "add_zero_fraction_summaries",
    "add_zero_fraction_summary",
]
