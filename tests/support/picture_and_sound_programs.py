"""Images that are scaled, drawn into and looked into, pooling of odd sizes, labellings and sound: programs for devices.

Nothing of them is to be left to the host: `tests.ops.test_portable_programs` and `tests.xla`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import headrace as tf
from tests.support.device_programs import BOXES, IMAGES, drawn, fed, odd, raw, with_gradients
from tests.support.window_programs import Program, seeded


def _scaled(kernel: str, antialias: bool, *size: int) -> Program:
    def program() -> list[Any]:
        x, attrs = drawn(*IMAGES), {"kernel_type": kernel, "antialias": antialias}
        where: dict[str, Any] = {"size": size, "scale": [0.7, 1.4], "translation": [0.2, -0.3]}
        made = raw.ScaleAndTranslate(images=x, **where, **attrs)
        whole = fed(np.arange(60).reshape(1, 5, 4, 3), np.int64)
        return [
            *with_gradients(made, x),
            raw.ScaleAndTranslate(images=odd(*IMAGES), **where, **attrs),
            raw.ScaleAndTranslate(images=whole, **where, **attrs),
        ]

    return program


def _boxes() -> list[Any]:
    corners = np.array(
        [BOXES, [[0.3, 0.3, 0.3, 0.9], [2, 2, 3, 3], [0, 0, 0.5, 1], [np.nan, 0, 1, 1]]]
    )
    wide = fed(corners * 1.0)
    far = fed([[[-1e30, 0.2, np.inf, 0.6], [0.5, -np.inf, 0.5, np.inf]]] * 2)
    found = [raw.DrawBoundingBoxes(images=drawn(2, 7, 9, depth), boxes=wide) for depth in (1, 3, 4)]
    found += [raw.DrawBoundingBoxes(images=odd(2, 7, 9, 3), boxes=far)]
    found += [raw.DrawBoundingBoxes(images=drawn(2, 1, 1, 3), boxes=wide)]
    colors = fed([[9, 8, 7, 6], [-1, -2, -3, -4], [np.nan, np.inf, 0, 1]])
    for few in (colors, colors[:1], fed(np.zeros((0, 3)))):
        found.append(raw.DrawBoundingBoxesV2(images=drawn(2, 7, 9, 3), boxes=wide, colors=few))
    return found


OFFSETS = [
    [[0.0, 0.1], [-0.9, 0.7]],
    [[3.0, -2.0], [0.5, -0.5]],
    [[np.nan, 0.0], [np.inf, -1e30]],
    [[1 / 3, -2 / 3], [0.2, 0.6]],
]


def _glimpses() -> list[Any]:
    """Zeros around: what noise there is nobody knows."""
    found = []
    for op in (raw.ExtractGlimpse, raw.ExtractGlimpseV2):
        for centered in (True, False):
            for normalized in (True, False):
                for offsets, size in zip(OFFSETS, ([2, 3], [7, 3], [3, 3], [4, 9]), strict=True):
                    found.append(op(
                        input=odd(*IMAGES), size=size, offsets=fed(offsets), centered=centered,
                        normalized=normalized, uniform_noise=False, noise="zero",
                    ))  # fmt: skip
    inside = raw.ExtractGlimpse(input=drawn(*IMAGES), size=[2, 2], offsets=fed([[0.0, 0.1]] * 2))
    return [*found, inside]


def _fractional(kind: Any = np.float32, **attrs: Any) -> Program:
    def program() -> list[Any]:
        values = seeded(2, 9, 11, 2)
        x = fed(np.round(values * 4) if kind is not np.float32 else values, kind)
        how = {"pooling_ratio": [1.0, 1.7, 2.3, 1.0], "deterministic": True, "seed": 3, **attrs}
        found: list[Any] = []
        for op in (raw.FractionalMaxPool, raw.FractionalAvgPool):
            made = op(value=x, **how)
            found += [*made, op(value=fed(np.round(values)), **how)[0]]
            slope = fed(np.round(seeded(*made[0].shape.as_list()) * 9), kind)
            overlapping = attrs.get("overlapping", False)
            if op is raw.FractionalMaxPool:
                found.append(raw.FractionalMaxPoolGrad(
                    orig_input=x, orig_output=made[0], out_backprop=slope, row_pooling_sequence=made[1],
                    col_pooling_sequence=made[2], overlapping=overlapping,
                ))  # fmt: skip
            elif kind is np.float32:
                sizes = tf.constant(x.shape.as_list(), tf.int64)
                found.append(raw.FractionalAvgPoolGrad(
                    orig_input_tensor_shape=sizes, out_backprop=slope, row_pooling_sequence=made[1],
                    col_pooling_sequence=made[2], overlapping=overlapping,
                ))  # fmt: skip
        return found

    return program


def _windows_that_are_given() -> list[Any]:
    """The last window ends before the image does."""
    rows, columns = fed([1, 2, 4], np.int64), fed([0, 2, 3], np.int64)
    slope, sizes = drawn(2, 2, 2, 3), tf.constant(IMAGES, tf.int64)
    return [
        raw.FractionalAvgPoolGrad(
            orig_input_tensor_shape=sizes, out_backprop=slope, row_pooling_sequence=rows,
            col_pooling_sequence=columns, overlapping=overlapping,
        )
        for overlapping in (False, True)
    ]  # fmt: skip


LABELS = [[0, 0], [0, 1], [0, 2], [1, 0], [2, 0], [2, 1]]
VALUES = [1, 1, 0, 2, 0, 3]


def _labellings(
    kind: Any = np.float32, lengths: tuple[int, ...] = (7, 5, 6), **attrs: Any
) -> Program:
    def program() -> list[Any]:
        x = fed(seeded(7, 3, 5) * 3, kind)
        made = raw.CTCLoss(
            inputs=x,
            labels_indices=tf.constant(LABELS, tf.int64),
            labels_values=VALUES,
            sequence_length=tf.constant(lengths),
            **attrs,
        )
        return [*made, *tf.gradients(made[0] * [1.0, -2.0, 3.0], x)]

    return program


def _sound() -> list[Any]:
    waves = np.sin(np.arange(900.0).reshape(450, 2) ** 1.2)
    power = raw.AudioSpectrogram(
        input=fed(waves), window_size=100, stride=60, magnitude_squared=True
    )
    plain = raw.AudioSpectrogram(input=fed(waves[:70]), window_size=64, stride=3)
    few = {"filterbank_channel_count": 9, "dct_coefficient_count": 5}
    return [
        power,
        plain,
        raw.Mfcc(spectrogram=power, sample_rate=16000),
        raw.Mfcc(
            spectrogram=tf.abs(odd(2, 3, 65)), sample_rate=8000, lower_frequency_limit=0.0, **few
        ),
        raw.Mfcc(spectrogram=power, sample_rate=2000, **few),
    ]


OVERLAPPING: dict[str, Any] = {"overlapping": True}
PROGRAMS: dict[str, Program] = {
    "images scaled and moved": _scaled("lanczos3", True, 4, 7),
    "images scaled and moved by few": _scaled("triangle", False, 2, 5),
    "boxes that are drawn": _boxes,
    "glimpses": _glimpses,
    "fractional pooling": _fractional(),
    "fractional pooling of windows that overlap": _fractional(**OVERLAPPING, pseudo_random=True),
    "fractional pooling of integers": _fractional(np.int64, **OVERLAPPING),
    "windows that are given": _windows_that_are_given,
    "labellings": _labellings(),
    "labellings whose labels stay apart": _labellings(np.float64, ctc_merge_repeated=False),
    "labellings that do not fit": _labellings(
        lengths=(2, 0, 6), ignore_longer_outputs_than_inputs=True, preprocess_collapse_repeated=True
    ),
    "sound": _sound,
}
