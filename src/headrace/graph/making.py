"""What adding a node of an op has to know of its schema, read off once: most of what a node costs is asking for it.

Called by: graph.build, by way of `OpSpec.making`.  Threads: any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.base import dtypes
from headrace.base.traits import CONST
from headrace.graph.schemas import MISSING, ArgDef

if TYPE_CHECKING:
    from headrace.graph.registry import OpSpec

__all__: list[str] = []

Kind = tuple["dtypes.DType | None", str, bool]
"""Of one tensor: its dtype; or None, and the attr that says it; and whether it is a reference."""


class Making:
    """Of an op.

    attrs: their definitions, by name.  count: of inputs, lists being one.  inputs: of each; None where one is a list.
    references: of each whether it is one; None likewise.  output: where it is the only one, and no list.  defaults:
    what a node has for each attr, in order, that it does not say, `MISSING` where it has to, which `needed` names;
    `lists` are those of which every node has its own.  allowed: attrs that are one dtype, with the identities of those
    that it may be.  checks: whether more is asked of values.
    """

    __slots__ = (
        "allowed",
        "attrs",
        "checks",
        "container",
        "count",
        "defaults",
        "inputs",
        "is_const",
        "lists",
        "needed",
        "output",
        "references",
        "takes_ref",
    )

    def __init__(self, spec: OpSpec) -> None:
        inputs, outputs, attrs = spec.inputs, spec.outputs, spec.attrs
        self.count = len(inputs)
        self.attrs = attrs
        self.inputs: tuple[Kind, ...] | None = None
        if not any(each.is_list for each in inputs):
            self.inputs = tuple(map(_kind, inputs))
        references = tuple([each.is_ref for each in inputs])
        self.references = None if self.inputs is None else references
        self.takes_ref = any(references)
        self.output: Kind | None = None
        if len(outputs) == 1 and not outputs[0].is_list:
            self.output = _kind(outputs[0])
        self.defaults: dict[str, Any] = {name: each.default for name, each in attrs.items()}
        self.lists = [name for name, value in self.defaults.items() if isinstance(value, list)]
        self.needed = frozenset([name for name, each in self.defaults.items() if each is MISSING])
        limited = [each for each in attrs.values() if each.allowed is not None]
        self.allowed = [(each.name, each.allowed_ids) for each in limited if each.kind == "type"]
        self.checks = len(limited) > len(self.allowed) or any(
            each.minimum is not None for each in attrs.values()
        )
        self.container = "container" in attrs
        self.is_const = CONST in spec.traits


def _kind(argument: ArgDef) -> Kind:
    return argument.type, argument.type_attr or "", argument.is_ref
