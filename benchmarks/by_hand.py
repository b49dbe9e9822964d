"""What floors of models share.

Used by: lstm_by_hand, residual_by_hand.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def cross_entropy(logits: Array, labels: Array) -> tuple[float, Array]:
    """The mean over the batch of logits [batch, classes], which are changed, and its gradient; labels [batch]."""
    logits -= logits.max(1, keepdims=True)
    shares = np.exp(logits)
    shares /= shares.sum(1, keepdims=True)
    rows = np.arange(len(shares))
    loss = -np.log(shares[rows, labels]).mean()
    shares[rows, labels] -= 1
    shares /= np.float32(len(shares))
    return float(loss), shares
