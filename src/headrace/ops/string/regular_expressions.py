r"""Regular expressions: replacing and matching, by RE2 itself (the package google-re2), as in TensorFlow.

RE2's time is linear in the string, whatever the pattern.  Its binding lets go of the interpreter's lock while it
searches, so a long search keeps nobody from working; between two searches the kernels poll the step's scope.  It holds
the lock while it compiles, so patterns are bounded: `base.limits`, PATTERN_BYTES.  One search cannot be interrupted;
what it may cost at worst is bounded too (PATTERN_STEPS), and so is what replacing may make (EXPANDED_BYTES).
Called by: input pipelines, users.  Threads: any.
Source: TF 1.15 core/kernels/{regex_replace_op,regex_full_match_op}.cc for behaviour, compared with the oracle
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np

from headrace.base import errors
from headrace.base.limits import PATTERN_BYTES, PATTERN_STEPS, Growth
from headrace.base.shapes import Shape
from headrace.base.traits import POLLS
from headrace.graph.ragged import of_ragged
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext, unchanged
from headrace.graph.tensor import Tensor
from headrace.ops.string.strings import mapped, scalar_string
from headrace.run.exec.polling import poll

__all__ = ["regex_full_match", "regex_replace"]

_Spans = list[tuple[int, int]]

# A class of Unicode, such as \pL, is hundreds of ranges, which takes RE2 as long as so many bytes of another pattern.
_UNICODE_CLASS: Final = re.compile(rb"\\[pP]")
_UNICODE_CLASS_BYTES: Final = 64
_INSTRUCTION_BYTES: Final = (
    12  # of the memory that RE2 is allowed, for each instruction that it then allows
)
_PLAIN: Final = re.compile(rb"\^?([\w:/ -]{1,100})(?:\.\*)?\Z", re.ASCII)
"""Patterns that nothing matches which does not begin so: a saver asks of each path whether it begins with ``s3://``."""
_KEPT: Final = 64  # compiled patterns, each of which may take RE2's 8 MiB


# -- RE2 --------------------------------------------------------------------------------------


class Regex:
    """A compiled pattern.

    groups: how many it captures.  `search` tells where the match is and, if `captures`, where its groups are.
    """

    __slots__ = ("_match", "_size", "_starts", "_whole", "groups")

    def __init__(self, pattern: bytes, captures: bool) -> None:
        """captures: False for a search that need not tell where the groups are, which is quicker.

        Raises InvalidArgument, ResourceExhausted.
        """
        from re2 import Options, _re2  # for the few programs that have patterns

        classes = len(_UNICODE_CLASS.findall(pattern))
        size = len(pattern) + _UNICODE_CLASS_BYTES * classes
        PATTERN_BYTES.check(size, f"the regular expression {_shown(pattern)} counts as")
        options = Options()
        options.log_errors = False  # to stderr
        options.never_capture = not captures
        usual: int = options.max_mem
        options.max_mem = min(usual, PATTERN_BYTES.value() * 2 * _INSTRUCTION_BYTES)
        compiled = _re2.RE2(pattern, options)
        if not compiled.ok():
            why = compiled.error().decode(errors="replace")
            if why.startswith("pattern too large") and options.max_mem < usual:
                limit = PATTERN_BYTES.value()
                raise PATTERN_BYTES.exceeded(
                    f"the regular expression {_shown(pattern)} compiles to more than {2 * limit} instructions, as a "
                    f"pattern might of {limit + 1} bytes",
                    limit,
                )
            raise errors.invalid_argument(f"Invalid pattern: {_shown(pattern)}, error: {why}")
        if (
            options.max_mem < usual
        ):  # it is not too large; now with room for the automaton of its searches
            options.max_mem = usual
            compiled = _re2.RE2(pattern, options)
        self.groups: int = compiled.NumberOfCapturingGroups()
        self._match = compiled.Match
        self._size: int = compiled.ProgramSize()
        self._starts, self._whole = _re2.RE2.Anchor.UNANCHORED, _re2.RE2.Anchor.ANCHOR_BOTH

    def searcher(self, value: bytes) -> Callable[[int], _Spans]:
        """A function that finds the leftmost match from an offset on: (-1, -1) if there is none.

        Raises ResourceExhausted: a search of `value` may take too many steps.
        """
        size = len(value)
        self._check(size)
        match, anchor = self._match, self._starts
        return lambda at: match(anchor, value, at, size)

    def matches(self, value: bytes) -> bool:
        """Whether it matches the whole of `value`.  Raises as `searcher` does."""
        self._check(len(value))
        return bool(self._match(self._whole, value, 0, len(value))[0][0] >= 0)

    def _check(self, size: int) -> None:
        if size * self._size > PATTERN_STEPS.default // 1000:  # else it is not worth a look
            PATTERN_STEPS.check(
                size * self._size,
                f"searching {size} bytes for a pattern of {self._size} instructions may take",
            )


