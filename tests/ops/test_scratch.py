"""Scratch memory that a thread keeps, and what is remembered of it."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.ops._kernels import line_tiles
from headrace.ops._kernels import scratch as scratches
from headrace.ops._kernels.line_tiles import BothGradients, LineTiles
from headrace.ops._kernels.scratch import KEPT, made_of, scratch
from headrace.ops._kernels.windows import geometry

Array = np.ndarray[Any, Any]
SLOT = 97  # nobody's
FLOAT = np.dtype(np.float32)
ONES = (1, 1, 1, 1)


def in_a_thread(work: Any) -> Any:
    """What it gives in a thread that has no scratch memory yet."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join(60)
    return found[0]


def test_an_array_is_the_slots_memory() -> None:
    def work() -> None:
        first = scratch(SLOT, (3, 5), FLOAT)
        assert first.shape == (3, 5)
        assert first.flags.c_contiguous
        assert first.flags.writeable
        first[...] = 7
        again = scratch(SLOT, (15,), FLOAT)
        assert np.shares_memory(first, again)
        assert (again == 7).all()
        other = scratch(SLOT, (2, 4), np.dtype(np.float64))
        assert np.shares_memory(first, other)
        assert not np.shares_memory(first, scratch(SLOT + 1, (3, 5), FLOAT))
        assert scratch(SLOT, (0, 3), FLOAT).shape == (0, 3)

    in_a_thread(work)


