"""Operands that fit fingerprints."""

from __future__ import annotations

from tests.ops.shaped import Row

SHAPED: dict[str, list[Row]] = {
    "Fingerprint": [
        ((2, 3), b"farmhash64"),
        ((3,), b"farmhash64"),
        ((0, 2), b"farmhash64"),
        ((2, 0), b"farmhash64"),
    ],
}
