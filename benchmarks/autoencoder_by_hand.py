"""The floor of the autoencoder's training step: the same arithmetic in NumPy, written for this network alone.

Used by: rows.models.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import models
from benchmarks.row import Bench

Array = np.ndarray[Any, Any]
RATE, KEPT, EPSILON = np.float32(0.01), np.float32(0.1), np.float32(1e-10)


class _Variable:
    """A variable, and what RMSProp keeps of its gradients."""

    def __init__(self, value: Array) -> None:
        self.value, self._squares = value, np.ones_like(value)
        self._momentum = np.zeros_like(value)  # of 0, which the optimizer keeps nevertheless
        self.gradient, self._room = np.empty_like(value), np.empty_like(value)

    def update(self) -> None:
        """By its gradient."""
        room, gradient, squares = self._room, self.gradient, self._squares
        np.multiply(gradient, gradient, out=room)
        room -= squares
        room *= KEPT
        squares += room
        np.add(squares, EPSILON, out=room)
        np.sqrt(room, out=room)
        step = np.divide(gradient, room, out=self._momentum)
        step *= RATE
        self.value -= step


class Step:
    """Variables, and a step of RMSProp on them."""

    def __init__(self) -> None:
        self.pictures, weights = models.code_values()
        self.weights = [_Variable(each.copy()) for each in weights]
        self.biases = [_Variable(np.zeros(each.shape[1], np.float32)) for each in weights]
        self.signals = [np.empty((len(self.pictures), size), np.float32) for size in models.LAYERS]
        self.signals[0] = self.pictures
        self.back = [np.empty_like(each) for each in self.signals]
        self.slope = [np.empty_like(each) for each in self.signals]

    def __call__(self) -> float:
        """The loss, before the step."""
        for at, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            signal = np.matmul(self.signals[at], weight.value, out=self.signals[at + 1])
            signal += bias.value
            np.negative(signal, out=signal)
            np.exp(signal, out=signal)
            signal += 1
            np.reciprocal(signal, out=signal)
        off = np.subtract(self.signals[-1], self.pictures, out=self.back[-1])
        loss = float(np.square(off, out=self.slope[-1]).mean())
        off *= np.float32(2 / off.size)
        self._back()
        for each in (*self.weights, *self.biases):
            each.update()
        return loss

    def _back(self) -> None:
        for at in reversed(range(len(self.weights))):
            dy, signal, slope = self.back[at + 1], self.signals[at + 1], self.slope[at + 1]
            np.subtract(1, signal, out=slope)
            slope *= signal
            dy *= slope
            np.matmul(self.signals[at].T, dy, out=self.weights[at].gradient)
            dy.sum(0, out=self.biases[at].gradient)
            if at:
                np.matmul(dy, self.weights[at].value.T, out=self.back[at])


def by_hand(bench: Bench) -> None:
    """The floor: with the threads that BLAS takes by itself."""
    step, model = Step(), models.AUTOENCODER
    bench.expect([step() for _ in model.losses], model.losses, relative=model.close)
    bench.time(step)
