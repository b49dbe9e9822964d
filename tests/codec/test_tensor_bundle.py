"""Tensor bundles: values of every type, whole and in parts; what is damaged or missing is an error that says where."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base import dtypes, errors
from headrace.codec import protos as pb
from headrace.codec.bundle_reader import Reader, Stored, merged
from headrace.codec.fields import objects
from headrace.codec.ordered import WHOLE
from headrace.codec.records import masked_crc
from headrace.codec.sorted_table import Table
from headrace.codec.tensor_bundle import Writer, written


class Files:
    """A bundle in memory."""

    def __init__(self) -> None:
        self.shards = [io.BytesIO()]
        self.writer = Writer(self.shards[0].write)
        self.index: bytes | None = None

    def reader(self) -> Reader:
        index = b"".join(self.writer.index()) if self.index is None else self.index
        table = Table(lambda at, count: index[at : at + count], len(index), "m.index")

        def read(stored: Stored) -> Any:
            entry = stored.entry
            content = self.shards[entry.shard_id].getvalue()
            return stored.decoded(content[entry.offset : entry.offset + entry.size])

        return Reader(table, read, "m")


NUMBERS = [
    "half", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "int64",
    "uint32", "uint64", "bool", "complex64", "complex128",
]  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("sizes", [(), (3,), (2, 0), (2, 3)], ids=str)
def test_numbers_come_back(name: str, sizes: tuple[int, ...]) -> None:
    dtype = dtypes.as_dtype(name)
    value = np.arange(np.prod(sizes, dtype=int)).reshape(sizes).astype(dtype.as_numpy_dtype)
    files = Files()
    files.writer.add("x", value, dtype)
    found = files.reader().tensor("x")
    assert found.dtype == value.dtype
    assert found.shape == value.shape
    assert found.tolist() == value.tolist()
    assert found.flags.writeable


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_strings_come_back(strings: list[bytes]) -> None:
    value = np.empty(len(strings), object)
    value[:] = strings
    files = Files()
    files.writer.add("s", value, dtypes.string)
    assert files.reader().tensor("s").tolist() == strings


def test_what_is_checked_in_pieces_has_the_same_checksum() -> None:
    files = Files()
    value = np.random.default_rng(1).bytes((1 << 21) + 3)
    files.writer.add("x", np.frombuffer(value, np.uint8), dtypes.uint8)
    files.writer.add("s", np.array(value, object), dtypes.string)
    crc = masked_crc(value)
    assert [entry.crc32c for _, entry in files.reader().entries()][1] == crc
    assert files.reader().tensor("x").tobytes() == value
    assert files.reader().tensor("s")[()] == value


def test_values_that_are_not_contiguous_are_saved_as_they_look() -> None:
    value = np.arange(12.0).reshape(3, 4).T[::2]
    files = Files()
    files.writer.add("x", value, dtypes.float64)
    assert files.reader().tensor("x").tolist() == value.tolist()


@given(st.data())
def test_a_part_is_found_however_the_tensor_was_cut(data: st.DataObject) -> None:
    sizes = data.draw(st.tuples(st.integers(1, 6), st.integers(1, 6)))
    value = np.arange(sizes[0] * sizes[1]).reshape(sizes)
    axis = data.draw(st.integers(0, 1))
    cuts = sorted({0, sizes[axis], *data.draw(st.lists(st.integers(0, sizes[axis]), max_size=3))})
    files = Files()
    for start, stop in itertools.pairwise(cuts):
        extents = [(0, WHOLE), (0, WHOLE)]
        extents[axis] = (start, stop - start)
        part = value[start:stop] if axis == 0 else value[:, start:stop]
        files.writer.add_slice("p", sizes, extents, part, dtypes.int64)
    reader = files.reader()
    assert list(reader.names()) == ["p"]
    assert reader.tensor("p").tolist() == value.tolist()
    start = data.draw(st.integers(0, sizes[0]))
    length = data.draw(st.integers(0, sizes[0] - start))
    wanted = value[start : start + length].tolist()
    assert reader.part("p", [(start, length), (0, WHOLE)]).tolist() == wanted


def test_a_part_of_a_tensor_that_is_there_as_a_whole() -> None:
    files = Files()
    files.writer.add("x", np.arange(6).reshape(2, 3), dtypes.int64)
    assert files.reader().part("x", [(1, 1), (0, 2)]).tolist() == [[3, 4]]


def two_halves(second: Sequence[int] = (2, 2)) -> Files:
    files = Files()
    files.writer.add_slice("p", (4,), [(0, 2)], np.arange(2), dtypes.int64)
    if second:
        files.writer.add_slice("p", (4,), [tuple(second)], np.arange(second[1]), dtypes.int64)  # type: ignore[list-item]
    return files


@pytest.mark.parametrize(
    ("extents", "phrase"),
    [
        ([(0, 5)], "no part"),
        ([(3, 2)], "no part"),
        ([(0, 1), (0, 1)], "no part"),
        ([(-1, 2)], "no part"),
    ],
)
def test_a_part_that_a_tensor_does_not_have(extents: list[tuple[int, int]], phrase: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=phrase):
        two_halves().reader().part("p", extents)


def test_parts_that_do_not_make_the_whole_say_how_much_is_missing() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="2 of the 4 elements"):
        two_halves(()).reader().tensor("p")


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(errors.NotFoundError, match="Key y not found in checkpoint"):
        two_halves().reader().tensor("y")
    assert not two_halves().reader().has("y")
    assert two_halves().reader().has("p")


def test_a_name_comes_once() -> None:
    files = Files()
    files.writer.add("x", np.zeros(1), dtypes.float64)
    with pytest.raises(errors.InvalidArgumentError, match="duplicate"):
        files.writer.add("x", np.zeros(1), dtypes.float64)
    with pytest.raises(errors.InvalidArgumentError, match="needs a name"):
        files.writer.add("", np.zeros(1), dtypes.float64)
    with pytest.raises(errors.InvalidArgumentError, match="as a whole"):
        files.writer.add_slice("x", (1,), [(0, 1)], np.zeros(1), dtypes.float64)


def test_parts_agree_on_the_whole() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="do not agree"):
        two_halves().writer.add_slice("p", (5,), [(4, 1)], np.zeros(1, np.int64), dtypes.int64)


@pytest.mark.parametrize("dtype", [dtypes.resource, dtypes.variant], ids=lambda dtype: dtype.name)
def test_what_is_no_data_is_refused(dtype: dtypes.DType) -> None:
    with pytest.raises(errors.UnimplementedError, match=dtype.name):
        Files().writer.add("x", np.array(None, object), dtype)


@pytest.mark.parametrize(
    "dtype", [dtypes.float64, dtypes.string, dtypes.variant], ids=lambda dtype: dtype.name
)
def test_every_byte_that_changed_is_data_loss(dtype: dtypes.DType) -> None:
    value: Any = np.ones(2)
    if dtype is dtypes.string:
        value = np.array([b"one", b"", b"three"], object)
    elif dtype is dtypes.variant:
        value = objects([pb.VariantTensorDataProto(type_name="a"), pb.VariantTensorDataProto()])
    files = Files()
    files.writer.add("first", np.zeros(1), dtypes.float64)
    files.writer.add("layer/kernel", value, dtype)
    content = files.shards[0].getvalue()
    reader = files.reader()
    for at in range(8, len(content)):
        files.shards[0] = io.BytesIO(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(
            errors.DataLossError, match=r"layer/kernel in m.data-00000-of-00001, byte 8"
        ):
            reader.tensor("layer/kernel")
        assert reader.tensor("first").tolist() == [0.0]
    files.shards[0] = io.BytesIO(content[:-1])
    with pytest.raises(errors.DataLossError, match="Unable to read"):
        reader.tensor("layer/kernel")


def test_bundles_are_merged_without_touching_their_data() -> None:
    a, b = Files(), two_halves(())
    a.writer.add("x", np.arange(3), dtypes.int64)
    a.writer.add_slice("p", (4,), [(2, 2)], np.arange(2, 4), dtypes.int64)
    rows = [
        list(Table(lambda at, n, c=c: c[at : at + n], len(c), "i").items())  # type: ignore[misc]
        for c in (b"".join(a.writer.index()), b"".join(b.writer.index()))
    ]
    entries, begins = merged(rows)
    assert begins == [0, 1, 2]
    both = Files()
    both.shards = [a.shards[0], b.shards[0]]
    both.index = b"".join(written(entries, 2))
    assert both.reader().tensor("p").tolist() == [0, 1, 2, 3]
    assert both.reader().tensor("x").tolist() == [0, 1, 2]
    with pytest.raises(errors.InvalidArgumentError, match="two of the checkpoints"):
        merged([rows[0], rows[0]])


def test_an_index_of_something_else_is_refused() -> None:
    files = Files()
    files.index = b"".join(written({}, 1))
    assert list(files.reader().names()) == []
    from headrace.codec.sorted_table import written as table_of

    files.index = b"".join(table_of([(b"a", b"b")]))
    with pytest.raises(errors.DataLossError, match="no header"):
        files.reader()
    big = pb.BundleHeaderProto(num_shards=1, endianness=pb.BundleHeaderProto.BIG)
    files.index = b"".join(table_of([(b"", big.SerializeToString())]))
    with pytest.raises(errors.UnimplementedError, match="big-endian"):
        files.reader()
    new = pb.BundleHeaderProto(num_shards=1, version=pb.VersionDef(min_consumer=9))
    files.index = b"".join(table_of([(b"", new.SerializeToString())]))
    with pytest.raises(errors.InvalidArgumentError, match="version 9"):
        files.reader()
