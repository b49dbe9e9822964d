"""Lookup tables as resources: what they keep, give and refuse."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from headrace.base import dtypes, errors
from headrace.run.state.tables import DenseTable, LookupTable, MutableTable, StaticTable

RNG = np.random.default_rng(9)


def strings(*values: bytes) -> Any:
    found = np.empty(len(values), object)
    found[:] = values
    return found


def dense() -> DenseTable:
    return DenseTable("t", dtypes.int64, dtypes.float32, (), -1, -2, 4, 0.8, lambda keys: keys)


@pytest.mark.parametrize("kind", ["mutable", "dense"])
def test_a_history_of_inserts_and_removals_is_a_dicts(kind: str) -> None:
    table: MutableTable = (
        dense() if kind == "dense" else MutableTable("t", dtypes.int64, dtypes.float32)
    )
    model: dict[int, float] = {}
    for _ in range(200):
        keys = RNG.integers(0, 50, RNG.integers(0, 9))
        values = RNG.random(len(keys)).astype(np.float32)
        what = RNG.integers(0, 8)
        if what < 4:
            table.insert(keys, values)
            model.update(zip(keys.tolist(), values.tolist(), strict=True))
        elif what < 7:
            table.remove(keys)
            for key in keys.tolist():
                model.pop(key, None)
        else:
            table.replace(*table.export())
        asked = RNG.integers(0, 60, 20)
        found = table.find(asked, np.float32(-7))
        assert found.tolist() == [model.get(key, -7.0) for key in asked.tolist()]
        assert table.size() == len(model)


SPREAD = [
    np.arange(40), np.arange(40) * 5 - 70, np.array([3]), np.array([-(2**63), 2**63 - 1]),
    np.array([2**63 - 1, 2**63 - 3]),
    np.arange(40) * 1000,
]  # fmt: skip


@pytest.mark.parametrize("keys", SPREAD, ids=range(len(SPREAD)))
def test_numbers_are_found_however_far_apart_they_are(keys: Any) -> None:
    table = StaticTable("t", dtypes.int64, dtypes.int64)
    table.initialize(keys, np.arange(len(keys)))
    model = dict(zip(keys.tolist(), range(len(keys)), strict=True))
    asked = np.concatenate([keys, [0, 1, -1, -(2**63), 2**63 - 1, 2**63 - 2], np.arange(-80, 80)])
    asked = asked.astype(np.int64)
    found = table.find(asked, np.int64(-9))
    assert found.tolist() == [model.get(key, -9) for key in asked.tolist()]


def test_rows_of_a_table_of_tensors_are_used_again() -> None:
    table = MutableTable("t", dtypes.string, dtypes.int32, (2,))
    for at in range(100):
        key = strings(b"%d" % at)
        table.insert(key, np.array([[at, -at]], np.int32))
        table.remove(strings(b"%d" % (at - 1)))
    assert table.size() == 1
    assert len(table._values) <= 16
    assert table.find(strings(b"99", b"1"), np.zeros(2, np.int32)).tolist() == [[99, -99], [0, 0]]


def test_buckets_are_twice_as_many_when_they_are_full() -> None:
    table = dense()
    for many in range(1, 8):
        table.insert(np.array([many]), np.ones(1, np.float32))
    keys, values = table.export()
    assert keys.shape == values.shape == (16, 1)
    assert sorted(set(keys[:, 0].tolist())) == [-1, *range(1, 8)]


BAD: list[tuple[str, Any, type[errors.OpError], str]] = [
    ("find before it is initialized", lambda: StaticTable("t", dtypes.int64, dtypes.int64).find(
        np.array([1]), np.int64(0)), errors.FailedPreconditionError, "Table not initialized"),
    ("export before it is initialized", lambda: StaticTable("t", dtypes.int64, dtypes.int64).export(),
     errors.AbortedError, "not initialized"),
    ("insert into a static table", lambda: StaticTable("t", dtypes.int64, dtypes.int64).insert(
        np.array([1]), np.array([1])), errors.UnimplementedError, "Insert not supported"),
    ("remove from a static table", lambda: StaticTable("t", dtypes.int64, dtypes.int64).remove(
        np.array([1])), errors.UnimplementedError, "Remove not supported"),
    ("initialize a mutable table", lambda: MutableTable("t", dtypes.int64, dtypes.int64).initialize(
        np.array([1]), np.array([1])), errors.InvalidArgumentError, "not initializable"),
    ("a key with two values", lambda: StaticTable("t", dtypes.int64, dtypes.int64).initialize(
        np.array([1, 1]), np.array([1, 2])), errors.FailedPreconditionError, "different value for same key"),
    ("values that do not fit", lambda: MutableTable("t", dtypes.int64, dtypes.int64).insert(
        np.array([1]), np.array([[1]])), errors.InvalidArgumentError, "Expected shape"),
    ("a default that does not fit", lambda: MutableTable("t", dtypes.int64, dtypes.int64).find(
        np.array([1, 2]), np.array([1, 2, 3])), errors.InvalidArgumentError, "for default value"),
    ("the empty key", lambda: dense().insert(np.array([-1]), np.ones(1, np.float32)),
     errors.InvalidArgumentError, "Using the empty_key"),
    ("the deleted key", lambda: dense().find(np.array([-2]), np.float32(0)),
     errors.InvalidArgumentError, "Using the deleted_key"),
    ("buckets that are no power of 2", lambda: DenseTable(
        "t", dtypes.int64, dtypes.float32, (), -1, -2, 6, 0.8, lambda keys: keys),
     errors.InvalidArgumentError, "power of 2"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "kind", "says"), [row[1:] for row in BAD], ids=[row[0] for row in BAD]
)
def test_what_a_table_refuses(make: Any, kind: type[errors.OpError], says: str) -> None:
    with pytest.raises(kind, match=says):
        make()


def test_readers_see_whole_inserts() -> None:
    table = MutableTable("t", dtypes.int64, dtypes.int64)
    keys, done, torn = np.arange(64), threading.Event(), []
    table.insert(keys, np.zeros(64, np.int64))

    def read() -> None:
        while not done.is_set():
            if len(set(table.find(keys, np.int64(-1)).tolist())) > 1:
                torn.append(1)

    thread = threading.Thread(target=read)
    thread.start()
    for at in range(300):
        table.insert(keys, np.full(64, at))
    done.set()
    thread.join()
    assert not torn


def test_other_types_under_one_name_are_refused() -> None:
    table: LookupTable = MutableTable("t", dtypes.int64, dtypes.int64)
    with pytest.raises(
        errors.InvalidArgumentError, match="Conflicting key/value dtypes int64->float32"
    ):
        table.check_types(dtypes.int64, dtypes.float32)
