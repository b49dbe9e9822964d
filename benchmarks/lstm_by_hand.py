"""The floor of the LSTM's training step: the same arithmetic in NumPy, written for this network alone.

Used by: rows.models.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import models
from benchmarks.by_hand import cross_entropy
from benchmarks.row import Bench

Array = np.ndarray[Any, Any]
RATE = np.float32(0.5)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


class Step:
    """Variables, and a step of descent on them."""

    def __init__(self) -> None:
        of = models.lstm_values()
        self.x = np.ascontiguousarray(of["x"].transpose(1, 0, 2))
        self.labels, self.kernel, self.last = of["labels"], of["kernel"].copy(), of["last"].copy()
        self.bias = np.zeros(4 * models.LSTM_UNITS, np.float32)
        self.last_bias = np.zeros(models.CLASSES, np.float32)

    def __call__(self) -> float:
        """The loss, before the step."""
        c = h = np.zeros((models.LSTM_BATCH, models.LSTM_UNITS), np.float32)
        kept = []
        for x in self.x:
            both = np.concatenate([x, h], 1)
            i, j, f, o = np.split(both @ self.kernel + self.bias, 4, axis=1)
            i, j, f, o = _sigmoid(i), np.tanh(j), _sigmoid(f + np.float32(1)), _sigmoid(o)
            before, c = c, c * f + i * j
            high = np.tanh(c)
            h = high * o
            kept.append((both, i, j, f, o, before, high))
        logits = h @ self.last + self.last_bias
        loss, shares = cross_entropy(logits, self.labels)
        to_h, to_c = shares @ self.last.T, np.zeros_like(c)
        self.last -= RATE * (h.T @ shares)
        self.last_bias -= RATE * shares.sum(0)
        self._back(kept, to_h, to_c)
        return loss

    def _back(self, kept: list[tuple[Array, ...]], to_h: Array, to_c: Array) -> None:
        to_kernel, to_bias = np.zeros_like(self.kernel), np.zeros_like(self.bias)
        for both, i, j, f, o, before, high in reversed(kept):
            to_c = to_c + to_h * o * (1 - high * high)
            gates = np.concatenate(
                [
                    to_c * j * i * (1 - i),
                    to_c * i * (1 - j * j),
                    to_c * before * f * (1 - f),
                    to_h * high * o * (1 - o),
                ],
                1,
            )
            to_kernel += both.T @ gates
            to_bias += gates.sum(0)
            to_h = (gates @ self.kernel.T)[:, models.LSTM_INPUTS :]
            to_c = to_c * f
        self.kernel -= RATE * to_kernel
        self.bias -= RATE * to_bias


def by_hand(bench: Bench) -> None:
    """The floor: with the threads that BLAS takes by itself."""
    step = Step()
    bench.expect(
        [step() for _ in models.LSTM.losses], models.LSTM.losses, relative=models.LSTM.close
    )
    bench.time(step)
