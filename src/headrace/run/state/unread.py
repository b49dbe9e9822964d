"""Values that are still in their file, checked, on their way to a variable: read once, into the memory of its array.

Called by: run.checkpoints.reading (makes them), ops (assignments take them), plan.check.  Threads: any, one at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Unread(ABC):
    """An array of numbers of `dtype` and `shape`, which is in no memory yet."""

    __slots__ = ("dtype", "shape")

    def __init__(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.shape = shape

    @abstractmethod
    def read_into(self, array: Array) -> None:
        """Read it: `array` is contiguous, of its dtype and shape.

        Blocks for the disk.  Raises DataLoss (the file has changed since), and other errors of files, and what ended
        the step.
        """
