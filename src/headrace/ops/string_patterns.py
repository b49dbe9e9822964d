r"""Strings and patterns: regular expressions and splitting.

Patterns are RE2's.  They run on Python's `re`, which agrees with it on what both know; what only
RE2 knows is translated or refused, and what only `re` knows (look-around, back-references) is
refused, so that a pattern means the same here and there.
Called by: input pipelines, users.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/regex_replace_op.cc, regex_full_match_op.cc,
string_split_op.cc), GraphDefs as 2.21.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.shapes import Shape
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext, unchanged
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.ops.string_ops import mapped

__all__ = ["regex_full_match", "regex_replace", "string_split", "string_split_v2"]

# -- RE2 to re --------------------------------------------------------------------------------

_POSIX = {
    "alnum": "A-Za-z0-9", "alpha": "A-Za-z", "ascii": "\\x00-\\x7f", "blank": "\\t ",
    "cntrl": "\\x00-\\x1f\\x7f", "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~",
    "punct": "!-/:-@\\[-`{-~", "space": "\\t\\n\\v\\f\\r ", "upper": "A-Z", "word": "A-Za-z0-9_",
    "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_CLASS = re.compile(r"\[:(\^?)(\w+):\]")
_REFUSED_GROUPS = ("(?=", "(?!", "(?<=", "(?<!", "(?#", "(?(", "(?P=", "(?P>")
_REFUSED_ESCAPES = "123456789pPCXRKGk"


def _bad(pattern: str, why: str) -> errors.OpError:
    return errors.invalid_argument(f"invalid pattern {pattern!r}: {why}")


def _bracket(pattern: str, start: int) -> tuple[str, int]:
    """The character class that begins at `start`, translated, and where it ends."""
    at = start + 1
    out = "["
    if pattern[at : at + 1] == "^":
        out, at = "[^", at + 1
    first = True
    while at < len(pattern):
        char = pattern[at]
        named = _CLASS.match(pattern, at)
        if named:
            if named[1] or named[2] not in _POSIX:
                raise _bad(pattern, f"the character class {named[0]} is not supported")
            out, at = out + _POSIX[named[2]], named.end()
        elif char == "\\":
            if pattern[at + 1 : at + 2] in _REFUSED_ESCAPES:
                raise _bad(pattern, f"{pattern[at : at + 2]} is not supported")
            out, at = out + pattern[at : at + 2], at + 2
        elif char == "]" and not first:
            return out + "]", at + 1
        else:
            out, at = out + ("\\" if char in "[]&~|" else "") + char, at + 1
        first = False
    raise _bad(pattern, "missing ]")


def _escape(pattern: str, at: int) -> tuple[str, int]:
    char = pattern[at + 1 : at + 2]
    if char == "Q":
        end = pattern.find("\\E", at)
        end = len(pattern) if end < 0 else end
        return re.escape(pattern[at + 2 : end]), end + 2
    if not char or char in _REFUSED_ESCAPES:
        raise _bad(pattern, f"\\{char} is not supported")
    return ("\\Z" if char == "z" else "\\" + char), at + 2


def translated(pattern: str) -> str:
    """`pattern`, in RE2's syntax, in that of `re`.  Raises InvalidArgument."""
    out, at = "", 0
    leading = re.match(r"\(\?([ims]+)\)", pattern)
    multiline = leading is not None and "m" in leading[1]
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            piece, at = _escape(pattern, at)
        elif char == "[":
            piece, at = _bracket(pattern, at)
        elif char == "$" and not multiline:
            piece, at = "\\Z", at + 1  # re's own would also match before a final line end
        elif pattern.startswith(_REFUSED_GROUPS, at):
            raise _bad(pattern, f"{pattern[at : at + 4]} is not supported")
        elif pattern.startswith("(?<", at):
            piece, at = "(?P<", at + 3
        else:
            piece, at = char, at + 1
        out += piece
    return out


@lru_cache(maxsize=256)
def _compiled(pattern: bytes) -> re.Pattern[str]:
    source = pattern.decode(errors="surrogateescape")
    try:
        return re.compile(translated(source), re.ASCII)
    except re.error as error:
        raise _bad(source, str(error)) from None


def _decode(value: bytes) -> str:
    return value.decode(errors="surrogateescape")


def _encode(value: str) -> bytes:
    return value.encode(errors="surrogateescape")


_REWRITE = re.compile(r"\\(.?)", re.DOTALL)


