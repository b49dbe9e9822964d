"""Straight-line source of a segment that runs again and again: one line an instruction, values in local variables.

A closure an instruction costs 100 ns more than the line ``v3 = k1(v2, r[5])``, but compiling the lines takes as long as
running the closures some 70 times.  So a segment runs as closures until it has run `HOT` times; from then on each run
compiles one more part of it, `PART` instructions, so that no step is late by more than that takes.
A register keeps its value in ``r`` only where something else than the lines of its part looks at it.  Only what is
known to be a plain call or a release becomes a line of its own; all else is called with ``r``, as before.
Called by: run.program.  Threads: any; two that compile the same part at once do so for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

HOT = 64
PART = 500
FEWEST = 8  # instructions; fewer gain nothing

Registers = list[Any]
Recipe = tuple[Callable[..., Any] | None, tuple[int, ...], tuple[int, ...]]
"""(kernel of one result or None for a release, input registers, output registers)"""


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
            given: list[str | int] = [f"v{n}" if n in local else n for n in inputs[index]]
            self._given.append(given)
            if recipe is None:
                name = f"i{index}"
                names[name] = instructions[index]
                stale = [n for n in outputs[index] if n in local]
                local.difference_update(stale)
                forget = "".join(f"; v{n} = None" for n in stale)
                lines.append(f" {name}(r){forget}")
                continue
            kernel, read, written = recipe
            if kernel is None:
                targets = [f"r[{n}] = " + (f"v{n} = " if n in local else "") for n in read]
                lines.append(f" {''.join(targets)}None")
                local.difference_update(read)
                continue
            name = kernels.setdefault(id(kernel), f"k{len(kernels)}")
            names[name] = kernel
            (out,) = written
            call = ", ".join(text if isinstance(text, str) else f"r[{text}]" for text in given)
            keep = f"r[{out}] = " if index in kept else ""
            lines.append(f" v{out} = {keep}{name}({call})")
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
