"""What a segment's instructions become when it runs again: rows in one loop, and then straight-line source.

A closure an instruction is made with the plan.  From its second run on a segment of some length runs as *rows*,
(kernel, its registers), which one loop calls: 100 ns less for each.  From its `HOT`th run on, each run compiles one
more *part* of it, `PART` instructions, to source, one line an instruction, values in local variables: ``v3 = v2 * v5``.
That is another 40 to 80 ns less, but compiling takes as long as 50 runs gain of operators and 250 of calls.
A ufunc whose input nobody wants any more may write into that (`plan.overwriting`): ``v3 = k1(v2, v5, v2)``.
A register keeps its value in ``r`` only where something else than the lines of its part looks at it.  Only what is
known to be a plain call or a release becomes a line of its own; all else is called with ``r``, as before.
Called by: run.exec.program.  Threads: any; two that compile the same part at once do so for nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import Any

import numpy as np

HOT = 128
PART = 500
FEWEST = 8  # instructions; fewer gain nothing

Registers = list[Any]
Recipe = tuple[Callable[..., Any] | None, tuple[int, ...], tuple[int, ...]]
"""(kernel of one result or None for a release, input registers, output registers).

Of a ufunc there may be one input register more than it has inputs: one of those, whose memory takes the result.
"""
Row = tuple[Callable[..., Any], Any, Any, Any]
"""(kernel, input register, another one or None, output register), or (what is called with all registers, 3 x None)"""

_SIGNS: dict[Callable[..., Any], str] = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.lt: "<",
    operator.le: "<=", operator.gt: ">", operator.ge: ">=",
}  # fmt: skip


def rows_of(
    instructions: Sequence[Callable[[Registers], None]], recipes: Sequence[Recipe | None]
) -> list[Row]:
    """What `run_rows` runs, one for each instruction."""
    rows: list[Row] = []
    for instruction, recipe in zip(instructions, recipes, strict=True):
        kernel, read, written = recipe or (None, (), ())
        if isinstance(kernel, np.ufunc):
            read = read[: kernel.nin]
        if kernel is None or not 1 <= len(read) <= 2:
            rows.append((instruction, None, None, None))
        else:
            rows.append((kernel, read[0], read[1] if len(read) == 2 else None, written[0]))
    return rows


def run_rows(rows: Iterable[Row], r: Registers) -> None:
    """Run the instructions that `rows` stand for.  Raises what they raise."""
    for kernel, first, second, out in rows:
        if second is not None:
            r[out] = kernel(r[first], r[second])
        elif first is not None:
            r[out] = kernel(r[first])
        else:
            kernel(r)


class Part:
    """Instructions `start` to `end` of a segment as one function of the registers."""

    __slots__ = ("_code", "_given", "end", "function", "start")

    def __init__(
        self,
        instructions: Sequence[Callable[[Registers], None]],
        recipes: Sequence[Recipe | None],
        inputs: Sequence[tuple[int, ...]],
        outputs: Sequence[tuple[int, ...]],
        start: int,
    ) -> None:
        """instructions, recipes, inputs, outputs: of the whole segment.  A release has no inputs there."""
        self.start = start
        self.end = min(start + PART, len(instructions))
        self._given: list[list[str | int]] = []  # where the inputs of each instruction stand
        text, names = self._source(instructions, recipes, inputs, outputs)
        exec(compile(text, "<step>", "exec"), names)
        self.function: Callable[[Registers], None] = names["part"]
        self._code: CodeType = names["part"].__code__

    def _source(
        self,
        instructions: Sequence[Callable[[Registers], None]],
        recipes: Sequence[Recipe | None],
        inputs: Sequence[tuple[int, ...]],
        outputs: Sequence[tuple[int, ...]],
    ) -> tuple[str, dict[str, Any]]:
        kept = self._kept(recipes, inputs, outputs)
        names: dict[str, Any] = {}
        kernels: dict[int, str] = {}
        local: set[int] = set()
        lines = ["def part(r):"]
        for index in range(self.start, self.end):
            recipe = recipes[index]
            if recipe is None:
                name = f"i{index}"
                names[name] = instructions[index]
                self._given.append([f"v{n}" if n in local else n for n in inputs[index]])
                stale = [n for n in outputs[index] if n in local]
                local.difference_update(stale)
                forget = "".join(f"; v{n} = None" for n in stale)
                lines.append(f" {name}(r){forget}")
                continue
            kernel, read, written = recipe
            if kernel is None:
                self._given.append([])
                targets = [f"r[{n}] = " + (f"v{n} = " if n in local else "") for n in read]
                lines.append(f" {''.join(targets)}None")
                local.difference_update(read)
                continue
            loads = "".join(f"v{n} = r[{n}]; " for n in dict.fromkeys(read) if n not in local)
            local.update(read)
            given = [f"v{n}" for n in read]
            self._given.append([*given[: kernel.nin if isinstance(kernel, np.ufunc) else None]])
            (out,) = written
            keep = f"r[{out}] = " if index in kept else ""
            if len(given) == 2 and (sign := _SIGNS.get(kernel)) is not None:
                made = f"{given[0]} {sign} {given[1]}"
            else:
                name = kernels.setdefault(id(kernel), f"k{len(kernels)}")
                names[name] = kernel
                made = f"{name}({', '.join(given)})"
            lines.append(f" {loads}v{out} = {keep}{made}")
            local.add(out)
        return "\n".join([*lines, ""]), names

    def _kept(
        self,
        recipes: Sequence[Recipe | None],
        inputs: Sequence[tuple[int, ...]],
        outputs: Sequence[tuple[int, ...]],
    ) -> set[int]:
        """Instructions whose result something else than this part's lines may look at."""
        kept: set[int] = set()
        written_over: set[int] = (
            set()
        )  # registers whose value at this point goes no further than here
        opaque: set[int] = (
            set()
        )  # registers that are read, before that, by something that wants them in `r`
        for index in range(self.end - 1, self.start - 1, -1):
            recipe = recipes[index]
            if recipe is not None and recipe[0] is None:
                written_over.update(recipe[1])
                opaque.difference_update(recipe[1])
                continue
            for n in outputs[index]:
                if n not in written_over or n in opaque:
                    kept.add(index)
                written_over.add(n)
                opaque.discard(n)
            if recipe is None:
                opaque.update(inputs[index])
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


def is_worth_it(recipes: Sequence[Recipe | None], count: int) -> bool:
    """Whether a segment of `count` instructions has recipes, and enough of them."""
    return len(recipes) == count and sum(recipe is not None for recipe in recipes) >= FEWEST
