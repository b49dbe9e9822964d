"""The house rules that a machine can check: imports point one way, files have headers and stay readable."""

from __future__ import annotations

import ast
import gc
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.sources import parse

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
ORDER = [
    "base",
    "codec",
    "run",
    "graph",
    "ops",
    "plan",
    "serve",
    "client",
    "library",
    "training",
    "unmodified",
    "names",
    "tools",
]
"""Lowest first.  "names" are the public namespaces: all that is in none of the other folders."""

MAX_LINES = 600
MAX_FUNCTION_LINES = 60  # without the signature: TensorFlow's have two dozen arguments
FILES = sorted((SRC / "headrace").rglob("*.py"))
ROOT_NAMES = SRC / "headrace/__init__.py"


@cache
def parsed(path: Path) -> ast.Module:
    """A file of the source, which many rules look at; it stays, and the collector need not look at it."""
    tree = parse(path.read_text())
    gc.freeze()
    return tree


@cache
def nodes(path: Path) -> dict[type[ast.AST], list[Any]]:
    """What is in a file, by kind: there are a million nodes in all, and few of the kinds that a rule asks for."""
    found: dict[type[ast.AST], list[Any]] = defaultdict(list)
    for node in ast.walk(parsed(path)):
        found[type(node)].append(node)
    return found


def generated(path: Path) -> bool:
    return path.parent.name == "protos"


def dotted(path: Path, src: Path) -> str:
    """headrace.run.scope, headrace.run.__init__"""
    return ".".join(path.relative_to(src).with_suffix("").parts)


def folder(module: str) -> str:
    """Where in ORDER a dotted module name lives."""
    second = module.split(".")[1:2]
    if second == ["__main__"]:  # the command
        return "tools"
    return second[0] if second and second[0] in ORDER else "names"


def imported(path: Path, package: str) -> Iterator[tuple[int, str]]:
    """(line, module) of every headrace import in the file, function-level and by string included."""
    there = nodes(path)
    found = [(node.lineno, alias.name) for node in there[ast.Import] for alias in node.names]
    for node in there[ast.ImportFrom]:
        found += [(node.lineno, name) for name in from_import(node, package)]
    for node in there[ast.Call]:
        if called(node) in ("import_module", "__import__"):
            named = [arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant)]
            found += [(node.lineno, name) for name in named]
    yield from (each for each in found if each[1].split(".")[0] == "headrace")


def from_import(node: ast.ImportFrom, package: str) -> list[str]:
    """`from headrace import run` names headrace.run; `from . import x` is taken from its package."""
    base = node.module or ""
    if node.level:
        parents = package.split(".")
        base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [base])])
    return [f"{base}.{alias.name}" for alias in node.names] if base == "headrace" else [base]


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def upward_imports(files: list[Path], src: Path) -> list[str]:
    """Violations as 'file:line imports module (from folder)'."""
    found = []
    for path in files:
        module = dotted(path, src)
        package = (
            module.removesuffix(".__init__")
            if path.stem == "__init__"
            else module.rpartition(".")[0]
        )
        here = folder(module.removesuffix(".__init__"))
        for line, name in imported(path, package):
            if ORDER.index(folder(name)) > ORDER.index(here):
                found.append(f"{path.relative_to(src)}:{line} in {here} imports {name}")
    return found


def test_imports_only_point_down() -> None:
    assert upward_imports(FILES, SRC) == []


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        ("from headrace.serve import master", True),
        ("def f():\n    import headrace.client.session", True),
        ("from headrace import ops", True),
        ("from ..training import saver", True),
        ("from .. import training", True),
        ("import importlib\nimportlib.import_module('headrace.plan')", True),
        ("import headrace", True),
        ("from headrace.run import scope", False),
        ("from . import registry", False),
        ("from ..base import errors", False),
        ("import numpy", False),
    ],
)
def test_the_import_check_sees_all_ways_to_import(tmp_path: Path, line: str, bad: bool) -> None:
    path = tmp_path / "headrace/graph/sample.py"
    path.parent.mkdir(parents=True)
    path.write_text(line)
    assert bool(upward_imports([path], tmp_path)) == bad


