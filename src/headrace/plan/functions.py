"""Functions of the graph that kernels call: each is planned once, and run as a step of its own.

A kernel asks its node (`NodeInfo.functions`) for what an attr names; datasets run their functions so.  All nodes of
such a function are on the device of the node that calls it.
Called by: plan.compile.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from headrace.base import dtypes
from headrace.base.traits import CALLS_USER, KEEPS_NOTHING, LETS_OTHERS_RUN, MAY_WAIT, STATEFUL
from headrace.codec import protos as pb
from headrace.graph.function_library import Function
from headrace.graph.operation import Operation
from headrace.plan.columns import ColumnFunction, column_function
from headrace.plan.place import place
from headrace.plan.wanted import wanted
from headrace.run.exec.dataflow import DataflowProgram
from headrace.run.exec.kernel import Memos, StepState
from headrace.run.exec.program import Program

Compile = Callable[..., Program | DataflowProgram]
"""`plan.compile.compile_program`"""


class StepFunction:
    """A function, planned for a device.

    keeps: whether nodes of it remember something from one call to the next, such as what they have drawn; see `anew`.
    remembering: the types of those, but for what makes datasets, which are descriptions, and what keeps nothing.
    waits: whether a node of it may have to wait, or runs what is the user's.
    lets_others_run: whether other threads have the interpreter for a good part of it.
    """

    def __init__(self, function: Function, device: str, compile_program: Compile) -> None:
        """Raises as `plan.wanted.wanted` and `plan.place.place`."""
        body = function.body
        self.name = function.name
        self.inputs = [(t.dtype.base_dtype, t.shape) for t in body.inputs]
        self.outputs = [(t.dtype.base_dtype, t.shape) for t in body.outputs]
        self.wanted = wanted(body.inputs, body.outputs, body.effects(), inside=function)
        stateful = [op for op in self.wanted.pruned.ops if STATEFUL in op.traits]
        self.keeps = bool(stateful)
        self.remembering = {op.type for op in stateful if _remembers(op)}
        self.waits = any(
            not op.traits.isdisjoint({MAY_WAIT, CALLS_USER}) for op in self.wanted.pruned.ops
        )
        self.lets_others_run = any(LETS_OTHERS_RUN in op.traits for op in self.wanted.pruned.ops)
        self.devices = place(self.wanted.everything, [device], allow_soft_placement=True)
        self._by_columns: dict[int, ColumnFunction | None] = {}
        self._compile_program = compile_program
        self._memos: Memos = {}
        self._program = self._compiled(self._memos)

    def _compiled(self, memos: Memos) -> Program | DataflowProgram:
        found = self.wanted
        return self._compile_program(
            found.pruned, found.feeds, found.fetches, devices=self.devices, memos=memos
        )

    def anew(self) -> StepFunction:
        """One that remembers nothing yet; the same if there is nothing to remember."""
        if not self.keeps:
            return self
        made = object.__new__(StepFunction)
        made.__dict__.update(self.__dict__)
        made._by_columns, made._memos = {}, {}
        made._program = self._compiled(made._memos)
        return made

    def by_columns(self, varying: int) -> ColumnFunction | None:
        """The same for many elements at once, of which the first `varying` arguments vary; None if it is not run so."""
        if varying not in self._by_columns:
            self._by_columns[varying] = column_function(self.wanted, self._memos, varying)
        return self._by_columns[varying]

    def __call__(self, args: Sequence[Any], step: StepState) -> list[Any]:
        """Its results, the caller's own.  Waits as its nodes do, by the scope of `step`; raises what they raise."""
        return self._program.run(step, list(args))


def functions_of(
    op: Operation, device: str, compile_program: Compile
) -> Callable[[pb.NameAttrList], StepFunction]:
    """What finds the functions that attrs of a node name.  device: the node's."""
    return partial(_find, op, device, compile_program)


def _find(
    op: Operation, device: str, compile_program: Compile, reference: pb.NameAttrList
) -> StepFunction:
    function = op.graph.library.find(reference, op.name)
    found: StepFunction = function.cached(
        ("step", device), lambda: StepFunction(function, device, compile_program)
    )
    return found


def _remembers(op: Operation) -> bool:
    makes_dataset = [tensor.dtype.base_dtype for tensor in op.outputs] == [dtypes.variant]
    return not makes_dataset and KEEPS_NOTHING not in op.traits
