"""`tf.config`: the configuration of sessions that are made without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.client.default_config import get_soft_device_placement, set_soft_device_placement
    from headrace.config import optimizer, threading
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.client.default_config": "get_soft_device_placement set_soft_device_placement",
        },
    )

__all__ = ["get_soft_device_placement", "optimizer", "set_soft_device_placement", "threading"]