STOREYS = [
    {"cluster", "rpc"},
    {"lane", "grpc", "http"},
    {"connect"},
    {"observe"},
    {"worker"},
    {"master"},
    {"server"},
]
"""Of serve, lowest first: imports point down, and those of one storey do not know each other."""

TRANSPORTS = {"lane", "grpc"}


def storey(module: str) -> str:
    """headrace.serve.rpc.messages is in rpc, headrace.serve.server in server; else ""."""
    parts = module.split(".")
    return parts[2] if parts[:2] == ["headrace", "serve"] and len(parts) > 2 else ""


def storeys_left(files: list[Path], src: Path) -> list[str]:
    """Imports of serve's rooms that point up, sideways, or past `connect` to a transport, wherever they stand."""
    height = {room: number for number, rooms in enumerate(STOREYS) for room in rooms}
    found = []
    for path in files:
        module = dotted(path, src).removesuffix(".__init__")
        here = storey(module)
        for node in nodes(path)[ast.Import] + nodes(path)[ast.ImportFrom]:
            names = [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{name}" for name in names if node.module]
            for there in filter(None, map(storey, names)):
                down = not here or height[there] < height[here] or there == here
                past = there in TRANSPORTS and here not in (*TRANSPORTS, "connect")
                if not down or past:
                    found.append(f"{path.relative_to(src)}:{node.lineno} imports {there}")
    return found


def test_serve_is_built_in_storeys_and_only_connect_knows_transports() -> None:
    assert storeys_left(FILES, SRC) == []


@pytest.mark.parametrize(
    ("where", "line", "bad"),
    [
        ("serve/rpc", "from headrace.serve.connect import peers", True),
        ("serve/lane", "from headrace.serve.grpc.client import GrpcPeer", True),
        ("serve/worker", "def f():\n    from headrace.serve.lane import client", True),
        ("serve/master", "from headrace.serve import grpc", True),
        ("serve/connect", "import headrace.serve.server", True),
        ("client", "import headrace.serve.lane.client", True),
        ("serve/connect", "from headrace.serve.lane.transport import TRANSPORT", False),
        ("serve/lane", "from headrace.serve.lane.wire import VERSION", False),
        ("serve/grpc", "import grpc", False),
        ("client", "from headrace.serve.connect.peers import connect", False),
    ],
)
def test_the_check_of_storeys_sees_all_ways_to_import(
    tmp_path: Path, where: str, line: str, bad: bool
) -> None:
    path = tmp_path / "headrace" / where / "sample.py"
    path.parent.mkdir(parents=True)
    path.write_text(line)
    assert bool(storeys_left([path], tmp_path)) == bad


def circles(src: Path) -> list[list[str]]:
    """Modules of serve that import each other, directly or not, at whatever level; only for types does not count."""
    imports: dict[str, set[str]] = {}
    for path in (src / "headrace/serve").rglob("*.py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            test = node.test if isinstance(node, ast.If) else None
            if isinstance(test, ast.Name) and test.id == "TYPE_CHECKING":
                assert isinstance(node, ast.If)
                node.body = [ast.Pass()]
        mine = imports.setdefault(dotted(path, src), set())
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                mine.update((node.module, *(f"{node.module}.{a.name}" for a in node.names)))
    found = []
    for module in sorted(imports):
        seen, ahead = set[str](), [module]
        while ahead:
            new = (imports.get(ahead.pop(), set()) & imports.keys()) - seen
            seen |= new
            ahead += new
        if module in seen:
            found.append([module, *sorted(seen)])
    return found


def test_no_module_of_serve_imports_itself_by_way_of_others() -> None:
    assert circles(SRC) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SRC)))
def test_every_file_says_what_it_is(path: Path) -> None:
    tree = parsed(path)
    assert ast.get_docstring(tree) or path.name.endswith("_pb2.py"), "needs a module docstring"


