"""Queue runners that run many steps at once give what one step after the other gives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.plan.batch_dequeuer import compile_batch_dequeuer
from headrace.run.queues import batch_dequeuer
from headrace.run.queues.batch_dequeuer import BatchDequeuer
from headrace.run.readers import reader as readers

WAIT_S = 60.0

Pipeline = Callable[[Path], tuple[Any, Any]]
"""(reader, what goes into the queue) of files in a folder."""


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as fresh:
        yield fresh


@pytest.fixture
def steps_made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many steps each batch made."""
    made: list[int] = []
    run = BatchDequeuer.run

    def counted(self: BatchDequeuer, step: Any, gate: Any) -> int:
        made.append(run(self, step, gate))
        return made[-1]

    monkeypatch.setattr(BatchDequeuer, "run", counted)
    return made


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, work is not too long to be done together, nor files too slow."""
    monkeypatch.setattr(batch_dequeuer, "_LONG_S", WAIT_S)
    monkeypatch.setattr(batch_dequeuer, "_MOMENT_S", 1000 * WAIT_S)
    monkeypatch.setattr(readers, "_READ_WITHIN_S", WAIT_S)


# -- pipelines --------------------------------------------------------------------------------


def files(*paths: Path) -> Any:
    names = tf.FIFOQueue(len(paths), [tf.string], [[]])
    fill = names.enqueue_many([[str(path) for path in paths]])
    with tf.control_dependencies([fill]):
        tf.add_to_collection("begin", names.close())
    return names


def lines(folder: Path, *records: str) -> Any:
    for number in range(2):
        (folder / str(number)).write_text("".join(f"{line}\n" for line in records[number::2]))
    return files(folder / "0", folder / "1")


def csv(folder: Path) -> tuple[Any, list[Any]]:
    reader = tf.TextLineReader()
    key, line = reader.read(lines(folder, *[f"{n},{n / 3},word {n}" for n in range(700)]))
    number, third, word = tf.decode_csv(line, [[0], [0.0], [""]])
    return reader, [key, tf.stack([tf.cast(number, tf.float32), third * 2.0]), word, tf.constant(7)]


def csv_that_is_wrong(folder: Path) -> tuple[Any, list[Any]]:
    reader = tf.TextLineReader()
    texts = [str(n) if n != 501 else "x" for n in range(700)]
    _, line = reader.read(lines(folder, *texts))
    return reader, tf.decode_csv(line, [[0]])


def csv_that_changes_shape(folder: Path) -> tuple[Any, list[Any]]:
    """A queue of elements of two numbers, and a record of three: the enqueue fails."""
    reader = tf.TextLineReader()
    texts = ["ab" if n != 333 else "abc" for n in range(700)]
    _, line = reader.read(lines(folder, *texts))
    element = tf.decode_raw(line, tf.uint8)
    element.set_shape([2])
    return reader, [element]


def bytes_of_one_length(folder: Path) -> tuple[Any, list[Any]]:
    (folder / "bytes").write_bytes(bytes(range(256)) * 30)
    reader = tf.FixedLengthRecordReader(record_bytes=13, header_bytes=5)
    _, content = reader.read(files(folder / "bytes"))
    raw = tf.decode_raw(content, tf.uint8)
    label = tf.cast(raw[0], tf.int64)
    image = tf.transpose(tf.reshape(tf.slice(raw, [1], [12]), [3, 4]), [1, 0])
    return reader, [label, tf.cast(image, tf.float32) / 255.0, tf.reduce_max(image)]


def examples(folder: Path) -> tuple[Any, list[Any]]:
    path = folder / "examples"
    with tf.python_io.TFRecordWriter(str(path)) as writer:
        for n in range(400):
            example = tf.train.Example()
            example.features.feature["x"].float_list.value.extend([n, n + 0.5])
            if n % 3:
                example.features.feature["word"].bytes_list.value.append(b"word %d" % n)
            writer.write(example.SerializeToString())
    reader = tf.TFRecordReader()
    _, serialized = reader.read(files(path))
    features = {
        "x": tf.FixedLenFeature([2], tf.float32),
        "word": tf.FixedLenFeature([], tf.string, default_value="none"),
    }
    found = tf.parse_single_example(serialized, features)
    return reader, [found["word"], found["x"]]


def corrupt_records(folder: Path) -> tuple[Any, list[Any]]:
    path = folder / "records"
    with tf.python_io.TFRecordWriter(str(path)) as writer:
        for n in range(300):
            writer.write(b"%d" % n)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    reader = tf.TFRecordReader()
    return reader, [reader.read(files(path))[1]]


def words_of_any_number(folder: Path) -> tuple[Any, list[Any]]:
    reader = tf.TextLineReader()
    _, line = reader.read(lines(folder, *["abc" * (n % 4) for n in range(400)]))
    return reader, [tf.decode_raw(line, tf.uint8)]


def picture(number: int, side: int = 5) -> bytes:
    """A PNG of pixels that are its own."""
    pixels = np.random.RandomState(number).randint(0, 256, (side, side, 3)).astype(np.uint8)
    with tf.Graph().as_default(), tf.Session() as session:
        png: bytes = session.run(tf.image.encode_png(pixels))
    return png


def floats_of(png: Any, side: int | None = 5) -> Any:
    pixels = tf.image.decode_png(png, channels=3)
    pixels.set_shape([side, side, 3])
    return tf.cast(pixels, tf.float32) / 255.0


def pictures_in_records(folder: Path) -> tuple[Any, list[Any]]:
    path = folder / "pictures"
    with tf.python_io.TFRecordWriter(str(path)) as writer:
        for n in range(8):
            some = picture(n)
            for _ in range(40):
                writer.write(some)
    reader = tf.TFRecordReader()
    key, png = reader.read(files(path))
    return reader, [key, floats_of(png)]


def written(folder: Path, count: int = 300) -> list[Path]:
    few = [picture(n) for n in range(7)]
    paths = [folder / f"{n}.png" for n in range(count)]
    for n, path in enumerate(paths):
        path.write_bytes(few[n % len(few)])
    return paths


def pictures_in_files(folder: Path) -> tuple[Any, list[Any]]:
    reader = tf.WholeFileReader()
    key, png = reader.read(files(*written(folder)))
    return reader, [key, floats_of(png)]


def pictures_of_which_one_is_missing(folder: Path) -> tuple[Any, list[Any]]:
    paths = written(folder)
    paths[201].unlink()
    reader = tf.WholeFileReader()
    return reader, [floats_of(reader.read(files(*paths)).value)]


def pictures_of_which_one_is_broken(folder: Path) -> tuple[Any, list[Any]]:
    paths = written(folder)
    paths[222].write_bytes(paths[221].read_bytes()[:-20])
    reader = tf.WholeFileReader()
    return reader, [floats_of(reader.read(files(*paths)).value)]


def pictures_of_any_size(folder: Path) -> tuple[Any, list[Any]]:
    paths = written(folder)
    for n in (3, 77, 150, 151):
        paths[n].write_bytes(picture(n, 6))
    reader = tf.WholeFileReader()
    return reader, [floats_of(reader.read(files(*paths)).value, None)]


def names_alone(folder: Path) -> tuple[Any, list[Any]]:
    reader = tf.IdentityReader()
    key, value = reader.read(files(*[folder / str(n) for n in range(500)]))
    return reader, [key, tf.strings.length(value)]


def branches(folder: Path) -> tuple[Any, list[Any]]:
    """Each line in its own way, of which one fails for the others."""
    reader = tf.TextLineReader()
    texts = [f"word {n}" if n % 5 == 2 else str(n) for n in range(700)]
    key, line = reader.read(lines(folder, *texts))
    is_word = tf.equal(tf.substr(tf.strings.join([line, "     "]), 0, 5), "word ")

    def number() -> tuple[Any, Any]:
        found = tf.string_to_number(line, tf.int32)
        return tf.cond(tf.equal(found % 2, 0), lambda: found // 2, lambda: -found), tf.constant(b"")

    value, word = tf.cond(is_word, lambda: (tf.constant(0), line), number)
    return reader, [key, value, word]


def drawn_with_seeds(folder: Path) -> tuple[Any, list[Any]]:
    """Each record has the numbers that it would have by itself, and those that do not go in yet keep theirs."""
    reader = tf.TextLineReader()
    _, line = reader.read(lines(folder, *map(str, range(700))))
    number = tf.string_to_number(line, tf.int32)
    return reader, [
        line,
        tf.random_uniform([3], seed=1),
        tf.random_uniform([], seed=2, dtype=tf.float64),
        tf.random_normal([2, 3], seed=3) + tf.cast(number, tf.float32),
        tf.truncated_normal([5], seed=4),
        tf.random_uniform([2], 5, 900, tf.int32, seed=5),
        tf.random_uniform([], -1, number + 1, tf.int32, seed=6),
        tf.random_crop(tf.reshape(tf.range(30) * number, [5, 6]), [2, 2], seed=7),
    ]


def drawn_in_branches(folder: Path) -> tuple[Any, list[Any]]:
    """What is drawn there is for those that take the branch, and of those that do not go in yet it is given back."""
    reader = tf.TextLineReader()
    texts = [str(n) if n != 641 else "x" for n in range(700)]
    _, line = reader.read(lines(folder, *texts))
    number = tf.string_to_number(line, tf.int32)

    def inner() -> Any:
        drawn = tf.random_normal([2], seed=1)
        return tf.cond(
            tf.equal(number % 2, 0),
            lambda: drawn + tf.random_uniform([2], seed=2),
            lambda: tf.truncated_normal([2], seed=3),
        )

    def outer() -> Any:
        return tf.to_float(tf.random_uniform([2], 0, number, tf.int32, seed=4))

    value = tf.cond(tf.equal(number % 3, 0), inner, outer)
    return reader, [line, value, tf.random_uniform([], seed=5)]


def drawn_with_seeds_until_one_fails(folder: Path) -> tuple[Any, list[Any]]:
    reader = tf.TextLineReader()
    texts = [str(n) if n != 501 else "x" for n in range(700)]
    _, line = reader.read(lines(folder, *texts))
    drawn = tf.random_uniform([3], seed=1)
    return reader, [drawn, tf.string_to_number(line), tf.random_normal([], seed=2)]


def asserted(folder: Path) -> tuple[Any, list[Any]]:
    reader = tf.TextLineReader()
    _, line = reader.read(lines(folder, *map(str, range(700))))
    number = tf.string_to_number(line)
    checks = [tf.Assert(number < 1000.0, ["large", line, number]), tf.assert_less(number, 900.0)]
    with tf.control_dependencies(checks):
        return reader, [tf.identity(number)]


def asserted_in_vain(folder: Path) -> tuple[Any, list[Any]]:
    reader = tf.TextLineReader()
    _, line = reader.read(lines(folder, *map(str, range(700))))
    number = tf.string_to_number(line, tf.int32)
    with tf.control_dependencies([tf.assert_less(number, 510, message="too large")]):
        return reader, [tf.identity(number)]


def pictures_of_either_kind(folder: Path) -> tuple[Any, list[Any]]:
    path = folder / "pictures"
    with tf.Graph().as_default(), tf.Session() as session:
        pixels = tf.placeholder(tf.uint8)
        png, jpeg = tf.image.encode_png(pixels), tf.image.encode_jpeg(pixels)
        some = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3)).astype(np.uint8)
        contents = [session.run((png, jpeg)[n % 2], {pixels: each}) for n, each in enumerate(some)]
    with tf.python_io.TFRecordWriter(str(path)) as writer:
        for n in range(320):
            writer.write(contents[n * 7 % 4])
    reader = tf.TFRecordReader()
    _, content = reader.read(files(path))

    def decoded(decode: Any) -> Any:
        return lambda: decode(content, channels=3)

    is_jpeg = tf.image.is_jpeg(content)
    pixels = tf.cond(is_jpeg, decoded(tf.image.decode_jpeg), decoded(tf.image.decode_png))
    pixels.set_shape([8, 8, 3])
    return reader, [pixels]


PIPELINES: dict[str, Pipeline] = {
    each.__name__: each
    for each in (
        csv, csv_that_is_wrong, csv_that_changes_shape, bytes_of_one_length, examples, corrupt_records,
        words_of_any_number, pictures_in_records, pictures_in_files, pictures_of_which_one_is_missing,
        pictures_of_which_one_is_broken, pictures_of_any_size, names_alone, branches, asserted, asserted_in_vain,
        pictures_of_either_kind, drawn_with_seeds, drawn_with_seeds_until_one_fails,
        drawn_in_branches,
    )
}  # fmt: skip


def queue_for(components: list[Any], capacity: int) -> Any:
    shapes = [tensor.shape for tensor in components]
    types = [tensor.dtype for tensor in components]
    known = all(shape.is_fully_defined() for shape in shapes)
    return tf.FIFOQueue(capacity, types, shapes if known else None)


class SeesEveryStep(tf.Session):
    """A session of somebody's own, which runners make each step in."""

    def run(self, *args: Any, **options: Any) -> Any:
        return super().run(*args, **options)


