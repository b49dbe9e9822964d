"""What an op is stands in its block: no table of op names, and no comparison with one, anywhere else.

A table of names is out of date the day somebody adds an op like those in it; a trait is asked for where the op is
written (`headrace.base.traits`).
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.base import traits
from headrace.base.traits import ALIASES, MAY_WAIT, STATEFUL, Trait
from headrace.graph.registry import OPS, OpSpec, specs, traits_of
from tests.support.sources import parse

SOURCE = Path(headrace.__file__).parent
BLOCKS = ("ops",)  # where ops have their blocks
NAMESPACES = (
    "unmodified",
    "python",
    "base/replaced.py",
)  # lists of names of the API, which some ops share

ALLOWED = {
    "graph/build.py": "of all ops only Add and AddV2 take operands of two dtypes apart",
    "graph/const_value.py": "shape arithmetic of graphs, and TensorFlow's list of what constant_value sees",
    "graph/custom_gradient.py": "whose gradient is replaced, and the one question about a variable that reads none",
    "graph/frozen_handles.py": "what takes rows of a variable, and of a constant instead",
    "graph/freezing.py": "makes nodes of that name",
    "graph/graph_util.py": "TensorFlow's lists of what remove_training_nodes removes, and of variables' ops",
    "graph/handles.py": "the one op that gives several handles, whose attrs are lists",
    "library/variables/variables.py": "a slice of a variable can be assigned to",
    "plan/rules": "a rewrite rule names what it rewrites",
    "plan/partition.py": "makes the nodes of that name",
    "run/exec/outcome.py": "phrases of errors that single ops have",
    "serve/observe/causes.py": "the kind of a queue, as its task reports it",
    "tools/report/step.py": "colours for the names in a trace, whichever runtime wrote it",
    "library/contrib/summaries.py": "the activations of which TensorFlow counts what is cut",
    "training/device_setter.py": "TensorFlow's public list, with ops that headrace lacks",
}


def tables_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of each op that something is compared with, or that is listed."""
    nodes, parents = [tree], dict[ast.AST, ast.AST]()
    for node in nodes:
        for child in ast.iter_child_nodes(node):
            parents[child] = node
            nodes.append(child)
    for node in nodes:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        within = parents[node]
        if isinstance(within, ast.List) and is_public(parents[within]):
            continue
        keys = within.keys if isinstance(within, ast.Dict) else []
        if isinstance(within, ast.Attribute) and within.attr == "split":
            found = node.value.split()
        elif isinstance(within, ast.Compare | ast.Tuple | ast.Set | ast.List) or node in keys:
            found = [node.value]
        else:
            continue
        yield from ((node.lineno, name) for name in found if name in OPS)


CUTS = ("endswith", "startswith", "removesuffix", "removeprefix")


def endings_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of each beginning or end of op names by which something tells what an op is."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr not in CUTS:
            continue
        whose = re.sub(r"\.remove(suffix|prefix)\(.*?\)", "", ast.unparse(node.func.value))
        if not re.search(r"\b(op_?)?type$", whose):
            continue
        texts = [part for each in node.args for part in ast.walk(each)]
        for text in texts:
            if isinstance(text, ast.Constant) and re.search("[A-Za-z]", str(text.value)):
                yield node.lineno, str(text.value)


def names_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Both."""
    yield from tables_in(tree)
    yield from endings_in(tree)


def is_public(node: ast.AST) -> bool:
    """Whether it is the list of a module's public names, which some ops share."""
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"


def files() -> list[str]:
    """Those in folders; the ones beside them only name what is public."""
    found = [path.relative_to(SOURCE) for path in sorted(SOURCE.rglob("*.py"))]
    return [
        str(path)
        for path in found
        if len(path.parts) > 1 and path.parts[0] not in (*BLOCKS, *NAMESPACES)
    ]


@functools.cache
def words_of_files() -> dict[str, set[str]]:
    return {file: set(re.findall(r"\w+", (SOURCE / file).read_text())) for file in files()}


def test_ops_are_known_by_their_traits_and_not_by_tables_of_their_names() -> None:
    found = {file: list(names_in(parse((SOURCE / file).read_text()))) for file in files()}
    tables = {file: lines for file, lines in found.items() if lines}
    beside = {file: lines for file, lines in tables.items() if not file.startswith(tuple(ALLOWED))}
    assert beside == {}, "say it by a trait in the blocks of these ops (headrace.base.traits)"


@pytest.mark.parametrize("place", [place for place in ALLOWED if place.endswith(".py")])
def test_what_is_allowed_is_still_needed(place: str) -> None:
    assert list(names_in(ast.parse((SOURCE / place).read_text())))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("op.type == 'Const'", ["Const"]),
        ("op.type in ('Shape', 'Size')", ["Shape", "Size"]),
        ("_QUICK = frozenset('Add Sub'.split())", ["Add", "Sub"]),
        ("_RULES = {'Cast': 1}", ["Cast"]),
        ("get('Const')(value)", []),
        ("op.type == 'NoSuchOp'", []),
        ("op.type.endswith('Accumulator')", ["Accumulator"]),
        ("state.op_type.startswith(('Sparse', 'Resource'))", ["Sparse", "Resource"]),
        ("node.op.type.removesuffix('V2').endswith('Queue')", ["Queue", "V2"]),
        ("self.type.removeprefix('Resource')", ["Resource"]),
        ("type.startswith('_')", []),
        ("op.name.endswith('Queue')", []),
    ],
)
def test_a_table_or_an_ending_is_found(source: str, found: list[str]) -> None:
    assert [name for _, name in names_in(ast.parse(source))] == found


def all_traits() -> list[Trait]:
    return [value for value in vars(traits).values() if isinstance(value, Trait)]


def test_every_trait_is_named_as_it_is_written_and_says_what_it_promises() -> None:
    for name, value in vars(traits).items():
        if isinstance(value, Trait):
            assert value.name == name == repr(value)
            assert value.meaning


@pytest.mark.parametrize("trait", all_traits(), ids=repr)
def test_every_trait_is_some_ops_and_somebody_asks_for_it(trait: Trait) -> None:
    assert any(trait in spec.traits for spec in specs())
    asking = {file for file, words in words_of_files().items() if trait.name in words}
    assert asking > {"base/traits.py"}


def test_what_is_not_known_has_no_traits() -> None:
    assert traits_of("NoSuchOp") == traits_of(None) == frozenset()
    assert ALIASES in traits_of("Identity")


@pytest.mark.parametrize("trait", [STATEFUL, MAY_WAIT, traits.POLLS, traits.NEVER_FOLDED], ids=repr)
def test_what_is_not_the_same_twice_is_not_folded(trait: Trait) -> None:
    assert not OpSpec("Tried", "", "", "", kernel=None, shape=None, traits={trait}).foldable
    assert OpSpec("Tried", "", "", "", kernel=None, shape=None, traits={ALIASES}).foldable


def test_what_an_op_lends_is_said_once() -> None:
    spec = OpSpec("Tried", "", "", "", kernel=None, shape=None)
    assert spec.into(max) is max
    assert spec.into_fn is max
    with pytest.raises(ValueError, match="op Tried has a into_fn already"):
        spec.into(min)
