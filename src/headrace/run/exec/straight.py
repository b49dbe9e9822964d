"""Straight code: instructions that run one after the other and never wait, whoever they belong to.

The segments of a program, the blocks of branches and loops, and the nodes of a group where these run one by one are all
`Code`.  One loop executes its rows.  From its `HOT`th run on, each run compiles one more *part* of it, `PART`
instructions, to source, one line an instruction, values in local variables: ``v3 = v2 * v5``.  That is another 40 to
80 ns less for each, but compiling takes as long as 50 runs gain of operators and 250 of calls.
A ufunc whose input nobody wants any more may write into that (`Instruction.over`): ``v3 = k1(v2, v5, v2)``.
A register keeps its value in ``r`` only where something else than the lines of its part looks at it.  What takes all
registers is called with ``r``, as before.
An error of a kernel becomes one that names its node here, and nowhere else: an inner code's own is explained already.
Called by: run.program, run.branches, kernels of groups (plan.rules).  Threads: any number at once; two that compile the
same part do so for nothing.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from operator import length_hint
from types import CodeType
from typing import Any

from headrace.run.exec.instructions import CALL, NESTED, RELEASE, Instruction, Registers, row_of
from headrace.run.exec.outcome import cause, explain

HOT = 128
PART = 500
FEWEST = 8  # instructions; fewer gain nothing

_SIGNS: dict[Callable[..., Any], str] = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.truediv: "/",
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
}


class Code:
    """See the module header."""

    __slots__ = ("_changes_after", "_rows", "_runs", "instructions", "parts", "rest")

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self.instructions = instructions
        self._rows = [row_of(each) for each in instructions]
        self._runs = 0
        self._changes_after = HOT if is_worth_it(instructions) else sys.maxsize
        self.parts: list[Part] = []  # what is compiled of it, from the start
        self.rest: Code | None = None  # what comes after them

    def run(self, r: Registers) -> None:
        """Execute all of it.  Raises OpError with the fields of the node that failed."""
        if self.parts:
            self._run_parts(self.parts, r)
            return
        rows = iter(self._rows)
        try:
            for kernel, first, second, out in rows:
                if second is not None:
                    r[out] = kernel(r[first], r[second])
                elif first is not None:
                    r[out] = kernel(r[first])
                else:
                    kernel(r)
        except Exception as error:  # every failure of a kernel becomes an error that names its node
            failed = self.instructions[len(self._rows) - length_hint(rows) - 1]
            raise explain(error, failed.node, failed.given(r), r[0]) from cause(error)
        self._runs += 1
        if self._runs >= self._changes_after:
            self._compile_after([])

    def _run_parts(self, parts: Sequence[Part], r: Registers) -> None:
        part = parts[0]
        try:
            for part in parts:
                part.function(r)
        except Exception as error:  # as in `run`
            index, given = part.failed(error, r)
            node = self.instructions[index].node
            raise explain(error, node, given, r[0]) from cause(error)
        if part.end < len(self.instructions):
            rest = self.rest
            if rest is None or len(rest.instructions) != len(self.instructions) - part.end:
                rest = Code(self.instructions[part.end :])  # another thread has been quicker
            rest.run(r)
            self._compile_after(parts)

    def _compile_after(self, parts: Sequence[Part]) -> None:
        """Compile what comes after `parts`."""
        part = Part(self.instructions, parts[-1].end if parts else 0)
        self.rest = Code(self.instructions[part.end :])
        self.parts = [*parts, part]


def is_worth_it(instructions: Sequence[Instruction]) -> bool:
    """Whether enough of the instructions would become lines, all of which say what they write."""
    if len(instructions) < FEWEST:
        return False
    kinds = [each.kind for each in instructions]
    return NESTED not in kinds and kinds.count(CALL) + kinds.count(RELEASE) >= FEWEST


class Part:
    """Instructions `start` to `end` of a code as one function of the registers."""

    __slots__ = ("_code", "_given", "end", "function", "start")

    def __init__(self, instructions: Sequence[Instruction], start: int) -> None:
        """instructions: all of the code."""
        self.start = start
        self.end = min(start + PART, len(instructions))
        self._given: list[list[str | int]] = []  # where the inputs of each instruction stand
        text, names = self._source(instructions)
        exec(compile(text, "<step>", "exec"), names)
        self.function: Callable[[Registers], None] = names["part"]
        self._code: CodeType = names["part"].__code__

    def _source(self, instructions: Sequence[Instruction]) -> tuple[str, dict[str, Any]]:
        kept = self._kept(instructions)
        names: dict[str, Any] = {}
        kernels: dict[int, str] = {}
        local: set[int] = set()
        lines = ["def part(r):"]
        for index in range(self.start, self.end):
            each = instructions[index]
            if each.kind == RELEASE:
                self._given.append([])
                targets = [f"r[{n}] = " + (f"v{n} = " if n in local else "") for n in each.outputs]
                lines.append(f" {''.join(targets)}None")
                local.difference_update(each.outputs)
                continue
            if each.kind != CALL:
                name = f"i{index}"
                names[name] = row_of(each)[0]
                self._given.append([f"v{n}" if n in local else n for n in each.inputs if n])
                stale = [n for n in each.outputs if n in local]
                local.difference_update(stale)
                forget = "".join(f"; v{n} = None" for n in stale)
                lines.append(f" {name}(r){forget}")
                continue
            loads = [f"v{n} = r[{n}]; " for n in dict.fromkeys(each.inputs) if n not in local]
            local.update(each.inputs)
            given = [f"v{n}" for n in each.inputs]
            self._given.append([text for n, text in zip(each.inputs, given, strict=True) if n])
            (out,) = each.outputs
            keep = f"r[{out}] = " if index in kept else ""
            if len(given) == 2 and (sign := _SIGNS.get(each.kernel)) is not None:
                made = f"{given[0]} {sign} {given[1]}"
            else:
                name = kernels.setdefault(id(each.kernel), f"k{len(kernels)}")
                names[name] = each.kernel
                into = [f"v{each.over}"] if each.over >= 0 else []
                made = f"{name}({', '.join([*given, *into])})"
            lines.append(f" {''.join(loads)}v{out} = {keep}{made}")
            local.add(out)
        return "\n".join([*lines, ""]), names

    def _kept(self, instructions: Sequence[Instruction]) -> set[int]:
        """Instructions whose result something else than this part's lines may look at."""
        kept: set[int] = set()
        written_over: set[int] = set()
        """registers whose value at this point goes no further than here"""
        opaque: set[int] = set()
        """registers that are read, before that, by something that wants them in `r`"""
        for index in range(self.end - 1, self.start - 1, -1):
            each = instructions[index]
            if each.kind == RELEASE:
                written_over.update(each.outputs)
                opaque.difference_update(each.outputs)
                continue
            for n in each.outputs:
                if n not in written_over or n in opaque:
                    kept.add(index)
                written_over.add(n)
                opaque.discard(n)
            if each.kind != CALL:
                opaque.update(each.inputs)
        return kept

    def failed(self, error: BaseException, registers: Registers) -> tuple[int, list[Any]]:
        """The instruction that raised `error` in `function`, and its inputs."""
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code is not self._code:
            trace = trace.tb_next
        assert trace is not None, "the error comes from another function"
        number = trace.tb_lineno - 2
        found = trace.tb_frame.f_locals
        given = self._given[number]
        values = [found.get(n) if isinstance(n, str) else registers[n] for n in given]
        return self.start + number, values
