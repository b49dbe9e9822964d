"""Infos: nodes as those who run a step know them, each made once for a step.

Called by: plan.ir, plan.kernels, plan.emit.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from headrace.graph.graph import Operation
from headrace.plan.binding import input_names
from headrace.plan.prune import Pruned
from headrace.plan.waiting_order import inline_callbacks
from headrace.run.exec.kernel import Memos, NodeInfo


class Infos:
    """Gives the `NodeInfo` of a node."""

    def __init__(
        self,
        pruned: Pruned,
        devices: Mapping[Operation, str],
        memos: Memos,
        functions: Callable[[Operation, str], Any],
    ) -> None:
        """functions: gives what finds the functions of a node, which is on that device."""
        self._functions = functions
        self._controls = pruned.controls
        self._devices, self._memos = devices, memos
        self._inline = inline_callbacks(pruned.ops, pruned.controls)
        self._known: dict[Operation, NodeInfo] = {}

    def __call__(self, op: Operation) -> NodeInfo:
        found = self._known.get(op)
        if found is None:
            spec = op.spec
            remembers = spec is None or spec.kernel is None or spec.takes_ctx
            device = self._devices.get(op, op.device)
            found = self._known[op] = NodeInfo(
                op.name,
                op.type,
                device,
                op.attrs,
                op._where,
                self._memos.setdefault(op.name, {}) if remembers else {},
                partial(input_names, op, self._controls.get(op, ())),
                op in self._inline,
                op.traits,
            )
            found.functions = self._functions(op, device)
        return found
