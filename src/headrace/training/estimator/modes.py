"""What a model_fn is called for.

Called by: training.estimator, programs.  Threads: any.
"""

from __future__ import annotations

from typing import Final

__all__ = ["ModeKeys"]


class ModeKeys:
    """The modes of a model_fn: `TRAIN`, `EVAL` and `PREDICT`, which are strings."""

    TRAIN: Final = "train"
    EVAL: Final = "eval"
    PREDICT: Final = "infer"
