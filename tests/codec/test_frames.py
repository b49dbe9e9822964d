"""Frames survive the stream however it is cut; hostile ones are refused before they cost memory."""

from __future__ import annotations

import tracemalloc
import weakref
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.base import dtypes, errors
from headrace.codec import contents, frames
from headrace.codec import protos as pb
from headrace.codec.frame_parser import TABLE_WEIGHT, Parser
from headrace.codec.frames import Frame, Kind, pack, whole
from tests.codec.arrays import NUMBERS, PER_DTYPE, arrays, identical

CAP = 1 << 20
STRINGS = np.array([[b"", b"a\0"], [b"x" * 300, b"\xff"]], object)


def stream(*parts: frames.Part) -> bytes:
    return b"".join(parts)


def fed(parser: Parser, data: bytes, sizes: Iterable[int] = repeat(1 << 30)) -> Iterator[Frame]:
    """The frames in `data`, which comes in pieces of these sizes, or smaller ones."""
    at = 0
    for size in sizes:
        while (frame := parser.next()) is not None:
            yield frame
        if at == len(data):
            return
        buffer = parser.buffer()
        assert len(buffer), "room for another byte, or it would look like the end of the stream"
        piece = data[at : at + min(size, len(buffer))]
        buffer[: len(piece)] = piece
        at += len(piece)
        if (frame := parser.take(len(piece))) is not None:
            yield frame
            assert parser.room is None or parser.next() is None


def same(frame: Frame, sent: tuple[Any, ...]) -> bool:
    kind, method, call, header, values, timeout_us = sent
    return (
        (frame.kind, frame.method, frame.call, frame.header, frame.timeout_us)
        == (kind, method, call, header, timeout_us)
        and len(frame.values) == len(values)
        and all(map(identical, frame.values, values))
    )


SENT: list[tuple[Any, ...]] = [
    (Kind.REQUEST, 0, 0, b"", [], 0),
    (Kind.REPLY, 7, 1 << 31, b"header", [np.array(1.5, np.float32)], 0),
    (Kind.ERROR, 65535, 2**32 - 1, b"\0" * 40, [], 2**64 - 1),
    (Kind.ONE_WAY, 3, 2, b"h", [STRINGS, np.arange(12).reshape(3, 4), np.zeros((2, 0, 3))], 10**7),
    (Kind.REQUEST, 1, 3, b"", [np.array([True, False]), np.array(b"one", object)], 1),
]
SMALL = [stream(*pack(*sent)) for sent in SENT]
WIRE = b"".join(SMALL)
ENDS = [sum(map(len, SMALL[: n + 1])) for n in range(len(SMALL))]


# -- there and back -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*NUMBERS, dtypes.string], ids=lambda d: d.name)
@settings(max_examples=PER_DTYPE)
@given(st.data())
def test_every_dtype_and_shape_comes_back(dtype: dtypes.DType, data: st.DataObject) -> None:
    values = [data.draw(arrays(dtype)) for _ in range(data.draw(st.integers(1, 3)))]
    (frame,) = fed(Parser(CAP), stream(*pack(Kind.REPLY, 1, 2, b"h", values)))
    assert same(frame, (Kind.REPLY, 1, 2, b"h", values, 0))
    for value in frame.values:
        assert value.flags.writeable
        assert value.flags.owndata or value.base.flags.owndata  # a reshaped object array
        assert value.flags.c_contiguous


