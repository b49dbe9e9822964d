"""Tables of frames that came before are not read again, and say no more than they did the first time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.base import errors
from headrace.codec.frame_parser import Parser
from headrace.codec.frames import PREFIX, ExternalTensor, Frame, Kind, pack

CAP = 1 << 23
FLOATS = np.dtype(np.float32)


class Receiver:
    """What comes to one end of a connection; numbers of what is elsewhere are looked up in `there`."""

    def __init__(self) -> None:
        self.there = {number: np.full((2, 3), number, np.float32) for number in (1, 2)}
        self.parser = Parser(CAP, lambda number, dtype, shape: self.there[number])

    def hear(self, data: bytes) -> Frame:
        self.parser.buffer()[: len(data)] = data
        found = self.parser.take(len(data))
        assert found is not None
        return found


def frame(number: int, value: Any, header: bytes = b"h") -> bytes:
    values = [
        ExternalTensor(number, FLOATS, (2, 3)),
        value,
        ExternalTensor(3 - number, FLOATS, (2, 3)),
    ]
    return b"".join(pack(Kind.REQUEST, 7, 0, header, values))


def test_frames_of_the_same_table_have_their_own_headers_and_values() -> None:
    receiver = Receiver()
    for turn in range(6):
        number = 1 + turn % 2
        found = receiver.hear(frame(number, np.full(4, turn), b"h%d" % turn))
        assert found.header == b"h%d" % turn
        first, value, last = found.values
        assert first is receiver.there[number]
        assert last is receiver.there[3 - number]
        assert value.tolist() == [turn] * 4


def test_a_known_table_is_not_that_of_another_number_of_tensors() -> None:
    receiver = Receiver()
    data = bytearray(frame(1, np.zeros(4)))
    receiver.hear(data)
    fields = list(PREFIX.unpack_from(data))
    fields[6] -= 1
    PREFIX.pack_into(data, 0, *fields)
    with pytest.raises(errors.InvalidArgumentError, match="behind its 2 tensors"):
        receiver.hear(data)


def test_many_tables_are_not_kept() -> None:
    receiver = Receiver()
    for size in range(200):
        assert receiver.hear(frame(1, np.zeros(size))).values[1].size == size
    assert len(receiver.parser._tables) <= 64
    receiver.parser.rest()
    assert not receiver.parser._tables
