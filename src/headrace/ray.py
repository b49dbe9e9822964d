"""`headrace.ray`: clusters whose tasks are actors of Ray (extra ``ray``); see docs/launch.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.training.ray_tasks import launch
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.training.ray_tasks": "launch",
        },
    )

__all__ = ["launch"]