@pytest.mark.parametrize("size", [frames.LARGE - 1, frames.LARGE, frames.BUFFER, 200_001])
@pytest.mark.parametrize("dtype", [*NUMBERS, dtypes.string], ids=lambda d: d.name)
def test_every_dtype_comes_back_at_sizes_where_its_treatment_changes(
    dtype: dtypes.DType, size: int
) -> None:
    if dtype is dtypes.string:
        value: Any = np.array([b"x" * size, b"y" * (size // 2)], object)
    else:
        value = np.zeros(size // dtype.np.itemsize + 1, dtype.np)
        value.view(np.uint8)[:] = np.arange(value.nbytes) % 2
    sent = (Kind.REPLY, 1, 2, b"h", [value[:1], value, value[:2]], 5)
    (frame,) = fed(Parser(1 << 23), stream(*pack(*sent)))
    assert same(frame, sent)
    assert all(value.flags.writeable for value in frame.values)


def test_numpy_scalars_become_arrays_without_dimensions() -> None:
    values = [
        np.float32(1),
        np.bool_(True),
        np.zeros((), dtypes.qint8.np)[()],
        dtypes.bfloat16.np.type(2),
    ]
    (frame,) = fed(Parser(CAP), stream(*pack(Kind.REPLY, 0, 0, b"", values)))
    assert [(type(v), v.shape, v.dtype) for v in frame.values] == [
        (np.ndarray, (), v.dtype) for v in values
    ]
    assert [v[()] for v in frame.values] == values


@pytest.mark.parametrize("shape", [(), (1,) * frames.MAX_RANK, (0, 1 << 60), (1 << 31, 0, 1 << 29)])
def test_unusual_shapes(shape: tuple[int, ...]) -> None:
    value = np.ones(shape, np.int8)
    (frame,) = fed(Parser(CAP), stream(*pack(Kind.REPLY, 0, 0, b"", [value])))
    assert identical(frame.values[0], value)


@pytest.mark.parametrize("count", [3, 20_000])
def test_other_layouts_and_byte_orders_are_sent_as_what_they_mean(count: int) -> None:
    grid = np.arange(2 * count, dtype=np.int32).reshape(2, count)
    values = [grid.T, grid[:, ::-1], grid.astype(">i4"), np.broadcast_to(np.int32(1), (2, count))]
    bools = np.full(count, 2, np.uint8).view(np.bool_)  # True, says NumPy
    (frame,) = fed(Parser(1 << 22), stream(*pack(Kind.REPLY, 0, 0, b"", [*values, bools])))
    for got, sent in zip(frame.values[:-1], values, strict=True):
        assert got.dtype == np.int32
        assert got.tolist() == sent.tolist()
    assert frame.values[-1].view(np.uint8).tolist() == [1] * count


@pytest.mark.parametrize("count", [1, 2, 400])
def test_handles_travel_as_the_messages_that_stand_for_them(count: int) -> None:
    resource = [pb.ResourceHandleProto(name=f"queue {n}", container="c") for n in range(count)]
    variant = [pb.VariantTensorDataProto(type_name="list", metadata=b"x" * n) for n in range(count)]
    values = [np.empty(count, object), np.empty(count, object)]
    values[0][:], values[1][:] = resource, variant
    (frame,) = fed(Parser(CAP), stream(*pack(Kind.REPLY, 0, 0, b"", values)))
    assert [v.tolist() for v in frame.values] == [resource, variant]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.array(["text"]), "object array of bytes"),
        (np.array("2020-01-01", "M8[D]"), "no tensor holds"),
        (np.array([b"a", "b"], object), "not as str"),
        (np.array([None], object), "not as NoneType"),
        (np.array([pb.ResourceHandleProto(), b"a"], object), "not as bytes"),
    ],
)
def test_what_no_tensor_holds_is_not_sent(value: Any, said: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=said):
        pack(Kind.REPLY, 0, 0, b"", [value])


# -- nothing is copied ----------------------------------------------------------------------------


def test_a_large_array_is_sent_from_where_it_is_and_received_where_it_will_be() -> None:
    value = np.arange(1 << 21, dtype=np.float64)
    value.flags.writeable = False
    before, sent, *after = pack(Kind.REPLY, 1, 2, b"h", [value, np.int32(3)])
    assert isinstance(sent, memoryview)
    assert np.frombuffer(sent, np.uint8).ctypes.data == value.ctypes.data

    parser = Parser(1 << 30)
    assert list(fed(parser, stream(before))) == []
    tracemalloc.start()
    try:
        buffer = parser.buffer()
        first = np.frombuffer(buffer, np.uint8).ctypes.data
        assert len(buffer) == value.nbytes
        buffer[:] = sent
        parser.received(len(buffer))
        del buffer
        (frame,) = fed(parser, stream(*after))
        assert tracemalloc.get_traced_memory()[1] < value.nbytes // 10
    finally:
        tracemalloc.stop()
    assert frame.values[0].ctypes.data == first
    assert identical(frame.values[0], value)


def test_small_pieces_leave_together() -> None:
    parts = pack(Kind.REPLY, 1, 2, b"h" * 100, [np.float32(1), STRINGS, np.zeros(100)])
    assert len(parts) == 1
    large = np.zeros(frames.LARGE)
    assert [len(p) > frames.LARGE for p in pack(Kind.REPLY, 1, 2, b"h", [large, *[STRINGS] * 3, large])] == [
        False, True, False, True,
    ]  # fmt: skip
    assert all(map(len, pack(Kind.REPLY, 1, 2, b"h" * frames.LARGE, [large, np.zeros(0)])))


def test_a_parser_keeps_no_frame_alive() -> None:
    parser = Parser(1 << 30)
    (frame,) = fed(parser, stream(*pack(Kind.REPLY, 1, 2, b"h", [np.zeros(100_000)])))
    alive = weakref.ref(frame.values[0])
    assert alive() is not None
    del frame
    assert alive() is None


ALIKE: list[tuple[Any, ...]] = [
    (Kind.REPLY, 7, 0, b"", [np.arange(6, dtype=np.float32).reshape(shape)], 0)
    for shape in ((2, 3), (3, 2), (2, 3))
]
ALIKE += [
    (Kind.REPLY, 7, 0, b"", [np.arange(6, dtype=np.int32).reshape(2, 3) + 1], 0),
    (Kind.REPLY, 7, 0, b"", [np.arange(6, dtype=np.float32).reshape(2, 3) + 2], 0),
]


def test_frames_of_one_prefix_may_carry_different_tensors() -> None:
    data = [stream(*pack(*each)) for each in ALIKE]
    assert len({each[: frames.PREFIX.size] for each in data}) == 1
    for parser in (Parser(1 << 30), Parser(CAP)):
        for _ in range(2):
            assert all(map(same, fed(parser, b"".join(data)), ALIKE))
        for each, sent in zip(data, ALIKE, strict=True):
            for cut in range(len(each)):
                assert not list(fed(parser, each[:cut]))
                (frame,) = fed(parser, each[cut:])
                assert same(frame, sent)
        assert parser.at_boundary


def test_a_known_prefix_does_not_vouch_for_its_table() -> None:
    parser = Parser(1 << 30)
    good = stream(*pack(*ALIKE[0]))
    assert len(list(fed(parser, good))) == 1
    table = frames.PREFIX.size
    bad = good[:table] + b"\xff\xff" + good[table + 2 :]
    with pytest.raises(errors.InvalidArgumentError, match="dtype number 65535"):
        list(fed(parser, bad))
    with pytest.raises(errors.InvalidArgumentError, match="dtype number 65535"):
        parser.take(0)


def test_forms_and_shapes_without_end_are_not_all_remembered() -> None:
    parser = Parser(1 << 30)
    for size in range(1, 300):
        value = np.arange(size, dtype=np.int16)
        (frame,) = fed(parser, stream(*pack(Kind.REPLY, size, 0, b"", [value])))
        assert identical(frame.values[0], value)
    assert len(parser._forms) <= len(parser._others) <= frames.REMEMBERED
    for remembered in (frames._SMALL, frames._PREFIXES, frames._BEGINNINGS):
        assert 1 <= len(remembered) <= frames.REMEMBERED


@pytest.mark.parametrize("dtype", [*NUMBERS, dtypes.string], ids=lambda d: d.name)
@settings(max_examples=PER_DTYPE)
@given(st.data())
def test_a_frame_of_a_form_that_came_before_has_the_bytes_that_pack_gives(
    dtype: dtypes.DType, data: st.DataObject
) -> None:
    value = data.draw(arrays(dtype))
    expected = stream(*pack(Kind.REPLY, 7, 0, b"head", [value]))
    plain = value.dtype.kind not in "Ob" and value.nbytes < frames.LARGE
    assert whole(Kind.REPLY, 7, b"head", [value]) == (expected if plain else None)


def test_a_frame_without_tensors_has_the_bytes_that_pack_gives_too() -> None:
    for header in (b"", b"one", b"two"):
        expected = stream(*pack(Kind.REQUEST, 8, 0, header))
        assert whole(Kind.REQUEST, 8, header, ()) == expected
    assert whole(Kind.REQUEST, 8, b"longer", ()) is None


def test_values_of_one_form_are_told_apart_by_header_method_and_kind() -> None:
    value = np.array([1.0, 2.0], np.float32)
    pack(Kind.REPLY, 300, 0, b"", [value])
    for kind, method, header in (
        (Kind.ERROR, 300, b""),
        (Kind.REPLY, 301, b""),
        (Kind.REPLY, 300, b"x"),
    ):
        assert whole(kind, method, header, [value]) is None
    assert whole(Kind.REPLY, 300, b"", [value[:1]]) is None
    assert whole(Kind.REPLY, 300, b"", [value.astype(np.float64)]) is None
    found = whole(Kind.REPLY, 300, b"", [value + 1])
    assert found == stream(*pack(Kind.REPLY, 300, 0, b"", [value + 1]))


@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda d: d.name)
def test_scalars_are_known_by_their_class(dtype: dtypes.DType) -> None:
    value = np.ones((), dtype.np)[()]
    expected = stream(*pack(Kind.REPLY, 301, 0, b"", [value]))
    plain = not isinstance(value, np.void)
    for _ in range(2):
        assert whole(Kind.REPLY, 301, b"", [value]) == (expected if plain else None)
    for other in NUMBERS:
        if other is not dtype:
            assert whole(Kind.REPLY, 301, b"", [np.ones((), other.np)[()]]) != expected


