"""What input pipelines of the rows read: lines of CSV, serialized Examples, pictures.

Called by: rows.pipelines, rows.datasets.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

FILES = 5
LINES = 2000
EXAMPLES = 2000


def csv_files(folder: str) -> list[str]:
    """Files of lines of five columns: n, n / 2, n % 10, n * 3, "namen"; n counts on from file to file."""
    names = []
    for file in range(FILES):
        names.append(str(Path(folder) / f"part{file}.csv"))
        numbers = range(file * LINES, (file + 1) * LINES)
        Path(names[-1]).write_text(
            "".join(f"{n},{n / 2},{n % 10},{n * 3},name{n}\n" for n in numbers)
        )
    return names


def serialized_examples(tf: Any) -> list[bytes]:
    """Examples of a label, n, and ten numbers n / 2."""
    found = []
    for n in range(EXAMPLES):
        example = tf.train.Example()
        example.features.feature["label"].int64_list.value.append(n)
        example.features.feature["x"].float_list.value.extend([n / 2] * 10)
        found.append(example.SerializeToString())
    return found


def example_file(tf: Any, folder: str) -> str:
    """A TFRecord file of those."""
    path = str(Path(folder) / "examples.tfrecord")
    with tf.python_io.TFRecordWriter(path) as writer:
        for each in serialized_examples(tf):
            writer.write(each)
    return path


def picture(number: int, side: int) -> Any:
    """uint8 [side, side, 3]: something that is neither flat nor noise."""
    y, x = np.mgrid[:side, :side]
    noise = np.random.default_rng(number).integers(0, 16, (side, side, 3))
    return (np.stack([x + y, 2 * x + number, 3 * y], axis=2) % 240 + noise).astype(np.uint8)
