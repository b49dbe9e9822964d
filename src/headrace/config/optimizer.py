"""`tf.config.optimizer`: options of the graph optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.client.default_config import (
        get_experimental_options,
        get_jit,
        set_experimental_options,
        set_jit,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.client.default_config": (
                "get_experimental_options get_jit set_experimental_options set_jit"
            ),
        },
    )

__all__ = ["get_experimental_options", "get_jit", "set_experimental_options", "set_jit"]
