"""Readers: records in order, waiting without a thread, and reads that are given up leave no trace."""

from __future__ import annotations

import threading
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.base import dtypes, errors
from headrace.run.pending import Pending
from headrace.run.queues.fifo import FIFOQueue
from headrace.run.queues.queue import Queue
from headrace.run.queues.spec import QueueSpec
from headrace.run.readers.file_readers import FixedLengthRecordReader, TextLineReader
from headrace.run.readers.reader import IdentityReader, Reader, WholeFileReader
from headrace.run.scope import Scope


def names_queue(*names: object, types: Any = (dtypes.string,)) -> Queue:
    queue = FIFOQueue("names", QueueSpec.make(types))
    for name in names:
        queue.enqueue([boxed(str(name).encode())]).result()
    return queue


def boxed(value: bytes) -> Any:
    box = np.empty((), object)
    box[()] = value
    return box


def record(pending: Pending[Any]) -> tuple[bytes, bytes]:
    key, value = pending.result()
    return key[()], value[()]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    return write(tmp_path / "lines", b"head\r\none\n\nlast")


def test_lines_come_with_file_and_number_and_without_line_ends(lines: Path) -> None:
    reader, queue = TextLineReader("r", skip_header_lines=1), names_queue(lines)
    path = str(lines).encode()
    assert record(reader.read(queue)) == (path + b":2", b"one")
    assert record(reader.read(queue)) == (path + b":3", b"")
    assert record(reader.read(queue)) == (path + b":4", b"last")
    assert (reader.records_produced(), reader.work_units_completed()) == (3, 0)
    queue.close()
    with pytest.raises(errors.OutOfRangeError, match="closed"):
        reader.read(queue).result()
    assert reader.work_units_completed() == 1
    reader.close()


def test_a_read_waits_for_work_and_is_served_by_whoever_brings_it(lines: Path) -> None:
    reader, queue = TextLineReader("r"), names_queue()
    first, second = reader.read(queue), reader.read(queue)
    assert not first.done
    assert "names" in str(first.wait_info)
    queue.enqueue([boxed(str(lines).encode())])
    assert (record(first)[1], record(second)[1]) == (b"head", b"one")
    reader.close()


def test_an_abandoned_read_takes_no_work(lines: Path) -> None:
    reader, queue = TextLineReader("r"), names_queue()
    first, second = reader.read(queue), reader.read(queue)
    assert first.abandon(errors.cancelled("enough"))
    queue.enqueue([boxed(str(lines).encode())])
    assert record(second)[1] == b"head"
    with pytest.raises(errors.CancelledError, match="enough"):
        first.result()
    third = reader.read_up_to(queue, 9)
    assert third.result()[1].tolist() == [b"one", b"", b"last"]
    fourth = reader.read(queue)
    assert fourth.abandon(errors.cancelled("enough"))
    queue.enqueue([boxed(b"next")])
    assert queue.size() == 1, "nobody is left who wants it"


def test_readers_that_share_a_queue_share_its_work(tmp_path: Path) -> None:
    files = [
        write(tmp_path / f"f{i}", b"".join(b"%d.%d\n" % (i, j) for j in range(50)))
        for i in range(8)
    ]
    queue = names_queue()
    readers = [TextLineReader(f"r{i}") for i in range(3)]
    seen: list[bytes] = []

    def drain(reader: Reader) -> None:
        try:
            while True:
                key, value = reader.read(queue).wait(Scope(60))
                assert key[()].startswith(str(tmp_path).encode())
                seen.append(value[()])
        except errors.OutOfRangeError:
            pass

    threads = [threading.Thread(target=drain, args=(readers[i % 3],)) for i in range(6)]
    for thread in threads:
        thread.start()
    for file in files:
        queue.enqueue([boxed(str(file).encode())])
    queue.close()
    for thread in threads:
        thread.join(60)
    assert sorted(seen) == sorted(b"%d.%d" % (i, j) for i in range(8) for j in range(50))
    assert sum(reader.work_units_completed() for reader in readers) == 8


def test_up_to_stops_at_the_end_of_a_file_and_passes_over_empty_ones(tmp_path: Path) -> None:
    a, b, c = (
        write(tmp_path / n, text) for n, text in (("a", b"1\n2\n3"), ("b", b""), ("c", b"4\n"))
    )
    reader, queue = TextLineReader("r"), names_queue(a, b, c)
    got = [reader.read_up_to(queue, 2).result()[1].tolist() for _ in range(3)]
    assert got == [[b"1", b"2"], [b"3"], [b"4"]]
    assert reader.read_up_to(queue, 0).result()[0].shape == (0,)
    with pytest.raises(errors.InvalidArgumentError, match="-1"):
        reader.read_up_to(queue, -1).result()


