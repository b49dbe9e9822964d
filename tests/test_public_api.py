"""The public namespaces hold exactly the documented names, and importing them is cheap."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import headrace as tf
from headrace.base.version import HEADRACE_VERSION

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "headrace"
INSIDE = {
    "base",
    "client",
    "codec",
    "contrib",
    "graph",
    "library",
    "ops",
    "plan",
    "python",
    "run",
    "serve",
    "tools",
}
INSIDE |= {"training", "unmodified"}
"""Folders that are no namespaces."""
NAMESPACES = sorted(
    ".".join(("headrace", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(
        ".__init__"
    )
    for path in PACKAGE.rglob("[a-z]*.py")
    if path.relative_to(PACKAGE).parts[0] not in INSIDE
) + sorted(
    f"headrace.{path.parent.relative_to(PACKAGE)}".replace("/", ".").removesuffix("..")
    for path in PACKAGE.rglob("__init__.py")
    if path.relative_to(PACKAGE).parts[0] not in INSIDE
)
BY_REGISTRY = {"headrace.raw_ops"}  # what is in the registry (tests/unmodified/test_raw_ops.py)
NEVER_BY_IMPORT = ("grpc", "rich", "asyncio", "multiprocessing", "unittest", "http.client")
"""Modules that only some programs need and that take their time to load."""


def documented() -> dict[str, set[str]]:
    """Names by namespace, as docs/api.md lists them."""
    found: dict[str, set[str]] = {}
    for section in (ROOT / "docs" / "api.md").read_text().split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        name = title.partition(":")[0].replace("tf", "headrace", 1)
        found[name] = set(re.findall(r"`(\w+)`", body))
    return found


@pytest.mark.parametrize("name", NAMESPACES)
def test_the_public_names_are_the_documented_ones(name: str) -> None:
    module = importlib.import_module(name)
    public = {n for n in module.__all__ if not isinstance(getattr(module, n), ModuleType)}
    assert public == documented().get(name), "run `.venv/bin/python scripts/api.py`"


def test_no_documented_namespace_is_missing() -> None:
    assert set(documented()) == set(NAMESPACES)


@pytest.mark.parametrize("name", [each for each in NAMESPACES if each not in BY_REGISTRY])
def test_a_namespace_holds_what_it_lists_and_nothing_else(name: str) -> None:
    module = importlib.import_module(name)
    assert len(set(module.__all__)) == len(module.__all__)
    listed = {each: getattr(module, each) for each in module.__all__}  # lazy names are there now
    assert set(dir(module)) >= {*listed, "__name__", "__doc__"}
    visible = {
        each
        for each, value in vars(module).items()
        if not each.startswith("_")
        and each not in ("annotations", "TYPE_CHECKING")
        and not isinstance(value, ModuleType)
    }
    assert visible == {
        each
        for each, value in listed.items()
        if not each.startswith("_") and not isinstance(value, ModuleType)
    }


def test_the_registry_is_complete_after_the_import() -> None:
    """What the other files of ops hold are functions that make nodes, and no ops."""
    files = [path.stem for path in (PACKAGE / "ops").glob("[a-z]*.py")]
    script = f"""
import headrace, importlib
from headrace.graph.registry import OPS
known = set(OPS)
for file in {files}:
    importlib.import_module("headrace.ops." + file)
print(len(known), *set(OPS) - known)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    count, *late = done.stdout.split()
    assert int(count) > 100
    assert late == []


def test_programs_that_look_at_the_version_see_tensorflow_1() -> None:
    assert tf.__version__ == tf.VERSION
    assert [int(part) for part in tf.__version__.split(".")] == [1, 15, 5]
    assert "headrace" in tf.__git_version__
    assert tf.version.VERSION == tf.VERSION
    assert tf.version.headrace == HEADRACE_VERSION


def test_compat_v1_is_the_same_namespace() -> None:
    assert tf.compat.v1 is tf
