"""Straight code: instructions that run one after the other and never wait, whoever they belong to.

The segments of a program, the blocks of branches and loops, and the nodes of a group where these run one by one are all
`Code`.  One loop executes its rows.  From its `HOT`th run on, each run compiles one more *part* of it, `PART`
instructions, to source, one line an instruction, values in local variables: ``v3 = v2 * v5``.  That is another 40 to
80 ns less for each, but compiling takes as long as 50 runs gain of operators and 250 of calls.
A ufunc whose input nobody wants any more may write into that (`Instruction.over`): ``v3 = k1(v2, v5, v2)``.
A register keeps its value in ``r`` only where something else than the lines of its part looks at it.  What takes all
registers is called with ``r``, as before; a branch or a loop may look at any of them and write to any, so before it all
values are in ``r``, and after it they are read from there.
An error of a kernel becomes one that names its node here, and nowhere else: an inner code's own is explained already.
Called by: run.program, run.branches, kernels of groups (plan.rules).  Threads: any number at once; two that compile the
same part do so for nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from operator import length_hint
from types import CodeType
from typing import Any

from headrace.run.exec.instructions import CALL, NESTED, RELEASE, Instruction, Registers, row_of
from headrace.run.exec.outcome import cause, explain

HOT = 128
PART = 500
FEWEST = 8  # instructions; fewer gain nothing
FEWEST_INSIDE = 2  # of a branch or a loop, which may run many times in a step

Run = Callable[[Registers], None]

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
    """See the module header.  run: executes all of it; raises OpError with the fields of the node that failed."""

    __slots__ = ("instructions", "parts", "run")

    def __init__(self, instructions: Sequence[Instruction], fewest: int | None = None) -> None:
        """fewest: as many instructions are worth compiling; `FEWEST`, if it is not said."""
        self.instructions = instructions
        self.parts: list[Part] = []  # what is compiled of it, from the start
        by_rows = _by_rows(instructions)
        self.run: Run = by_rows
        if is_worth_it(instructions, FEWEST if fewest is None else fewest):
            self.run = self._counting(by_rows)

    def _counting(self, by_rows: Run) -> Run:
        """Until it is hot."""
        runs = 0

        def run(r: Registers) -> None:
            nonlocal runs
            by_rows(r)
            runs += 1
            if runs >= HOT:
                self._compile_after([])

        return run

    def _compile_after(self, parts: Sequence[Part]) -> None:
        """Compile what comes after `parts`."""
        part = Part(self.instructions, parts[-1].end if parts else 0)
        self.parts = [*parts, part]
        self.run = self._by_parts(self.parts)

    def _by_parts(self, parts: Sequence[Part]) -> Run:
        end = parts[-1].end
        if end == len(self.instructions) and len(parts) == 1:
            return parts[0].function
        rest = _by_rows(self.instructions[end:])

        def run(r: Registers) -> None:
            for part in parts:
                part.function(r)
            rest(r)
            if part.end < len(self.instructions):
                self._compile_after(parts)

        return run


def _by_rows(instructions: Sequence[Instruction]) -> Run:
    """The loop that executes instructions."""
    executed = [row_of(each) for each in instructions]
    count = len(executed)
    if count == 1 and executed[0][1] is not None:
        return _alone(instructions[0])

    def run(r: Registers) -> None:
        rows = iter(executed)
        try:
            for kernel, first, second, out in rows:
                if second is not None:
                    r[out] = kernel(r[first], r[second])
                elif first is not None:
                    r[out] = kernel(r[first])
                else:
                    kernel(r)
        except Exception as error:  # every failure of a kernel becomes an error that names its node
            failed = instructions[count - length_hint(rows) - 1]
            raise explain(error, failed.node, failed.given(r), r[0]) from cause(error)

    return run


def _alone(instruction: Instruction) -> Run:
    """The only one, which needs no loop: so are conditions and bodies of many loops, and what finds a queue."""
    kernel, first, second, out = row_of(instruction)

    def run(r: Registers) -> None:
        try:
            r[out] = kernel(r[first], r[second])
        except Exception as error:  # every failure of a kernel becomes an error that names its node
            raise explain(error, instruction.node, instruction.given(r), r[0]) from cause(error)

    def run_of_one(r: Registers) -> None:
        try:
            r[out] = kernel(r[first])
        except Exception as error:  # as above
            raise explain(error, instruction.node, instruction.given(r), r[0]) from cause(error)

    return run_of_one if second is None else run


def is_worth_it(instructions: Sequence[Instruction], fewest: int) -> bool:
    """Whether so many of the instructions would become lines, for each branch or loop among them as many again."""
    if len(instructions) < fewest:
        return False
    kinds = [each.kind for each in instructions]
    lines = kinds.count(CALL) + kinds.count(RELEASE)
    return lines >= fewest * (1 + kinds.count(NESTED))


class Part:
    """Instructions `start` to `end` of a code as one function of the registers, which raises as `Code.run`."""

    __slots__ = ("_code", "_given", "_instructions", "end", "function", "start")

    def __init__(self, instructions: Sequence[Instruction], start: int) -> None:
        """instructions: all of the code."""
        self._instructions = instructions
        self.start = start
        self.end = min(start + PART, len(instructions))
        self._given: list[list[str | int]] = []  # where the inputs of each instruction stand
        text, names = self._source(instructions)
        exec(compile(text, "<step>", "exec"), names)
        self.function: Callable[[Registers], None] = names["part"]
        self._code: CodeType = names["part"].__code__

    def _source(self, instructions: Sequence[Instruction]) -> tuple[str, dict[str, Any]]:
        kept = self._kept(instructions)
        names: dict[str, Any] = {"failed": self._failed}
        kernels: dict[int, str] = {}
        local: set[int] = set()
        lines = ["def part(r):", " try:"]
        for index in range(self.start, self.end):
            each = instructions[index]
            if each.kind == RELEASE:
                self._given.append([])
                targets = [f"r[{n}] = " + (f"v{n} = " if n in local else "") for n in each.outputs]
                lines.append(f"  {''.join(targets)}None")
                local.difference_update(each.outputs)
                continue
            if each.kind == NESTED:  # it may write anywhere
                names[f"i{index}"] = row_of(each)[0]
                self._given.append([n for n in each.inputs if n])
                forget = "".join(f"v{n} = " for n in sorted(local))
                lines.append(f"  i{index}(r)" + (f"; {forget}None" if forget else ""))
                local.clear()
                continue
            if each.kind != CALL:
                name = f"i{index}"
                names[name] = row_of(each)[0]
                self._given.append([f"v{n}" if n in local else n for n in each.inputs if n])
                stale = [n for n in each.outputs if n in local]
                local.difference_update(stale)
                forget = "".join(f"; v{n} = None" for n in stale)
                lines.append(f"  {name}(r){forget}")
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
            lines.append(f"  {''.join(loads)}v{out} = {keep}{made}")
            local.add(out)
        lines += [" except Exception as error:", "  failed(error, r)", ""]
        return "\n".join(lines), names

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
            if each.kind == NESTED:  # it may read anything
                written_over.clear()
                continue
            for n in each.outputs:
                if n not in written_over or n in opaque:
                    kept.add(index)
                written_over.add(n)
                opaque.discard(n)
            if each.kind != CALL:
                opaque.update(each.inputs)
        return kept

    def _failed(self, error: Exception, r: Registers) -> None:
        """Raise what an instruction of `function` raised as an error that names its node."""
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code is not self._code:
            trace = trace.tb_next
        assert trace is not None, "the error comes from another function"
        number = trace.tb_lineno - 3
        found = trace.tb_frame.f_locals
        places = self._given[number]
        given = [found.get(n) if isinstance(n, str) else r[n] for n in places]
        node = self._instructions[self.start + number].node
        raise explain(error, node, given, r[0]) from cause(error)