def outcome(
    folder: Path, pipeline: Pipeline, capacity: int, kind: type[tf.Session] = tf.Session
) -> tuple[list[Any], Any, list[int]]:
    """What came out, the error that ended the runner (without its step number), and the reader's counters."""
    with tf.Graph().as_default(), kind() as session:
        reader, components = pipeline(folder)
        queue = queue_for(components, capacity)
        runner = tf.train.QueueRunner(queue, [queue.enqueue(components)])
        take = queue.dequeue()
        counters = [reader.num_records_produced(), reader.num_work_units_completed()]
        session.run(tf.get_collection("begin"))
        coordinator = tf.train.Coordinator()
        (thread, closer) = runner.create_threads(session, coordinator, daemon=True, start=True)
        if capacity >= 1000:
            thread.join(WAIT_S)
            assert not thread.is_alive()
            if coordinator.should_stop():
                closer.join(WAIT_S)
        found = list(until_closed(session, take))
        counted = [int(count) for count in session.run(counters)]
        coordinator.request_stop()
        try:
            coordinator.join([thread, closer], stop_grace_period_secs=WAIT_S)
            failure = None
        except tf.errors.OpError as error:
            failure = type(error), error.message, error.node
        return found, failure, counted


def until_closed(session: tf.Session, take: Any) -> Iterator[list[Any]]:
    while True:
        try:
            values = session.run(take)
        except (tf.errors.OutOfRangeError, tf.errors.CancelledError):
            return
        yield [np.asarray(v).tolist() for v in (values if isinstance(values, list) else [values])]


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("capacity", [1000, 50, 3])
@pytest.mark.parametrize("name", PIPELINES)
def test_a_runner_that_pumps_does_what_one_that_steps_does(
    name: str, capacity: int, tmp_path: Path, steps_made: list[int]
) -> None:
    batched = outcome(tmp_path, PIPELINES[name], capacity)
    if capacity == 1000:
        assert max(steps_made) > 50
        assert sum(steps_made) > len(batched[0]) / 2
    steps_made.clear()
    assert outcome(tmp_path, PIPELINES[name], capacity, SeesEveryStep) == batched
    assert steps_made == []
    assert len(batched[0]) > 100