@lru_cache(maxsize=_KEPT)
def _compiled(pattern: bytes, captures: bool) -> Regex:
    return Regex(pattern, captures)


def _shown(pattern: bytes) -> str:
    text = pattern[:200].decode(errors="replace")
    return text if len(pattern) <= 200 else f"{text}… (of {len(pattern)} bytes)"


# -- replacing --------------------------------------------------------------------------------


class _Rewrite:
    r"""What a match is replaced by: text and numbers of groups.

    whole: False if a backslash in it is followed by neither a digit nor a backslash; it ends there.  highest: of the
    groups' numbers, those behind such a place included.
    """

    __slots__ = ("highest", "parts", "whole")

    def __init__(self, rewrite: bytes) -> None:
        self.parts: list[bytes | int] = []
        self.highest = 0
        self.whole = True
        text = bytearray()
        at = 0
        while at < len(rewrite):
            char = rewrite[at : at + 1]
            if char == b"\\":
                at += 1
                char = rewrite[at : at + 1]
                if char.isdigit():
                    self.highest = max(self.highest, int(char))
                    if self.whole:
                        self.parts += [bytes(text), int(char)]
                        text.clear()
                    char = b""
                elif char != b"\\" and self.whole:
                    self.whole = False
                    self.parts.append(bytes(text))
            text += char
            at += 1
        if self.whole:
            self.parts.append(bytes(text))
        self.parts = [part for part in self.parts if part != b""]

    def of(self, value: bytes, spans: _Spans) -> list[bytes]:
        """The parts for one match; a group that took no part in it is empty."""
        return [
            part
            if isinstance(part, bytes)
            else value[max(spans[part][0], 0) : max(spans[part][1], 0)]
            for part in self.parts
        ]


def _replaced(
    value: bytes, regex: Regex, rewrite: _Rewrite, all_of_them: bool, growth: Growth
) -> bytes:
    """`value` with its matches replaced; an empty match right behind another one is passed over, as in RE2."""
    search = regex.searcher(value)
    out: list[bytes] = []
    at, copied, last_end = 0, 0, -1
    while at <= len(value):
        poll()
        spans = search(at)
        start, end = spans[0]
        if start < 0:
            break
        if start == end == last_end:
            at += _character(value, at)
            continue
        words = rewrite.of(value, spans)
        growth.add(sum(map(len, words)))
        out.append(value[copied:start])
        out += words
        at = copied = last_end = end
        if not all_of_them:
            break
    return b"".join(out) + value[copied:] if out else value


def _character(value: bytes, at: int) -> int:
    """Bytes of the character of UTF-8 that begins there; 1 if none does."""
    lead = value[at] if at < len(value) else 0
    size = 1 if lead < 0xC2 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4 if lead < 0xF5 else 1
    if size > 1:
        try:
            value[at : at + size].decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return 1
    return size


def _replace(strings: Any, pattern: bytes, rewrite: bytes, all_of_them: bool) -> Any:
    groups = _compiled(pattern, True).groups
    parsed = _Rewrite(rewrite)
    if parsed.highest > groups or not (parsed.whole or all_of_them):
        return mapped(
            lambda value: value, strings
        )  # as TensorFlow does, which logs that it is wrong
    regex = _compiled(pattern, groups > 0 and parsed.highest > 0)
    growth = Growth(f"the strings in which {_shown(pattern)} is replaced")
    return mapped(lambda value: _replaced(value, regex, parsed, all_of_them, growth), strings)


