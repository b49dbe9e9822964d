"""Storage: every component type goes in and comes out whole, and memory follows the content."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base import dtypes
from headrace.run.queues.columns import Chunks, Column, ElementList, Ring, Store, Table
from headrace.run.queues.philox import Philox
from headrace.run.queues.shuffle import Bag, LargeBag, ShuffledList


class Thing:
    """Stands for a resource handle."""


THING = Thing()

VALUES: list[tuple[dtypes.DType, Any]] = [
    (dtypes.float32, np.float32(1.5)),
    (dtypes.float32, np.array(1.5, np.float32)),
    (dtypes.float64, np.arange(6.0).reshape(2, 3)),
    (dtypes.bool, np.bool_(True)),
    (dtypes.complex64, np.complex64(1 + 2j)),
    (dtypes.bfloat16, np.array([1, 2], dtypes.bfloat16.np)),
    (dtypes.bfloat16, np.array(3, dtypes.bfloat16.np)),
    (dtypes.qint8, np.array((5,), dtypes.qint8.np)),
    (dtypes.string, np.array(b"x\0y\0", object)),
    (dtypes.string, np.array([b"p", b""], object)),
    (dtypes.resource, THING),
    (dtypes.int64, np.zeros((2, 0), np.int64)),
]

STORES = ["ring", "chunks", "bag", "large bag", "list", "shuffled list"]


def make(kind: str, *components: tuple[dtypes.DType, tuple[int, ...]]) -> Store:
    types, shapes = [c[0] for c in components], [c[1] for c in components]
    random = Philox(1, 2)
    makers: dict[str, Callable[[], Store]] = {
        "ring": lambda: Ring(types, shapes),
        "chunks": lambda: Chunks(types, shapes),
        "bag": lambda: Bag(types, shapes, random),
        "large bag": lambda: LargeBag(types, shapes, random),
        "list": ElementList,
        "shuffled list": lambda: ShuffledList(random),
    }
    return makers[kind]()


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize(("dtype", "value"), VALUES)
def test_a_value_comes_out_as_it_went_in(kind: str, dtype: dtypes.DType, value: Any) -> None:
    if isinstance(value, Thing) and kind == "chunks":
        return  # handles are small
    store = make(kind, (dtype, np.shape(value)))
    store.put((value,))
    (out,) = store.take()
    if isinstance(value, Thing):
        assert out is value
        return
    assert isinstance(out, (np.ndarray, np.generic)), "a bare Python value is no tensor"
    assert out.dtype == value.dtype
    assert out.shape == value.shape
    assert np.array_equal(out, value)


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("many", [False, True])
def test_the_caller_keeps_its_buffer(kind: str, many: bool) -> None:
    store = make(kind, (dtypes.float32, (2,)))
    value = np.array([1, 2], np.float32)
    if many:
        store.put_many((value[None],), 0, 1)
    else:
        store.put((value,))
    value[:] = 0
    (out,) = store.take()
    assert out.tolist() == [1, 2]


@pytest.mark.parametrize("kind", STORES)
def test_what_comes_out_is_the_takers_own(kind: str) -> None:
    store = make(kind, (dtypes.float32, (2,)))
    for _ in range(2):
        store.put((np.ones(2, np.float32),))
    (out,) = store.take()
    out[:] = 7
    (other,) = store.take()
    store.put((np.zeros(2, np.float32),))
    assert other.tolist() == [1, 1]
    assert out.tolist() == [7, 7]


@pytest.mark.parametrize("kind", ["ring", "chunks", "bag", "large bag"])
def test_batches_are_the_takers_own_too(kind: str) -> None:
    store = make(kind, (dtypes.int32, ()))
    store.put_many((np.arange(6, dtype=np.int32),), 0, 6)
    store.gather(2)
    first = store.take_gathered()[0]
    second = store.take_many(2)[0]
    expected = (first.tolist(), second.tolist())
    store.put_many((np.full(8, -1, np.int32),), 0, 8)
    assert (first.tolist(), second.tolist()) == expected
    assert first.flags.writeable
    assert first.flags.owndata


def test_a_ring_keeps_its_order_across_every_seam() -> None:
    for head in range(20):
        for count in range(1, 20):
            ring = Ring([dtypes.int32, dtypes.string], [(), ()])
            for i in range(head):  # move the head
                ring.put((np.int32(i), np.array(b"", object)))
                ring.take()
            numbers = np.arange(count, dtype=np.int32)
            texts = np.array([b"%d" % i for i in range(count)], object)
            ring.put_many((numbers, texts), 0, count)
            ring.put((np.int32(count), np.array(b"last", object)))
            got, names = ring.take_many(count)
            assert got.tolist() == numbers.tolist()
            assert names.tolist() == texts.tolist()
            assert ring.take()[1].item() == b"last"


@pytest.mark.parametrize("kind", ["ring", "bag"])
def test_memory_follows_the_content(kind: str) -> None:
    store = make(kind, (dtypes.float32, (100,)))
    assert isinstance(store, Table)
    assert store.slots == 0
    batch = np.zeros((5000, 100), np.float32)
    for _ in range(4):
        store.put_many((batch,), 0, 5000)
    assert 20000 <= store.slots <= 40000
    store.take_many(19990)
    assert store.slots <= 100
    for _ in range(10):
        store.take()
    assert store.size == 0
    assert store.slots <= 200


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["put", "take", "take gathered", "restore"]), st.just(1)),
        st.tuples(st.sampled_from(["put many", "keep", "take many", "gather"]), st.integers(1, 12)),
    ),
    max_size=40,
)


@given(steps=STEPS)
def test_chunks_are_a_ring_that_copies_less(steps: list[tuple[str, int]]) -> None:
    stores: list[Store] = [
        kind([dtypes.int32, dtypes.string], [(3,), ()]) for kind in (Ring, Chunks)
    ]
    made = 0

    def batch(count: int) -> tuple[Any, Any]:
        numbers = np.arange(made, made + count, dtype=np.int32)
        words = np.array([b"%d" % n for n in numbers], object)
        return np.repeat(numbers[:, None], 3, axis=1), words

    for kind, count in steps:
        found: list[Any] = []
        for store in stores:
            out: Any = ()
            if kind == "put":
                numbers, words = batch(1)
                store.put((numbers[0], words[:1].reshape(())))
            elif kind == "put many":
                store.put_many(batch(count + 3), 2, count + 2)
            elif kind == "keep":
                store.put_many(batch(count), 0, count, (True, True))
            elif kind == "take" and store.size and not store.gathered:
                out = store.take()
            elif kind == "take many" and store.size and not store.gathered:
                out = store.take_many(min(count, store.size))
            elif kind == "gather" and store.size:
                store.gather(min(count, store.size))
            elif kind == "take gathered" and store.gathered:
                out = store.take_gathered()
            elif kind == "restore":
                store.restore()
            found.append((store.size, store.gathered, [value.tolist() for value in out]))
        assert found[0] == found[1]
        made += count + 3


def test_what_is_kept_and_leaves_whole_is_never_copied() -> None:
    store = Chunks([dtypes.float32], [(100,)])
    batch = np.ones((8, 100), np.float32)
    store.put_many((batch,), 0, 8, (True,))
    store.put_many((batch,), 0, 8)
    store.gather(8)
    assert store.take_gathered()[0] is batch
    assert not np.shares_memory(store.take_many(8)[0], batch)
    store.put_many((batch,), 0, 4, (True,))  # not all of it
    assert not np.shares_memory(store.take_many(4)[0], batch)


def test_what_is_left_of_a_chunk_does_not_hold_the_rest() -> None:
    store = Chunks([dtypes.float32], [(100,)])
    batch = np.ones((80, 100), np.float32)
    alive = weakref.ref(batch)
    store.put_many((batch,), 0, 80, (True,))
    del batch
    assert store.take_many(59)[0].shape == (59, 100)
    assert alive() is not None
    store.take()
    assert alive() is None
    assert store.take_many(20)[0].tolist() == [[1.0] * 100] * 20


@pytest.mark.parametrize("kind", ["ring", "bag"])
def test_growing_by_single_elements_copies_each_a_bounded_number_of_times(kind: str) -> None:
    store = make(kind, (dtypes.int64, ()))
    assert isinstance(store, Table)
    sizes = set()
    for i in range(10000):
        store.put((np.int64(i),))
        sizes.add(store.slots)
    assert len(sizes) <= 12
    taken = {int(store.take()[0]) for _ in range(10000)}
    assert taken == set(range(10000))


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        *[(kind, "take") for kind in STORES],
        *[(kind, how) for kind in ("ring", "bag") for how in ("take_many", "gather")],
    ],
)
def test_nothing_taken_is_kept_alive(kind: str, how: str) -> None:
    store = make(kind, (dtypes.resource, ()))
    things = [Thing() for _ in range(5)]
    alive = [weakref.ref(t) for t in things]
    for thing in things:
        store.put((thing,))
    del things, thing
    if how == "take":
        for _ in range(5):
            store.take()
    elif how == "take_many":
        store.take_many(2)
        store.take_many(3)
    else:
        store.gather(3)
        store.gather(2)
        store.take_gathered()
    assert [ref() for ref in alive] == [None] * 5


@pytest.mark.parametrize("kind", ["ring", "bag"])
def test_gathered_elements_can_be_restored(kind: str) -> None:
    store = make(kind, (dtypes.int32, ()))
    store.put_many((np.arange(5, dtype=np.int32),), 0, 5)
    store.gather(3)
    assert (store.size, store.gathered) == (2, 3)
    store.put((np.int32(5),))
    store.restore()
    assert (store.size, store.gathered) == (6, 0)
    got = store.take_many(6)[0].tolist()
    assert (got if kind == "ring" else sorted(got)) == [0, 1, 2, 3, 4, 5]


def test_a_failed_growth_leaves_the_ring_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = Ring([dtypes.int32, dtypes.int32], [(), ()])
    for i in range(8):
        ring.put((np.int32(i), np.int32(-i)))
    ring.take()
    ring.put((np.int32(8), np.int32(-8)))
    columns: list[Column] = []
    real = Column.moved

    def second_fails(column: Column, slots: int, pieces: Sequence[slice]) -> Any:
        columns.append(column)
        if len(columns) == 2:
            raise MemoryError("no more")
        return real(column, slots, pieces)

    monkeypatch.setattr(Column, "moved", second_fails)
    with pytest.raises(MemoryError):
        ring.put((np.int32(9), np.int32(-9)))
    monkeypatch.undo()
    a, b = ring.take_many(8)
    assert a.tolist() == list(range(1, 9))
    assert b.tolist() == [-i for i in range(1, 9)]
