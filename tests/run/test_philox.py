"""Philox 4x32-10 against the known answers that its authors publish with Random123."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.run.queues.philox import Philox, philox_block, philox_halves, philox_words

ONES = 2**64 - 1

# (key, low half of the counter, high half, numbers)
KNOWN_ANSWERS = [
    (0, 0, 0, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    (ONES, ONES, ONES, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        0x299F31D0A4093822,
        0x85A308D3243F6A88,
        0x0370734413198A2E,
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.parametrize(("key", "low", "high", "numbers"), KNOWN_ANSWERS)
def test_known_answers(key: int, low: int, high: int, numbers: list[int]) -> None:
    assert philox_block(key, high, low, 1).tolist() == numbers


def test_the_stream_is_the_blocks_in_order_however_it_is_asked() -> None:
    expected = philox_block(7, 9, 0, 300).tolist()
    one, other = Philox(7, 9), Philox(7, 9)
    assert [one.next() for _ in range(1200)] == expected
    got: list[int] = []
    for count in [1, 5, 0, 100, 3, 700, 391]:
        got += other.many(count).tolist()
    assert got == expected


def first(seed: int, seed2: int) -> list[int]:
    return Philox(seed, seed2).many(4).tolist()


def test_one_by_one_and_many_at_once_take_turns() -> None:
    stream = Philox(7, 9)
    got = [stream.next(), *stream.many(2).tolist(), stream.next(), *stream.many(700).tolist()]
    got += [stream.next() for _ in range(496)]
    assert got == philox_block(7, 9, 0, 300).tolist()


def test_seeds_tell_streams_apart_and_negative_ones_are_taken_as_their_bits() -> None:
    assert first(1, 2) != first(2, 1)
    assert first(-1, -2) == first(2**64 - 1, 2**64 - 2)


def test_no_seeds_are_other_seeds_each_time() -> None:
    assert first(0, 0) != first(0, 0)


@pytest.mark.parametrize("first", [0, 7, 2**32 - 3, 2**40, 2**64 - 5])
def test_blocks_at_any_place_are_those_made_one_by_one(first: int) -> None:
    counters = np.array([(first + n) % 2**64 for n in range(9)], np.uint64)
    found = philox_words(ONES - 3, 5 << 40 | 9, counters)
    alone = [philox_words(ONES - 3, 5 << 40 | 9, counters[n : n + 1]) for n in range(9)]
    assert np.array_equal(found, np.concatenate(alone))
    even, odd = philox_halves(ONES - 3, 5 << 40 | 9, counters[::-1])
    assert np.array_equal(np.stack([even[0], odd[0], even[1], odd[1]], 1), found[::-1])
    # Of counters that differ in both halves, the known way.
    apart = np.array([counters[0], counters[0] ^ np.uint64(1 << 33)], np.uint64)
    assert np.array_equal(philox_words(ONES - 3, 5 << 40 | 9, apart)[0], found[0])
