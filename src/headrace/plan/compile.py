"""Compile: nodes in order → a program.

The passes make a step of them (`plan.passes`), which is run instruction by instruction.  What they do not understand,
and what may receive dead values, is for the general executor, node by node (`plan.compile_dataflow`).
Called by: client.local, serve.worker.registered.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.base.traits import CONTROL_FLOW
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.plan import explain
from headrace.plan.devices import Placed, placed
from headrace.plan.emit import emit
from headrace.plan.functions import functions_of
from headrace.plan.fusion import identity, may_pay, setting
from headrace.plan.ir import FUSED, Request, Step, instrs
from headrace.plan.passes import versions
from headrace.plan.prune import Pruned
from headrace.plan.structure import Unstructured
from headrace.plan.whole_loops import programs
from headrace.run.exec.fused import FusedKernel
from headrace.run.exec.kernel import Memos
from headrace.run.exec.measured import Measured
from headrace.run.exec.program import Program
from headrace.run.exec.tuning import Made, Tuner
from headrace.run.exec.whole_loops import LoopProgram

if TYPE_CHECKING:
    from headrace.run.exec.dataflow import DataflowProgram

Compiled: TypeAlias = "Program | DataflowProgram"


def compile_program(
    pruned: Pruned,
    args: Sequence[Tensor],
    returns: Sequence[Tensor],
    *,
    devices: Mapping[Operation, str],
    memos: Memos,
    dataflow: bool = False,
    fold: bool = True,
) -> Compiled:
    """The program of what was pruned that takes `args` and gives `returns`.

    devices: full device name of each node.  memos: what nodes remember between steps, by node name;
    a session passes the same dict for all its programs.  dataflow: values may arrive dead though no
    node here is control flow.  fold: nodes may be merged, run together or be computed now (not for
    traced steps, which list every node).
    Raises: Unimplemented (a node whose op has no kernel here), InvalidArgument (a device that is not there).
    """
    elsewhere = placed(pruned.ops, devices)
    nests = any(CONTROL_FLOW in op.traits for op in pruned.ops)
    why = "since values may be dead"
    if not dataflow and (fold or not nests):
        request = Request(pruned, args, returns, devices, memos, fold, _functions, elsewhere)
        try:
            before, step = versions(request, nests)
            program = emit(step, before)
            if (
                fold
                and _compiles(elsewhere)
                and (how := setting()) != "off"
                and may_pay(pruned.ops, elsewhere)
            ):
                kept = Measured(partial(identity, request))
                program.tuner = Tuner(_forms(request, nests), how == "auto", kept=kept)
            return program
        except Unstructured as error:
            why = f"since {error}"
    from headrace.plan.compile_dataflow import compile_dataflow  # few programs need it

    if explain.enabled:
        explain.general(pruned.ops, why)
    return compile_dataflow(pruned, args, returns, devices, memos, _functions, elsewhere)


def _compiles(elsewhere: Placed) -> bool:
    """Whether what computes elsewhere than on the host may be compiled there."""
    return all(device.compiles for device in elsewhere.values())


def _forms(request: Request, nests: bool) -> dict[str, Callable[[], Made | None]]:
    """The other forms of a program, by name."""
    forms: dict[str, Callable[[], Made | None]] = {
        "compiled": _once(partial(_fused, request, nests))
    }
    return {"loops": _WithLoops(request, nests), **forms} if nests else forms


def _fused(request: Request, nests: bool) -> Made | None:
    """The program in which what is in a row is compiled; None if there is nothing of that, or nobody to do it."""
    from headrace.run.devices import xla  # where there is JAX

    if not request.placed and not xla.compiles_here():
        return None
    before, step = versions(replace(request, fuses=True), nests)
    kernels = _kernels(step)
    return (emit(step, before).run, kernels) if kernels else None


def _once(make: Callable[[], Made | None]) -> Callable[[], Made | None]:
    """What is not made again once it has failed."""
    left = [make]
    return lambda: left.pop()() if left else None


def _kernels(step: Step) -> list[FusedKernel]:
    return [each.kernel.fused for each in instrs(step.code) if each.what == FUSED]  # type: ignore[union-attr]


class _WithLoops:
    """As `_fused`, where loops are compiled as a whole; another time without those for which that has failed."""

    def __init__(self, request: Request, nests: bool) -> None:
        self._request, self._nests = request, nests
        self._made: dict[Operation, LoopProgram] | None = None

    def __call__(self) -> Made | None:
        """None if there are none of them."""
        request = self._request
        if self._made is not None:
            failed = {op for op, program in self._made.items() if program.failed}
            if not failed:
                return None
            request = self._request = replace(request, without=request.without | failed)
        before, step = versions(replace(request, fuses=True, whole=True), self._nests)
        self._made = programs(step)
        if not self._made:
            return None
        return emit(step, before).run, [*_kernels(step), *self._made.values()]


def _functions(op: Operation, device: str) -> Any:
    """What finds the functions that a node calls."""
    return functions_of(op, device, compile_program)