def _parts_of(rewrite: str) -> list[str | int]:
    """Text and group numbers, in turn.  Raises InvalidArgument on another use of a backslash."""
    found: list[str | int] = []
    at = 0
    for match in _REWRITE.finditer(rewrite):
        found.append(rewrite[at : match.start()])
        if match[1].isdigit() and match[1].isascii():
            found.append(int(match[1]))
        elif match[1] == "\\":
            found.append("\\")
        else:
            raise errors.invalid_argument(
                f"invalid rewrite {rewrite!r}: a backslash is followed by a digit or a backslash"
            )
        at = match.end()
    found.append(rewrite[at:])
    return found


def _replaced(
    value: str, pattern: re.Pattern[str], parts: list[str | int], everywhere: bool
) -> str:
    """As RE2 does it: an empty match right behind another match does not count."""
    if max((part for part in parts if isinstance(part, int)), default=0) > pattern.groups:
        return value
    out: list[str] = []
    at, copied, last_end = 0, 0, -1
    while at <= len(value):
        match = pattern.search(value, at)
        if match is None:
            break
        start, end = match.span()
        if start == end == last_end:
            at = end + 1
            continue
        out.append(value[copied:start])
        out.extend(part if isinstance(part, str) else match[part] or "" for part in parts)
        copied = last_end = end
        at = end if end > start else end + 1
        if not everywhere:
            break
    return "".join(out) + value[copied:]


def _replace(strings: Any, pattern: bytes, rewrite: bytes, everywhere: bool) -> Any:
    compiled, parts = _compiled(pattern), _parts_of(_decode(rewrite))
    return mapped(
        lambda value: _encode(_replaced(_decode(value), compiled, parts, everywhere)), strings
    )


def _scalar(value: Any, what: str) -> bytes:
    if np.ndim(value):
        raise errors.invalid_argument(
            f"{what} must be a scalar, but has shape {list(np.shape(value))}"
        )
    found: bytes = np.asarray(value).item()
    return found


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
    differentiable=False,
)
def regex_replace_op(
    xp: Any, input: Any, pattern: Any, rewrite: Any, *, replace_global: bool
) -> Any:
    r"""The strings with what pattern matches, everywhere or once, replaced by rewrite.

    pattern, rewrite []; \1 to \9 in rewrite are groups, \0 is the match.
    Raises InvalidArgument on a malformed pattern or rewrite.
    """
    return _replace(input, _scalar(pattern, "pattern"), _scalar(rewrite, "rewrite"), replace_global)


@op(
    "StaticRegexReplace",
    inputs="input: string",
    outputs="output: string",
    attrs="pattern: string; rewrite: string; replace_global: bool = true",
    shape=unchanged,
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
    differentiable=False,
)
def regex_full_match_op(xp: Any, input: Any, pattern: Any) -> Any:
    """Whether pattern [] matches the whole of each string.

    Raises InvalidArgument on a malformed pattern.
    """
    return _matched(input, _scalar(pattern, "pattern"))


@op(
    "StaticRegexFullMatch",
    inputs="input: string",
    outputs="output: bool",
    attrs="pattern: string",
    shape=unchanged,
    differentiable=False,
)
def static_regex_full_match_op(xp: Any, input: Any, *, pattern: bytes) -> Any:
    """RegexFullMatch with an attr for the pattern."""
    return _matched(input, pattern)


def _matched(strings: Any, pattern: bytes) -> Any:
    compiled = _compiled(pattern)
    return mapped(lambda value: compiled.fullmatch(_decode(value)) is not None, strings, np.bool_)


_TEXT = (str, bytes)


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


def regex_full_match(input: Any, pattern: Any, name: str | None = None) -> Tensor:
    """Whether `pattern` (RE2) matches the whole of each string."""
    made: Tensor
    if isinstance(pattern, _TEXT):
        made = static_regex_full_match_op(input, pattern=pattern, name=name)
    else:
        made = regex_full_match_op(input, pattern, name=name)
    return made


# -- splitting --------------------------------------------------------------------------------


def _split_shape(c: ShapeContext) -> list[Shape]:
    c.with_rank("input", 1)
    c.with_rank(1, 0)
    return [(None, 2), (None,), (2,)]


def _sparse(rows: list[list[bytes]]) -> tuple[Any, Any, Any]:
    """(indices, values, shape) of the matrix whose rows these are."""
    indices = [(row, column) for row, parts in enumerate(rows) for column in range(len(parts))]
    values = np.empty(len(indices), object)
    values[:] = [part for parts in rows for part in parts]
    longest = max((len(parts) for parts in rows), default=0)
    return (
        np.array(indices, np.int64).reshape(-1, 2),
        values,
        np.array([len(rows), longest], np.int64),
    )


