"""Sorted tables: what goes in comes out, whatever the keys; what is damaged is found."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base import errors
from headrace.codec import sorted_table
from headrace.codec.ordered import WHOLE, number, signed, slice_key, text
from headrace.codec.sorted_table import Table, written
from headrace.codec.varints import packed, unpacked


def table(content: bytes) -> Table:
    return Table(lambda offset, count: content[offset : offset + count], len(content), "t.index")


def file_of(rows: dict[bytes, bytes]) -> bytes:
    return b"".join(written(sorted(rows.items())))


ROWS = st.dictionaries(st.binary(max_size=12), st.binary(max_size=40), max_size=80)


@given(ROWS, st.integers(1, 200))
def test_what_goes_in_comes_out_in_order(rows: dict[bytes, bytes], block_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_table, "BLOCK_BYTES", block_bytes)
        found = table(file_of(rows))
    assert list(found.items()) == sorted(rows.items())
    assert {key: found.get(key) for key in rows} == rows
    assert all(found.get(key + b"!") == rows.get(key + b"!") for key in rows)


def test_a_table_of_nothing_has_nothing() -> None:
    assert list(table(file_of({})).items()) == []
    assert table(file_of({})).get(b"x") is None


@pytest.mark.parametrize("keys", [(b"b", b"a"), (b"a", b"a")])
def test_keys_come_once_and_in_order(keys: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError, match="in order"):
        b"".join(written((key, b"") for key in keys))


SAMPLE = file_of({b"": b"header", b"a/kernel": b"1" * 30, b"a/momentum": b"2", b"b": b""})
FOOTER = len(SAMPLE) - 48
OTHER, INDEX_PLACE = unpacked(SAMPLE, FOOTER)[0], unpacked(SAMPLE, unpacked(SAMPLE, FOOTER)[1])[1]
FOOTER_USED = range(INDEX_PLACE, unpacked(SAMPLE, unpacked(SAMPLE, INDEX_PLACE)[1])[1])
"""Where the footer says where the index is."""


@pytest.mark.parametrize("size", range(len(SAMPLE)))
def test_a_file_that_stops_short_is_data_loss(size: int) -> None:
    with pytest.raises(errors.DataLossError, match=r"t\.index"):
        list(table(SAMPLE[:size]).items())


@pytest.mark.parametrize("at", range(len(SAMPLE)))
def test_a_byte_that_changed_is_found(at: int) -> None:
    """Only what nobody reads (the place of the empty block, padding) may change unnoticed."""
    changed = SAMPLE[:at] + bytes([SAMPLE[at] ^ 0x55]) + SAMPLE[at + 1 :]
    read_by_nobody = {*range(len(SAMPLE) - 48, len(SAMPLE) - 8)} - {*FOOTER_USED}
    read_by_nobody |= {*range(OTHER, OTHER + 13)}
    if at in read_by_nobody:
        assert list(table(changed).items()) == list(table(SAMPLE).items())
        return
    with pytest.raises((errors.DataLossError, errors.UnimplementedError), match=r"t\.index"):
        list(table(changed).items())


def test_a_block_that_is_compressed_says_so() -> None:
    from headrace.codec.records import masked_crc

    content = file_of({b"a": b"1"})
    size = content.index(struct.pack("<I", 1)) + 4  # of the one data block
    body = content[:size] + b"\x01"
    changed = body + struct.pack("<I", masked_crc(body)) + content[size + 5 :]
    with pytest.raises(errors.UnimplementedError, match="compressed"):
        list(table(changed).items())


@given(st.integers(0, 2**64 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_varints_come_back(value: int, before: bytes, behind: bytes) -> None:
    content = before + packed(value) + behind
    assert unpacked(content, len(before)) == (value, len(before) + len(packed(value)))


@pytest.mark.parametrize("content", [b"", b"\x80", b"\xff" * 10, b"\xff" * 9 + b"\x02"])
def test_what_is_no_varint_of_64_bits_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="no integer"):
        unpacked(content, 0)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2))
def test_codes_of_signed_numbers_are_in_their_order(values: list[int]) -> None:
    assert sorted(values) == sorted(values, key=signed)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=2))
def test_codes_of_numbers_are_in_their_order(values: list[int]) -> None:
    assert sorted(values) == sorted(values, key=number)


@given(st.lists(st.binary(max_size=6), min_size=2))
def test_codes_of_strings_are_in_their_order(values: list[bytes]) -> None:
    assert sorted(values) == sorted(values, key=text)


def test_the_key_of_a_part_is_tensorflows() -> None:
    """Bytes as TensorFlow 2.21 wrote them for a part of a variable of two dimensions."""
    found = slice_key("p", [(2, 2), (0, WHOLE)])
    assert found == b"\x00p\x00\x01\x01\x02\x82\x82\x80\x7f"
