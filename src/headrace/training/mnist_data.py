"""The data of TensorFlow's first tutorials: MNIST's digits from idx files, in batches.

Nothing is downloaded: the four files lie in a directory that the program names.  An idx file is a magic number (2051
for images, 2049 for labels), the sizes, each four bytes with the highest first, then the bytes; as it is or in gzip.
Called by: programs.  Threads: a DataSet belongs to one.
Source: TF 1.15 contrib/learn/python/learn/datasets/mnist.py, for behaviour; LeCun's page on MNIST, for the format
"""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from headrace.base import dtypes, errors
from headrace.graph.names import get_seed

__all__ = [
    "DEFAULT_SOURCE_URL",
    "DataSet",
    "Datasets",
    "dense_to_one_hot",
    "extract_images",
    "extract_labels",
    "load_mnist",
    "maybe_download",
    "read_data_sets",
]

DEFAULT_SOURCE_URL = "https://storage.googleapis.com/cvdf-datasets/mnist/"
_FILES = {
    "train-images": "idx3",
    "train-labels": "idx1",
    "t10k-images": "idx3",
    "t10k-labels": "idx1",
}
_IMAGES, _LABELS = 2051, 2049
_AT_ONCE = 1 << 20  # bytes
_SIDE = 28
_CLASSES = 10
_FAKE_EXAMPLES = 10000


class IdxError(errors.DataLossError, ValueError):
    """An idx file is damaged, or is none."""


class Datasets(NamedTuple):
    """What `read_data_sets` gives."""

    train: DataSet
    validation: DataSet
    test: DataSet


class DataSet:
    """Images with their labels, given out in batches, epoch after epoch."""

    def __init__(
        self,
        images: Any,
        labels: Any,
        fake_data: bool = False,
        one_hot: bool = False,
        dtype: Any = dtypes.float32,
        reshape: bool = True,
        seed: int | None = None,
    ) -> None:
        """images: uint8 [n, rows, columns, 1]; labels: [n] or [n, classes].

        dtype: float32 (from 0 to 1) or uint8 (as they are).  reshape: to [n, rows * columns].
        seed: what NumPy's global generator, which shuffles, is seeded with; None: the graph's seed, or none.
        fake_data: 10,000 examples that are all alike, and with one_hot their labels are of ten classes.
        Raises TypeError (another dtype), ValueError (images and labels that do not match).
        """
        graph_seed, op_seed = get_seed(seed)
        np.random.seed(graph_seed if seed is None else op_seed)
        kind = dtypes.as_dtype(dtype).base_dtype
        if kind not in (dtypes.uint8, dtypes.float32):
            raise TypeError(f"Invalid image dtype {kind.name!r}, expected uint8 or float32")
        self.one_hot = one_hot
        self._epochs_completed = 0
        self._index_in_epoch = 0
        if fake_data:
            self._num_examples = _FAKE_EXAMPLES
        else:
            images, labels = np.asarray(images), np.asarray(labels)
            if not images.ndim or not labels.ndim or len(images) != len(labels):
                raise ValueError(
                    f"images.shape: {images.shape} labels.shape: {labels.shape}: there must be one label for each image"
                )
            if reshape:
                if images.ndim != 4 or images.shape[3] != 1:
                    raise ValueError(
                        f"images to be reshaped are [n, rows, columns, 1], not {list(images.shape)}; pass reshape=False"
                    )
                images = images.reshape(len(images), images.shape[1] * images.shape[2])
            if kind == dtypes.float32:
                images = np.multiply(images.astype(np.float32), np.float32(1.0 / 255.0))
            self._num_examples = len(images)
        self._images = images
        self._labels = labels

    @property
    def images(self) -> Any:
        """All of them, in the order of this epoch."""
        return self._images

    @property
    def labels(self) -> Any:
        """All of them, in the order of this epoch."""
        return self._labels

    @property
    def num_examples(self) -> int:
        """In an epoch."""
        return self._num_examples

    @property
    def epochs_completed(self) -> int:
        """How often the examples have all been given out."""
        return self._epochs_completed

    def next_batch(
        self, batch_size: int, fake_data: bool = False, shuffle: bool = True
    ) -> tuple[Any, Any]:
        """The next images and labels; what an epoch lacks comes from the next, which is shuffled anew.

        With shuffle the first epoch is shuffled when its first batch is asked for.
        fake_data: lists of images of 784 ones, and of labels 0.
        Raises ValueError: a negative size, no examples.
        """
        if batch_size < 0:
            raise ValueError(f"a batch cannot have {batch_size} examples")
        if fake_data:
            label: Any = [1] + [0] * (_CLASSES - 1) if self.one_hot else 0
            image = [1] * (_SIDE * _SIDE)
            return [image for _ in range(batch_size)], [label for _ in range(batch_size)]
        if batch_size and not self._num_examples:
            raise ValueError("there are no examples in this DataSet, so there is no batch of them")
        start = self._index_in_epoch
        if self._epochs_completed == 0 and start == 0 and shuffle:
            self._shuffle()
        parts = []
        while batch_size > self._num_examples - start:
            parts.append((self._images[start:], self._labels[start:]))
            batch_size -= self._num_examples - start
            self._epochs_completed += 1
            if shuffle:
                self._shuffle()
            start = 0
        end = self._index_in_epoch = start + batch_size
        parts.append((self._images[start:end], self._labels[start:end]))
        if len(parts) == 1:
            return parts[0]
        images, labels = zip(*parts, strict=True)
        return np.concatenate(images), np.concatenate(labels)

    def _shuffle(self) -> None:
        order = np.arange(self._num_examples)
        np.random.shuffle(order)
        self._images = self._images[order]
        self._labels = self._labels[order]