def _vector(strings: Any) -> list[bytes]:
    if np.ndim(strings) != 1:
        raise errors.invalid_argument(
            f"input must be a vector, but has shape {list(np.shape(strings))}"
        )
    found: list[bytes] = strings.tolist()
    return found


@op(
    "StringSplit",
    inputs="input: string; delimiter: string",
    outputs="indices: int64; values: string; shape: int64",
    attrs="skip_empty: bool = true",
    shape=_split_shape,
    differentiable=False,
)
def string_split_op(
    xp: Any, input: Any, delimiter: Any, *, skip_empty: bool
) -> tuple[Any, Any, Any]:
    """The parts of each string, as a sparse matrix with a row for each.

    input [n]; delimiter []: any of its bytes separates, an empty one separates all bytes.
    """
    delimiters = _scalar(delimiter, "delimiter")
    cut = re.compile(b"[" + re.escape(delimiters) + b"]") if delimiters else None
    rows = []
    for value in _vector(input):
        parts = cut.split(value) if cut else [value[i : i + 1] for i in range(len(value))]
        if not value:
            parts = []
        rows.append([part for part in parts if part] if skip_empty else parts)
    return _sparse(rows)


@op(
    "StringSplitV2",
    inputs="input: string; sep: string",
    outputs="indices: int64; values: string; shape: int64",
    attrs="maxsplit: int = -1",
    shape=_split_shape,
    differentiable=False,
)
def string_split_v2_op(xp: Any, input: Any, sep: Any, *, maxsplit: int) -> tuple[Any, Any, Any]:
    """The parts of each string, at most maxsplit + 1 of them, as a sparse matrix with a row for each.

    input [n]; sep []: the whole of it separates, an empty one means runs of blanks.
    """
    separator = _scalar(sep, "sep")
    if separator:
        return _sparse([value.split(separator, maxsplit) for value in _vector(input)])
    return _sparse([_words(value, maxsplit) for value in _vector(input)])


def _words(value: bytes, most: int) -> list[bytes]:
    """As Python's split, but what follows the last of `most` words counts even if it is empty."""
    if most == 0:
        return [value]
    words = value.split(None, most)
    if len(words) == most:
        words.append(b"")
    elif len(words) > most > 0:
        # Python drops blanks at the very end, and TensorFlow keeps what it did not look at.
        words[-1] = value[value.rindex(words[-1]) :]
    return words


def _as_sparse(parts: list[Tensor]) -> SparseTensor:
    indices, values, shape = parts
    return SparseTensor(indices, values, shape)


def string_split(
    source: Any, sep: Any = None, skip_empty: bool = True, delimiter: Any = " ",
    result_type: str = "SparseTensor", name: str | None = None,
) -> SparseTensor:  # fmt: skip
    """The parts of each string of the vector `source`, as a SparseTensor with a row for each.

    delimiter (or sep): each of its characters separates; an empty one separates all.
    Raises ValueError on another result_type: ragged tensors are not supported.
    """
    _check_result(result_type)
    with name_scope(name, "StringSplit", [source] if isinstance(source, Tensor) else []):
        mark = convert(delimiter if sep is None else sep, dtypes.string)
        source = convert(source, dtypes.string)
        return _as_sparse(string_split_op(source, mark, skip_empty=skip_empty))


def string_split_v2(
    input: Any = None, sep: Any = None, maxsplit: int = -1, result_type: str = "SparseTensor",
    source: Any = None, name: str | None = None,
) -> SparseTensor:  # fmt: skip
    """The parts of each string of the vector `input` as Python's split gives them, as a SparseTensor.

    Raises ValueError on another result_type: ragged tensors are not supported.
    """
    _check_result(result_type)
    strings = source if input is None else input
    with name_scope(name, "StringSplit", [strings] if isinstance(strings, Tensor) else []):
        mark = convert("" if sep is None else sep, dtypes.string)
        strings = convert(strings, dtypes.string)
        return _as_sparse(string_split_v2_op(strings, mark, maxsplit=maxsplit))


def _check_result(result_type: str) -> None:
    if result_type != "SparseTensor":
        raise ValueError(
            f"result_type must be 'SparseTensor', not {result_type!r}: there are no ragged tensors"
        )
