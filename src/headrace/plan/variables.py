"""Variables of a step: which one each reference or handle stands for, and where it lives.

A reference goes through Identity and through the updates of its variable; a handle through Identity.  Two nodes that
make a variable may still mean the same one, by its name: who counts on their being different looks when the step runs.
Called by: plan.fusion, plan.fused_kernels.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.base import dtypes
from headrace.base.traits import IDENTITY, KEEPS_REFS, UPDATES, VAR_HANDLE, VARIABLE
from headrace.plan.ir import NODE, Instr, Step, instrs
from headrace.run.devices.device import HOST, Device
from headrace.run.devices.table import of_name


class Variables:
    """Of a step, with what is in its branches and loops."""

    def __init__(self, step: Step) -> None:
        self._request, self._values = step.request, step.values
        self._same: dict[int, int] = {}
        for instr in instrs(step.code):
            if instr.what == NODE and not instr.body and self._hands_on(instr):
                self._same[instr.outputs[0]] = instr.inputs[0]

    def _hands_on(self, instr: Instr) -> bool:
        """Whether its first output stands for the variable that its first input does."""
        if not instr.inputs or not instr.outputs or not self.stands(instr.inputs[0]):
            return False
        if instr.inputs[0] in self._values.references:
            return KEEPS_REFS in instr.op.traits or UPDATES in instr.op.traits
        return IDENTITY in instr.op.traits

    def stands(self, value: int) -> bool:
        """Whether it is a reference or a handle."""
        tensor = self._values.tensors[value]
        return value in self._values.references or (
            tensor is not None and tensor._dtype is dtypes.resource
        )

    def of(self, value: int) -> int:
        """The same for all values that stand for one variable: that which its node gives, if it is known."""
        while value in self._same:
            value = self._same[value]
        return value

    def lives_on(self, value: int) -> Device | None:
        """Where the variable lives that it stands for; None if nobody knows."""
        value = self.of(value)
        if self._values.is_fed(value) or not self.stands(value):
            return None
        op = self._values.tensor(value).op
        if VARIABLE not in op.traits and VAR_HANDLE not in op.traits:
            return None
        device = of_name(self._request.devices.get(op, op.device))
        return device if device.keeps(op.attrs["dtype"].name) else HOST

    def seen_by(self, instr: Instr) -> Iterator[int | None]:
        """The variables that an instruction may look at, as `of` has them; None: one of which nobody knows which."""
        if KEEPS_REFS in instr.op.traits and instr.outputs and instr.outputs[0] in self._same:
            return  # which it hands on as it is
        for value in instr.inputs:
            if self.stands(value):
                yield self.of(value) if self.lives_on(value) is not None else None
            elif value in self._values.aliases:
                yield None
