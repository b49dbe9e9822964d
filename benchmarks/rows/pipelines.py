"""Input pipelines of a local session: files, readers, decoding, a queue, batches; records per second.

Each has its queue runners in the background, as programs have, and one thread that takes batches.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.inputs import FILES, csv_files, example_file, picture
from benchmarks.row import Bench, Unit, row

BATCH = 32
PICTURES = 64
SIDE = 64
WITHIN_S = 60.0


@row("CSV, 5 readers, shuffle queue, batches of 32", unit=Unit.PER_SECOND, faster=5)
def csv_pipeline(tf: Any, bench: Bench) -> None:
    """Records of five columns from five files, read in five threads, shuffled and batched."""
    with tempfile.TemporaryDirectory() as folder:
        names = csv_files(folder)

        def record(queue: Any) -> list[Any]:
            _, line = tf.TextLineReader().read(queue)
            columns: list[Any] = tf.decode_csv(line, [[0], [0.0], [0.0], [0.0], [""]])
            return columns

        queue = tf.train.string_input_producer(names, capacity=2 * FILES)
        batch = tf.train.shuffle_batch_join(
            [record(queue) for _ in range(FILES)], BATCH, capacity=2000, min_after_dequeue=1000
        )
        with _running(tf, batch) as step:
            number, half, digit, triple, name = step()
            bench.expect(len(set(number)), BATCH)
            bench.expect(half, number / 2)
            bench.expect(digit, number % 10)
            bench.expect(triple, number * 3)
            bench.expect(list(name), [f"name{n}".encode() for n in number])
            bench.rate([step], each_counts=BATCH)


@row("TFRecord of Examples, parsed, batches of 32", unit=Unit.PER_SECOND, faster=5)
def tfrecord_pipeline(tf: Any, bench: Bench) -> None:
    """Examples of a label and ten numbers, parsed one by one and batched in the order of the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = example_file(tf, folder)
        _, serialized = tf.TFRecordReader().read(tf.train.string_input_producer([path]))
        features = tf.parse_single_example(
            serialized,
            {"label": tf.FixedLenFeature([], tf.int64), "x": tf.FixedLenFeature([10], tf.float32)},
        )
        batch = tf.train.batch([features["label"], features["x"]], BATCH, capacity=1000)
        with _running(tf, batch) as step:
            labels, x = step()
            bench.expect(labels, range(BATCH))
            bench.expect(x, np.repeat(np.arange(BATCH)[:, None] / 2, 10, axis=1))
            bench.rate([step], each_counts=BATCH)


@row("PNG files of 64 × 64, decoded, batches of 32", unit=Unit.PER_SECOND)  # noqa: RUF001
def png_pipeline(tf: Any, bench: Bench) -> None:
    """Whole files, decoded and made floats in two threads, batched."""
    with tempfile.TemporaryDirectory() as folder:
        names = []
        with tf.Graph().as_default(), tf.Session() as session:
            fed = tf.placeholder(tf.uint8, [SIDE, SIDE, 3])
            png = tf.image.encode_png(fed)
            for n in range(PICTURES):
                names.append(str(Path(folder) / f"{n}.png"))
                Path(names[-1]).write_bytes(session.run(png, {fed: picture(n, SIDE)}))
        queue = tf.train.string_input_producer(names, shuffle=False)
        key, content = tf.WholeFileReader().read(queue)
        pixels = tf.cast(tf.image.decode_png(content, channels=3), tf.float32) / 255.0
        pixels.set_shape([SIDE, SIDE, 3])
        batch = tf.train.batch([key, pixels], BATCH, num_threads=2, capacity=4 * BATCH)
        with _running(tf, batch) as step:
            keys, images = step()
            wanted = [picture(int(Path(key.decode()).stem), SIDE) / np.float32(255) for key in keys]
            bench.expect(images, wanted, relative=1e-6)
            bench.rate([step], each_counts=BATCH)


@row(
    "JPEGs of 64 by 64 in a TFRecord, cropped and flipped at random in 4 threads, shuffled",
    unit=Unit.PER_SECOND,
)
def augmented_pipeline(tf: Any, bench: Bench) -> None:
    """Decoded, cropped, flipped and made floats, by numbers without seeds."""
    inner = SIDE - 8
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "pictures")
        with tf.Graph().as_default(), tf.Session() as session:
            fed = tf.placeholder(tf.uint8, [SIDE, SIDE, 3])
            jpeg = tf.image.encode_jpeg(fed)
            with tf.python_io.TFRecordWriter(path) as writer:
                for n in range(PICTURES):
                    writer.write(session.run(jpeg, {fed: picture(n, SIDE)}))
        _, content = tf.TFRecordReader().read(tf.train.string_input_producer([path]))
        pixels = tf.random_crop(tf.image.decode_jpeg(content, channels=3), [inner, inner, 3])
        pixels = tf.cast(tf.image.random_flip_left_right(pixels), tf.float32) / 255.0
        batch = tf.train.shuffle_batch([pixels], BATCH, 16 * BATCH, 8 * BATCH, num_threads=4)
        with _running(tf, batch) as step:
            images = step()
            bench.expect(images.shape, (BATCH, inner, inner, 3))
            bench.expect(bool(0 <= images.min() < images.max() <= 1), True)
            bench.rate([step], each_counts=BATCH)


@contextmanager
def _running(tf: Any, batch: Any) -> Iterator[Callable[[], Any]]:
    """A session whose queue runners run; yields what takes the next batch."""
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        try:
            yield lambda: session.run(batch)
        finally:
            coordinator.request_stop()
            coordinator.join(threads, stop_grace_period_secs=WITHIN_S)