def test_arrays_that_lie_otherwise_in_memory_are_sent_in_order() -> None:
    value = np.arange(6, dtype=np.int32).reshape(2, 3)
    expected = stream(*pack(Kind.REPLY, 302, 0, b"", [value]))
    backwards = value[::-1, ::-1].copy()[::-1, ::-1]
    for same_value in (value, np.asfortranarray(value), backwards):
        assert whole(Kind.REPLY, 302, b"", [same_value]) == expected


def test_arrays_of_frames_of_one_form_do_not_share_memory() -> None:
    parser = Parser(1 << 30)
    found = []
    for number in range(4):
        value = np.full(3, number, np.float32)
        (frame,) = fed(parser, stream(*pack(Kind.REPLY, 303, 0, b"", [value])))
        found += frame.values
        found[-1] += 10
        parser.rest()
    assert [each.tolist() for each in found] == [[10.0 + n] * 3 for n in range(4)]


def test_a_parser_that_is_trusted_after_a_frame_reads_the_next_into_its_room() -> None:
    parser = Parser(4096)
    list(fed(parser, stream(*pack(Kind.REQUEST, 1, 0, b"hello"))))
    parser.trust(1 << 30)
    data = stream(*pack(Kind.REQUEST, 2, 0, b"x"))
    assert parser.room is not None
    parser.room[0][: len(data)] = data
    found = parser.take(len(data))
    assert found is not None
    assert (found.method, found.header) == (2, b"x")


