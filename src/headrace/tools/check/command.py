"""`headrace check PATH…`: the names of TensorFlow in programs that headrace does not have, by file and line.

Reads scripts, notebooks and folders of them, and runs nothing of what it reads.

Called by: main.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from headrace.tools.commands import ExitCode, Streams, UsageError, command

if TYPE_CHECKING:
    from headrace.tools.check.lookup import Lookup
    from headrace.tools.check.sources import Source


@dataclass(frozen=True)
class Finding:
    """Something to tell of a line.

    kind: "missing", "unsupported", "python 2", "unreadable".  name: ``tf.train.Saver``, or None.
    guarded: the program looks whether it is there, so it is not counted.
    """

    file: str
    cell: int | None
    line: int
    kind: str
    name: str | None
    message: str
    guarded: bool = False

    @property
    def place(self) -> str:
        """For people: the file, its cell if it is a notebook, the line."""
        if self.cell is None:
            return f"{self.file}:{self.line}"
        return f"{self.file}:cell {self.cell}:{self.line}"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("paths", nargs="+", metavar="PATH", help="Python file, notebook (.ipynb) or folder of them")
    add("--json", action="store_true", help="as JSON")
    add(
        "--guarded",
        action="store_true",
        help="list also what the program looks for before it uses it",
    )


@command("check", "list the names in programs that headrace does not have", _add_arguments)
def check(args: argparse.Namespace, streams: Streams) -> int:
    """Exit codes: 0 nothing is missing, 1 something is, or a file is no Python 3, 2 there is nothing to read."""
    from headrace.tools.check import sources
    from headrace.tools.check.lookup import Lookup

    lookup = Lookup()
    findings: list[Finding] = []
    names: set[str] = set()
    count = 0
    try:
        for path in sources.files(args.paths):
            count += 1
            try:
                source = sources.read(path)
            except sources.UnreadableError as error:
                findings.append(Finding(str(path), None, 1, "unreadable", None, str(error)))
                continue
            found, used = examined(source, lookup)
            findings.extend(found)
            names.update(used)
    except FileNotFoundError as error:
        raise UsageError(f"there is no {error}") from None
    if not count:
        raise UsageError(f"there are no Python files and no notebooks in {', '.join(args.paths)}")
    if args.json:
        _write_json(findings, count, names, streams)
    else:
        _write_text(findings, count, names, args.guarded, streams)
    return ExitCode.FAILED if any(not each.guarded for each in findings) else ExitCode.OK


def examined(source: Source, lookup: Lookup) -> tuple[list[Finding], set[str]]:
    """What there is to tell of a source, by line, and the names of TensorFlow that it uses."""
    from headrace.tools.check.names import Reader
    from headrace.tools.check.python2 import parse
    from headrace.tools.check.textual import uses_in_text

    parsed = parse(source.text)
    reader = Reader(lookup.exists, lookup.public)
    uses = [*reader.read(parsed.tree), *uses_in_text(parsed.tree, parsed.blanked)]
    findings = []
    for use in uses:
        missing = lookup.missing(use.path)
        if missing is not None:
            cell, line = source.place(use.line)
            findings.append(
                Finding(
                    source.path,
                    cell,
                    line,
                    missing.kind,
                    _shown(use.path),
                    missing.message,
                    use.guarded,
                )
            )
    findings += _told(source, "python 2", parsed.old, "Python 3 does not understand it")
    findings += _told(source, "unreadable", parsed.broken, "it cannot be read")
    findings.sort(key=lambda each: (each.cell or 0, each.line, each.name or ""))
    return findings, {_shown(use.path) for use in uses}


def _told(source: Source, kind: str, lines: list[tuple[int, str]], what: str) -> list[Finding]:
    """One finding for all lines of a kind: the first, and how many more there are."""
    if not lines:
        return []
    by_kind = Counter(text for _, text in lines)
    first, text = min(lines)
    cell, line = source.place(first)
    more = len(lines) - 1
    others = [f"{number} x {each}" for each, number in by_kind.most_common()]
    rest = f"; {more} more such line{'s' if more > 1 else ''} ({', '.join(others)})" if more else ""
    return [Finding(source.path, cell, line, kind, None, f"{text}: {what}{rest}")]


def _shown(path: str) -> str:
    _, dot, rest = path.partition(".")
    return f"tf{dot}{rest}"


def _summary(findings: list[Finding], count: int, names: set[str]) -> dict[str, Any]:
    counted = [each for each in findings if each.name is not None and not each.guarded]
    return {
        "files": count,
        "names": len(names),
        "missing_names": len({each.name for each in counted}),
        "places": len(counted),
        "guarded": sum(each.guarded for each in findings),
        "python2_files": len({each.file for each in findings if each.kind == "python 2"}),
        "unreadable_files": len({each.file for each in findings if each.kind == "unreadable"}),
    }


def _write_json(findings: list[Finding], count: int, names: set[str], streams: Streams) -> None:
    import json

    document = {
        "findings": [asdict(each) for each in findings],
        "total": _summary(findings, count, names),
    }
    streams.out.write(json.dumps(document, indent=2) + "\n")


def _write_text(
    findings: list[Finding], count: int, names: set[str], guarded: bool, streams: Streams
) -> None:
    for each in findings:
        if not each.guarded or guarded:
            said = each.message
            if each.name is None or each.name not in said:
                said = f"{each.name or each.kind}: {said}"
            note = "(looked for first) " if each.guarded else ""
            streams.out.write(f"{each.place}: {note}{said}\n")
    total = _summary(findings, count, names)
    streams.out.write(_sentence(total) + "\n")


def _sentence(total: dict[str, Any]) -> str:
    names = _number(total["names"], "name")
    said = f"nothing is missing of {names}"
    if total["missing_names"]:
        places = _number(total["places"], "place")
        said = f"{total['missing_names']} of {names} missing, in {places}"
    parts = [said]
    if total["guarded"]:
        parts.append(
            f"{_number(total['guarded'], 'use')} that the program looks for first not counted"
        )
    if total["python2_files"]:
        parts.append(f"{_number(total['python2_files'], 'file')} of Python 2")
    if total["unreadable_files"]:
        parts.append(f"{_number(total['unreadable_files'], 'file')} that cannot be read as a whole")
    return f"{_number(total['files'], 'file')}: {'; '.join(parts)}"


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
