"""Bytes that are nearly what they should be."""

from __future__ import annotations

from random import Random

EDGES = (0, 1, 2, 7, 8, 64, 127, 128, 255, 256, 65535, 65536, (1 << 31) - 1, 1 << 31, (1 << 32) - 1,
         1 << 40, (1 << 61), (1 << 63) - 1, 1 << 63, (1 << 64) - 1)  # fmt: skip
"""Numbers next to which something changes."""


def mutated(rng: Random, data: bytes, other: bytes) -> bytes:
    """`data` with one to five things wrong with it; parts of `other` may stand in it."""
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        at = _position(rng, len(result))
        end = at + rng.choice((0, 1, 1, 2, 4, 8, rng.randrange(64)))
        result[at:end] = rng.choice(_CHANGES)(rng, bytes(result[at:end]), other)
    return bytes(result)


def _position(rng: Random, length: int) -> int:
    """Anywhere, but half of the time near the beginning, where the lengths are."""
    if not length:
        return 0
    return rng.randrange(min(length, 100)) if rng.random() < 0.5 else rng.randrange(length)


def _number(rng: Random) -> int:
    return (rng.choice(EDGES) + rng.choice((-1, 0, 0, 0, 1))) % (1 << 64)


def varint(value: int) -> bytes:
    """Seven bits a byte, lowest first."""
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*result, value])


_CHANGES = (
    lambda rng, old, other: bytes([byte ^ 1 << rng.randrange(8) for byte in old]),
    lambda rng, old, other: rng.randbytes(len(old)),
    lambda rng, old, other: rng.randbytes(rng.randrange(8)),
    lambda rng, old, other: _number(rng).to_bytes(8, "little")[: len(old)],
    lambda rng, old, other: _number(rng).to_bytes(8, "little"),
    lambda rng, old, other: varint(_number(rng)),
    lambda rng, old, other: old * rng.choice((0, 2, 3, 50)),
    lambda rng, old, other: other[(at := rng.randrange(len(other) + 1)) : at + rng.randrange(200)],
)
