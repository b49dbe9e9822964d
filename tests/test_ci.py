"""Hosted CI, pre-commit and the Makefile hold a change to the same things."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAKEFILE = (ROOT / "Makefile").read_text()
WORKFLOW = (ROOT / ".github/workflows/ci.yml").read_text()
HOOKS = (ROOT / ".pre-commit-config.yaml").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def recipe(target: str) -> str:
    """The lines of a target of the Makefile, without those that continue over two."""
    found = re.search(rf"^{target}:[^\n]*\n((?:\t[^\n]*\n)+)", MAKEFILE, re.MULTILINE)
    assert found is not None, f"the Makefile has no target {target!r}"
    return found[1].replace("$(BIN)", ".venv/bin")


def commands(yaml: str, key: str) -> list[str]:
    """What stands behind `key:`, which these files keep on one line."""
    return re.findall(rf"^ *(?:- )?{key}: (.+)$", yaml, re.MULTILINE)


def test_the_workflow_runs_targets_of_the_makefile_and_all_that_ci_runs() -> None:
    runs = commands(WORKFLOW, "run")
    targets = [command.removeprefix("make ") for command in runs]
    assert all(command.startswith("make ") for command in runs)
    for target in targets:
        assert recipe(target)
    (loop,) = re.findall(r"for target in (.+); do", (ROOT / ".ci/run").read_text())
    assert sorted(targets) == sorted(loop.split())


def test_the_workflow_takes_every_python_from_the_oldest_that_is_supported() -> None:
    (matrix,) = re.findall(r"python: \[(.+)\]", WORKFLOW)
    versions = re.findall(r'"3\.(\d+)"', matrix)
    oldest = PROJECT["project"]["requires-python"].removeprefix(">=3.")
    assert versions[0] == oldest
    assert [int(each) for each in versions] == [*range(int(versions[0]), int(versions[-1]) + 1)]
    for single in re.findall(r'python-version: "3\.(\d+)"', WORKFLOW):
        assert single in versions
    assert PROJECT["tool"]["mypy"]["python_version"] == f"3.{oldest}"
    assert PROJECT["tool"]["ruff"]["target-version"] == f"py3{oldest}"


def test_a_change_of_what_is_installed_makes_the_workflows_cache_anew() -> None:
    assert WORKFLOW.count("cache: pip") == WORKFLOW.count("actions/setup-python@")
    assert WORKFLOW.count("cache-dependency-path:") == WORKFLOW.count("cache: pip")


@pytest.mark.parametrize("command", commands(HOOKS, "entry"))
def test_a_hook_runs_what_make_check_runs_with_the_same_tool(command: str) -> None:
    """The one in .venv, whose version pyproject.toml asks for."""
    tool = command.split()[0].removeprefix(".venv/bin/")
    dev = PROJECT["project"]["optional-dependencies"]["dev"]
    assert any(re.match(rf"{tool}\b", requirement) for requirement in dev)
    asked = command.removesuffix(" --fix")
    checked = (
        recipe("check").replace("format --check .", "format").replace("ruff check .", "ruff check")
    )
    assert f"\t{asked}\n" in checked


def test_every_tool_of_make_check_has_a_hook() -> None:
    tools = set(re.findall(r"\.venv/bin/(ruff check|ruff format|mypy)", recipe("check")))
    hooks = commands(HOOKS, "entry")
    assert {tool for tool in tools for hook in hooks if f"/{tool}" in hook} == tools


def test_the_page_for_contributors_names_both() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    for path in (".github/workflows/ci.yml", ".pre-commit-config.yaml"):
        assert f"`{path}`" in page
