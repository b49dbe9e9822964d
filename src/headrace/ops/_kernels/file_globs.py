"""File globs, as TensorFlow reads them: fnmatch(3) with FNM_PATHNAME, directory by directory.

``*`` stands for any characters, ``?`` for one and ``[…]`` for one of a set, in names that begin with a dot too, and
none of them for a slash.  In a set, ``!`` or ``^`` at the beginning is "none of", ``]`` may come first, ``a-z`` is a
range and ``[:alpha:]`` a class; a backslash quotes the next character, in a set too.  A ``[`` without its ``]`` is
itself.
A character is one of UTF-8 or, if the name or the pattern is no UTF-8 or that does not match, a byte.
The time is at most the length of the name times that of the pattern.
Called by: ops.io.files, ops.io.record_input, training.gfile.  Threads: any.
Source: POSIX fnmatch; compared with TensorFlow and the C library by tests/oracle/test_regular_expressions.py
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from headrace.run.exec.polling import poll
from headrace.run.readers.files import Files, file_error, local_path

_SPECIAL: Final = re.compile(rb"[*?\[\\]")
_STAR: Final = None
_Test = Callable[[str], bool]
_Token = str | _Test | None
"""A character, what tells whether one will do, or `_STAR`."""

_CLASSES: Final[dict[str, _Test]] = {
    "alnum": str.isalnum,
    "alpha": str.isalpha,
    "blank": lambda c: c in " \t",
    "cntrl": lambda c: c < " " or c == "\x7f",
    "digit": lambda c: "0" <= c <= "9",
    "graph": lambda c: c.isprintable() and not c.isspace(),
    "lower": str.islower,
    "print": str.isprintable,
    "punct": lambda c: c.isprintable() and not c.isalnum() and not c.isspace(),
    "space": lambda c: c in " \t\n\v\f\r",
    "upper": str.isupper,
    "xdigit": lambda c: c in "0123456789abcdefABCDEF",
}


class _NeverMatches(Exception):
    """A pattern that the C library takes for one that matches nothing."""


# -- names ------------------------------------------------------------------------------------


def matches(globs: Iterable[bytes], files: Files) -> list[bytes]:
    """Names of the files that match any of the patterns, sorted; one per match.

    A relative pattern with a wildcard in its first part gives names that begin with ``./``.  Directories that are not
    there match nothing, nor does a wildcard beside a doubled slash.
    Raises PermissionDenied and other errors of directories, InvalidArgument, and what ends the step meanwhile.
    """
    return sorted(path for glob in globs for path in _expanded(glob, files))


def _expanded(glob: bytes, files: Files) -> list[bytes]:
    """What exists under a pattern, directory by directory."""
    fixed = _SPECIAL.search(glob)
    if fixed is None:
        return [glob] if glob and files.exists(glob) else []
    if b"//" in local_path(glob):
        return []  # names that are found have single slashes
    start = glob.rfind(b"/", 0, fixed.start()) + 1
    prefixes = [glob[:start] or b"./"]
    parts = glob[start:].split(b"/")
    if not parts[-1]:
        parts.pop()  # a slash at the end
    for part in parts:
        wanted = Glob(part)
        prefixes = [
            prefix + name + b"/"
            for prefix in prefixes
            for name in _entries(prefix, files)
            if wanted.matches(name)
        ]
    return [path[:-1] for path in prefixes]


def _entries(directory: bytes, files: Files) -> list[bytes]:
    poll()
    try:
        return files.entries(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError) as error:
        raise file_error(directory, error) from None


# -- one name ---------------------------------------------------------------------------------


class Glob:
    """A pattern for one name, without slashes."""

    __slots__ = ("_characters", "_single")

    def __init__(self, pattern: bytes) -> None:
        self._single = _parsed(pattern.decode("latin-1"), classes=str.isascii)
        try:
            self._characters = _parsed(pattern.decode(), classes=None)
        except UnicodeDecodeError:
            self._characters = None

    def matches(self, name: bytes) -> bool:
        """Whether the whole of `name` matches."""
        if self._characters is not None:
            try:
                if _matches(self._characters, name.decode()):
                    return True
            except UnicodeDecodeError:
                pass
        return self._single is not None and _matches(self._single, name.decode("latin-1"))


def _matches(tokens: list[_Token], name: str) -> bool:
    """Only the last star that was passed is ever given more characters: no earlier one could do better."""
    at = token = 0
    star, held = -1, 0
    while at < len(name):
        wanted = tokens[token] if token < len(tokens) else ""
        if wanted is _STAR:
            star, held = token, at
            token += 1
        elif wanted == name[at] if isinstance(wanted, str) else wanted(name[at]):
            at += 1
            token += 1
        elif star >= 0:
            held += 1
            at, token = held, star + 1
        else:
            return False
    return all(left is _STAR for left in tokens[token:])


def _parsed(pattern: str, classes: _Test | None) -> list[_Token] | None:
    """The tokens, None if nothing matches.  classes: which characters may be in a named class; None: all."""
    tokens: list[_Token] = []
    at = 0
    try:
        while at < len(pattern):
            char = pattern[at]
            at += 1
            if char == "*":
                if not tokens or tokens[-1] is not _STAR:
                    tokens.append(_STAR)
            elif char == "?":
                tokens.append(lambda _: True)
            elif char == "[" and (found := _set(pattern, at, classes)) is not None:
                test, at = found
                tokens.append(test)
            elif char == "\\":
                char, at = _quoted(pattern, at)
                tokens.append(char)
            else:
                tokens.append(char)
    except _NeverMatches:
        return None
    return tokens


def _quoted(pattern: str, at: int) -> tuple[str, int]:
    if at == len(pattern):
        raise _NeverMatches
    return pattern[at], at + 1


def _set(pattern: str, at: int, classes: _Test | None) -> tuple[_Test, int] | None:
    """The set whose ``[`` stands before `at`, and where it ends; None if it does not end."""
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    first = True
    tests: list[_Test] = []
    ranges: list[tuple[str, str]] = []
    while at < len(pattern):
        if pattern[at] == "]" and not first:
            return _member(negated, tests, ranges), at + 1
        first = False
        if pattern.startswith("[:", at) and (end := pattern.find(":]", at + 2)) > 0:
            name = pattern[at + 2 : end]
            if name.isalpha():
                tests.append(_class(name, classes))
                at = end + 2
                continue
        if pattern.startswith("[=", at) and pattern.startswith("=]", at + 3):
            ranges.append((pattern[at + 2], pattern[at + 2]))
            at += 5
            continue
        low, at = _element(pattern, at)
        high = low
        if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] != "]":
            if at + 1 == len(pattern):
                raise _NeverMatches
            high, at = _element(pattern, at + 1)
        ranges.append((low, high))
    return None


def _element(pattern: str, at: int) -> tuple[str, int]:
    """One end of a range, or a character by itself, which may be written ``\\c`` or ``[.c.]``."""
    char = pattern[at]
    if char == "\\":
        return _quoted(pattern, at + 1)
    if pattern.startswith("[.", at):
        if not pattern.startswith(".]", at + 3):
            raise _NeverMatches  # the name of a character
        return pattern[at + 2], at + 5
    return char, at + 1


def _class(name: str, classes: _Test | None) -> _Test:
    test = _CLASSES.get(name)
    if test is None:
        raise _NeverMatches
    return test if classes is None else lambda c: classes(c) and test(c)


def _member(negated: bool, tests: list[_Test], ranges: list[tuple[str, str]]) -> _Test:
    def is_member(char: str) -> bool:
        found = any(low <= char <= high for low, high in ranges) or any(t(char) for t in tests)
        return found != negated

    return is_member