def read_data_sets(
    train_dir: Any,
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: Any = dtypes.float32,
    reshape: bool = True,
    validation_size: int = 5000,
    seed: int | None = None,
    source_url: str = DEFAULT_SOURCE_URL,
) -> Datasets:
    """MNIST from the idx files in `train_dir`: train, validation (the first `validation_size` of train) and test.

    The files are train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte,
    with .gz behind them or not.  They are never downloaded; source_url only stands in the error that says what to get.
    Other arguments: see `DataSet`.
    Raises NotFoundError (files that are not there), DataLossError, which is a ValueError too (damaged ones), ValueError
    (more validation images than there are).
    """
    if fake_data:

        def fake() -> DataSet:
            return DataSet([], [], fake_data=True, one_hot=one_hot, dtype=dtype, seed=seed)

        return Datasets(train=fake(), validation=fake(), test=fake())
    paths = _found(Path(os.fspath(train_dir)), source_url)
    arrays = []
    for name, path in paths.items():
        with path.open("rb") as file:
            if _FILES[name] == "idx3":
                arrays.append(extract_images(file))
            else:
                arrays.append(extract_labels(file, one_hot=one_hot))
    train_images, train_labels, test_images, test_labels = arrays
    for what, images, labels in (
        ("train", train_images, train_labels),
        ("t10k", test_images, test_labels),
    ):
        if len(images) != len(labels):
            raise IdxError.of(
                f"{paths[what + '-images']} has {len(images)} images, and {paths[what + '-labels']} {len(labels)} "
                "labels: they do not belong together; get both again"
            )
    if not 0 <= validation_size <= len(train_images):
        raise ValueError(
            f"Validation size should be between 0 and {len(train_images)}. Received: {validation_size}."
        )
    options: dict[str, Any] = {"dtype": dtype, "reshape": reshape, "seed": seed}
    return Datasets(
        train=DataSet(train_images[validation_size:], train_labels[validation_size:], **options),
        validation=DataSet(
            train_images[:validation_size], train_labels[:validation_size], **options
        ),
        test=DataSet(test_images, test_labels, **options),
    )


def maybe_download(filename: str, work_directory: Any, source_url: str) -> str:
    """The path of the file in that directory.  Raises NotFoundError if it is not there: nothing is downloaded."""
    path = Path(os.fspath(work_directory)) / filename
    if not path.is_file():
        raise errors.not_found(
            f"the file {filename} should lie in {path.parent.resolve()}, and does not; headrace downloads nothing: put "
            f"it there, from {source_url}"
        )
    return str(path)