# -- what can be seen while it runs -----------------------------------------------------------


@pytest.fixture
def slow(tmp_path: Path) -> tuple[Any, Any, Any]:
    """(reader, queue, runner) of more lines than any test takes."""
    (tmp_path / "many").write_text("".join(f"{n}\n" for n in range(200_000)))
    reader = tf.TextLineReader()
    _, line = reader.read(files(tmp_path / "many"))
    queue = tf.FIFOQueue(300_000, [tf.int32], [[]])
    return reader, queue, tf.train.QueueRunner(queue, [queue.enqueue(tf.decode_csv(line, [[0]]))])


def test_no_more_than_the_record_in_hand_is_between_reader_and_queue(
    slow: tuple[Any, Any, Any], steps_made: list[int]
) -> None:
    reader, queue, runner = slow
    with tf.Session() as session:
        read = session.make_callable(reader.num_records_produced())
        held = session.make_callable(queue.size())
        session.run(tf.get_collection("begin"))
        coordinator = tf.train.Coordinator()
        threads = runner.create_threads(session, coordinator, daemon=True, start=True)
        session.run(queue.dequeue_many(500))
        for _ in range(300):
            before = read()
            assert held() + 500 >= before - 1
            inside = held()
            assert read() >= inside + 500
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=WAIT_S)
    assert any(steps_made)


