"""Compile: nodes in order → a program.

The passes make a step of them (`plan.passes`), which is run instruction by instruction.  What they do not understand,
and what may receive dead values, is for the general executor, node by node (`plan.compile_dataflow`).
Called by: client.local, serve.worker.registered.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headrace.base.traits import CONTROL_FLOW
from headrace.graph.graph import Operation
from headrace.graph.operation import traits_among
from headrace.graph.tensor import Tensor
from headrace.plan import explain
from headrace.plan.devices import Placed, placed
from headrace.plan.emit import emit
from headrace.plan.fusion import identity, may_pay, setting
from headrace.plan.ir import FUSED, Request, Step, instrs
from headrace.plan.passes import versions
from headrace.plan.prune import Pruned
from headrace.plan.structure import Unstructured
from headrace.run.exec.fused import FusedKernel
from headrace.run.exec.kernel import Memos
from headrace.run.exec.measured import Measured
from headrace.run.exec.program import Program
from headrace.run.exec.tuning import Made, Tuner

if TYPE_CHECKING:
    from headrace.run.exec.dataflow import DataflowProgram
    from headrace.run.exec.whole_loops import LoopProgram

_MOST_FORMS: Final = 8
"""How often a form is made, each time without what could not be compiled before."""
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
    nests = CONTROL_FLOW in traits_among(pruned.ops)
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
    forms: dict[str, Callable[[], Made | None]] = {}
    if nests:
        if not request.placed:
            forms["joined"] = _Form(request, nests, whole=True, joins=True)
        forms["loops"] = _Form(request, nests, whole=True)
    forms["compiled"] = _Form(request, nests)
    return forms


class _Form:
    """The program in which what is in a row is compiled, and loops as a whole if wanted, joined with what is between.

    Asked again, it is one without the nodes and loops for which that has failed.
    """

    def __init__(
        self, request: Request, nests: bool, whole: bool = False, joins: bool = False
    ) -> None:
        self._request = replace(request, fuses=True, whole=whole, joins=joins)
        self._nests = nests
        self._kernels: list[FusedKernel] = []
        self._loops: dict[Operation, LoopProgram] = {}
        self._left = _MOST_FORMS

    def __call__(self) -> Made | None:
        """None if there is nothing to be compiled, or nobody to do it."""
        if self._left < _MOST_FORMS:
            failed = {op for op, program in self._loops.items() if program.failed}
            failed |= {each.refused for each in self._kernels if each.refused is not None}
            if failed <= self._request.without or not self._left:
                return None
            self._request = replace(self._request, without=self._request.without | failed)
        self._left -= 1
        return self._made()

    def _made(self) -> Made | None:
        from headrace.run.devices import xla  # where there is JAX

        request = self._request
        if not request.placed and not xla.compiles_here():
            return None
        from headrace.plan.whole_loops import programs
        from headrace.run.exec.joined_loops import JoinedProgram

        before, step = versions(request, self._nests)
        self._kernels = _kernels(step)
        self._loops = programs(step) if request.whole else {}
        if request.whole and not self._loops:
            return None
        if request.joins and not any(
            isinstance(each, JoinedProgram) for each in self._loops.values()
        ):
            return None
        compiled = [*self._kernels, *self._loops.values()]
        return (emit(step, before).run, compiled) if compiled else None


def _kernels(step: Step) -> list[FusedKernel]:
    return [each.kernel.fused for each in instrs(step.code) if each.what == FUSED]  # type: ignore[union-attr]


def _functions(op: Operation, device: str) -> Any:
    """What finds the functions that a node calls; None if its graph has none."""
    if not op.graph._library:
        return None
    from headrace.plan.functions import functions_of  # few graphs have any

    return functions_of(op, device, compile_program)
