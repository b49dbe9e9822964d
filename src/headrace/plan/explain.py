"""Explain: a step as text that a person can read, after every pass.

An instruction a line: what it makes, its op or rule, what it takes, the nodes that it stands for, dtype and shape where
they are known, and what it does beside.  Values are v1, v2, …; registers, once they are allotted, r1, r2, ….
Called by: plan.passes, plan.compile, with HEADRACE_EXPLAIN=1; tools (`headrace explain`).  Threads: any.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from headrace.base import shapes as shape_rules
from headrace.graph.graph import Operation
from headrace.plan.ir import AHEAD, BRANCH, LOOP, NODE, WAITS, WRITES, Instr, Step, Values
from headrace.plan.nesting import Loop, Required, Select

enabled = os.environ.get("HEADRACE_EXPLAIN", "") == "1"
"""Read when a plan is compiled."""

_MANY = 4  # names of nodes in a line


def _to_stderr(text: str) -> None:
    sys.stderr.write(text)


_write: Callable[[str], object] = _to_stderr


@contextmanager
def explaining(write: Callable[[str], object]) -> Iterator[None]:
    """Have what is compiled inside explained to `write`."""
    global enabled, _write
    before = enabled, _write
    enabled, _write = True, write
    try:
        yield
    finally:
        enabled, _write = before


def begin(step: Step) -> None:
    """A step that is being compiled, as pruning has left it."""
    request = step.request
    feeds = ", ".join(_typed(f"v{at}", step.values, at) for at, _ in enumerate(request.args, 1))
    fetches = ", ".join(tensor.name for tensor in request.returns)
    _write(f"\nstep: feeds {feeds or 'nothing'}; fetches {fetches or 'nothing'}\n")
    _write(f"prune: {_count(step)}\n{text(step)}")


def after(name: str, before: Step, step: Step) -> None:
    """What a pass has made of it."""
    if step is before and name != "kernels":
        _write(f"{name}: no change\n")
        return
    if step is before:
        _write(f"{name}: bound\n")
        return
    _write(f"{name}: {_count(step)}, {len(before.code)} before\n{text(step)}")


def general(ops: Iterable[Operation], why: str) -> None:
    """A step that the general executor runs."""
    _write(f"\nstep: for the general executor, {why}\n")
    for op in ops:
        inputs = ", ".join(tensor.name for tensor in op.inputs)
        _write(f"  {op.type}({inputs})  {op.name}\n")


def text(step: Step) -> str:
    """All instructions, a line each."""
    name = partial(_name, step.registers)
    lines = list(_lines(step.code, step.values, name, "  "))
    for op, values in step.loaded:
        if step.registers:
            lines.insert(0, f"  {', '.join(map(name, values))} = {op.type}  {op.name}")
    known = () if step.registers else step.values.constants
    results = ", ".join(
        name(value) + (" (a constant)" if value in known else "") for value in step.results
    )
    return "".join(f"{line}\n" for line in [*lines, f"  return {results}".rstrip()])


Name = Callable[[int], str]
"""(value) -> what a reader is shown."""


def _name(registers: Mapping[int, int], value: int) -> str:
    return f"r{registers[value]}" if registers else f"v{value}"


def _lines(code: Iterable[Instr], values: Values, name: Name, indent: str) -> Iterator[str]:
    segment: frozenset[int] = frozenset()
    for instr in code:
        if instr.after != segment and instr.waiter < 0 and indent == "  ":
            segment = instr.after
            yield f"{indent}after {', '.join(f'w{n}' for n in sorted(segment)) or 'nothing'}:"
        yield indent + _line(instr, values, name)
        if instr.what == BRANCH:
            yield from _lines(instr.body[0].code, values, name, indent + "  ")
        elif instr.what == LOOP:
            for part, body in zip(("head", "body", "tail"), instr.body, strict=True):
                yield f"{indent}  {part}:"
                yield from _lines(body.code, values, name, indent + "    ")


def _line(instr: Instr, values: Values, name: Name) -> str:
    if instr.what in (BRANCH, LOOP):
        return _nesting(instr, name)
    made = ", ".join(_typed(name(value), values, value) for value in instr.outputs)
    given = ", ".join(name(value) if value else "step" for value in instr.inputs)
    if instr.over >= 0:
        given += f" over {name(instr.over)}"
    line = f"{made} = {_what(instr)}({given})" if made else f"{_what(instr)}({given})"
    notes = [_nodes(instr.nodes)] if instr.nodes else [f"for {instr.op.name}"]
    if instr.waiter >= 0:
        after = "".join(f", after w{number}" for number in sorted(instr.after))
        notes.append(f"waits as w{instr.waiter}{after}")
    elif instr.effects & WAITS:
        notes.append("may wait")
    if instr.effects & WRITES:
        notes.append("has effects")
    if instr.controls:
        notes.append(f"comes after {_nodes(instr.controls)}")
    return f"{line}  {'; '.join(notes)}"


def _what(instr: Instr) -> str:
    if instr.what == NODE:
        return instr.op.type
    detail: Any = instr.detail
    if isinstance(detail, Select):
        return "select" if detail.way else "select not"
    if isinstance(detail, Required):
        return "require"
    if instr.body:
        return f"{instr.what} [{' '.join(member.op.type for member in instr.body[0].code)}]"
    name = getattr(instr.kernel, "__name__", "")
    return instr.what if instr.what == AHEAD or name in ("", "go_on", "tell") else name


def _nesting(instr: Instr, name: Name) -> str:
    detail = instr.detail
    if not isinstance(detail, Loop):
        wanted = " and ".join(f"{'' if way else 'not '}{name(value)}" for value, way in detail)
        return f"if {wanted}:"
    if not detail.variables:
        given, wanted = (", ".join(map(name, v)) for v in (detail.whole.given, detail.whole.wanted))
        return f"joined: {wanted} from {given}, one program  {instr.op.name}"
    variables, starts, nexts = (
        ", ".join(map(name, values)) for values in (detail.variables, detail.starts, detail.nexts)
    )
    whole = ", one program" if detail.whole is not None else ""
    if detail.apart:
        whole = f", no program: {detail.apart}"
    beside = f", {', '.join(map(name, detail.sums))} beside it" if detail.sums else ""
    return f"while {name(detail.pred)}: {variables} from {starts}, then {nexts}{beside}{whole}  {instr.op.name}"


def _typed(name: str, values: Values, value: int) -> str:
    tensor = values.tensors[value] if value < len(values.tensors) else None
    if tensor is None:
        return name
    return f"{name}:{tensor._dtype.name}{shape_rules.text(tensor._raw)}"


def _nodes(ops: Iterable[Operation]) -> str:
    names = [op.name for op in ops]
    if len(names) > _MANY:
        names = [*names[: _MANY - 1], f"{len(names) - _MANY + 1} more"]
    return ", ".join(names)


def _count(step: Step) -> str:
    count = len(step.code)
    return f"{count} instruction{'' if count == 1 else 's'}"