def test_a_stop_lets_one_more_record_in_at_most(
    slow: tuple[Any, Any, Any], steps_made: list[int]
) -> None:
    _, queue, runner = slow
    with tf.Session() as session:
        held = session.make_callable(queue.size())
        session.run(tf.get_collection("begin"))
        coordinator = tf.train.Coordinator()
        threads = runner.create_threads(session, coordinator, daemon=True, start=True)
        session.run(queue.dequeue_many(500))
        coordinator.request_stop()
        before = held()
        coordinator.join(threads, stop_grace_period_secs=WAIT_S)
        assert before <= held() <= before + 1
    assert max(steps_made) > 50


def test_a_session_that_is_closed_ends_the_runner(slow: tuple[Any, Any, Any]) -> None:
    _, queue, runner = slow
    session = tf.Session()
    session.run(tf.get_collection("begin"))
    (thread,) = runner.create_threads(session, daemon=True, start=False)
    escaped = []
    thread.run = lambda run=thread.run: _caught(run, escaped)  # type: ignore[method-assign,misc]
    thread.start()
    session.run(queue.dequeue_many(500))
    session.close()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert all(isinstance(error, tf.errors.CancelledError) for error in escaped)


def _caught(run: Callable[[], None], escaped: list[BaseException]) -> None:
    try:
        run()
    except Exception as error:  # as the interpreter prints it
        escaped.append(error)


