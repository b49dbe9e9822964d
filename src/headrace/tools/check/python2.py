"""Python 2: source that Python 3's parser refuses, rewritten line by line until it takes it.

Only so that names can be found: the result has the same lines, and need not do the same.  What no rule helps is blanked
out, and its names are looked for as text.
Called by: command.  Threads: any.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

_MOST_BLANKED = 400
"""Lines; a file with more is no Python."""
_LONGEST = 50
"""Lines of a statement, as far as it is looked at."""


@dataclass
class Parsed:
    """A syntax tree, and what stood in its way.

    old: (line, what) of what Python 2 understands and Python 3 does not.  broken: (line, what) of what neither does.
    blanked: lines that the tree has nothing of.
    """

    tree: ast.Module
    old: list[tuple[int, str]] = field(default_factory=list)
    broken: list[tuple[int, str]] = field(default_factory=list)
    blanked: dict[int, str] = field(default_factory=dict)


def parse(text: str) -> Parsed:
    """The tree of `text`, or of as much of it as can be had.  Never raises SyntaxError."""
    lines = text.split("\n")
    found = Parsed(ast.Module([], []))
    expanded = False
    while len(found.blanked) <= _MOST_BLANKED:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of escapes in strings
                found.tree = ast.parse("\n".join(lines))
            found.old += _prints_in(found.tree)
            return found
        except RecursionError:
            found.broken.append((1, "nested too deeply"))
            return found
        except (SyntaxError, ValueError) as error:
            line = min(max(getattr(error, "lineno", None) or 1, 1), len(lines))
            what = str(getattr(error, "msg", error))
        if not expanded and "inconsistent use of tabs" in what:
            lines = [each.expandtabs(8) for each in lines]
            found.old.append((line, "tabs and spaces mixed"))
            expanded = True
        elif not _modernized(lines, line, found):
            _blank(lines, line, what, found)
    found.broken.append((1, f"more than {_MOST_BLANKED} lines that are no Python"))
    return found


def _prints_in(tree: ast.Module) -> list[tuple[int, str]]:
    """Print statements that Python 3 takes for something else: ``print >>f, x`` and ``print ("%d") % x``."""
    return [
        (node.lineno, "a print statement")
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, (ast.RShift, ast.Mod))
        and getattr(getattr(node.left, "func", node.left), "id", "") == "print"
    ]


def _modernized(lines: list[str], line: int, found: Parsed) -> bool:
    """Apply the rules to the statement at a line; whether one did something."""
    first, last = _statement(lines, line)
    text = "\n".join(lines[first - 1 : last])
    for what, rule in _RULES:
        new = rule(text)
        if new != text:
            lines[first - 1 : last] = new.split("\n")
            found.old.append((first, what))
            if rule is _print:
                _print_everywhere(lines, last, found)
            return True
    return False


def _print_everywhere(lines: list[str], after: int, found: Parsed) -> None:
    """Where there is one print statement there are more, and each would take a look at the whole file."""
    text = "\n".join(lines)
    inside: set[int] = set()  # lines that begin within a string
    for string in _LONG_STRINGS.finditer(text):
        start = text.count("\n", 0, string.start()) + 2
        inside.update(range(start, start + string[0].count("\n")))
    for line in range(after + 1, len(lines) + 1):
        if line not in inside and _PRINTS.match(lines[line - 1]):
            first, last = _statement(lines, line)
            old = "\n".join(lines[first - 1 : last])
            new = _print(old)
            if new != old:
                lines[first - 1 : last] = new.split("\n")
                found.old.append((first, "a print statement"))


def _statement(lines: list[str], line: int) -> tuple[int, int]:
    """First and last line of the statement that a line is in, by brackets and backslashes."""
    first = line
    while first > 1 and lines[first - 2].rstrip().endswith("\\"):
        first -= 1
    last = first
    while last < len(lines) and last - first <= _LONGEST:
        text = _LONG_STRINGS.sub("0", "\n".join(lines[first - 1 : last]))
        open_string = '"""' in text or "'''" in text
        bare = _COMMENT.sub("", _STRINGS.sub("0", text))
        depth = sum(map(bare.count, "([{")) - sum(map(bare.count, ")]}"))
        if depth <= 0 and not open_string and not lines[last - 1].rstrip().endswith("\\"):
            break
        last += 1
    return first, max(last, line)


_STRINGS = re.compile(
    r"""(?P<q>"{3}|'{3})(?:\\[\s\S]|(?!(?P=q))[\s\S])*(?P=q)|(?P<p>"|')(?:\\[\s\S]|(?!(?P=p))[^\n])*(?P=p)"""
)
_LONG_STRINGS = re.compile(r"""("{3}|\'{3}).*?\1""", re.S)
_PRINTS = re.compile(r"[ \t]*print\b(?!\s*[(=.])")
_COMMENT = re.compile(r"#.*")
_HEAD = r"^(?P<head>[ \t]*(?:(?:if|elif|else|for|while|try|except|finally|with)\b[^\n]*?:[ \t]*)?)"


