"""Readers of record files: keys, errors that name the place, and databases that several readers share."""

from __future__ import annotations

import builtins
import gzip
import importlib
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.base import dtypes, errors
from headrace.codec.records import framed
from headrace.run.queues.fifo import FIFOQueue
from headrace.run.queues.queue import Queue
from headrace.run.queues.spec import QueueSpec
from headrace.run.readers import record_readers
from headrace.run.readers.record_readers import LMDBReader, TFRecordReader


def names_queue(*names: object) -> Queue:
    queue = FIFOQueue("names", QueueSpec.make((dtypes.string,)))
    for name in names:
        box = np.empty((), object)
        box[()] = str(name).encode()
        queue.enqueue([box]).result()
    queue.close()
    return queue


def read_all(reader: Any, queue: Queue) -> list[tuple[str, bytes]]:
    """(name:offset, record) until the queue ends; errors as (class, text)."""
    found: list[tuple[str, bytes]] = []
    while True:
        try:
            key, value = reader.read(queue).result()
        except errors.OutOfRangeError:
            return found
        except errors.OpError as error:
            found.append((type(error).__name__, str(error).encode()))
        else:
            found.append((Path(key[()].decode()).name, value[()]))


PACK = {"": bytes, "ZLIB": zlib.compress, "GZIP": gzip.compress}


@pytest.mark.parametrize("compression", PACK)
def test_records_come_with_file_and_offset(tmp_path: Path, compression: str) -> None:
    for name, content in (("a", [b"one", b""]), ("empty", []), ("b", [b"two"])):
        packed = PACK[compression](b"".join(map(framed, content)))
        (tmp_path / name).write_bytes(packed)
    reader = TFRecordReader("r", compression)
    queue = names_queue(*(tmp_path / name for name in ("a", "empty", "b")))
    assert read_all(reader, queue) == [("a:0", b"one"), ("a:19", b""), ("b:0", b"two")]
    assert (reader.records_produced(), reader.work_units_completed()) == (3, 3)


def test_a_corrupt_file_is_named_and_the_next_one_read(tmp_path: Path) -> None:
    content = bytearray(b"".join(map(framed, [b"one", b"two", b"three"])))
    content[19 + 13] ^= 1
    (tmp_path / "bad").write_bytes(content)
    (tmp_path / "good").write_bytes(framed(b"good"))
    reader = TFRecordReader("r")
    first, (kind, text), last = read_all(reader, names_queue(tmp_path / "bad", tmp_path / "good"))
    assert (first, last) == (("bad:0", b"one"), ("good:0", b"good"))
    assert kind == "DataLossError"
    assert text.startswith(b"corrupted record at 19")
    assert text.endswith(f", in {tmp_path}/bad".encode())
    assert reader._file is None, "no file stays open"


def test_files_that_are_not_there_and_compressions_that_do_not_exist(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="compression_type"):
        TFRecordReader("r", "LZ4")
    kinds = read_all(TFRecordReader("r"), names_queue(tmp_path / "nobody", tmp_path))
    assert [kind for kind, _ in kinds] == ["NotFoundError", "FailedPreconditionError"]


lmdb = pytest.importorskip("lmdb", reason="the extra headrace[lmdb] is not installed")


def database(path: Path, **entries: bytes) -> Path:
    with lmdb.open(str(path), map_size=1 << 20) as made, made.begin(write=True) as transaction:
        for key, value in entries.items():
            transaction.put(key.encode(), value)
    return path


def test_entries_of_a_database_come_in_order_of_their_keys(tmp_path: Path) -> None:
    one = database(tmp_path / "one", b=b"2", a=b"1" * 9000, c=b"")
    empty, two = database(tmp_path / "empty"), database(tmp_path / "two", z=b"9")
    reader = LMDBReader("r")
    found = read_all(reader, names_queue(one, empty, two, one))
    assert found == [
        ("a", b"1" * 9000), ("b", b"2"), ("c", b""), ("z", b"9"), ("a", b"1" * 9000), ("b", b"2"), ("c", b""),
    ]  # fmt: skip
    assert reader.work_units_completed() == 4
    assert record_readers._OPEN == {}


def test_readers_share_a_database(tmp_path: Path) -> None:
    path = database(tmp_path / "one", a=b"1", b=b"2")
    readers = [LMDBReader("first"), LMDBReader("second")]
    queues = [names_queue(path), names_queue(tmp_path / ".." / tmp_path.name / "one")]
    for key in (b"a", b"b"):
        for reader, queue in zip(readers, queues, strict=True):
            assert reader.read(queue).result()[0][()] == key
    readers[0].close()
    assert len(record_readers._OPEN) == 1
    readers[1].close()
    assert record_readers._OPEN == {}


def test_what_is_no_database_is_refused_and_given_up(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"text" * 5000)
    good = database(tmp_path / "good", k=b"v")
    (kind, _), (empty, _), (other, text), last = read_all(
        LMDBReader("r"), names_queue(tmp_path / "nobody", tmp_path, tmp_path / "text", good)
    )
    assert (kind, empty) == ("NotFoundError", "NotFoundError")
    assert (other, last) == ("DataLossError", ("k", b"v"))
    assert b"text cannot be read as an LMDB database" in text
    assert record_readers._OPEN == {}


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def missing(name: str, package: str | None = None) -> Any:
        if name == "lmdb":
            raise builtins.ModuleNotFoundError(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(errors.UnimplementedError, match=r"headrace\[lmdb\]"):
        LMDBReader("r")
