"""Checkpoints that are damaged, or no checkpoints: a typed error, and no variable has changed."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.codec import sorted_table
from headrace.codec.records import masked_crc
from headrace.codec.sorted_table import Table

DATA = "m.data-00000-of-00001"
ROWS = 3


class Trained:
    """Variables of several kinds, saved as 1 and then set to 2."""

    def __init__(self, version: int) -> None:
        self.variables = [
            tf.Variable(np.ones((2, ROWS)), name="a"),
            tf.Variable(np.ones(ROWS, np.int32), name="b", use_resource=True),
            tf.Variable([b"1", b"1"], name="s"),
        ]
        partitioned = tf.get_variable(
            "p", [4, 2], initializer=tf.ones_initializer(),
            partitioner=tf.fixed_size_partitioner(2),
        )  # fmt: skip
        self.variables += list(partitioned)
        self.saver = tf.train.Saver(write_version=version)
        self.session = tf.Session()
        self.session.run(tf.global_variables_initializer())
        self.saver.save(self.session, "./m", write_meta_graph=False)
        for each in self.variables:
            two: Any = b"2" if each.dtype.base_dtype == tf.string else 2
            each.load(np.full(each.shape.as_list(), two), self.session)

    def refused(self, *kinds: type[tf.errors.OpError]) -> None:
        """Both ways to read it raise one of `kinds`, and no variable has changed."""
        with pytest.raises(kinds):
            self.read()
        with pytest.raises(kinds):
            self.saver.restore(self.session, "./m")
        for value in self.session.run(self.variables):
            assert {*value.ravel().tolist()} <= {2, b"2"}

    def read(self) -> None:
        reader = tf.train.NewCheckpointReader("./m")
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)


@pytest.fixture
def trained(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Trained]:
    monkeypatch.chdir(tmp_path)
    with tf.Graph().as_default():
        made = Trained(getattr(request, "param", tf.train.SaverDef.V2))
        with made.session:
            yield made


def changed(path: str, change: Callable[[bytes], bytes]) -> None:
    Path(path).write_bytes(change(Path(path).read_bytes()))


V2, V1 = tf.train.SaverDef.V2, tf.train.SaverDef.V1
OF_BOTH = pytest.mark.parametrize(
    ("trained", "file"),
    [(V2, "m.index"), (V2, DATA), (V1, "m")],
    indirect=["trained"],
    ids=["index", "data", "V1"],
)


@OF_BOTH
def test_a_file_that_was_cut_anywhere(trained: Trained, file: str) -> None:
    content = Path(file).read_bytes()
    for size in random.sample(range(len(content)), 40):
        Path(file).write_bytes(content[:size])
        trained.refused(tf.errors.DataLossError)


@OF_BOTH
def test_a_byte_that_was_changed_anywhere(trained: Trained, file: str) -> None:
    """But for those that nobody looks at: an empty block, and what fills the footer."""
    content = Path(file).read_bytes()
    index = content[-sorted_table.FOOTER_BYTES :].rstrip(b"\0")
    end = len(content) if file == DATA else len(content) - 200 - len(index)
    for at in random.sample(range(max(0, end)), min(40, end)):
        Path(file).write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        trained.refused(tf.errors.DataLossError, tf.errors.NotFoundError)


def entry(name: str, **fields: Any) -> Callable[[dict[bytes, bytes]], None]:
    """Set fields of the index's entry of a tensor."""

    def change(rows: dict[bytes, bytes]) -> None:
        found = pb.BundleEntryProto.FromString(rows[name.encode()])
        for field, value in fields.items():
            setattr(found, field, value)
        rows[name.encode()] = found.SerializeToString()

    return change


def with_shape(name: str, *sizes: int) -> Callable[[dict[bytes, bytes]], None]:
    def change(rows: dict[bytes, bytes]) -> None:
        found = pb.BundleEntryProto.FromString(rows[name.encode()])
        del found.shape.dim[:]
        for size in sizes:
            found.shape.dim.add(size=size)
        rows[name.encode()] = found.SerializeToString()

    return change


def with_header(**fields: Any) -> Callable[[dict[bytes, bytes]], None]:
    def change(rows: dict[bytes, bytes]) -> None:
        found = pb.BundleHeaderProto.FromString(rows[b""])
        for field, value in fields.items():
            setattr(found, field, value)
        rows[b""] = found.SerializeToString()

    return change


def with_parts(*extents: tuple[int, int]) -> Callable[[dict[bytes, bytes]], None]:
    """Of the partitioned variable."""

    def change(rows: dict[bytes, bytes]) -> None:
        found = pb.BundleEntryProto.FromString(rows[b"p"])
        del found.slices[:]
        for start, length in extents:
            part = found.slices.add()
            part.extent.add(start=start, length=length)
            part.extent.add()
        rows[b"p"] = found.SerializeToString()

    return change