def test_a_piece_is_not_taken_for_the_frame_that_was_there_before() -> None:
    parser = Parser(1 << 30)
    first = stream(*pack(Kind.REPLY, 7, 0, b"", [np.array(1.0, np.float32)]))
    second = stream(*pack(Kind.REPLY, 7, 0, b"", [np.array(2.0, np.float32)]))
    for data in (first, first):
        (frame,) = fed(parser, data)
        assert frame.values[0] == 1.0
    assert parser.room is not None
    parser.buffer()[:10] = second[:10]
    assert parser.take(10) is None  # what is behind it is the rest of the first
    parser.buffer()[: len(second) - 10] = second[10:]
    frame = parser.take(len(second) - 10)
    assert frame is not None
    assert frame.values[0] == 2.0


@pytest.mark.parametrize("first", [0, 1, 3])
@pytest.mark.parametrize("sent", SENT[:3])
def test_a_parser_that_is_trusted_after_some_frames_goes_on_from_there(
    first: int, sent: tuple[Any, ...]
) -> None:
    parser = Parser(1 << 12)
    for early in SENT[:first]:
        (frame,) = fed(parser, stream(*pack(*early)))
        assert same(frame, early)
    parser.trust(1 << 24)
    for _ in range(2):  # as who reads from a socket: into the room, if there is any, and at once
        room = parser.buffer() if parser.room is None else parser.room[0]
        data = stream(*pack(*sent))
        room[: len(data)] = data
        frame = parser.take(len(data))
        assert frame is not None
        assert same(frame, sent)
        assert parser.next() is None


