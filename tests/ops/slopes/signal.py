"""Fourier transforms, of real parts and imaginary ones, and rolls."""

from __future__ import annotations

from typing import Any

import numpy as np

import headrace as tf
from headrace.graph.registry import get
from tests.ops.slopes import Cases, Function, op

RNG = np.random.default_rng(9)
X = RNG.normal(size=(2, 3, 4))


def of_parts(name: str) -> Function:
    """The real and the imaginary part of a transform of what the input is both parts of."""

    def parts(x: Any) -> list[Any]:
        found = get(name)(tf.complex(x, tf.reverse(x, [-1])))
        return [tf.real(found), tf.imag(found)]

    return parts


def of_reals(name: str, *lengths: int) -> Function:
    def parts(x: Any) -> list[Any]:
        x = tf.ensure_shape(x, X.shape)
        found = get(name)(x, np.array(lengths, np.int32), Tcomplex=tf.complex128)
        return [tf.real(found), tf.imag(found)]

    return parts


def to_reals(name: str, *lengths: int) -> Function:
    def found(x: Any) -> Any:
        x = tf.ensure_shape(x, X.shape)
        spectrum = tf.complex(x, tf.reverse(x, [-1]))
        return get(name)(spectrum, np.array(lengths, np.int32), Treal=tf.float64)

    return found


CASES: Cases = {
    **{
        name: (of_parts(name), [X])
        for name in ("FFT", "IFFT", "FFT2D", "IFFT2D", "FFT3D", "IFFT3D")
    },
    "RFFT": (of_reals("RFFT", 4), [X]),
    "RFFT odd": (of_reals("RFFT", 3), [X]),
    "RFFT2D": (of_reals("RFFT2D", 3, 4), [X]),
    "RFFT2D cut": (of_reals("RFFT2D", 2, 3), [X]),
    "RFFT3D": (of_reals("RFFT3D", 2, 3, 4), [X]),
    "IRFFT": (to_reals("IRFFT", 6), [X]),
    "IRFFT odd": (to_reals("IRFFT", 7), [X]),
    "IRFFT cut": (to_reals("IRFFT", 3), [X]),
    "IRFFT2D": (to_reals("IRFFT2D", 3, 6), [X]),
    "IRFFT3D": (to_reals("IRFFT3D", 2, 3, 5), [X]),
    "Roll": (op("Roll", [1, -2], [0, 2]), [X]),
}

ELSEWHERE: set[str] = set()