def test_a_file_that_cannot_be_read_is_named_and_given_up(tmp_path: Path, lines: Path) -> None:
    reader = TextLineReader("r")
    queue = names_queue(tmp_path / "nobody", tmp_path, "nul\0", lines)
    with pytest.raises(errors.NotFoundError, match="nobody; No such file"):
        reader.read(queue).result()
    with pytest.raises(errors.FailedPreconditionError, match="Is a directory"):
        reader.read(queue).result()
    with pytest.raises(errors.InvalidArgumentError, match="not a file name"):
        reader.read(queue).result()
    assert record(reader.read(queue))[1] == b"head"
    reader.close()


@pytest.mark.parametrize("types", [(dtypes.int32,), (dtypes.string, dtypes.string)])
def test_a_queue_of_something_else_is_refused(types: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="one string component"):
        IdentityReader("r").read(names_queue(types=types)).result()


def test_work_items_must_be_scalars() -> None:
    queue = names_queue()
    queue.enqueue([np.array([b"a", b"b"], object)])
    with pytest.raises(errors.InvalidArgumentError, match=r"shape \[2\]"):
        IdentityReader("r").read(queue).result()


def test_whole_files_and_the_items_themselves(lines: Path, tmp_path: Path) -> None:
    path = str(lines).encode()
    assert record(WholeFileReader("r").read(names_queue(lines))) == (path, lines.read_bytes())
    assert record(IdentityReader("r").read(names_queue(lines))) == (path, path)
    reader, queue = WholeFileReader("r"), names_queue(tmp_path / "nobody", lines)
    with pytest.raises(errors.NotFoundError):
        reader.read(queue).result()
    assert record(reader.read(queue))[0] == path


def test_records_of_fixed_length_in_plain_and_compressed_files(tmp_path: Path) -> None:
    content = b"HHaaaabbbbccccF"
    plain = write(tmp_path / "plain", content)
    packed = write(tmp_path / "packed", zlib.compress(content))
    for path, encoding in ((plain, ""), (packed, "ZLIB")):
        reader = FixedLengthRecordReader("r", 4, 2, 1, 6, encoding)
        keys, values = reader.read_up_to(names_queue(path), 9).result()
        assert values.tolist() == [b"aaaa", b"bbcc"]
        assert keys.tolist() == [f"{path}:{n}".encode() for n in (0, 1)]
    short = write(tmp_path / "short", b"abc")
    with pytest.raises(errors.DataLossError, match="3 bytes"):
        FixedLengthRecordReader("r", 4, 2, 2).read(names_queue(short)).result()
    with pytest.raises(errors.DataLossError, match="ZLIB"):
        FixedLengthRecordReader("r", 4, encoding="ZLIB").read(names_queue(plain)).result()


@pytest.mark.parametrize(
    "arguments", [(0,), (4, -1), (4, 0, -1), (4, 0, 0, -1), (4, 0, 0, 0, "LZ4")]
)
def test_sizes_that_make_no_sense_are_refused(arguments: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        FixedLengthRecordReader("r", *arguments)
    with pytest.raises(errors.InvalidArgumentError, match="skip_header_lines"):
        TextLineReader("r", -1)


def test_state_is_taken_up_where_it_was() -> None:
    queue = names_queue("a", "b", "c")
    reader = IdentityReader("r")
    reader.read(queue).result()
    state = reader.serialize()
    reader.read(queue).result()
    reader.restore(state)
    assert (reader.records_produced(), reader.work_units_completed()) == (1, 1)
    assert record(reader.read(queue))[0] == b"c"
    reader.reset()
    assert (reader.records_produced(), reader.work_units_completed()) == (0, 0)
    for broken in (b"junk", b"\x08\x05\x10\x01"):
        with pytest.raises(errors.InvalidArgumentError):
            reader.restore(broken)
    with pytest.raises(errors.UnimplementedError, match="reset"):
        TextLineReader("r").serialize()


def test_a_state_that_cannot_be_taken_up_leaves_the_reader_at_its_beginning() -> None:
    reader, queue = IdentityReader("r"), names_queue("a", "b")
    reader.read(queue).result()
    with pytest.raises(errors.InvalidArgumentError, match="2 work items were started, 1 finished"):
        reader.restore(b'\x08\x02\x10\x01\x18\x01"\x01z')
    assert (reader.records_produced(), reader.work_units_completed()) == (0, 0)
    assert record(reader.read(queue))[0] == b"b"


def test_a_line_is_traced_to_its_origin(lines: Path) -> None:
    reader, queue = TextLineReader("r"), names_queue(lines)
    reader.read_up_to(queue, 9).result()
    assert reader.origin(b"one") == f"{lines}:2".encode()
    assert reader.origin(b"never read") is None


def test_a_file_is_closed_with_its_reader(lines: Path) -> None:
    reader, queue = TextLineReader("r"), names_queue(lines)
    reader.read(queue).result()
    file = reader._file
    assert file is not None
    reader.dropped()
    assert file.closed
