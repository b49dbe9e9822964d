"""Trees of nodes: by the scopes of their names, by what feeds them, by op type, by the lines that built them.

A tree's root stands for no node.  A node counts (`Tree.accounted`) if one of its types is asked for; it is shown if it
has as much as is asked for, or stands above one that is.
Called by: training.profiler.  Threads: any.
Source: TF 1.15 behaviour; tests compare messages with 2.21's
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from headrace.codec import protos as pb
from headrace.training.profiler.nodes import COSTS, Costs, Node

__all__: list[str] = []

ROOT: Final = "_TFProfRoot"
_SCOPE: Final = "_kTFScopeParent"
_GRAPH: Final = "_TFGraphParent"
FIELD: Final = {
    "bytes": "requested_bytes",
    "peak_bytes": "peak_bytes",
    "residual_bytes": "residual_bytes",
    "output_bytes": "output_bytes",
    "micros": "exec_micros",
    "accelerator_micros": "accelerator_exec_micros",
    "cpu_micros": "cpu_exec_micros",
    "params": "parameters",
    "float_ops": "float_ops",
}
"""From what options call it to the messages' fields."""


@dataclass
class Tree:
    """A place in a view, with its `nodes`.  own: what they cost; total: with what is beneath."""

    name: str
    types: list[str]
    nodes: list[Node] = field(default_factory=list)
    children: list[Tree] = field(default_factory=list)
    own: Costs = field(default_factory=Costs)
    total: Costs = field(default_factory=Costs)
    accounted: bool = False
    shown: list[Tree] = field(default_factory=list)


def _matches(patterns: Iterable[str], *texts: str) -> bool:
    return any(re.fullmatch(pattern, text) for pattern in patterns for text in texts)


def _of(node: Node) -> Tree:
    return Tree(node.name, node.types, [node])


def by_scope(nodes: Mapping[str, Node]) -> Tree:
    """Scopes, and the nodes in them."""
    root = Tree(ROOT, [_SCOPE])
    made: dict[str, Tree] = {"": root}

    def place(name: str) -> Tree:
        if name not in made:
            node = nodes.get(name)
            made[name] = _of(node) if node else Tree(name, [_SCOPE])
            place(name.rpartition("/")[0]).children.append(made[name])
        return made[name]

    for name in nodes:
        place(name)
    return root


def by_inputs(nodes: Mapping[str, Node]) -> Tree:
    """What nothing reads at the top, and beneath each node what it reads and has no place yet."""
    root = Tree(ROOT, [_GRAPH])
    read = {each for node in nodes.values() for each in node.inputs}
    placed: set[str] = set()
    tops = sorted(name for name in nodes if name not in read)
    for start in [*tops, *nodes]:  # a loop has no top
        if start in placed:
            continue
        placed.add(start)
        first = _of(nodes[start])
        root.children.append(first)
        waiting = [first]
        while waiting:
            tree = waiting[-1]
            following = next(
                (each for each in nodes[tree.name].inputs if each in nodes and each not in placed),
                None,
            )
            if following is None:
                waiting.pop()
                continue
            placed.add(following)
            tree.children.append(_of(nodes[following]))
            waiting.append(tree.children[-1])
    return root


def by_type(nodes: Mapping[str, Node]) -> Tree:
    """Op types."""
    root = Tree(ROOT, [])
    made: dict[str, Tree] = {}
    for node in nodes.values():
        if node.op not in made:
            made[node.op] = Tree(node.op, [node.op])
            root.children.append(made[node.op])
        made[node.op].nodes.append(node)
        made[node.op].types += [each for each in node.types if each not in made[node.op].types]
    for tree in made.values():
        tree.nodes.sort(key=lambda node: node.name)
    return root


def by_line(nodes: Mapping[str, Node]) -> Tree:
    """Lines of Python as they called each other; nodes stand at the innermost."""
    root = Tree(ROOT, [])
    for node in nodes.values():
        tree = root
        for file, line, function, _ in node.trace:
            name = f"{file.rpartition('/')[2]}:{line}:{function}"
            below = next((each for each in tree.children if each.name == name), None)
            if below is None:
                below = Tree(name, [])
                tree.children.append(below)
            tree = below
            tree.types += [each for each in node.types if each not in tree.types]
        tree.nodes.append(node)
    return root


def count(tree: Tree, options: Mapping[str, Any]) -> None:
    """Fills in what every tree costs, of the nodes that count."""
    patterns = options["account_type_regexes"]
    every = list(patterns) == [".*"]
    tree.own = Costs()
    kept = [each for each in tree.nodes if every or _matches(patterns, *each.types)]
    tree.nodes = kept
    for node in kept:
        tree.own.add(node.costs)
    tree.accounted = tree.name != ROOT and (every or _matches(patterns, *tree.types))
    tree.total = Costs()
    for child in tree.children:
        count(child, options)
        tree.total.add(child.total)
    stands_above = tree.name != ROOT and tree.types == [_SCOPE] and tree.total.nodes > 0
    tree.own.nodes = len(kept) or int(tree.accounted or stands_above)
    tree.total.add(tree.own)


