"""Input pipelines of tf.data: records per second of one iterator whose next batch is fetched in a loop.

Floors are of the same records by hand, in one thread: what Python's csv, protobuf, Pillow and NumPy need for them.
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import numpy as np

from benchmarks.inputs import EXAMPLES, csv_files, example_file, picture, serialized_examples
from benchmarks.row import Bench, Floor, Unit, row

BATCH = 32
SHUFFLED = 1000
PICTURES = 64
ROWS = 20_000
COLUMNS = 16
WORKERS = 4


@contextmanager
def _next_of(tf: Any, dataset: Any) -> Iterator[Callable[[], Any]]:
    """A session; yields what takes the next batch."""
    following = tf.data.make_one_shot_iterator(dataset).get_next()
    with tf.Session() as session:
        yield lambda: session.run(following)


def _measure(bench: Bench, step: Callable[[], object]) -> None:
    bench.rate([step], each_counts=BATCH)


# -- CSV ------------------------------------------------------------------------------------------


def _check_record(bench: Bench, batch: Any) -> None:
    number, half, digit, triple, name = batch
    bench.expect(len(set(number)), BATCH)
    bench.expect(half, np.asarray(number) / 2)
    bench.expect(digit, np.asarray(number) % 10)
    bench.expect(triple, np.asarray(number) * 3)
    bench.expect(list(name), [f"name{n}".encode() for n in number])


def _csv_by_hand(bench: Bench) -> None:
    with tempfile.TemporaryDirectory() as folder:
        names = csv_files(folder)

        def rows() -> Iterator[list[str]]:
            while True:
                for name in names:
                    with open(name, newline="") as lines:
                        yield from csv.reader(lines)

        endless = rows()

        def step() -> tuple[Any, ...]:
            number, half, digit, triple, name = zip(
                *(next(endless) for _ in range(BATCH)), strict=True
            )
            return (
                np.array(list(map(int, number))),
                *(np.array(list(map(float, each)), np.float32) for each in (half, digit, triple)),
                [each.encode() for each in name],
            )

        _check_record(bench, step())
        _measure(bench, step)


@row(
    "CSV lines, decode_csv in map, shuffled, batches of 32",
    unit=Unit.PER_SECOND,
    floors=[Floor("csv.reader by hand, not shuffled", _csv_by_hand)],
    faster=10,
)
def dataset_csv(tf: Any, bench: Bench) -> None:
    """Records of five columns from the lines of five files."""
    with tempfile.TemporaryDirectory() as folder:
        dataset = (
            tf.data.TextLineDataset(csv_files(folder))
            .map(lambda line: tf.decode_csv(line, [[0], [0.0], [0.0], [0.0], [""]]))
            .repeat()
            .shuffle(SHUFFLED)
            .batch(BATCH)
        )
        with _next_of(tf, dataset) as step:
            _check_record(bench, step())
            _measure(bench, step)


# -- Examples -------------------------------------------------------------------------------------


def _check_examples(bench: Bench, labels: Any, x: Any) -> None:
    bench.expect(labels, range(BATCH))
    bench.expect(x, np.repeat(np.arange(BATCH)[:, None] / 2, 10, axis=1))


def _examples_by_hand(bench: Bench) -> None:
    import headrace as tf

    serialized, at = serialized_examples(tf), 0

    def step() -> tuple[Any, Any]:
        nonlocal at
        features = [
            tf.train.Example.FromString(serialized[(at + n) % EXAMPLES]).features.feature
            for n in range(BATCH)
        ]
        at += BATCH
        labels = np.array([each["label"].int64_list.value[0] for each in features])
        return labels, np.array([each["x"].float_list.value for each in features], np.float32)

    _check_examples(bench, *step())
    _measure(bench, step)


_BY_PROTOBUF = Floor("protobuf by hand, in memory", _examples_by_hand)


def _features(tf: Any) -> dict[str, Any]:
    return {
        "label": tf.FixedLenFeature([], tf.int64),
        "x": tf.FixedLenFeature([10], tf.float32),
    }


@row(
    "TFRecord, parse_single_example in map, batches of 32",
    unit=Unit.PER_SECOND,
    floors=[_BY_PROTOBUF],
    faster=8,
)
def dataset_parse_single(tf: Any, bench: Bench) -> None:
    """Examples of a label and ten numbers, parsed one by one."""
    with tempfile.TemporaryDirectory() as folder:
        path = example_file(tf, folder)
        dataset = (
            tf.data.TFRecordDataset(path)
            .repeat()
            .map(lambda record: tf.parse_single_example(record, _features(tf)))
            .batch(BATCH)
        )
        with _next_of(tf, dataset) as step:
            batch = step()
            _check_examples(bench, batch["label"], batch["x"])
            _measure(bench, step)


@row(
    "TFRecord, batches of 32, parse_example in map",
    unit=Unit.PER_SECOND,
    floors=[_BY_PROTOBUF],
    faster=1,
)
def dataset_parse_batch(tf: Any, bench: Bench) -> None:
    """The same Examples, parsed a batch at a time."""
    with tempfile.TemporaryDirectory() as folder:
        path = example_file(tf, folder)
        dataset = (
            tf.data.TFRecordDataset(path)
            .repeat()
            .batch(BATCH)
            .map(lambda records: tf.parse_example(records, _features(tf)))
        )
        with _next_of(tf, dataset) as step:
            batch = step()
            _check_examples(bench, batch["label"], batch["x"])
            _measure(bench, step)


# -- small tensors --------------------------------------------------------------------------------


def _small_by_hand(bench: Bench) -> None:
    at = 0

    def step() -> Any:
        nonlocal at
        numbers = np.arange(at, at + 3 * BATCH)
        at += 3 * BATCH
        return (numbers * 2 + 1)[numbers * 2 % 3 == 2]

    bench.expect(step()[:3], [3, 9, 15])
    _measure(bench, step)


@row(
    "map, filter and batch of scalars, batches of 32",
    unit=Unit.PER_SECOND,
    floors=[Floor("NumPy by hand", _small_by_hand)],
    faster=10,
)
def dataset_small(tf: Any, bench: Bench) -> None:
    """Numbers that count up: doubled, one more, those that 3 divides."""
    dataset = (
        tf.data.Dataset.range(10**12)
        .map(lambda n: n * 2 + 1)
        .filter(lambda n: tf.equal(n % 3, 0))
        .batch(BATCH)
    )
    with _next_of(tf, dataset) as step:
        bench.expect(step()[:3], [3, 9, 15])
        _measure(bench, step)


def _memory_by_hand(bench: Bench) -> None:
    rng = np.random.default_rng(0)
    x, y = _arrays()

    def step() -> tuple[Any, Any]:
        picked = rng.integers(0, ROWS, BATCH)
        return x[picked], y[picked]

    features, labels = step()
    bench.expect(features[:, 0], labels)
    _measure(bench, step)


def _arrays() -> tuple[Any, Any]:
    """[ROWS, COLUMNS] and [ROWS]: the first column is the label."""
    labels = np.arange(ROWS, dtype=np.float32)
    return labels[:, None] + np.arange(COLUMNS, dtype=np.float32), labels


@row(
    "arrays in memory: shuffle(1000), repeat, batches of 32",
    unit=Unit.PER_SECOND,
    floors=[Floor("NumPy by hand: rows drawn at random", _memory_by_hand)],
    faster=5,
)
def dataset_memory(tf: Any, bench: Bench) -> None:
    """20,000 rows of 16 numbers and their labels."""
    dataset = tf.data.Dataset.from_tensor_slices(_arrays()).shuffle(SHUFFLED).repeat().batch(BATCH)
    with _next_of(tf, dataset) as step:
        features, labels = step()
        bench.expect(len(set(labels)), BATCH)
        bench.expect(features, labels[:, None] + np.arange(COLUMNS))
        _measure(bench, step)


def _generated() -> Iterator[tuple[int, list[float]]]:
    n = 0
    while True:
        yield n, [n / 2] * 10
        n += 1


def _generator_by_hand(bench: Bench) -> None:
    endless = _generated()

    def step() -> tuple[Any, Any]:
        labels, x = zip(*(next(endless) for _ in range(BATCH)), strict=True)
        return np.array(labels), np.array(x, np.float32)

    _check_examples(bench, *step())
    _measure(bench, step)


@row(
    "from_generator, batches of 32",
    unit=Unit.PER_SECOND,
    floors=[Floor("the same generator, NumPy by hand", _generator_by_hand)],
    faster=3,
)
def dataset_generator(tf: Any, bench: Bench) -> None:
    """A generator of a number and a list of ten."""
    dataset = tf.data.Dataset.from_generator(
        _generated, (tf.int64, tf.float32), (tf.TensorShape([]), tf.TensorShape([10]))
    ).batch(BATCH)
    with _next_of(tf, dataset) as step:
        _check_examples(bench, *step())
        _measure(bench, step)


# -- pictures -------------------------------------------------------------------------------------


def _pictures(tf: Any, kind: str, side: int) -> list[bytes]:
    """Something that is neither flat nor noise, encoded."""
    found = []
    with tf.Graph().as_default(), tf.Session() as session:
        pixels = tf.placeholder(tf.uint8, [side, side, 3])
        encode = tf.image.encode_jpeg if kind == "JPEG" else tf.image.encode_png
        encoded = encode(pixels)
        for number in range(PICTURES):
            found.append(session.run(encoded, {pixels: picture(number, side)}))
    return found


def _pictures_by_hand(kind: str, side: int, to: int) -> Callable[[Bench], None]:
    def by_hand(bench: Bench) -> None:
        from PIL import Image

        import headrace as tf

        encoded, at = _pictures(tf, kind, side), 0

        def step() -> Any:
            nonlocal at
            batch = np.empty([BATCH, to, to, 3], np.float32)
            for n in range(BATCH):
                picture = Image.open(BytesIO(encoded[(at + n) % PICTURES]))
                batch[n] = np.asarray(picture.resize((to, to), Image.Resampling.BILINEAR))
            at += BATCH
            return batch

        bench.expect(step().shape, (BATCH, to, to, 3))
        _measure(bench, step)

    return by_hand


def _decoded(tf: Any, bench: Bench, kind: str, side: int, to: int) -> None:
    decode = tf.image.decode_jpeg if kind == "JPEG" else tf.image.decode_png

    def load(encoded: Any) -> Any:
        return tf.image.resize_bilinear(
            tf.cast(tf.expand_dims(decode(encoded, channels=3), 0), tf.float32), [to, to]
        )[0]

    encoded = _pictures(tf, kind, side)
    dataset = (
        tf.data.Dataset.from_tensor_slices(encoded).repeat().map(load, num_parallel_calls=2)
    ).batch(BATCH)
    alone = load(tf.constant(encoded[3]))
    with tf.Session() as session:
        wanted = session.run(alone)
    with _next_of(tf, dataset) as step:
        bench.expect(step()[3], wanted)
        _measure(bench, step)


@row(
    "JPEG of 224 by 224, decoded and resized in a parallel map, batches of 32",
    unit=Unit.PER_SECOND,
    floors=[Floor("Pillow by hand, in one thread", _pictures_by_hand("JPEG", 224, 112))],
    faster=1,
)
def dataset_jpeg(tf: Any, bench: Bench) -> None:
    """64 pictures in memory, made 112 by 112, by two calls at once."""
    _decoded(tf, bench, "JPEG", 224, 112)


@row(
    "PNG of 64 by 64, decoded and resized in a parallel map, batches of 32",
    unit=Unit.PER_SECOND,
    floors=[Floor("Pillow by hand, in one thread", _pictures_by_hand("PNG", 64, 32))],
    faster=1,
)
def dataset_png(tf: Any, bench: Bench) -> None:
    """64 pictures in memory, made 32 by 32, by two calls at once."""
    _decoded(tf, bench, "PNG", 64, 32)


@row(
    "JPEG of 64 by 64, cropped, flipped and made brighter at random in a parallel map, batches of 32",
    unit=Unit.PER_SECOND,
)
def dataset_augmented(tf: Any, bench: Bench) -> None:
    """64 pictures in memory, two calls at once; numbers without seeds."""
    side = 56

    def load(encoded: Any) -> Any:
        part = tf.random_crop(tf.image.decode_jpeg(encoded, channels=3), [side, side, 3])
        floats = tf.cast(tf.image.random_flip_left_right(part), tf.float32)
        return tf.image.random_brightness(floats, 60.0) / 255.0

    encoded = _pictures(tf, "JPEG", 64)
    dataset = (
        tf.data.Dataset.from_tensor_slices(encoded).repeat().map(load, num_parallel_calls=2)
    ).batch(BATCH)
    with _next_of(tf, dataset) as step:
        pictures = step()
        bench.expect(pictures.shape, (BATCH, side, side, 3))
        bench.expect(len(np.unique(pictures.mean(axis=(1, 2, 3)))), BATCH)
        _measure(bench, step)


# -- on a cluster ---------------------------------------------------------------------------------


@row(
    "an iterator on a ps shared by 4 workers, batches of 32",
    unit=Unit.PER_SECOND,
    cluster={"ps": 1, "worker": WORKERS},
    faster=5,
)
def dataset_shared(tf: Any, bench: Bench) -> None:
    """20,000 rows of 16 numbers and their labels, over and over; each worker takes the next batch."""
    with tf.device("/job:ps/task:0"):
        dataset = tf.data.Dataset.from_tensor_slices(_arrays()).repeat().batch(BATCH)
        iterator = tf.data.make_initializable_iterator(dataset, shared_name="rows")
        features, labels = iterator.get_next()
    taken = []
    for worker in range(WORKERS):
        with tf.device(f"/job:worker/task:{worker}"):
            taken.append([tf.identity(features), tf.identity(labels)])
    sessions = [tf.Session(bench.target("worker", worker)) for worker in range(WORKERS)]
    sessions[0].run(iterator.initializer)
    x, y = sessions[1].run(taken[1])
    bench.expect(x, y[:, None] + np.arange(COLUMNS))
    steps = [
        lambda session=session, each=each: session.run(each)
        for session, each in zip(sessions, taken, strict=True)
    ]
    bench.rate(steps, each_counts=BATCH)
    for session in sessions:
        session.close()
