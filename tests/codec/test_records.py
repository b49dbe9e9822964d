"""TFRecord framing: bytes without files, in any pieces, whole and broken."""

from __future__ import annotations

import gzip
import itertools
import zlib
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base import errors
from headrace.codec.records import framed, inflated, masked_crc, records

RECORDS = [b"one", b"", b"three" * 9]
FILE = b"".join(map(framed, RECORDS))
OFFSETS = [0, 19, 35]
HEADER = 12


def read(pieces: Iterable[bytes]) -> list[tuple[int, bytes]]:
    return list(records(pieces, "f"))


def test_a_record_stands_between_its_length_and_checksums() -> None:
    length = (3).to_bytes(8, "little")
    checksums = [masked_crc(part).to_bytes(4, "little") for part in (length, b"abc")]
    assert framed(b"abc") == length + checksums[0] + b"abc" + checksums[1]


@pytest.mark.parametrize("cut", range(len(FILE) + 1))
def test_a_file_may_come_in_any_two_pieces(cut: int) -> None:
    assert read([FILE[:cut], FILE[cut:]]) == list(zip(OFFSETS, RECORDS, strict=True))


@given(st.lists(st.binary(max_size=40)), st.integers(1, 50), st.sampled_from(["", "ZLIB", "GZIP"]))
def test_what_is_written_is_read(content: list[bytes], size: int, compression: str) -> None:
    whole = b"".join(map(framed, content))
    whole = {"": bytes, "ZLIB": zlib.compress, "GZIP": gzip.compress}[compression](whole)
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    assert [record for _, record in read(inflated(pieces, compression, "f"))] == content


@pytest.mark.parametrize("length", range(len(FILE)))
def test_a_file_that_stops_short_gives_what_is_whole_and_names_the_rest(length: int) -> None:
    start = max(offset for offset in OFFSETS if offset <= length)
    whole = [offset for offset in OFFSETS if offset < start]
    source = records([FILE[:length]], "f")
    assert [at for at, _ in itertools.islice(source, len(whole))] == whole
    if length - start < HEADER:
        assert list(source) == []
    else:
        with pytest.raises(
            errors.DataLossError, match=rf"^truncated record at {start}' .* and f ends"
        ):
            next(source)


def test_records_before_a_broken_one_are_given() -> None:
    source = records([FILE[:-1]], "f")
    assert [next(source), next(source)] == [(0, b"one"), (19, b"")]
    with pytest.raises(errors.DataLossError, match=r"at 35' .* it should have 45 bytes"):
        next(source)


@pytest.mark.parametrize("at", range(len(FILE)))
def test_no_changed_byte_goes_unnoticed(at: int) -> None:
    broken = bytearray(FILE)
    broken[at] ^= 0x10
    start = max(offset for offset in OFFSETS if offset <= at)
    with pytest.raises(errors.DataLossError, match=rf"^corrupted record at {start}\b.*, in f$"):
        read([bytes(broken)])


def test_a_file_of_something_else_is_told_from_a_broken_one() -> None:
    with pytest.raises(errors.DataLossError, match="Is this even a TFRecord file"):
        read([b"these are lines of text, not records\n"])
    with pytest.raises(errors.DataLossError, match=r"f cannot be read as ZLIB near byte 0"):
        list(inflated([b"no zlib"], "ZLIB", "f"))


def test_gzip_members_follow_each_other_and_a_zlib_stream_ends() -> None:
    assert b"".join(inflated([gzip.compress(b"a") + gzip.compress(b"b")], "GZIP", "f")) == b"ab"
    assert b"".join(inflated([zlib.compress(b"a") + zlib.compress(b"b")], "ZLIB", "f")) == b"a"


def test_a_compressed_file_that_stops_short_gives_what_it_has() -> None:
    content = bytes(range(256)) * 40
    packed = zlib.compress(content, 0)
    assert b"".join(inflated([packed[:-1000]], "ZLIB", "f")) == content[: len(content) - 996]


def test_what_inflates_to_much_comes_in_pieces() -> None:
    pieces = list(inflated([zlib.compress(bytes(5 << 20))], "ZLIB", "f"))
    assert sum(map(len, pieces)) == 5 << 20
    assert max(map(len, pieces)) == 1 << 20


def test_the_checksum_is_the_masked_crc32c() -> None:
    # RFC 3720 B.4: the CRC-32C of 32 zero bytes is 0x8a9136aa.
    crc = 0x8A9136AA
    rotated = ((crc >> 15) | (crc << 17)) & 0xFFFFFFFF
    assert masked_crc(bytes(32)) == (rotated + 0xA282EAD8) % 2**32
