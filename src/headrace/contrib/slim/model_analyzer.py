"""`slim.model_analyzer`: how large a graph is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.library.contrib.model_analyzer import (
        analyze_ops,
        analyze_vars,
        tensor_description,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.library.contrib.model_analyzer": "analyze_ops analyze_vars tensor_description",
        },
        _names_beneath(__name__),
    )

__all__ = [
    "analyze_ops",
    "analyze_vars",
    "tensor_description",
]
