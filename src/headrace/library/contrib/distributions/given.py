"""What a distribution was made with, for `parameters` and `copy`.

Called by: library.contrib.distributions.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__: list[str] = []


def initial(names: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments among the locals of a constructor's first line."""
    return {key: value for key, value in names.items() if key != "self" and key[0] != "_"}