def test_a_parser_that_is_closed_keeps_nothing_and_says_so() -> None:
    parser = Parser(CAP)
    data = stream(*pack(Kind.REQUEST, 0, 0, b"", [np.zeros(50_000)], 0))
    assert not list(fed(parser, data[: len(data) // 2]))
    target = weakref.ref(parser.buffer().obj)
    parser.close()
    assert target() is None
    with pytest.raises(errors.CancelledError, match="closed"):
        parser.next()


# -- every cut ------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(len(WIRE) + 1))
def test_frames_may_arrive_in_any_two_pieces(first: int) -> None:
    parser = Parser(CAP)
    got = list(fed(parser, WIRE[:first]))
    assert len(got) == sum(end <= first for end in ENDS)
    assert parser.at_boundary == (first in (0, *ENDS))
    got += fed(parser, WIRE[first:])
    assert all(map(same, got, SENT))
    assert len(got) == len(SENT)
    assert parser.at_boundary


@pytest.mark.parametrize("size", [1, 2, 3, 7, 31, 32, 33])
def test_frames_may_arrive_in_pieces_of(size: int) -> None:
    parser = Parser(CAP)
    got = list(fed(parser, WIRE, repeat(size)))
    assert all(map(same, got, SENT))
    assert len(got) == len(SENT)


large_values = st.lists(
    st.sampled_from(
        [
            np.arange(300_000, dtype=np.uint32).astype(np.uint8),
            np.arange(frames.LARGE // 8),
            np.arange(9_000, dtype=np.int8).reshape(3, 3000) > 0,
            np.array([b"x" * n for n in range(400)], object),
            np.array(b"y" * 100_000, object),
            STRINGS,
            np.array(1.5),
            np.zeros((3, 0)),
        ]
    ),
    max_size=5,
)


@given(
    st.lists(
        st.tuples(st.sampled_from([b"", b"h" * 500, b"H" * 70_000]), large_values), max_size=4
    ),
    st.lists(st.sampled_from([1, 2, 31, 32, 500, 8191, 65536, 65537, 1 << 20]), min_size=1),
)
def test_large_frames_may_arrive_in_any_pieces(
    contents: list[tuple[bytes, list[Any]]], sizes: list[int]
) -> None:
    sent = [(Kind.REPLY, n, n, header, values, n) for n, (header, values) in enumerate(contents)]
    data = b"".join(stream(*pack(*each)) for each in sent)
    if max(sizes) < 500:
        sizes = [*sizes, 8191]
    parser = Parser(1 << 24)
    got = list(fed(parser, data, (size for _ in repeat(None) for size in sizes)))
    assert len(got) == len(sent)
    assert all(map(same, got, sent))
    assert parser.at_boundary


# -- tensors elsewhere ----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1 << 30, 1, 40])
def test_a_tensor_may_be_elsewhere(size: int) -> None:
    there = {7: np.arange(6.0).reshape(2, 3), 2**32 - 1: np.array(5, dtypes.bfloat16.np)}
    asked = []

    def elsewhere(number: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
        asked.append((number, dtype, shape))
        return there[number]

    lent = [
        frames.ExternalTensor(number, value.dtype, value.shape) for number, value in there.items()
    ]
    data = stream(*pack(Kind.REPLY, 1, 2, b"h", [lent[0], np.arange(3), lent[1], STRINGS]))
    assert len(data) < 600
    parser = Parser(CAP, elsewhere)
    (frame,) = fed(parser, data, repeat(size))
    assert same(
        frame, (Kind.REPLY, 1, 2, b"h", [there[7], np.arange(3), there[2**32 - 1], STRINGS], 0)
    )
    assert asked == [(number, value.dtype, value.shape) for number, value in there.items()]
    assert parser.at_boundary


def test_a_tensor_that_is_not_elsewhere_ends_the_stream() -> None:
    def elsewhere(number: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
        raise errors.invalid_argument("not here")

    parser = Parser(CAP, elsewhere)
    for again in (raw(entry(F, (), 4, elsewhere=7)), WIRE):
        with pytest.raises(errors.InvalidArgumentError, match="not here"):
            list(fed(parser, again))
    for dtype in (B, S, R):  # NumPy trusts their bytes
        bad = raw(entry(dtype, (9,), 9 if dtype == B else 72, elsewhere=7))
        with pytest.raises(errors.InvalidArgumentError, match="number 7, where none can be"):
            list(fed(Parser(CAP, elsewhere), bad))
    with pytest.raises(errors.ResourceExhaustedError):
        list(fed(Parser(CAP, elsewhere), raw(entry(F, (CAP,), 4 * CAP, elsewhere=7))))


def test_frames_with_bools_and_tensors_elsewhere_have_forms_too() -> None:
    there = {number: np.full(40, number, np.float32) for number in (1, 2)}
    lent = {n: frames.ExternalTensor(n, value.dtype, value.shape) for n, value in there.items()}
    parser = Parser(1 << 30, lambda number, dtype, shape: there[number].view(dtype).reshape(shape))
    sent: list[tuple[list[Any], list[Any]]] = [
        ([lent[1]], [there[1]]),
        ([lent[2]], [there[2]]),
        ([np.True_], [np.array(True)]),
        ([np.array([True, False])], [np.array([True, False])]),
        ([np.int32(7)], [np.array(7, np.int32)]),
        ([np.array(True), lent[1], np.arange(3)], [np.array(True), there[1], np.arange(3)]),
    ]
    for _ in range(3):
        for values, wanted in sent:
            data = stream(*pack(Kind.REPLY, 5, 0, b"", values))
            assert whole(Kind.REPLY, 5, b"", values) in (data, None)
            for cut in (0, len(data) // 2, frames.PREFIX.size):
                got = [*fed(parser, data[:cut]), *fed(parser, data[cut:])]
                (frame,) = got
                assert same(frame, (Kind.REPLY, 5, 0, b"", wanted, 0))
    together = b"".join(stream(*pack(Kind.REPLY, 5, 0, b"", values)) for values, _ in sent)
    for frame, (_, wanted) in zip(fed(parser, together), sent, strict=True):
        assert same(frame, (Kind.REPLY, 5, 0, b"", wanted, 0))
    assert [whole(Kind.REPLY, 5, b"", values) is None for values, _ in sent] == [
        False, False, False, True, False, True,
    ]  # fmt: skip
    assert whole(Kind.REPLY, 5, b"", [np.False_]) == stream(
        *pack(Kind.REPLY, 5, 0, b"", [np.False_])
    )


def test_a_form_with_bools_does_not_vouch_for_them() -> None:
    parser = Parser(1 << 30)
    good = stream(*pack(Kind.REPLY, 5, 0, b"", [np.array([True, False])]))
    for _ in range(2):
        assert len(list(fed(parser, good))) == 1
    for _ in range(2):
        with pytest.raises(errors.InvalidArgumentError, match="neither 0 nor 1"):
            list(fed(parser, good[:-1] + b"\2"))


def test_a_form_does_not_vouch_for_what_is_elsewhere() -> None:
    left = [np.zeros(3, np.float32), np.ones(3, np.float32)]

    def elsewhere(number: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
        if not left:
            raise errors.invalid_argument("it is gone")
        return left.pop()

    parser = Parser(1 << 30, elsewhere)
    data = raw(entry(F, (3,), 12, elsewhere=7))
    assert [frame.values[0][0] for _ in range(2) for frame in fed(parser, data)] == [1, 0]
    for _ in range(2):
        with pytest.raises(errors.InvalidArgumentError, match="it is gone"):
            list(fed(parser, data))


def test_what_is_elsewhere_counts_against_a_large_cap() -> None:
    parser = Parser(1 << 23, lambda number, dtype, shape: np.empty(shape, dtype))
    assert len(list(fed(parser, raw(entry(F, (1 << 20,), 1 << 22, elsewhere=7))))) == 1
    with pytest.raises(errors.ResourceExhaustedError):
        list(fed(parser, raw(entry(F, (1 << 22,), 1 << 24, elsewhere=7))))


# -- what is refused ------------------------------------------------------------------------------


def raw(
    *entries: bytes,
    data: bytes = b"",
    header: bytes = b"",
    count: int | None = None,
    **changed: Any,
) -> bytes:
    """A frame put together by hand."""
    table = b"".join(entries)
    field = {
        "magic": frames.MAGIC, "version": frames.VERSION, "kind": 0, "method": 0, "zero": 0, "call": 0,
        "count": len(entries) if count is None else count, "timeout": 0,
        "header_length": len(header), "table_length": len(table),
    }  # fmt: skip
    return frames.PREFIX.pack(*{**field, **changed}.values()) + header + table + data


def entry(
    dtype: int,
    shape: tuple[int, ...],
    nbytes: int,
    rank: int | None = None,
    zero: int = 0,
    elsewhere: int = 0,
) -> bytes:
    sizes = b"".join(size.to_bytes(8, "little") for size in shape)
    return (
        frames.ENTRY.pack(dtype, len(shape) if rank is None else rank, zero, elsewhere, nbytes)
        + sizes
    )


def lengths(*values: int) -> bytes:
    return np.array(values, contents.LENGTH).tobytes()


F, S, B, R = pb.DT_FLOAT, pb.DT_STRING, pb.DT_BOOL, pb.DT_RESOURCE
M = (1 << 64) - 1
INVALID: dict[str, tuple[bytes, str]] = {
    "another protocol": (b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "b'GET / HT'.*a headrace process"),
    "another version": (raw(version=2), "version 2.*reads 1"),
    "an unknown kind": (raw(kind=4), "kind 4"),
    "a field that is zero today": (raw(zero=1), "zero field 1"),
    "a table for no tensor": (raw(entry(F, (), 4), count=0), "16 bytes.*0 tensors"),
    "no table for a tensor": (raw(count=1), "0 bytes.*1 tensors"),
    "a table for fewer tensors": (raw(entry(F, (0,), 0), entry(F, (0,), 0), count=3), "ends before"),
    "a table for more tensors": (raw(entry(F, (0,), 0), entry(F, (0,), 0), count=1), "24 bytes behind"),
    "sizes behind the table": (raw(entry(F, (), 4, rank=1)), "1 dimensions, 0 of which"),
    "too many dimensions": (raw(entry(F, (1,) * 65, 4), count=2), "65 dimensions"),
    "no dtype": (raw(entry(0, (), 4)), "dtype number 0"),
    "an unknown dtype": (raw(entry(99, (), 4)), "dtype number 99"),
    "a ref dtype": (raw(entry(101, (), 4)), "dtype number 101"),
    "a field of a tensor that is zero today": (raw(entry(F, (), 4, zero=1)), "zero field 1"),
    "a tensor elsewhere, where nothing is": (raw(entry(F, (), 4, elsewhere=7)), "elsewhere, by number 7"),
    "fewer bytes than elements": (raw(entry(F, (2,), 4)), r"4 bytes.*float32.*\[2\]"),
    "more bytes than elements": (raw(entry(F, (2,), 12)), r"12 bytes.*float32.*\[2\]"),
    "bytes for no element": (raw(entry(F, (2, 0), 4)), r"4 bytes.*\[2,0\]"),
    "elements that wrap around to few": (raw(entry(F, (1 << 32, 1 << 32), 0)), "0 bytes.*4294967296"),
    "sizes that wrap around to few": (raw(entry(F, (M, M), 4)), "4 bytes"),
    "a size that is negative with a sign": (raw(entry(F, (M,), M - 3)), "bytes cannot be"),
    "more than NumPy's largest array, but empty": (raw(entry(F, (1 << 61, 0), 0)), "NumPy has no arrays"),
    "more strings than NumPy's largest array, but none": (raw(entry(S, (1 << 60, 0), 0)), "NumPy has no"),
    "strings without lengths": (raw(entry(S, (3,), 23)), r"23 bytes.*string.*\[3\]"),
    "bytes for no string": (raw(entry(S, (0,), 8), data=lengths(0)), "8 bytes.*string"),
    "strings shorter than announced": (raw(entry(S, (1,), 9), data=lengths(2) + b"a"), "announce 2"),
    "strings longer than announced": (raw(entry(S, (1,), 10), data=lengths(1) + b"ab"), "announce 1"),
    "string lengths that wrap around": (raw(entry(S, (2,), 17), data=lengths(M, 2) + b"a"), "announce"),
    "a bool that is neither": (raw(entry(B, (2,), 2), data=b"\0\2"), "neither 0 nor 1"),
    "a large one": (raw(entry(B, (99_999,), 99_999), data=b"\1" * 99_998 + b"\2"), "neither 0 nor 1"),
    "a handle that is none": (raw(entry(R, (1,), 10), data=lengths(2) + b"\x01\xff"), "no ResourceHandle"),
}  # fmt: skip
OVERSIZED: dict[str, bytes] = {
    "a header": raw(header_length=CAP // 2 + 1),
    "the largest header": raw(header_length=(1 << 32) - 1),
    "a table": raw(count=CAP // 256 + 1, table_length=CAP // 16 + 16),
    "a tensor": raw(entry(F, (CAP // 4,), CAP)),
    "the largest tensor": raw(entry(F, (1 << 61,), 1 << 63)),
    "tensors that are too much together": raw(*[entry(F, (CAP // 32,), CAP // 8)] * 8),
    "a string": raw(entry(S, (), CAP // 2)),
    "many empty strings": raw(entry(S, (CAP // 64,), CAP // 8)),
}


@pytest.mark.parametrize("case", INVALID)
@pytest.mark.parametrize("size", [1 << 30, 1])
def test_what_is_no_frame_is_refused_with_a_reason(case: str, size: int) -> None:
    data, said = INVALID[case]
    parser = Parser(1 << 62)
    for again in (data, b""):  # the stream is lost
        with pytest.raises(errors.InvalidArgumentError, match=said):
            list(fed(parser, again, repeat(size)))


@pytest.mark.parametrize("case", OVERSIZED)
def test_what_takes_more_than_the_cap_is_refused_before_it_is_allocated(case: str) -> None:
    parser = Parser(CAP)
    tracemalloc.start()
    try:
        with pytest.raises(errors.ResourceExhaustedError, match=f"limit is {CAP}"):
            list(fed(parser, OVERSIZED[case]))
        assert tracemalloc.get_traced_memory()[1] < 1 << 16
    finally:
        tracemalloc.stop()


def test_what_is_allowed_but_not_there_is_refused() -> None:
    for size in (1 << 60, (1 << 63) - 1, 1 << 63, (1 << 64) - 1):
        parser = Parser(1 << 65)
        with pytest.raises(errors.ResourceExhaustedError, match="no memory"):
            list(fed(parser, raw(entry(pb.DT_INT8, (size,), size))))
        assert parser.buffer()


def test_the_cap_is_what_a_frame_takes() -> None:
    value = np.zeros(CAP // 4, np.float32)
    data = stream(*pack(Kind.REPLY, 0, 0, b"", [value]))
    room = CAP + TABLE_WEIGHT * 24
    assert len(list(fed(Parser(room), data))) == 1
    with pytest.raises(errors.ResourceExhaustedError):
        list(fed(Parser(room - 1), data))


MUTATED = [*SMALL, stream(*pack(Kind.REPLY, 1, 2, b"h" * 9, [np.arange(9_000.0), STRINGS]))]
OUTCOMES = (errors.InvalidArgumentError, errors.ResourceExhaustedError)


@settings(max_examples=300)
@given(st.data())
def test_a_mutated_stream_gives_frames_or_a_typed_error_and_takes_no_more_than_the_cap(
    data: st.DataObject,
) -> None:
    mutated = bytearray(MUTATED[data.draw(st.integers(0, len(MUTATED) - 1))])
    spots = st.one_of(st.integers(0, min(120, len(mutated)) - 1), st.integers(0, len(mutated) - 1))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(spots) % len(mutated)
        with_ = data.draw(
            st.one_of(st.binary(min_size=1, max_size=8), st.sampled_from([b"\xff" * 8]))
        )
        removed = data.draw(st.sampled_from([len(with_), 0, 3]))
        mutated[at : at + removed] = with_
    parser, sizes = Parser(CAP), repeat(data.draw(st.sampled_from([1 << 20, 77])))
    wire = bytes(mutated) + WIRE
    refused = ""
    tracemalloc.start()
    try:
        for frame in fed(parser, wire, sizes):
            assert len(frame.values) < 100
    except OUTCOMES as error:
        refused = error.message
    finally:
        taken = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert taken < CAP + (1 << 17)
    assert len(refused) < 400
    assert parser.buffer(), "a reader that has not heard of the error yet goes on"


@given(st.binary(max_size=200), st.booleans())
def test_arbitrary_bytes_give_a_typed_error(data: bytes, begin_well: bool) -> None:
    if begin_well:
        data = frames.MAGIC + bytes([frames.VERSION]) + data
    parser = Parser(CAP)
    try:
        list(fed(parser, data))
    except OUTCOMES:
        return
    assert len(data) < frames.PREFIX.size or begin_well


def test_a_parser_that_rests_between_frames_goes_on_with_the_next() -> None:
    stream = b"".join(bytes(part) for part in pack(Kind.REQUEST, 1, 2, b"header", [np.arange(3)]))
    parser = Parser(1 << 20)
    for cut in (0, 10, len(stream) - 1):
        parser.rest()
        for piece in (stream[:cut], stream[cut:]):
            buffer = parser.buffer()
            buffer[: len(piece)] = piece
            parser.received(len(piece))
            frame = parser.next()
            parser.rest()  # within a frame, this does nothing
        assert frame is not None
        assert frame.values[0].tolist() == [0, 1, 2]
        assert parser.at_boundary
