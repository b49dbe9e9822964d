"""What a model function is called for, as tf.contrib.learn names it.

Called by: programs.  Threads: constants.
Source: TF 1.15 contrib/learn
"""

from __future__ import annotations

__all__ = ["ModeKeys"]


class ModeKeys:
    """Training, evaluation, inference."""

    TRAIN = "train"
    EVAL = "eval"
    INFER = "infer"