def test_threads_that_share_a_reader_lose_nothing_and_keep_nearly_its_order(tmp_path: Path) -> None:
    """At most one record a thread is in hand: none is overtaken by more than the others have ever in theirs."""
    (tmp_path / "many").write_text("".join(f"{n}\n" for n in range(5000)))
    _, line = tf.TextLineReader().read(files(tmp_path / "many"))
    queue = tf.FIFOQueue(70, [tf.int32], [[]])
    runner = tf.train.QueueRunner(queue, [queue.enqueue(tf.decode_csv(line, [[0]]))] * 3)
    with tf.Session() as session:
        session.run(tf.get_collection("begin"))
        threads = runner.create_threads(session, daemon=True, start=True)
        found = np.concatenate([session.run(queue.dequeue_many(50)) for _ in range(100)])
        for thread in threads:
            thread.join(WAIT_S)
    assert sorted(found.tolist()) == list(range(5000))
    late = [at for at in range(1, len(found)) if found[at] < found[:at].max()]
    for (
        at
    ) in late:  # one that was overtaken was in a thread's hand all the while: two at most at a time
        ahead = found[:at][found[:at] > found[at]]
        missing = set(range(found[at], int(ahead.max()))) - set(found[:at].tolist())
        assert len(missing) <= 3


@pytest.mark.usefixtures("patient")
def test_threads_that_share_a_reader_of_whole_files_lose_none(
    tmp_path: Path, steps_made: list[int]
) -> None:
    """Others take names from the same queue, and put elements into the same one, meanwhile."""
    paths = written(tmp_path, 1500)
    names = files(*paths)
    key, png = tf.WholeFileReader().read(names)
    queue = tf.FIFOQueue(70, [tf.string, tf.float32], [[], [5, 5, 3]])
    runner = tf.train.QueueRunner(queue, [queue.enqueue([key, floats_of(png)])] * 3)
    by_hand = queue.enqueue([names.dequeue(), tf.zeros([5, 5, 3])])
    with tf.Session() as session:
        session.run(tf.get_collection("begin"))
        other = threading.Thread(target=lambda: [session.run(by_hand) for _ in range(100)])
        threads = [other, *runner.create_threads(session, daemon=True, start=False)]
        for thread in threads:
            thread.start()
        found = [name for _ in range(30) for name in session.run(queue.dequeue_many(50))[0]]
        for thread in threads:
            thread.join(WAIT_S)
    assert sorted(found) == sorted(str(path).encode() for path in paths)
    assert any(steps_made)


def test_what_takes_long_is_left_to_threads_side_by_side(
    tmp_path: Path, steps_made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_dequeuer, "_LONG_S", 0.0)
    found, failure, _ = outcome(tmp_path, pictures_in_records, 1000)
    assert (len(found), failure) == (320, None)
    assert [made for made in steps_made if made] == [8] * 4  # 64 steps after two, then 128


def test_slow_files_are_read_by_threads_side_by_side(
    tmp_path: Path, steps_made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_dequeuer, "_LONG_S", WAIT_S)
    monkeypatch.setattr(readers, "_READ_WITHIN_S", 0.0)
    found, failure, _ = outcome(tmp_path, pictures_in_files, 1000)
    assert (len(found), failure) == (300, None)
    assert [made for made in steps_made if made] == [1] * 5  # of 1 + 64 steps each


def test_pictures_are_cropped_and_flipped_at_random_together(
    tmp_path: Path, steps_made: list[int], patient: None
) -> None:
    """Each part is one of its picture, as it is or turned over; all kinds come."""

    def cropped(folder: Path) -> tuple[Any, list[Any]]:
        reader, (key, whole) = pictures_in_records(folder)
        part = tf.image.random_flip_left_right(tf.random_crop(whole, [3, 4, 3]))
        return reader, [key, whole, part]

    found, failure, _ = outcome(tmp_path, cropped, 1000)
    assert failure is None
    assert len({key for key, *_ in found}) == len(found) == 320
    assert sum(steps_made) > 200
    seen = set()
    for _, picture, cut in found:
        wide = np.array(picture)
        for y, x in [(y, x) for y in range(3) for x in range(2)]:
            plain = wide[y : y + 3, x : x + 4]
            for turned, one in enumerate((plain, plain[:, ::-1])):
                if np.array_equal(one, cut):
                    seen.add((y, x, turned))
                    break
    assert len(seen) == 12


