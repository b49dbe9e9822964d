"""Examples that are laid out alike: what is taken of all at once is what is taken of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.base import dtypes, errors
from headrace.codec import examples as codec
from headrace.codec import protos as pb
from headrace.codec.example_layouts import Layouts
from headrace.codec.examples import Batch, DenseSpec

NONE = np.empty(0, np.float32)
X = DenseSpec("x", dtypes.float32, (2,), NONE)
N = DenseSpec("n", dtypes.int64, (3,), NONE)
S = DenseSpec("s", dtypes.string, (2, 1), NONE)
SPECS = [X, N, S]
INTS = st.one_of(st.integers(0, 300), st.integers(-(2**63), 2**63 - 1))


def example(**features: Any) -> bytes:
    made = pb.Example()
    for key, values in features.items():
        feature = made.features.feature[key]
        if isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif isinstance(values[0], int):
            feature.int64_list.value.extend(values)
        else:
            feature.float_list.value.extend(values)
    return made.SerializeToString(deterministic=True)


def one(number: int, text: bytes = b"abc") -> bytes:
    return example(
        x=[number / 2, -1.5], n=[number, 5, ~number], s=[text, b"%05d" % number], z=[2.5]
    )


def wanted(contents: Sequence[bytes], specs: Sequence[DenseSpec] = SPECS) -> list[Any]:
    batch = Batch(contents, ())
    features = codec.examples(batch)
    return [codec.dense(features, spec, batch) for spec in specs]


def agree(found: list[Any], other: list[Any]) -> None:
    for a, b in zip(found, other, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_examples_that_are_alike_are_taken_at_once() -> None:
    layouts = Layouts(SPECS)
    contents = [one(n) for n in range(1, 100)]
    found = layouts.columns(contents)
    assert found is not None
    agree(found, wanted(contents))
    found[0][:] = 0  # the caller's own


def test_lengths_of_integers_and_of_texts_make_layouts_of_their_own() -> None:
    numbers = [0, 1, 127, 128, 2**14, 2**14 - 1, 2**35, -1, 2**63 - 1, -(2**63)]
    contents = [one(n, b"a" * (at % 2)) for at, n in enumerate(numbers * 40)]
    layouts = Layouts(SPECS)
    found = layouts.columns(contents)
    assert found is not None
    agree(found, wanted(contents))
    again = layouts.columns(contents[::-1])
    assert again is not None
    agree(again, wanted(contents[::-1]))


def test_the_order_of_features_does_not_matter() -> None:
    def turned(content: bytes) -> bytes:
        made = pb.Example.FromString(content)
        entries = [
            pb.Features(feature={key: made.features.feature[key]}).SerializeToString()
            for key in ("z", "s", "n", "x")
        ]
        body = b"".join(entries)
        return b"\x0a" + bytes([len(body) & 0x7F | 0x80, len(body) >> 7]) + body

    contents = [each for n in range(1, 60) for each in (one(n), turned(one(n)))]
    assert len({len(each) for each in contents}) < 3
    found = Layouts(SPECS).columns(contents)
    assert found is not None
    agree(found, wanted(contents))


def test_what_is_missing_has_its_default() -> None:
    gone = DenseSpec("gone", dtypes.int64, (2,), np.array([7, -8]))
    contents = [one(n) for n in range(1, 30)]
    found = Layouts([gone, X]).columns(contents)
    assert found is not None
    agree(found, wanted(contents, [gone, X]))


def test_a_few_that_are_otherwise_are_taken_one_by_one() -> None:
    default = DenseSpec("n", dtypes.int64, (3,), np.array([1, 2, 3]))
    other = example(x=[1.0, 2.0], s=[b"a long text", b""])
    contents = [one(n) for n in range(1, 60)]
    contents[30] = other
    contents[7] = other + b"\x0a\x00"  # Features twice: their fields are merged
    found = Layouts([X, default, S]).columns(contents)
    assert found is not None
    agree(found, wanted(contents, [X, default, S]))


@pytest.mark.parametrize(
    "odd",
    [
        b"",
        b"\x00",
        one(3)[:-1],
        one(3) + b"\x0a",
        example(x=[1.0, 2.0, 3.0], n=[1, 2, 3], s=[b"a", b"b"]),
        example(x=[1, 2], n=[1, 2, 3], s=[b"a", b"b"]),
        example(x=[1.0, 2.0], n=[1, 2, 3]),
    ],
)
def test_what_is_wrong_is_left_to_who_knows_what_to_say(odd: bytes) -> None:
    contents = [one(n) for n in range(1, 40)]
    contents.insert(20, odd)
    with pytest.raises(errors.InvalidArgumentError):
        wanted(contents)
    layouts = Layouts(SPECS)
    assert layouts.columns(contents) is None
    del contents[20]
    assert layouts.columns(contents) is None  # not at once
    found = layouts.columns(contents)
    assert found is not None
    agree(found, wanted(contents))


def test_few_examples_and_features_of_any_length_have_no_layouts() -> None:
    assert Layouts(SPECS).columns([one(1)] * 7) is None
    varies = DenseSpec("x", dtypes.float32, (2,), NONE, varies=True)
    assert Layouts([varies]).columns([one(1)] * 20) is None
    assert Layouts([]).columns([one(1)] * 20) is None


def test_where_all_are_different_it_is_tried_ever_more_seldom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layouts = Layouts([N])
    tried = []
    looks = layouts._columns
    monkeypatch.setattr(layouts, "_columns", lambda contents: tried.append(1) or looks(contents))
    random = np.random.default_rng(1)
    for _ in range(100):
        numbers = [[int(2.0**bits) for bits in random.uniform(0, 60, 3)] for _ in range(32)]
        assert layouts.columns([example(n=each) for each in numbers]) is None
    assert len(tried) < 10


@given(
    st.lists(
        st.tuples(
            st.tuples(*[st.floats(width=32, allow_nan=False)] * 2),
            st.tuples(*[INTS] * 3),
            st.tuples(*[st.binary(max_size=2)] * 2),
        ),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.integers(0, 3), min_size=8, max_size=40),
    st.one_of(st.none(), st.tuples(st.integers(0, 200), st.integers(1, 255))),
)
@settings(max_examples=300, deadline=None)
def test_whatever_is_taken_is_what_is_taken_of_each(
    rows: list[Any], drawn: list[int], changed: tuple[int, int] | None
) -> None:
    made = [example(x=list(x), n=list(n), s=list(s)) for x, n, s in rows]
    contents = [made[at % len(made)] for at in drawn]
    if changed is not None:
        at, bits = changed
        odd = bytearray(contents[len(contents) // 2])
        odd[at % len(odd)] ^= bits
        contents[len(contents) // 2] = bytes(odd)
    layouts = Layouts(SPECS)
    for _ in range(2):
        found = layouts.columns(contents)
        if found is not None:
            agree(found, wanted(contents))