def load_mnist(train_dir: Any = "MNIST-data") -> Datasets:
    """`read_data_sets` with its defaults."""
    return read_data_sets(train_dir)


def extract_images(f: IO[bytes]) -> Any:
    """uint8 [n, rows, columns, 1] from an idx file that is open for bytes.  Raises DataLossError (a ValueError too)."""
    count, rows, columns, data = _contents(f, _IMAGES, 3)
    return data.reshape(count, rows, columns, 1)


def extract_labels(f: IO[bytes], one_hot: bool = False, num_classes: int = _CLASSES) -> Any:
    """uint8 [n] from an idx file that is open for bytes, or with one_hot float64 [n, num_classes].

    Raises DataLossError (a ValueError too), ValueError (a label of no class).
    """
    _, labels = _contents(f, _LABELS, 1)
    return dense_to_one_hot(labels, num_classes) if one_hot else labels


def dense_to_one_hot(labels_dense: Any, num_classes: int) -> Any:
    """float64 [n, num_classes], 1 at each label.  Raises ValueError: a label of no class."""
    labels = np.asarray(labels_dense).ravel()
    if len(labels) and not 0 <= labels.min() <= labels.max() < num_classes:
        raise ValueError(
            f"labels are from 0 to {num_classes - 1}, and there are some from {labels.min()} to {labels.max()}"
        )
    found = np.zeros((len(labels), num_classes))
    found[np.arange(len(labels)), labels] = 1
    return found


def _found(folder: Path, source_url: str) -> dict[str, Path]:
    """The four files.  Raises NotFoundError, which says which are there."""
    paths = {}
    for name, kind in _FILES.items():
        spellings = [f"{name}{sign}{kind}-ubyte{end}" for sign in "-." for end in (".gz", "")]
        there = [folder / each for each in spellings if (folder / each).is_file()]
        if there:
            paths[name] = there[0]
    if len(paths) == len(_FILES):
        return paths
    wanted = [f"{name}-{kind}-ubyte.gz" for name, kind in _FILES.items() if name not in paths]
    if not folder.is_dir():
        state = "there is no such directory"
    elif paths:
        state = f"found there: {', '.join(path.name for path in paths.values())}"
    else:
        inside = sorted(each.name for each in folder.iterdir())
        state = f"found there: {', '.join(inside[:8]) + (', …' if len(inside) > 8 else '') or 'nothing'}"
    raise errors.not_found(
        f"the MNIST files {', '.join(wanted)} (with .gz or without) should lie in {folder.resolve()}; {state}. "
        f"headrace downloads nothing: put them there, from {source_url or DEFAULT_SOURCE_URL} or any copy of MNIST"
    )


def _contents(file: IO[bytes], magic: int, rank: int) -> Sequence[Any]:
    """The sizes and the bytes of an idx file.  Raises IdxError."""
    name = getattr(file, "name", "the file")
    start = file.read(2)
    file.seek(0)
    stream: Any = gzip.GzipFile(fileobj=file) if start == b"\x1f\x8b" else file
    kind = "image" if magic == _IMAGES else "label"
    try:
        head = stream.read(4 * (1 + rank))
        if len(head) < 4 * (1 + rank):
            raise IdxError.of(
                f"{name} ends within its header, after {len(head)} bytes: it is no MNIST {kind} file, or was cut off"
            )
        found, *sizes = struct.unpack(f">{1 + rank}I", head)
        if found != magic:
            raise IdxError.of(
                f"Invalid magic number {found} in MNIST {kind} file: {name}; that of {kind} files is {magic}"
            )
        wanted = int(np.prod([int(size) for size in sizes], dtype=object))
        data = bytearray()
        while len(data) <= wanted:
            part = stream.read(min(_AT_ONCE, wanted + 1 - len(data)))
            if not part:
                break
            data += part
    except (OSError, EOFError, zlib.error) as error:
        raise IdxError.of(f"{name} is damaged ({error}); get it again") from error
    if len(data) != wanted:
        has = "more" if len(data) > wanted else f"{len(data)}"
        raise IdxError.of(
            f"{name} says that it holds {' x '.join(map(str, sizes))} bytes, and has {has}; get it again"
        )
    return [*sizes, np.frombuffer(bytes(data), np.uint8)]
