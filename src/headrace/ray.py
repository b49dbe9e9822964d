"""`headrace.ray`: clusters whose tasks are actors of Ray (extra ``ray``); see docs/launch.md."""

from __future__ import annotations

from headrace.training.ray_tasks import launch

__all__ = ["launch"]