def _matched(strings: Any, pattern: bytes) -> Any:
    start = _PLAIN.match(pattern)
    begins = None if start is None else start[1]
    regex = _for_matching(pattern) if begins is None else None

    def matches(value: bytes) -> bool:
        nonlocal regex
        if begins is not None and not value.startswith(begins):
            return False
        poll()
        if regex is None:
            regex = _for_matching(pattern)
        return regex.matches(value)

    return mapped(matches, strings, np.bool_)


def _for_matching(pattern: bytes) -> Regex:
    regex = _compiled(pattern, True)
    return _compiled(pattern, False) if regex.groups else regex


# -- the ops ----------------------------------------------------------------------------------


def _pattern_shape(c: ShapeContext) -> Shape:
    for arg in range(1, len(c.op.inputs)):
        c.with_rank(arg, 0)
    return c.shape("input")


@op(
    "RegexReplace",
    inputs="input: string; pattern: string; rewrite: string",
    outputs="output: string",
    attrs="replace_global: bool = true",
    shape=_pattern_shape,
    traits={POLLS},
    differentiable=False,
)
def regex_replace_op(
    xp: Any, input: Any, pattern: Any, rewrite: Any, *, replace_global: bool
) -> Any:
    r"""The strings with what pattern matches, everywhere or once, replaced by rewrite.

    pattern, rewrite []; \1 to \9 in rewrite are groups, \0 is the match.  A rewrite that asks for a group that there is
    not leaves the strings as they are; one with another backslash ends there, or with replace_global=False leaves them.
    Raises InvalidArgument on a malformed pattern, ResourceExhausted (`base.limits`), and what ends the step meanwhile.
    """
    return _replace(
        input, scalar_string(pattern, "pattern"), scalar_string(rewrite, "rewrite"), replace_global
    )


@op(
    "StaticRegexReplace",
    inputs="input: string",
    outputs="output: string",
    attrs="pattern: string; rewrite: string; replace_global: bool = true",
    shape=unchanged,
    traits={POLLS},
    differentiable=False,
)
def static_regex_replace_op(
    xp: Any, input: Any, *, pattern: bytes, rewrite: bytes, replace_global: bool
) -> Any:
    """RegexReplace with attrs for pattern and rewrite."""
    return _replace(input, pattern, rewrite, replace_global)


@op(
    "RegexFullMatch",
    inputs="input: string; pattern: string",
    outputs="output: bool",
    shape=_pattern_shape,
    traits={POLLS},
    differentiable=False,
)
def regex_full_match_op(xp: Any, input: Any, pattern: Any) -> Any:
    """Whether pattern [] matches the whole of each string.

    Raises InvalidArgument on a malformed pattern, ResourceExhausted (`base.limits`), and what ends the step meanwhile.
    """
    return _matched(input, scalar_string(pattern, "pattern"))


@op(
    "StaticRegexFullMatch",
    inputs="input: string",
    outputs="output: bool",
    attrs="pattern: string",
    shape=unchanged,
    traits={POLLS},
    differentiable=False,
)
def static_regex_full_match_op(xp: Any, input: Any, *, pattern: bytes) -> Any:
    """RegexFullMatch with an attr for the pattern."""
    return _matched(input, pattern)


_TEXT = (str, bytes)


@of_ragged
def regex_replace(
    input: Any, pattern: Any, rewrite: Any, replace_global: bool = True, name: str | None = None
) -> Tensor:
    r"""The strings with what `pattern` (RE2) matches replaced by `rewrite`, where \1 is the first group."""
    made: Tensor
    if isinstance(pattern, _TEXT) and isinstance(rewrite, _TEXT):
        made = static_regex_replace_op(
            input, pattern=pattern, rewrite=rewrite, replace_global=replace_global, name=name
        )
    else:
        made = regex_replace_op(input, pattern, rewrite, replace_global=replace_global, name=name)
    return made


@of_ragged
def regex_full_match(input: Any, pattern: Any, name: str | None = None) -> Tensor:
    """Whether `pattern` (RE2) matches the whole of each string."""
    made: Tensor
    if isinstance(pattern, _TEXT):
        made = static_regex_full_match_op(input, pattern=pattern, name=name)
    else:
        made = regex_full_match_op(input, pattern, name=name)
    return made