# -- what is a batch dequeuer ------------------------------------------------------------


def dequeuer_of(build: Callable[[Any, Any], list[Any]]) -> BatchDequeuer | None:
    from headrace.plan.prune import needed

    reader = tf.TextLineReader()
    names = tf.FIFOQueue(1, [tf.string], [[]])
    components = build(reader, reader.read(names).value)
    queue = tf.FIFOQueue(9, [tensor.dtype for tensor in components])
    target = queue.enqueue(components)
    return compile_batch_dequeuer(needed((), (), [target]), target, {}, {})


@pytest.mark.parametrize(
    "build",
    [
        lambda reader, line: [tf.Variable(1.0) + 1.0, line],  # may change between two records
        lambda reader, line: [tf.random_shuffle([1, 2]), line],
        lambda reader, line: [tf.py_func(bytes, [line], tf.string)],  # other threads run meanwhile
        lambda reader, line: [reader.num_records_produced(), line],
        lambda reader, line: [line, reader.read(tf.FIFOQueue(1, [tf.string])).value],
        lambda reader, line: [tf.FIFOQueue(1, [tf.string], [[]]).dequeue(), line],
        lambda reader, line: [
            tf.while_loop(lambda n: n < 3, lambda n: n + 1, [tf.strings.length(line)])
        ],
        lambda reader, line: [
            tf.cond(
                tf.equal(line, "a"), reader.num_records_produced, lambda: tf.constant(2, tf.int64)
            )
        ],
        lambda reader, line: [tf.constant(1)],
    ],
)
def test_other_steps_are_none_of_a_pump(build: Any) -> None:
    assert dequeuer_of(build) is None


def test_a_control_edge_that_matters_makes_it_none() -> None:
    def build(reader: Any, line: Any) -> list[Any]:
        with tf.control_dependencies([tf.Variable(1).assign_add(1)]):
            return [tf.identity(line)]

    assert dequeuer_of(build) is None


@pytest.mark.parametrize("inside", [True, False])
def test_an_enqueue_in_a_branch_is_none_of_a_pump(inside: bool) -> None:
    from headrace.plan.prune import needed

    reader = tf.TextLineReader()
    line = reader.read(tf.FIFOQueue(1, [tf.string], [[]])).value
    queue = tf.FIFOQueue(9, [tf.string], [[]])
    done: list[Any] = []

    def put() -> Any:
        done.append(queue.enqueue([line]))
        return tf.no_op()

    whole = tf.cond(tf.equal(line, "a"), put, tf.no_op)
    target = done[0] if inside else whole.op
    assert compile_batch_dequeuer(needed((), (), [target]), target, {}, {}) is None


class Counting(tf.Session):
    """A session of somebody's own."""

    steps = 0

    def make_callable(self, *args: Any, **kwargs: Any) -> Any:
        call = super().make_callable(*args, **kwargs)

        def counted(*values: Any) -> Any:
            Counting.steps += 1
            return call(*values)

        return counted


class Patient(tf.train.Coordinator):
    """A coordinator of somebody's own."""


@pytest.mark.parametrize(
    ("session", "coordinator"), [(Counting, tf.train.Coordinator), (tf.Session, Patient)]
)
def test_sessions_and_coordinators_of_others_see_every_step(
    session: Any, coordinator: Any, tmp_path: Path, steps_made: list[int]
) -> None:
    _, line = tf.TextLineReader().read(lines(tmp_path, *["1"] * 60))
    queue = tf.FIFOQueue(100, [tf.string])
    runner = tf.train.QueueRunner(queue, [queue.enqueue(line)])
    Counting.steps = 0
    with session() as running:
        running.run(tf.get_collection("begin"))
        stops = coordinator()
        threads = runner.create_threads(running, stops, daemon=True, start=True)
        threads[0].join(WAIT_S)
        assert running.run(queue.size()) == 60
        stops.request_stop()
        stops.join(threads, stop_grace_period_secs=WAIT_S)
    assert Counting.steps == (61 if session is Counting else 0)
    assert not any(steps_made)
