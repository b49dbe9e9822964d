"""Text in any encoding as code points, and back.

What is malformed is one error for each of the longest parts that could have been the beginning of a character, as
Unicode recommends and ICU has it.
Called by: ops.string.unicode.  Threads: pure functions.
"""

from __future__ import annotations

import codecs
import itertools
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from headrace.base import errors

Array = np.ndarray[Any, Any]

LAST = 0x10FFFF
_LAST_CONTROL = 0x1F
_WITH_MARK = {"utf-16": ("utf-16-be", "utf-16-le"), "utf-32": ("utf-32-be", "utf-32-le")}
_NO_TEXT = {"idna", "punycode", "undefined", "mbcs", "oem", "unicode_escape", "raw_unicode_escape"}
_RENAMED = {"unicode": "utf-16", "ibm-37": "cp037", "macroman": "mac-roman", "latin-1": "latin-1"}


@cache
def codec(encoding: str) -> str:
    """Python's name of an encoding that ICU knows.  Raises InvalidArgument."""
    name = _RENAMED.get(encoding.lower(), encoding)
    try:
        found = codecs.lookup(name)
        known = found.name.replace("-", "_") not in _NO_TEXT and getattr(
            found, "_is_text_encoding", True
        )
    except (LookupError, ValueError):
        known = False
    if not known:
        raise errors.invalid_argument(f"Could not create converter for input encoding: {encoding}")
    return found.name


class Policy:
    """What becomes of malformed text and control characters."""

    def __init__(
        self, kind: bytes, replacement: int, controls: bool, strict_controls: bool
    ) -> None:
        """kind: strict, replace or ignore.  controls: they count as malformed; strict_controls: for strict, too.

        Raises InvalidArgument for a replacement that is no code point.
        """
        if not 0 <= replacement <= LAST:
            raise errors.invalid_argument(
                f"replacement_char out of unicode codepoint range: {replacement} is not in [0, {LAST}]"
            )
        self.kind, self.replacement, self.controls = kind, replacement, controls
        self.strict_controls = strict_controls

    def malformed(self) -> errors.OpError:
        """What strict raises."""
        return errors.invalid_argument(
            "Invalid formatting on input string: errors='replace' or 'ignore' takes it as it is"
        )


def decoded(strings: Sequence[bytes], encoding: str, policy: Policy) -> tuple[Array, Array, Array]:
    """The code points of all strings, int32; where each begins in its string, in bytes; and each string's first.

    points, offsets [n]; splits [strings + 1].  Raises InvalidArgument.
    """
    name = codec(encoding)
    if name == "utf-8":
        found = _valid(strings)
        if found is not None and not (policy.controls and (found[0] <= _LAST_CONTROL).any()):
            return found
    points: list[int] = []
    offsets: list[int] = []
    splits = [0]
    for each in strings:
        _decode(each, name, policy, points, offsets)
        splits.append(len(points))
    return np.array(points, np.int32), np.array(offsets, np.int64), np.array(splits, np.int64)


def _valid(strings: Sequence[bytes]) -> tuple[Array, Array, Array] | None:
    """`decoded` of UTF-8 in one go; None if some of it is malformed."""
    joined = b"".join(strings)
    lengths = np.fromiter(map(len, strings), np.int64, len(strings))
    ends = np.cumsum(lengths)
    starts = ends - lengths
    every = np.frombuffer(joined, np.uint8)
    begins = (every & 0xC0) != 0x80
    if not begins[starts[lengths > 0]].all():
        return None
    try:
        text = joined.decode("utf-8")
    except UnicodeDecodeError:
        return None
    points = np.frombuffer(text.encode("utf-32-le"), "<i4").astype(np.int32)
    counts = np.concatenate([[0], np.cumsum(begins)])
    splits = np.concatenate([[0], counts[ends]]).astype(np.int64)
    own = np.repeat(starts, np.diff(splits))
    return points, np.flatnonzero(begins) - own, splits


def _decode(given: bytes, name: str, policy: Policy, points: list[int], offsets: list[int]) -> None:
    """Add the code points of one string, and where they begin."""
    at = 0
    if name in _WITH_MARK:
        big, little = _WITH_MARK[name]
        marked = given.startswith("\ufeff".encode(little))
        name = little if marked else big
        at = len("\ufeff".encode(name)) if marked or given.startswith("\ufeff".encode(big)) else 0
    while at < len(given):
        try:
            _take(given[at:].decode(name), at, name, policy, points, offsets)
            return
        except UnicodeDecodeError as error:
            _take(given[at : at + error.start].decode(name), at, name, policy, points, offsets)
            if policy.kind == b"strict":
                raise policy.malformed() from None
            if policy.kind == b"replace":
                points.append(policy.replacement)
                offsets.append(at + error.start)
            at += error.end


def _take(
    text: str, at: int, name: str, policy: Policy, points: list[int], offsets: list[int]
) -> None:
    for character in text:
        point = ord(character)
        if policy.controls and point <= _LAST_CONTROL:
            if policy.kind == b"strict" and policy.strict_controls:
                raise policy.malformed()
            if policy.kind != b"ignore":
                points.append(policy.replacement)
                offsets.append(at)
        else:
            points.append(point)
            offsets.append(at)
        at += len(character.encode(name))


OUTPUTS = {b"UTF-8": "utf-8", b"UTF-16-BE": "utf-16-be", b"UTF-32-BE": "utf-32-be"}


def checked_points(points: Array, splits: Array, policy: Policy) -> tuple[Array, Array]:
    """Points and splits with what is no character replaced or left out.  Raises InvalidArgument."""
    bad = (points < 0) | (points > LAST) | ((points >= 0xD800) & (points <= 0xDFFF))
    if not bad.any():
        return points, splits
    if policy.kind == b"strict":
        at = int(np.flatnonzero(bad)[0])
        raise errors.invalid_argument(
            f"Code point is out of range for Unicode, or is a surrogate. It is {points[at]}, at {at}"
        )
    if policy.kind == b"replace":
        return np.where(bad, policy.replacement, points), splits
    counts = np.concatenate([[0], np.cumsum(~bad)])
    return points[~bad], counts[splits]


def encoded(points: Array, splits: Array, output: bytes) -> Array:
    """A string of each run of code points, object [n]."""
    name = OUTPUTS[output]
    surrogate = (points >= 0xD800) & (points <= 0xDFFF)
    points = np.where(surrogate, 0xFFFD, points)
    text = points.astype("<u4").tobytes().decode("utf-32-le")
    out = np.empty(len(splits) - 1, object)
    ends = splits.tolist()
    out[:] = [text[a:b].encode(name) for a, b in itertools.pairwise(ends)]
    return out
