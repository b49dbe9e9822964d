"""Graphs with control flow, run by either executor: as blocks and loops (run.exec.branches), or by the general one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.plan.compile import Compiled, compile_program
from headrace.plan.prune import needed
from headrace.run.exec.dataflow import DataflowProgram
from headrace.run.exec.kernel import Runtime, StepState
from headrace.run.exec.program import Program
from headrace.run.exec.rendezvous import Rendezvous
from headrace.run.scope import Scope

DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"


class Executor:
    """Compiles for one executor, and runs; `runtime` is kept from run to run."""

    def __init__(self, general: bool) -> None:
        self.general = general
        self.runtime = Runtime(DEVICE)

    def compile(
        self,
        fetches: Sequence[Tensor],
        feeds: Sequence[Tensor] = (),
        targets: Sequence[Operation] = (),
    ) -> Compiled:
        """The program; that it is the wanted executor's is checked."""
        pruned = needed(feeds, fetches, targets)
        devices = dict.fromkeys(pruned.ops, DEVICE)
        program = compile_program(
            pruned, list(feeds), list(fetches), devices=devices, memos={}, dataflow=self.general
        )
        assert isinstance(program, DataflowProgram if self.general else Program)
        return program

    def __call__(
        self,
        fetches: Sequence[Tensor] | Tensor,
        feeds: dict[Tensor, Any] | None = None,
        targets: Sequence[Operation] = (),
        scope: Scope | None = None,
    ) -> Any:
        """The values of `fetches` in one step."""
        alone = isinstance(fetches, Tensor)
        wanted: Sequence[Tensor] = [fetches] if isinstance(fetches, Tensor) else fetches
        given = feeds or {}
        program = self.compile(wanted, list(given), targets)
        step = StepState(self.runtime, scope or Scope(), 1, Rendezvous())
        found = program.run(step, list(given.values()))
        return found[0] if alone else found


@pytest.fixture(params=["blocks", "general"])
def execute(request: pytest.FixtureRequest) -> Executor:
    """An `Executor` of each kind."""
    return Executor(request.param == "general")


@pytest.fixture
def general() -> Callable[..., Any]:
    """The general executor."""
    return Executor(True)


@pytest.fixture(scope="session")
def executors() -> tuple[Executor, Executor]:
    """Blocks and loops, and the general executor."""
    return Executor(False), Executor(True)
