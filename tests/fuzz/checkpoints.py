"""Checkpoints that are fuzzed: their rows, under checksums that fit, and tables as they are.

Mutated bytes of a table are refused by its checksums, so its rows are mutated, and made a table of again.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.codec import slice_table
from headrace.codec.bundle_reader import Reader, Stored
from headrace.codec.ordered import WHOLE
from headrace.codec.sorted_table import Table, written
from headrace.codec.tensor_bundle import Writer

REFUSALS = (
    errors.DataLossError,
    errors.InternalError,  # of format V1: files that do not agree, as TensorFlow has it
    errors.InvalidArgumentError,
    errors.ResourceExhaustedError,
    errors.UnimplementedError,
)
_TYPES = ("float32", "int64", "bool", "string", "bfloat16")


def _value(rng: Random, sizes: tuple[int, ...], dtype: dtypes.DType) -> Any:
    count = int(np.prod(sizes))
    if dtype is dtypes.string:
        found = np.empty(count, object)
        found[:] = [rng.randbytes(rng.randrange(9)) for _ in range(count)]
        return found.reshape(sizes)
    return np.array([rng.randrange(2) for _ in range(count)]).astype(dtype.np).reshape(sizes)


def _tensors(rng: Random) -> list[slice_table.Part]:
    """Whole ones, and one in two parts."""
    found = []
    for at in range(rng.randrange(1, 4)):
        dtype = dtypes.as_dtype(rng.choice(_TYPES))
        sizes = tuple(rng.randrange(4) for _ in range(rng.randrange(3)))
        whole = ((0, WHOLE),) * len(sizes)
        found.append(slice_table.Part(f"x{at}", sizes, whole, _value(rng, sizes, dtype), dtype))
    for at in range(2):
        value = _value(rng, (2, 3), dtypes.float32)
        found.append(
            slice_table.Part("p", (4, 3), ((2 * at, 2), (0, WHOLE)), value, dtypes.float32)
        )
    return found


# -- rows under checksums that fit ----------------------------------------------------------------


def _packed(rows: dict[bytes, bytes], data: bytes) -> bytes:
    found = b"".join(
        len(key).to_bytes(1, "little") + len(value).to_bytes(2, "little") + key + value
        for key, value in rows.items()
    )
    return len(rows).to_bytes(1, "little") + found + data


def _unpacked(content: bytes) -> tuple[dict[bytes, bytes], bytes]:
    """Whatever the bytes are."""
    file, rows = io.BytesIO(content), {}
    for _ in range(int.from_bytes(file.read(1), "little")):
        size = int.from_bytes(file.read(1), "little"), int.from_bytes(file.read(2), "little")
        key = file.read(size[0])
        rows[key] = file.read(size[1])
    return rows, file.read()


def _table(content: bytes) -> Table:
    return Table(lambda at, count: content[at : at + count], len(content), "m.index")


def _table_of(rows: dict[bytes, bytes]) -> Table:
    return _table(b"".join(written(sorted(rows.items()))))


def _rows(table: Table) -> dict[bytes, bytes]:
    return dict(table.items())


def valid_bundle(rng: Random) -> bytes:
    """Of format V2, its index and one shard."""
    shard = io.BytesIO()
    writer = Writer(shard.write)
    for each in _tensors(rng):
        if each.name == "p":
            writer.add_slice(each.name, each.sizes, each.extents, each.value, each.dtype)
        else:
            writer.add(each.name, each.value, each.dtype)
    return _packed(_rows(_table(b"".join(writer.index()))), shard.getvalue())


def check_bundle(rng: Random, content: bytes) -> bool:
    """Every tensor, or a typed error."""
    rows, shard = _unpacked(content)

    def read(stored: Stored) -> Any:
        entry = stored.entry
        assert entry.offset >= 0
        assert entry.shard_id >= 0
        return stored.decoded(shard[entry.offset : entry.offset + entry.size])

    def everything() -> None:
        reader = Reader(_table_of(rows), read, "m")
        for name in reader.names():
            found = reader.tensor(name)
            assert found.shape == tuple(dim.size for dim in reader.entry(name).shape.dim)
            reader.stored(name)

    return _accepted(everything)


def valid_slices(rng: Random) -> bytes:
    """Of format V1."""
    return _packed(_rows(_table(b"".join(slice_table.written(_tensors(rng))))), b"")


def check_slices(rng: Random, content: bytes) -> bool:
    """Every tensor, or a typed error."""
    rows, _ = _unpacked(content)

    def everything() -> None:
        reader = slice_table.Reader([_table_of(rows)], "m")
        for name in reader.names():
            assert reader.tensor(name).shape == reader.about(name)[1]

    return _accepted(everything)


# -- tables ---------------------------------------------------------------------------------------


def valid_table(rng: Random) -> bytes:
    """A few rows."""
    keys = sorted({rng.randbytes(rng.randrange(1, 5)) for _ in range(rng.randrange(40))})
    return b"".join(written([(key, rng.randbytes(rng.randrange(9))) for key in keys]))


def check_table(rng: Random, content: bytes) -> bool:
    """All rows, each found by its key, or a typed error."""

    def everything() -> None:
        table = _table(content)
        for key, value in table.items():
            assert table.get(key) == value

    return _accepted(everything)


def _accepted(what: Callable[[], None]) -> bool:
    try:
        what()
    except REFUSALS:
        return False
    return True