def test_files_stay_readable() -> None:
    lengths = {
        str(p.relative_to(SRC)): p.read_text().count("\n")
        for p in FILES
        if not generated(p) and p != ROOT_NAMES  # a line a name
    }
    assert {name: n for name, n in lengths.items() if n > MAX_LINES} == {}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_functions_stay_readable_and_the_formatter_is_trusted(path: Path) -> None:
    if generated(path):
        return
    text = path.read_text()
    assert not re.search(r"# fmt: (skip|off)", text), "change the shape of the code"
    lengths = {
        node.name: (node.end_lineno or 0) - node.body[0].lineno + 1
        for node in nodes(path)[ast.FunctionDef] + nodes(path)[ast.AsyncFunctionDef]
    }
    assert {name: n for name, n in lengths.items() if n > MAX_FUNCTION_LINES} == {}


OPENS = {
    "headrace/run/readers/files.py": "the one place",
    "headrace/run/devices/gpus.py": "asks the driver whether there are GPUs",
    "headrace/run/exec/measured.py": "the user's cache: names that no graph has a say in",
    "headrace/run/state/shared_buffers.py": "memory files have no names",
    "headrace/ops/io/record_files.py": "for programs, outside of any graph: it has no ops",
    "headrace/graph/operation.py": "knows its own folder by name",
}
"""Files of the folders that kernels live in which may work with files of the host."""

FILE_MODULES = {"glob", "lmdb", "mmap", "pathlib", "shutil", "tempfile"}
FILE_CALLS = {
    "access", "chmod", "exists", "fdopen", "glexists", "isdir", "isfile", "lexists", "link", "listdir", "lstat",
    "makedirs", "memmap", "mkdir", "open", "readlink", "realpath", "remove", "removedirs", "rename", "replace",
    "rmdir", "samefile", "scandir", "stat", "symlink", "truncate", "unlink", "walk", "load", "save", "fromfile",
    "loadtxt", "savetxt", "genfromtxt", "tofile",
}  # fmt: skip
OWNERS = {"os", "path", "io", "np", "numpy"}


def file_access(path: Path) -> Iterator[str]:
    """'line: what' for all that looks like work with files of the host."""
    there = nodes(path)
    for node in there[ast.Import] + there[ast.ImportFrom]:
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            called = names if node.module in ("os", "os.path", "io") else []
            names = [node.module or "", *(name for name in called if name in FILE_CALLS)]
        for name in names:
            if name.split(".")[0] in FILE_MODULES | FILE_CALLS:
                yield f"{node.lineno}: imports {name}"
    for node in there[ast.Name]:
        if node.id == "open":
            yield f"{node.lineno}: open"
    for node in there[ast.Attribute]:
        if node.attr in FILE_CALLS:
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else None
            if (owner or getattr(node.value, "id", "")) in OWNERS:
                yield f"{node.lineno}: {ast.unparse(node)}"


def test_kernels_open_files_in_one_place_only() -> None:
    assert [
        f"{path.relative_to(SRC)}:{access}"
        for path in FILES
        if folder(dotted(path, SRC)) in ("codec", "run", "graph", "ops", "plan")
        and str(path.relative_to(SRC)) not in OPENS
        for access in file_access(path)
    ] == []


def test_what_opens_files_for_programs_has_no_ops() -> None:
    text = (SRC / "headrace/ops/io/record_files.py").read_text()
    assert "registry" not in text


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("open(path)", True),
        ("f = open", True),
        ("os.open(path, 0)", True),
        ("io.open(path)", True),
        ("from os import open as f", True),
        ("import pathlib", True),
        ("from pathlib import Path", True),
        ("os.path.exists(path)", True),
        ("os.listdir(path)", True),
        ("np.load(path)", True),
        ("files.open(path, 'rb')", False),
        ("os.fsdecode(path)", False),
    ],
)
def test_the_check_for_files_sees_all_ways_to_open_one(
    tmp_path: Path, line: str, seen: bool
) -> None:
    path = tmp_path / "sample.py"
    path.write_text(line)
    assert bool(list(file_access(path))) == seen


def test_public_namespaces_hold_names_and_no_logic() -> None:
    logic = [
        f"{path.relative_to(SRC)}:{node.lineno}"
        for path in FILES
        if folder(dotted(path, SRC)) == "names" and path.name != "__main__.py"
        for node in parsed(path).body
        if isinstance(
            node, ast.FunctionDef | ast.ClassDef | ast.For | ast.While | ast.With | ast.Try
        )
    ]
    assert logic == []
