"""What a batch dequeuer does to its reader and its queue cannot be told from one record at a time."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base import dtypes, errors
from headrace.codec.records import framed
from headrace.run.pending import Pending, announce_all
from headrace.run.queues.fifo import FIFOQueue
from headrace.run.queues.padding import PaddingFIFOQueue
from headrace.run.queues.priority import PriorityQueue, priority_spec
from headrace.run.queues.queue import Queue
from headrace.run.queues.shuffle import RandomShuffleQueue
from headrace.run.queues.spec import QueueSpec
from headrace.run.readers import file_readers
from headrace.run.readers.file_readers import FixedLengthRecordReader, TextLineReader
from headrace.run.readers.reader import IdentityReader, Reader, WholeFileReader
from headrace.run.readers.record_readers import TFRecordReader

# -- queues: enqueue_each is many enqueues ----------------------------------------------------

TYPES = [dtypes.int64, dtypes.string]


def fifo() -> Queue:
    return FIFOQueue("q", QueueSpec.make(TYPES, [(), ()], 5))


def shuffled() -> Queue:
    return RandomShuffleQueue("q", QueueSpec.make(TYPES, [(), ()], 5, 2, seed=3, seed2=4))


def shuffled_without_shapes() -> Queue:
    return RandomShuffleQueue("q", QueueSpec.make(TYPES, (), 5, 2, seed=3, seed2=4))


def without_shapes() -> Queue:
    return FIFOQueue("q", QueueSpec.make(TYPES, (), 5))


def padding() -> Queue:
    return PaddingFIFOQueue("q", QueueSpec.make(TYPES, [(None,), ()], 5, sizes_vary=True))


def priority() -> Queue:
    return PriorityQueue("q", priority_spec(TYPES[1:], [()], 5))


MAKERS = [fifo, shuffled, shuffled_without_shapes, without_shapes, padding, priority]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("each"), st.integers(1, 9)),
        st.tuples(st.just("enqueue"), st.just(1)),
        st.tuples(st.just("dequeue"), st.just(1)),
        st.tuples(st.sampled_from(["dequeue_many", "dequeue_up_to"]), st.integers(1, 4)),
        st.tuples(st.just("close"), st.just(0)),
        st.tuples(st.just("give up"), st.integers(0, 5)),
    ),
    max_size=25,
)


def element(number: int, ragged: bool) -> tuple[Any, Any]:
    first = np.full(number % 3, number, np.int64) if ragged else np.int64((number * 7) % 10)
    word = np.empty((), object)
    word[()] = b"%d" % number
    return first, word


def columns(elements: Sequence[tuple[Any, Any]], ragged: bool) -> list[Any]:
    firsts, words = zip(*elements, strict=True)
    column = np.empty(len(words), object)
    column[:] = [word[()] for word in words]
    return [list(firsts) if ragged else np.array(firsts), list(words) if ragged else column]


def one_by_one(queue: Queue, elements: Sequence[tuple[Any, Any]]) -> int:
    """What `enqueue_each` must be."""
    for count, each in enumerate(elements):
        if queue.room() <= 0:
            return count
        assert queue.enqueue(each).done
    return len(elements)


def together(queue: Queue, elements: Sequence[tuple[Any, Any]]) -> int:
    ragged = elements[0][0].ndim > 0
    settled: list[Pending[Any]] = []
    count = queue.enqueue_each(columns(elements, ragged), len(elements), settled)
    announce_all(settled)
    return count


def history(
    queue: Queue, steps: Sequence[tuple[str, int]], ragged: bool, each: Callable[..., int]
) -> list[Any]:
    """All that can be seen of a queue after each step."""
    seen: list[Any] = []
    pendings: list[Pending[Any]] = []
    number = 0
    for kind, count in steps:
        if kind == "each":
            batch = [element(number + at, ragged) for at in range(count)]
            number += count
            seen.append(each(queue, batch))
        elif kind == "give up":
            if count < len(pendings):
                seen.append(pendings[count].abandon(errors.aborted("given up")))
        elif kind == "enqueue":
            pendings.append(queue.enqueue(element(1000 + len(pendings), ragged)))
        elif kind in ("dequeue", "close"):
            pendings.append(getattr(queue, kind)())
        else:
            pendings.append(getattr(queue, kind)(count))
        seen.append((queue.size(), queue.is_closed(), [outcome(pending) for pending in pendings]))
    return seen


def outcome(pending: Pending[Any]) -> Any:
    if not pending.done:
        return "waits"
    if pending.error is not None:
        return type(pending.error).__name__, pending.error.message
    return None if pending.result() is None else [value.tolist() for value in pending.result()]


@pytest.mark.parametrize("make", MAKERS)
@given(steps=STEPS)
def test_many_enqueues_in_one_moment_are_that_many_enqueues(
    make: Callable[[], Queue], steps: list[tuple[str, int]]
) -> None:
    ragged = make is padding
    assert history(make(), steps, ragged, together) == history(make(), steps, ragged, one_by_one)


@given(
    keep=st.integers(0, 4),
    wanted=st.lists(st.tuples(st.booleans(), st.integers(1, 20)), min_size=1, max_size=5),
    batches=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    seed=st.integers(1, 1000),
)
def test_takers_that_wait_at_a_shuffle_queue_get_what_is_drawn_as_each_element_comes(
    keep: int, wanted: list[tuple[bool, int]], batches: list[int], seed: int
) -> None:
    def seen(each: Callable[..., int]) -> list[Any]:
        queue = RandomShuffleQueue("q", QueueSpec.make(TYPES, [(), ()], 60, keep, seed=seed))
        steps = [("dequeue_many" if many else "dequeue_up_to", count) for many, count in wanted]
        steps += [("each", count) for count in batches]
        return history(queue, [*steps, ("give up", 0), ("give up", 1), ("close", 0)], False, each)

    assert seen(together) == seen(one_by_one)


def test_nothing_goes_in_that_does_not_fit_in_type_or_shape() -> None:
    queue = FIFOQueue("q", QueueSpec.make([dtypes.float32], [(2,)], 5))
    for batch in (
        [np.zeros((3, 2), np.float64)],
        [np.zeros((3, 3), np.float32)],
        [np.zeros((3, 2), np.float32)] * 2,
        [[np.zeros(2, np.float32), np.zeros(3, np.float32), np.zeros(2, np.float32)]],
    ):
        assert queue.enqueue_each(batch, 3, []) == -1
    assert queue.size() == 0


# -- readers: what is offered is what would have been read ------------------------------------


def text(content: bytes) -> bytes:
    return b"head\r\n" + content.replace(b"7", b"\r\n").replace(b"3", b"\n\n")


def record_file(content: bytes) -> bytes:
    """Records of up to ten bytes; the last one is corrupt if there is an x."""
    whole = b"".join(framed(content[at : at + at % 11]) for at in range(0, len(content), 5))
    return whole + (framed(b"x" * 40).replace(b"x", b"y", 1) if b"9" in content else b"")


KINDS: list[tuple[Callable[[], Reader], Callable[[bytes], bytes]]] = [
    (lambda: TextLineReader("r"), text),
    (lambda: TextLineReader("r", skip_header_lines=2), text),
    (lambda: FixedLengthRecordReader("r", 3, 2, 1, 2), bytes),
    (lambda: FixedLengthRecordReader("r", 3, encoding="ZLIB"), zlib.compress),
    (lambda: TFRecordReader("r"), record_file),
    (lambda: TFRecordReader("r", "ZLIB"), lambda content: zlib.compress(record_file(content))),
    (lambda: WholeFileReader("r"), bytes),
    (lambda: IdentityReader("r"), bytes),
]


def named(paths: Sequence[Path]) -> Queue:
    queue = FIFOQueue("names", QueueSpec.make((dtypes.string,), shapes=((),)))
    for path in paths:
        box = np.empty((), object)
        box[()] = str(path).encode()
        queue.enqueue([box])
    queue.close()
    return queue


def read_one(reader: Reader, queue: Queue, seen: list[Any]) -> bool:
    """One read; False at the end of the input."""
    try:
        key, value = reader.read(queue).result()
        seen.append((key[()], value[()]))
    except errors.OutOfRangeError:
        return False
    except errors.OpError as error:
        seen.append(str(error))
    seen.append((reader.records_produced(), reader.work_units_completed()))
    return True


def read_all(reader: Reader, queue: Queue, offers: Sequence[tuple[int, int, int]]) -> list[Any]:
    """Keys, values, errors and counters, with each of `offers` (most, taken, claimed more) made before a read."""
    seen: list[Any] = []
    for most, taken, more in offers:
        before = reader.records_produced(), reader.work_units_completed()
        pairs: list[Any] = []

        def take(
            records: Sequence[bytes],
            pairs: list[Any] = pairs,
            wanted: int = taken,
            more: int = more,
        ) -> int:
            pairs.extend(zip(reader.keys_ahead(len(records)), records, strict=True))
            taken = min(wanted, len(records))
            assert not taken or reader.claim(min(taken + more, len(records)))
            return taken

        made = reader.offer(most, take, queue, [])
        assert made == min(taken, len(pairs)) <= most
        whole = isinstance(reader, WholeFileReader | IdentityReader)
        for number, pair in enumerate(pairs[:made], 1):
            seen += [pair, (before[0] + number, before[1] + (number if whole else 0))]
        read_one(reader, queue, seen)
    while read_one(reader, queue, seen):
        pass
    return seen


@pytest.mark.parametrize("kind", range(len(KINDS)))
@given(
    contents=st.lists(
        st.lists(st.sampled_from(b"1237abc9"), max_size=60).map(bytes), min_size=1, max_size=9
    ),
    offers=st.lists(
        st.tuples(st.integers(1, 9), st.integers(0, 9), st.integers(0, 3)), max_size=12
    ),
    block=st.integers(1, 40),
)
def test_records_that_are_offered_are_those_that_would_be_read(
    kind: int,
    contents: list[bytes],
    offers: list[tuple[int, int]],
    block: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    make, written = KINDS[kind]
    folder = tmp_path_factory.mktemp("records")
    paths = [folder / str(number) for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(written(content))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_readers, "BLOCK_BYTES", block)
        reader = make()
        found = read_all(reader, named(paths), offers)
        reader.close()
    reader = make()
    assert found == read_all(reader, named(paths), [])
    reader.close()


def test_what_fails_ahead_is_said_by_the_next_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        path.write_bytes(path.name.encode() + b"\n")
    reader, queue = TextLineReader("r"), named(paths)
    assert reader.read(queue).result()[1][()] == b"a"
    with monkeypatch.context() as patch:
        patch.setattr(reader, "fill", lambda: (_ for _ in ()).throw(OSError(5, "broken")))
        assert reader.offer(5, len, queue, []) == 0
    assert reader.offer(5, len, queue, []) == 0
    with pytest.raises(errors.OpError, match="Input"):
        reader.read(queue).result()
    assert reader.read(queue).result()[1][()] == b"b"
    assert reader.offer(5, len, queue, []) == 0
    assert reader.records_produced() == 2
    reader.close()


def test_the_next_block_is_offered_when_one_is_used_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\nb\nc\nd\n")
    monkeypatch.setattr(file_readers, "BLOCK_BYTES", 4)
    reader, queue = TextLineReader("r"), named([path])
    assert reader.read(queue).result()[1][()] == b"a"
    assert reader.offer(5, len, queue, []) == 1
    offered: list[Sequence[bytes]] = []
    assert reader.offer(5, lambda records: offered.append(records) or 2, queue, []) == 2
    assert offered == [[b"c", b"d"]]
    assert reader.offer(5, len, queue, []) == 0
    assert reader.records_produced() == 4
    reader.close()


def test_nothing_is_offered_while_others_wait_to_read(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\nb\nc\n")
    reader = TextLineReader("r")
    queue = FIFOQueue("names", QueueSpec.make((dtypes.string,)))
    assert reader.offer(5, len, queue, []) == 0  # no file yet
    waiting = reader.read(queue)
    assert reader.offer(5, len, queue, []) == 0
    waiting.abandon(errors.aborted("given up"))
    assert reader.read(named([path])).result()[1][()] == b"a"
    assert reader.offer(5, lambda records: 1, queue, []) == 1
    assert reader.read(named([path])).result()[1][()] == b"c"
    assert reader.records_produced() == 3
    reader.close()
