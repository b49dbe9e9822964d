"""Write the tables of docs/devices.md: where each op is computed.

Run after adding an array kernel or an op: ``.venv/bin/python scripts/devices.py``.  A test compares the page with the
code.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

import headrace  # noqa: F401 - registers the ops
from headrace.base import dtypes
from headrace.base.traits import CONTROL_FLOW, DRAWS, RECEIVE, SEND, SIZED_BY_VALUES
from headrace.graph.registry import OPS, OpSpec
from headrace.graph.schemas import ArgDef
from headrace.ops._portable.table import (
    READ,
    ArrayKernel,
    StateKernel,
    array_kernels,
    state_kernels,
)
from headrace.plan.devices import on_any_device, why_on_host

PAGE = Path(__file__).resolve().parent.parent / "docs" / "devices.md"
HEADING = "## Where operations are computed\n\n"
HEAD = """\
| op | dtypes | NumPy | XLA, traced | XLA, at once | stays with the host |
|---|---|---|---|---|---|
"""
INTRODUCTION = """\
NumPy: what computes it on a CPU, a ufunc or a kernel of its own. XLA, traced: whether it can be part of a program that
XLA compiles, with others, of a GPU alone where variables are only read; on CPUs NumPy's products and convolutions are
left as they are. What stays with the host has to be known when a program is made: a constant, or what follows from
shapes. XLA, at once: whether a GPU computes it. Where dtypes or attrs are others the host computes it.
Random numbers are those that a CPU draws, wherever they are made.

"""


def table() -> str:
    """A row for each op that has a kernel for every device."""
    rows = []
    kernels: dict[str, ArrayKernel | StateKernel] = {**array_kernels(), **state_kernels()}
    for name, kernel in sorted(kernels.items()):
        kinds = "floating and complex" if kernel.reals else "numbers and bool"
        numpy = "ufunc" if OPS[name].bare is not None else "kernel"
        traced = "no" if SIZED_BY_VALUES in OPS[name].traits else _traced(kernel)
        rows.append(f"| `{name}` | {kinds} | {numpy} | {traced} | yes | {_stays(kernel)} |\n")
    return HEAD + "".join(rows)


def _traced(kernel: ArrayKernel | StateKernel) -> str:
    if isinstance(kernel, StateKernel):
        return "on GPUs" if kernel.does == READ else "yes"
    return "on GPUs" if kernel.alone else "yes"


def _stays(kernel: ArrayKernel | StateKernel) -> str:
    if isinstance(kernel, ArrayKernel) and kernel.halves:
        return "the first half"
    places = sorted(kernel.host)
    return ", ".join("the last input" if place < 0 else f"input {place}" for place in places)


def _list(names: Iterable[str]) -> str:
    return textwrap.fill(", ".join(f"`{name}`" for name in sorted(names)), 150) + "\n"


def lists() -> str:
    """The ops that have none, by what becomes of them on a GPU."""
    with_kernel = array_kernels().keys() | state_kernels().keys()
    flow = {CONTROL_FLOW, SEND, RECEIVE}
    others = {
        name: spec
        for name, spec in OPS.items()
        if name not in with_kernel and name[0] != "_" and flow.isdisjoint(spec.traits)
    }
    found: dict[str, list[str]] = {}
    for name, spec in others.items():
        if DRAWS in spec.traits or _may_be_asked(spec):
            found.setdefault(why_on_host(spec), []).append(name)
    for_no_reason = found.pop("", [])
    return (
        "\nThe host does these in the name of the GPU that they are pinned to. Why:\n"
        + "".join([f"\n*{reason}*:\n{_list(found[reason])}" for reason in sorted(found)])
        + _left(for_no_reason)
        + "\nAll others (of text, queues, readers, datasets, tables, files and users' functions) are on CPUs alone.\n"
    )


def _left(names: list[str]) -> str:
    return f"\nThese could be computed there, and are not yet:\n\n{_list(names)}" if names else ""


def _may_be_asked(spec: OpSpec) -> bool:
    kinds = {
        arg.type.base_dtype.name for arg in (*spec.inputs, *spec.outputs) if arg.type is not None
    }
    changes = any(arg.is_ref or _is_handle(arg) for arg in spec.inputs)
    return (changes or on_any_device(spec)) and kinds.isdisjoint({"string", "variant"})


def _is_handle(arg: ArgDef) -> bool:
    """Whether it is the handle of a variable."""
    return arg.type is dtypes.resource and arg.name in ("resource", "ref", "var", "input")


def page(text: str) -> str:
    """The text of docs/devices.md with the tables of now."""
    return text.partition(HEADING)[0] + HEADING + INTRODUCTION + table() + lists()


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