def _print(text: str) -> str:
    """``print x, y``, ``print >>file, x``, ``print``; the rest of the line is what is printed."""
    found = re.match(_HEAD + r"print\b(?P<rest>.*)\Z", text, re.S)
    if found is None:
        return text
    rest, comment = _split_comment(found["rest"])
    rest = rest.strip().rstrip(";").strip()
    into = re.match(r">>\s*([\w.\[\]()'\"]+)\s*(?:,|\Z)", rest)
    if into is not None:
        rest = rest[into.end() :].strip()
    elif rest.startswith("(") and _closes_at_end(rest):
        return text  # a call already
    arguments = [part for part in (rest.rstrip(","), f"file={into[1]}" if into else "") if part]
    joined = ", ".join(arguments).replace("\\\n", "\n")
    return f"{found['head']}print({joined}){comment}"


def _closes_at_end(text: str) -> bool:
    """Whether the bracket that a text begins with closes at its end."""
    bare = _STRINGS.sub(lambda m: "_" * len(m[0]), text)
    depth = 0
    for at, character in enumerate(bare):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0:
            return at == len(bare) - 1
    return False


def _split_comment(text: str) -> tuple[str, str]:
    """A statement, and the comment at the end of its last line."""
    bare = _STRINGS.sub(lambda m: "_" * len(m[0]), text)
    at = bare.find("#", bare.rfind("\n") + 1)
    return (text, "") if at < 0 else (text[:at], "  " + text[at:])


def _substitute(pattern: str, new: str) -> Callable[[str], str]:
    """Outside of strings."""
    compiled = re.compile(pattern)

    def rule(text: str) -> str:
        kept: list[str] = []

        def hidden(found: re.Match[str]) -> str:
            kept.append(found[0])
            return f"\0{len(kept) - 1}\0"

        changed = compiled.sub(new, _STRINGS.sub(hidden, text))
        return re.sub("\0(\\d+)\0", lambda found: kept[int(found[1])], changed)

    return rule


def _parameters(text: str) -> str:
    """``def f(a, (b, c)):`` and ``lambda (a, b): …``."""
    if not re.search(r"\b(?:def\s+\w+\s*\(|lambda\b)", text):
        return text
    text = re.sub(r"\blambda\s*\(([\w\s,]*)\)\s*:", r"lambda \1:", text)
    return re.sub(
        r"(\bdef\s+\w+\s*\([^()]*)\(([\w\s,]*)\)",
        lambda found: found[1] + found[2].strip(" ,"),
        text,
    )


_RULES: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("a print statement", _print),
    (
        "except with a comma",
        _substitute(r"\bexcept\s+([\w.]+|\([^)]*\))\s*,\s*(\w+)\s*:", r"except \1 as \2:"),
    ),
    (
        "raise with a comma",
        _substitute(r"\braise\s+([\w.]+)\s*,\s*([^,\n]+)(?:,[^\n]*)?", r"raise \1(\2)"),
    ),
    (
        "an exec statement",
        _substitute(r"(?m)^(\s*)exec\s+([^\n(][^\n]*?)\s+in\s+([^\n]+)$", r"\1exec(\2, \3)"),
    ),
    ("an exec statement", _substitute(r"(?m)^(\s*)exec\s+([^\n(][^\n]*)$", r"\1exec(\2)")),
    ("backticks", _substitute(r"`([^`]*)`", r"repr(\1)")),
    ("<> for !=", _substitute(r"<>", "!=")),
    (
        "an octal number that begins with 0",
        _substitute(r"(?<![\w.])0([0-7]+)[lL]?(?![\w.])", r"0o\1"),
    ),
    ("a long number", _substitute(r"(?<![\w.])(\d+|0[xX][0-9a-fA-F]+)[lL]\b", r"\1")),
    ("a ur string", _substitute(r"\b[uU][rR](?=\0)", "r")),
    ("parameters in brackets", _parameters),
)


def _blank(lines: list[str], line: int, what: str, found: Parsed) -> None:
    """Put a statement that does nothing in the place of a line that cannot be read."""
    while line > 1 and not lines[line - 1].strip():
        line -= 1
    text = lines[line - 1]
    if line in found.blanked:  # what took its place does not fit either: whatever is left goes
        for at in range(len(lines)):
            found.blanked.setdefault(at + 1, lines[at])
        lines[:] = [""]
        return
    found.blanked[line] = text
    found.broken.append((line, what))
    indent = text[: len(text) - len(text.lstrip())]
    bare = _COMMENT.sub("", _STRINGS.sub('""', text)).rstrip()
    if "indent" in what:  # of the block around it
        indent = _indent_before(lines, line)
    lines[line - 1] = (
        f"{indent}if True:" if bare.endswith(":") and "indent" not in what else f"{indent}pass"
    )


def _indent_before(lines: list[str], line: int) -> str:
    for text in reversed(lines[: line - 1]):
        if text.strip():
            indent = text[: len(text) - len(text.lstrip())]
            return indent + "    " if text.rstrip().endswith(":") else indent
    return ""
