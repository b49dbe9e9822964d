"""The documents name files, targets, options and variables that exist, and their programs run."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

import headrace as tf
from headrace.tools.main import main
from tests.ports import own_ports

ROOT = Path(__file__).resolve().parent.parent
DOCS = sorted(
    [
        *ROOT.glob("*.md"),
        *(
            doc
            for name in ("docs", "examples", "benchmarks")
            for doc in ROOT.glob(f"{name}/**/*.md")
        ),
    ]
)
TOP = ("src/", "tests/", "examples/", "benchmarks/", "scripts/", ".ci/")
COMMANDS = ("launch", "serve", "inspect", "top", "demo", "explain")
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
def test_links_to_headings_lead_to_some(doc: Path) -> None:
    links = re.findall(r"\]\(([^):#]*)#([^)]+)\)", doc.read_text())
    assert [
        link for link in links if link[1] not in anchors(doc.parent / link[0] if link[0] else doc)
    ] == []


def anchors(doc: Path) -> set[str]:
    """Of its headings, as code hosts make them."""
    headings = re.findall(r"^#+ (.*)$", doc.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("doc", DOCS, ids=lambda doc: str(doc.relative_to(ROOT)))
def test_named_make_targets_exist(doc: Path) -> None:
    named = re.findall(r"(?:^|`)make (?:\w+=\S+ )*(\w+)", doc.read_text(), re.MULTILINE)
    assert [target for target in named if target not in TARGETS] == []


def test_the_readme_starts_with_the_demo_and_then_the_tests() -> None:
    commands = re.findall(r"^make \w+", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert commands[:2] == ["make demo", "make test"]


def test_variables_of_the_environment_are_those_of_the_documents() -> None:
    """Those of the oracles and of the browser are the Makefile's."""
    pattern = re.compile(r"\bHEADRACE_[A-Z_]*[A-Z]\b")
    source = {
        name for path in ROOT.glob("src/**/*.py") for name in pattern.findall(path.read_text())
    }
    named = {name for doc in DOCS for name in pattern.findall(doc.read_text())}
    of_makefile = {
        "HEADRACE_ORACLE_PYTHON",
        "HEADRACE_ESTIMATOR_ORACLE_PYTHON",
        "HEADRACE_CHROMIUM",
    }
    assert named - source == of_makefile
    operations = pattern.findall((ROOT / "docs" / "operations.md").read_text())
    assert source - set(operations) == {"HEADRACE_VERSION"}  # a number in the source


def test_named_options_of_commands_exist() -> None:
    known = set()
    for command in COMMANDS:
        out = io.StringIO()
        assert main([command, "--help"], out) == 0
        known.update(re.findall(r"--[a-z-]+", out.getvalue()))
    named = {
        option
        for doc in DOCS
        for line in doc.read_text().splitlines()
        if re.search(rf"headrace ({'|'.join(COMMANDS)})\b", line)
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*\b(?![-*])", line.partition(" -- ")[0])
    }
    assert named <= known
    assert "--cluster" in named


def blocks(doc: str, begins: Callable[[str], bool]) -> list[str]:
    """Programs in a document, fenced or indented, that begin so."""
    text = (ROOT / doc).read_text()
    found = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    found += [textwrap.dedent(block) for block in re.findall(r"(?:^    .*\n)+", text, re.MULTILINE)]
    return [block for block in found if begins(block)]


def test_the_program_of_the_readme_runs() -> None:
    """With ports of its own, and the other server in this process."""
    (program,) = blocks("README.md", lambda text: text.startswith("import headrace"))
    addresses = [f"127.0.0.1:{port}" for port in own_ports(2)]
    for written, address in zip(("localhost:2222", "localhost:2223"), addresses, strict=True):
        assert written in program
        program = program.replace(written, address)
    names: dict[str, object] = {}
    with (
        tf.train.Server({"ps": addresses[:1], "worker": addresses[1:]}, "ps", 0) as ps,
        tf.Graph().as_default(),
    ):
        exec(compile(program, "README.md", "exec"), names)
        server, weights = names["server"], names["weights"]
        assert isinstance(server, tf.train.Server)
        with server, tf.Session(ps.target) as session:
            assert session.run(weights).shape == (784, 10)


def test_the_program_of_the_security_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program,) = blocks("docs/security.md", lambda text: text.startswith("security ="))
    (tmp_path / "secret").write_text("0123456789abcdef")
    monkeypatch.chdir(tmp_path)
    address = f"127.0.0.1:{own_ports(1)[0]}"
    names = {"tf": tf, "cluster": {"ps": [address]}}
    exec(compile(program.replace("host:2222", address), "docs/security.md", "exec"), names)
    server, session = names["server"], names["session"]
    assert isinstance(server, tf.train.Server)
    assert isinstance(session, tf.Session)
    with server, tf.Graph().as_default(), session:
        assert session.list_devices()