def parts_in_one_place(rows: dict[bytes, bytes]) -> None:
    keys = [key for key in rows if key.startswith(b"\0")]
    rows[keys[1]] = rows[keys[0]]


def a_name_that_is_none(rows: dict[bytes, bytes]) -> None:
    rows[b"\xff\xfe"] = rows[b"a"]


HOSTILE = {
    "negative offset": entry("a", offset=-1),
    "offset behind the end": entry("a", offset=1 << 40),
    "negative size": entry("a", size=-48),
    "huge size": entry("a", size=1 << 62),
    "small size": entry("a", size=8),
    "no such shard": entry("a", shard_id=1),
    "negative shard": entry("a", shard_id=-1),
    "no type": entry("a", dtype=0),
    "unknown type": entry("a", dtype=99),
    "reference type": entry("a", dtype=101),
    "huge shape": with_shape("a", 1 << 31, 1 << 31, 1 << 31),
    "negative shape": with_shape("a", -2, -3),
    "zero times huge": with_shape("a", 0, 1 << 62, 1 << 62),
    "many dimensions": with_shape("a", *[1] * 70),
    "huge shape of strings": with_shape("s", 1 << 50),
    "no shards": with_header(num_shards=0),
    "negative shards": with_header(num_shards=-1),
    "parts outside": with_parts((0, 2), (2, 4)),
    "negative parts": with_parts((-1, 2), (2, 2)),
    "parts that are not there": with_parts((0, 1), (1, 3)),
    "no name": a_name_that_is_none,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_an_index_that_says_what_cannot_be(trained: Trained, what: str) -> None:
    content = Path("m.index").read_bytes()
    rows = dict(Table(lambda at, count: content[at : at + count], len(content), "m.index").items())
    HOSTILE[what](rows)
    Path("m.index").write_bytes(b"".join(sorted_table.written(sorted(rows.items()))))
    if what == "no name":  # of what nobody asks for
        with pytest.raises(tf.errors.DataLossError, match="no name"):
            trained.read()
        return
    trained.refused(tf.errors.DataLossError)


def test_a_tensor_is_not_made_of_the_same_bytes_again_and_again(trained: Trained) -> None:
    """A small file would be as large as it likes."""
    content = Path("m.index").read_bytes()
    rows = dict(Table(lambda at, count: content[at : at + count], len(content), "i").items())
    parts_in_one_place(rows)
    Path("m.index").write_bytes(b"".join(sorted_table.written(sorted(rows.items()))))
    with pytest.raises(tf.errors.DataLossError, match="have the same bytes"):
        trained.read()


def test_parts_that_lack_elements_ask_for_no_memory(trained: Trained) -> None:
    content = Path("m.index").read_bytes()
    rows = dict(Table(lambda at, count: content[at : at + count], len(content), "i").items())
    with_shape("p", 1 << 40, 2)(rows)
    Path("m.index").write_bytes(b"".join(sorted_table.written(sorted(rows.items()))))
    with pytest.raises(tf.errors.InvalidArgumentError, match="in none of the 2 parts"):
        trained.read()


def test_blocks_that_are_compressed_are_not_read(trained: Trained) -> None:
    def compressed(content: bytes) -> bytes:
        table = Table(lambda at, count: content[at : at + count], len(content), "i")
        end = table._place(table._index[0][1], "").size
        block = content[:end] + b"\1"
        return block + masked_crc(block).to_bytes(4, "little") + content[end + 5 :]

    changed("m.index", compressed)
    trained.refused(tf.errors.UnimplementedError)


@pytest.mark.parametrize("file", ["m.index", DATA])
def test_what_is_no_file_is_not_waited_for(trained: Trained, file: str) -> None:
    os.remove(file)
    os.mkfifo(file)
    trained.refused(tf.errors.FailedPreconditionError)
    os.remove(file)
    os.mkdir(file)
    trained.refused(tf.errors.FailedPreconditionError)
    os.rmdir(file)
    os.symlink("/dev/zero", file)
    trained.refused(tf.errors.FailedPreconditionError)
    os.remove(file)
    os.symlink(file, file)
    with pytest.raises(tf.errors.OpError):
        trained.read()


def test_a_file_of_holes_is_as_large_as_it_says(trained: Trained) -> None:
    """What is to be there is checked before there is memory for it."""
    with open(DATA, "r+b") as file:
        file.truncate(1 << 40)
    content = Path("m.index").read_bytes()
    rows = dict(Table(lambda at, count: content[at : at + count], len(content), "i").items())
    with_shape("a", 1 << 36)(rows)
    entry("a", size=1 << 39)(rows)
    Path("m.index").write_bytes(b"".join(sorted_table.written(sorted(rows.items()))))
    with pytest.raises(tf.errors.DeadlineExceededError):
        trained.session.run(
            trained.saver.saver_def.restore_op_name,
            {trained.saver.saver_def.filename_tensor_name: "./m"},
            options=tf.RunOptions(timeout_in_ms=300),
        )
