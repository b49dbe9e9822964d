"""The changelog keeps its form: sections by kind, lines by topic, each once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

LINES = (Path(__file__).parent.parent / "CHANGELOG.md").read_text().splitlines()
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def test_every_line_is_in_a_section_and_below_a_topic() -> None:
    kinds: list[str] = []
    topic = ""
    for line in LINES[LINES.index("## [Unreleased]") + 1 :]:
        if line.startswith("### "):
            kinds.append(line.removeprefix("### "))
            topic = ""
        elif line.startswith("#### "):
            topic = line
        elif line.startswith("- "):
            assert kinds, line
            assert topic, line
    assert kinds == [kind for kind in KINDS if kind in kinds]


def test_nothing_is_said_twice() -> None:
    entries = re.findall(r"^- (.+)", "\n".join(LINES), re.MULTILINE)
    assert [entry for entry, times in Counter(entries).items() if times > 1] == []
    assert len(entries) > 150
