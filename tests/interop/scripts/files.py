"""Files of the task that reads them: readers, file ops and CSV on the ps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.interop.scripts.table import PS, WORKER, Here, Table

TABLE = Table()


def written(here: Here, **texts: str | bytes) -> list[str]:
    """Paths of new files with these contents."""
    paths = []
    for name, text in texts.items():
        path = Path(here.directory, name)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        paths.append(str(path))
    return paths


def names_of(tf: Any, paths: list[str]) -> Any:
    """A queue on the ps, the operations that fill and close it."""
    q = tf.FIFOQueue(10, tf.string, shapes=[[]], shared_name="names")
    return q, q.enqueue_many([paths]), q.close()


@TABLE.gives([[b"a", b"b", b"c"], b"one:1", "OutOfRangeError", 3, 2])
def lines_of_files(tf: Any, here: Here) -> Any:
    paths = written(here, one="a\nb\n", two="c")
    with tf.device(PS):
        names, fill, close = names_of(tf, paths)
        reader = tf.TextLineReader()
        key, value = reader.read(names)
        counts = reader.num_records_produced(), reader.num_work_units_completed()
    with tf.Session(here.worker) as session:
        session.run(fill)
        session.run(close)
        pairs = [session.run([key, value]) for _ in range(3)]
        try:
            session.run([key, value])
            end = "nothing"
        except tf.errors.OpError as error:
            end = type(error).__name__
        first = pairs[0][0].rpartition(b"/")[2]
        return [[value for _, value in pairs], first, end, *session.run(counts)]


@TABLE.gives([[b"ab", b"cd"], [b"ef"]])
def records_of_a_fixed_length(tf: Any, here: Here) -> Any:
    paths = written(here, fixed=b"HHabcdefF")
    with tf.device(PS):
        names, fill, close = names_of(tf, paths)
        reader = tf.FixedLengthRecordReader(2, header_bytes=2, footer_bytes=1)
        _, values = reader.read_up_to(names, 2)
    with tf.Session(here.worker) as session:
        session.run(fill)
        session.run(close)
        return [session.run(values), session.run(values)]


@TABLE.gives([b"whole\x00", b"whole\x00", [b"first", b"second"]])
def whole_files_and_patterns(tf: Any, here: Here) -> Any:
    (path,) = written(here, whole=b"whole\x00")
    written(here, **{"pick.first": "", "pick.second": ""})
    with tf.device(PS):
        names, fill, _ = names_of(tf, [path])
        _, through_reader = tf.WholeFileReader().read(names)
        content = tf.read_file(path)
        matches = tf.matching_files(here.directory + "/pick.*")
    with tf.Session(here.worker) as session:
        session.run(fill)
        found = sorted(session.run(matches))
        endings = [name.rpartition(b".")[2] for name in found]
        return [session.run(through_reader), session.run(content), endings]


@TABLE.gives([b"text of the worker"])
def a_task_writes_what_another_sends(tf: Any, here: Here) -> Any:
    path = str(Path(here.directory, "out"))
    with tf.device(WORKER):
        text = tf.string_join(["text of", " the worker"])
    with tf.device(PS):
        write = tf.write_file(path, text)
    with tf.Session(here.worker) as session:
        session.run(write)
    return [Path(path).read_bytes()]


@TABLE.raises("NotFoundError", node="ReadFile")
def a_file_that_is_not_there(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        content = tf.read_file(here.directory + "/none")
    with tf.Session(here.worker) as session:
        session.run(content)


@TABLE.gives([[1.0, 4.0, 7.0], [2, 5, 8], [b"x", b"y", b""]])
def csv_in_batches(tf: Any, here: Here) -> Any:
    paths = written(here, csv='1,2,x\n4,5,"y"\n7,8,\n')
    with tf.device(PS):
        names, fill, close = names_of(tf, paths)
        _, lines = tf.TextLineReader().read_up_to(names, 3)
        columns = tf.decode_csv(lines, [[0.0], [0], [""]])
    with tf.Session(here.worker) as session:
        session.run(fill)
        session.run(close)
        return session.run(columns)


@TABLE.gives([[b"1", b"2", b"3", b"4", b"5", b"6"], "OutOfRangeError"])
def an_input_pipeline_of_queue_runners(tf: Any, here: Here) -> Any:
    paths = written(here, a="1\n2\n3\n", b="4\n5\n6\n")
    with tf.device(PS):
        names = tf.train.string_input_producer(paths, num_epochs=1, shuffle=False)
        _, line = tf.TextLineReader().read(names)
        lines = tf.FIFOQueue(4, tf.string, shapes=[[]], shared_name="lines")
        tf.train.add_queue_runner(tf.train.QueueRunner(lines, [lines.enqueue(line)]))
        batch = lines.dequeue_many(2)
    with tf.Session(here.worker) as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        seen: list[bytes] = []
        end = "nothing"
        try:
            while True:
                seen.extend(session.run(batch))
        except tf.errors.OutOfRangeError as error:
            end = type(error).__name__
        coordinator.request_stop()
        coordinator.join(threads)
        return [seen, end]


@TABLE.gives([[b"first", b"", b"third" * 1000], "DataLossError"])
def records_with_checksums(tf: Any, here: Here) -> Any:
    records = [b"first", b"", b"third" * 1000]
    whole, broken = (str(Path(here.directory, name)) for name in ("whole", "broken"))
    for path in (whole, broken):
        with tf.python_io.TFRecordWriter(path) as writer:
            for record in records:
                writer.write(record)
    damaged = bytearray(Path(broken).read_bytes())
    damaged[14] ^= 1
    Path(broken).write_bytes(bytes(damaged))
    with tf.device(PS):
        names, fill, close = names_of(tf, [whole, broken])
        _, value = tf.TFRecordReader().read(names)
    with tf.Session(here.worker) as session:
        session.run(fill)
        session.run(close)
        seen = [session.run(value) for _ in records]
        try:
            session.run(value)
        except tf.errors.OpError as error:
            return [seen, type(error).__name__]


@TABLE.gives([b"one", b"two", b"two", b"one", 1])
def a_reader_can_go_back(tf: Any, here: Here) -> Any:
    (path,) = written(here, lines=b"head\none\ntwo\n")
    with tf.device(PS):
        names, fill, _ = names_of(tf, [path, path])
        reader = tf.TextLineReader(skip_header_lines=1)
        _, line = reader.read(names)
        saved, state = reader.serialize_state(), tf.placeholder(tf.string, [])
        restore, reset = reader.restore_state(state), reader.reset()
        count = reader.num_records_produced()
    with tf.Session(here.worker) as session:
        session.run(fill)
        seen = [session.run(line)]
        try:
            kept = session.run(saved)
            session.run(restore, {state: kept})
            seen += [session.run(line)] * 2
        except tf.errors.UnimplementedError:  # readers of lines have no state to keep
            seen += [session.run(line)] * 2
        session.run(reset)
        return [*seen, session.run(line), session.run(count)]