def test_a_larger_one_takes_its_place_and_a_very_large_one_is_not_kept() -> None:
    def work() -> None:
        small = scratch(SLOT, (10,), FLOAT)
        large = scratch(SLOT, (1 << 15,), FLOAT)
        assert not np.shares_memory(small, large)
        assert np.shares_memory(large, scratch(SLOT, (10,), FLOAT))
        huge = scratch(SLOT, (KEPT // 4 + 1,), FLOAT)
        assert not np.shares_memory(huge, scratch(SLOT, (10,), FLOAT))
        assert not np.shares_memory(huge, scratch(SLOT, (KEPT // 4 + 1,), FLOAT))

    in_a_thread(work)


def test_what_is_made_of_it_is_remembered_until_the_memory_is_another() -> None:
    def work() -> None:
        made, as_left = made_of(SLOT, "a", 100, FLOAT, lambda array: [array])
        assert not as_left
        assert made_of(SLOT, "a", 100, FLOAT, lambda array: [array]) == (made, True)
        assert made_of(SLOT, "a", 100, FLOAT, lambda array: [array])[0] is made
        # Another key, or anybody who asks for the slot, may have left something else there.
        other, as_left = made_of(SLOT, "b", 50, FLOAT, lambda array: [array])
        assert not as_left
        assert np.shares_memory(other[0], made[0])
        assert made_of(SLOT, "a", 100, FLOAT, lambda array: [array])[1] is False
        scratch(SLOT, (3,), FLOAT)
        again, as_left = made_of(SLOT, "a", 100, FLOAT, lambda array: [array])
        assert again is made
        assert not as_left
        scratch(SLOT, (1 << 15,), FLOAT)
        later, as_left = made_of(SLOT, "a", 100, FLOAT, lambda array: [array])
        assert later is not made
        assert not as_left
        assert np.shares_memory(later[0], scratch(SLOT, (100,), FLOAT))

    in_a_thread(work)


def test_what_is_too_large_is_made_each_time() -> None:
    def work() -> None:
        many = KEPT // 4 + 1
        first, _ = made_of(SLOT, "a", many, FLOAT, lambda array: [array])
        second, as_left = made_of(SLOT, "a", many, FLOAT, lambda array: [array])
        assert second is not first
        assert not as_left
        assert not np.shares_memory(first[0], second[0])

    in_a_thread(work)


def test_few_things_are_remembered() -> None:
    def work() -> int:
        for size in range(1, 1000):
            made_of(SLOT, size, size, FLOAT, lambda array: array)
        return len(scratches._kept.slots[SLOT].made)

    assert 0 < in_a_thread(work) <= 32


def test_each_thread_has_its_own() -> None:
    mine, _ = made_of(SLOT, "a", 10, FLOAT, lambda array: array)
    others, as_left = in_a_thread(lambda: made_of(SLOT, "a", 10, FLOAT, lambda array: array))
    assert not as_left
    assert not np.shares_memory(mine, others)


# -- tiles of lines, whose views of it are remembered -----------------------------------------------------------------


def tiles(size: int, window: int, padding: bytes, channels: int, made: int) -> LineTiles:
    where = geometry((size, 15 * window + 1), (window, window), ONES, padding, b"NHWC", ONES)
    return LineTiles(where, channels, made)


def work_of(case: tuple[int, int, int, bytes, int, int]) -> list[bytes]:
    """A convolution and the gradient of its filters, of values that the case decides."""
    n, size, window, padding, channels, made = case
    how = tiles(size, window, padding, channels, made)
    rng = np.random.default_rng(abs(hash(case)) % 1000)
    x = rng.standard_normal((n, size, 15 * window + 1, channels), np.float32)
    filters = rng.standard_normal((window, window, channels, made), np.float32)
    out = np.empty((n, *how._where.out, made), np.float32)
    how.convolve(x, how.matrix(filters), out)
    gradient = np.empty(how.shape, np.float32)
    how.multiply(x, out, gradient)
    found = [out.tobytes(), gradient.tobytes()]
    if padding == b"SAME" and channels == made:
        back = LineTiles(how._where.reversed(), made, channels)
        if BothGradients.fit(how, back, FLOAT):
            dx = np.empty_like(x)
            both = BothGradients(how, back)
            both.gradients(x, out, back.matrix(filters), dx, lambda: None, gradient)
            found += [dx.tobytes(), gradient.tobytes()]
    return found


CASES = st.tuples(
    st.sampled_from([1, 2, 5]),
    st.sampled_from([13, 16, 17]),
    st.sampled_from([3, 5]),
    st.sampled_from([b"SAME", b"VALID"]),
    st.sampled_from([4, 8]),
    st.sampled_from([4, 8]),
)


@example([((2, 17, 3, b"VALID", 4, 4), False), ((2, 16, 3, b"SAME", 4, 4), False)])
@given(st.lists(st.tuples(CASES, st.booleans()), min_size=2, max_size=8))
def test_what_others_left_there_does_not_matter(cases: list[tuple[Any, bool]]) -> None:
    """One after the other in a thread, with NaN put there in between, they give what each gives in a new thread."""

    def one_after_the_other() -> list[list[bytes]]:
        found = []
        for case, between in cases:
            if between:
                for slot, kept in scratches._kept.slots.items():
                    scratch(slot, (kept.buffer.nbytes // 4,), FLOAT)[...] = np.nan
            found.append(work_of(case))
        return found

    alone = {case: in_a_thread(lambda case=case: work_of(case)) for case, _ in cases}
    assert in_a_thread(one_after_the_other) == [alone[case] for case, _ in cases]


def test_a_second_time_nothing_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views, and zeros at the ends of lines."""
    how = tiles(16, 3, b"SAME", 8, 8)
    x = np.ones((3, 16, 46, 8), np.float32)
    out = np.empty_like(x)
    matrix = how.matrix(np.ones((3, 3, 8, 8), np.float32))
    cleared: list[int] = []

    def work() -> tuple[int, int]:
        how.convolve(x, matrix, out)
        first = out.copy()
        monkeypatch.setattr(line_tiles._Room, "_clear", lambda *_: cleared.append(1))
        monkeypatch.setattr(line_tiles, "_Room", None)
        how.convolve(x, matrix, out)
        assert (out == first).all()
        return 1, len(cleared)

    assert in_a_thread(work) == (1, 0)
