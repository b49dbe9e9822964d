"""Comparing GraphDefs.

Called by: programs.  Threads: any.
"""

from __future__ import annotations

from typing import Any

__all__ = ["assert_equal_graph_def"]


def assert_equal_graph_def(actual: Any, expected: Any, checkpoint_v2: bool = False) -> None:
    """Compare graphs node by node, in whatever order they are; control inputs too.  Attrs named `_…` do not count.

    checkpoint_v2: prefixes of checkpoints in attrs, which have random parts, are not compared.
    Raises AssertionError (they differ, and where), TypeError (no GraphDef).
    """
    for name, given in (("actual", actual), ("expected", expected)):
        if getattr(getattr(given, "DESCRIPTOR", None), "name", None) != "GraphDef":
            raise TypeError(f"Expected tf.GraphDef for {name}, got {type(given).__name__}")
    ours, theirs = ({node.name: node for node in graph.node} for graph in (actual, expected))
    for name in sorted(theirs.keys() - ours.keys()):
        raise AssertionError(f"Did not find expected node {_shown(theirs[name])}")
    for name in sorted(ours.keys() - theirs.keys()):
        raise AssertionError(f"Found unexpected node {_shown(ours[name])}")
    for name, node in ours.items():
        _compare(node, theirs[name], checkpoint_v2)


def _shown(node: Any) -> str:
    return f"{node.name!r}: {node.op}({', '.join(node.input)})"


def _compare(ours: Any, theirs: Any, checkpoint_v2: bool) -> None:
    name = ours.name
    if ours.op != theirs.op:
        raise AssertionError(
            f"Node named {name!r} has op {ours.op!r} that is not expected {theirs.op!r}"
        )
    if ours.device != theirs.device:
        raise AssertionError(
            f"Node named {name!r} has device {ours.device!r} that is not expected {theirs.device!r}"
        )
    for kind in (_data, _control):
        if kind(ours) != kind(theirs):
            raise AssertionError(
                f"Node named {name!r} has inputs {kind(ours)} that are not the expected {kind(theirs)}"
            )
    mine, other = _attrs(ours, checkpoint_v2), _attrs(theirs, checkpoint_v2)
    for attr in sorted(mine.keys() | other.keys()):
        if mine.get(attr) != other.get(attr):
            raise AssertionError(
                f"Node named {name!r} has attr {attr!r} that is not the expected one: "
                f"{mine.get(attr, 'none')} and {other.get(attr, 'none')}"
            )


def _data(node: Any) -> list[str]:
    return [each.removesuffix(":0") for each in node.input if not each.startswith("^")]


def _control(node: Any) -> list[str]:
    return sorted(each for each in node.input if each.startswith("^"))


def _attrs(node: Any, checkpoint_v2: bool) -> dict[str, Any]:
    found = {key: value for key, value in node.attr.items() if not key.startswith("_")}
    if checkpoint_v2:
        found = {
            key: value
            for key, value in found.items()
            if not any(b"_temp" in each for each in value.tensor.string_val)
        }
    return found
