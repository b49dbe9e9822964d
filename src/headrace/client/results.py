"""The form in which fetched values reach the caller.

Called by: client.session.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def presented(values: Sequence[Any]) -> list[Any]:
    """Arrays as they are, scalars as NumPy scalars, scalar strings as bytes."""
    return [
        value[()] if type(value) is np.ndarray and value.ndim == 0 else value for value in values
    ]