def _at_least(tree: Tree, options: Mapping[str, Any], costs: Costs) -> bool:
    if max(len(tree.nodes), 1) < options["min_occurrence"]:
        return False
    return all(costs.values[key] >= options[f"min_{what}"] for what, key in FIELD.items())


def _is_shown(tree: Tree, options: Mapping[str, Any], depth: int) -> bool:
    if tree.name == ROOT:
        return True
    only_stands_above = tree.types == [_SCOPE] and tree.total.nodes > 0
    return (
        (tree.accounted or only_stands_above)
        and depth <= options["max_depth"]
        and _at_least(tree, options, tree.own)
        and _matches(options["show_name_regexes"], tree.name)
        and not _matches(options["hide_name_regexes"], tree.name)
    )


def choose(tree: Tree, options: Mapping[str, Any], depth: int = 1) -> list[Tree]:
    """What is shown of a tree: itself, with what is beneath it in `shown`, or that in its place."""
    beneath: list[Tree] = []
    if not _matches(options["trim_name_regexes"], tree.name):
        beneath = [each for child in tree.children for each in choose(child, options, depth + 1)]
    if not _is_shown(tree, options, depth):
        return beneath
    tree.shown = beneath
    if options["account_displayed_op_only"]:
        tree.total = Costs()
        tree.total.add(tree.own)
        tree.total.nodes = max(tree.total.nodes, 1)
        for each in beneath:
            tree.total.add(each.total)
    tree.shown.sort(key=_order(options["order_by"]))
    return [tree]


def _order(by: str) -> Callable[[Tree], Any]:
    if by == "name":
        return lambda tree: tree.name
    if by == "occurrence":
        return lambda tree: (-len(tree.nodes), tree.name)
    return lambda tree: (-tree.total.values[FIELD[by]], tree.name)


def started(root: Tree, patterns: Iterable[str]) -> Tree:
    """The root, with the outermost trees whose names are asked for beneath it."""
    if list(patterns) == [".*"]:
        return root

    def search(tree: Tree) -> list[Tree]:
        if _matches(patterns, tree.name):
            return [tree]
        return [each for child in tree.children for each in search(child)]

    found = [each for child in root.children for each in search(child)]
    return Tree(root.name, root.types, children=found)


# -- messages -----------------------------------------------------------------------------------


def _fill(message: Any, costs: Costs, prefix: str = "") -> None:
    for key in COSTS:
        if hasattr(message, prefix + key) and costs.values[key]:
            setattr(message, prefix + key, costs.values[key])


def _add_node(message: Any, node: Node) -> None:
    message.devices.extend(node.devices)
    for at, sizes in enumerate(node.input_shapes):
        if sizes is not None:
            shape = message.input_shapes[at]
            for size in sizes or [1]:
                shape.dim.add(size=size)


def graph_message(tree: Tree, message: Any = None) -> Any:
    """GraphNodeProto of a tree of single nodes."""
    message = pb.GraphNodeProto() if message is None else message
    message.name = tree.name
    _fill(message, tree.own)
    _fill(message, tree.total, "total_")
    message.total_definition_count = tree.total.nodes
    for node in tree.nodes:
        _add_node(message, node)
    for child in tree.shown:
        graph_message(child, message.children.add())
    return message


def multi_message(tree: Tree, message: Any = None) -> Any:
    """MultiGraphNodeProto of a tree of several nodes each."""
    message = pb.MultiGraphNodeProto() if message is None else message
    message.name = tree.name
    _fill(message, tree.own)
    _fill(message, tree.total, "total_")
    for node in tree.nodes:
        one = message.graph_nodes.add(name=node.name, total_definition_count=1)
        _fill(one, node.costs)
        _fill(one, node.costs, "total_")
        _add_node(one, node)
    for child in tree.shown:
        multi_message(child, message.children.add())
    return message


def in_a_row(root: Tree, options: Mapping[str, Any]) -> None:
    """Op types one beneath the other, so that each one's total is its own and that of all that come after it.

    One is shown if the total is as much as is asked for.
    """
    chain = sorted(
        (
            each
            for each in root.children
            if each.accounted
            and _matches(options["show_name_regexes"], each.name)
            and not _matches(options["hide_name_regexes"], each.name)
        ),
        key=_order(options["order_by"]),
    )
    _accumulate(root, chain)
    shown = [each for each in chain if _at_least(each, options, each.total)]
    shown = shown[: options["max_depth"] + 1]
    if options["account_displayed_op_only"]:
        _accumulate(root, shown)
    for above, below in pairwise(shown):
        above.shown = [below]
    root.shown = shown[:1]


def _accumulate(root: Tree, chain: Sequence[Tree]) -> None:
    so_far = Costs()
    for each in reversed(chain):
        so_far.add(each.own)
        each.total = Costs()
        each.total.add(so_far)
    root.total = so_far
