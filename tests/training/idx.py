"""Writes MNIST's four files, with as many and as large images as a test wants."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np

NAMES = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")


def images(array: np.ndarray) -> bytes:
    return struct.pack(">4I", 2051, *array.shape) + array.astype(np.uint8).tobytes()


def labels(array: np.ndarray) -> bytes:
    return struct.pack(">2I", 2049, len(array)) + array.astype(np.uint8).tobytes()


def digits(count: int, side: int = 28, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Images whose first pixel is their number, and what is lit says their label."""
    numbers = np.arange(first, first + count)
    pictures = np.zeros((count, side, side), np.uint8)
    pictures[np.arange(count), numbers % 10] = 255
    pictures[:, 0, 0] = numbers
    return pictures, numbers % 10


def write(
    folder: Path, train: int = 60, test: int = 20, side: int = 28, zipped: bool = True
) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    contents = []
    for pictures, classes in (digits(train, side), digits(test, side, 100)):
        contents += [images(pictures), labels(classes)]
    for name, data in zip(NAMES, contents, strict=True):
        end = "-ubyte.gz" if zipped else "-ubyte"
        (folder / f"{name}{end}").write_bytes(gzip.compress(data) if zipped else data)
    return folder
