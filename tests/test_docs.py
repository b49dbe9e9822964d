"""The documents name files, targets and commands that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("examples/**/*.md"), *ROOT.glob("benchmarks/**/*.md")]
)
TOP = ("src/", "tests/", "examples/", "benchmarks/", "scripts/", ".ci/")
TARGETS = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("doc", DOCS, ids=lambda doc: str(doc.relative_to(ROOT)))
def test_named_paths_exist(doc: Path) -> None:
    named = [path for path in re.findall(r"`([\w./*-]+)`", doc.read_text()) if path.startswith(TOP)]
    assert [path for path in named if not [*ROOT.glob(path.rstrip("/"))]] == []


@pytest.mark.parametrize("doc", DOCS, ids=lambda doc: str(doc.relative_to(ROOT)))
def test_links_lead_somewhere(doc: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", doc.read_text())
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (doc.parent / link).exists()] == []


@pytest.mark.parametrize("doc", DOCS, ids=lambda doc: str(doc.relative_to(ROOT)))
def test_named_make_targets_exist(doc: Path) -> None:
    named = re.findall(r"(?:^|`)make (?:\w+=\S+ )*(\w+)", doc.read_text(), re.MULTILINE)
    assert [target for target in named if target not in TARGETS] == []


def test_the_readme_starts_with_the_demo_and_then_the_tests() -> None:
    commands = re.findall(r"^make \w+", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert commands[:2] == ["make demo", "make test"]
