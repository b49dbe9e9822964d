"""Variable-length integers, as protobuf and sorted tables have them: seven bits a byte, the lowest first.

Called by: codec.sorted_table, codec.tensor_bundle.  Pure.
"""

from __future__ import annotations

MOST_BYTES = 10
"""Of a number of 64 bits."""


def packed(number: int) -> bytes:
    """`number`, at least 0, in as few bytes as it takes."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def unpacked(content: bytes, at: int) -> tuple[int, int]:
    """(the number that begins at byte `at`, where it ends).

    Raises ValueError if the content ends before it does, or if it takes more than 64 bits.
    """
    number = shift = 0
    for end in range(at, min(len(content), at + MOST_BYTES)):
        byte = content[end]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >> 64:
                break
            return number, end + 1
        shift += 7
    raise ValueError(f"no integer of 64 bits at byte {at} of {len(content)}")
