"""What a run wants: the nodes that it needs, calls of functions replaced by what they call.

Called by: client.local, client.partial, plan.functions, serve.master.planner, tools.  Threads: any; the graph must not
change meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.base.traits import CALLS_FUNCTION
from headrace.graph.graph import Operation
from headrace.graph.operation import traits_among
from headrace.graph.tensor import Tensor
from headrace.plan.prune import Pruned, needed
from headrace.plan.restores import check_before_assigning

if TYPE_CHECKING:
    from headrace.graph.function_library import Function


@dataclass(frozen=True, slots=True)
class Wanted:
    """pruned: what runs.  feeds, fetches: those of the request, in its order, as nodes of `pruned` have them.

    copies: of nodes of the program, where `pruned` has copies; see `graph.expansion`.
    """

    pruned: Pruned
    feeds: Sequence[Tensor]
    fetches: Sequence[Tensor]
    copies: Mapping[Operation, Operation] = field(default_factory=dict)

    @property
    def everything(self) -> list[Operation]:
        """What is to have a device: what runs, and the nodes of what is fed."""
        return list(dict.fromkeys([*self.pruned.ops, *(tensor.op for tensor in self.feeds)]))


def wanted(
    feeds: Sequence[Tensor],
    fetches: Sequence[Tensor],
    targets: Sequence[Operation],
    *,
    exact: bool = False,
    inside: Function | None = None,
) -> Wanted:
    """What is needed, see `plan.prune.needed`; of calls only those are left that a function makes of itself.

    inside: the function whose body this is.

    Raises as `needed`, and NotFound, InvalidArgument, Unimplemented for functions that are missing or make no sense.
    """
    pruned = needed(feeds, fetches, targets, exact=exact)
    if CALLS_FUNCTION not in traits_among(pruned.ops):
        return Wanted(check_before_assigning(pruned), feeds, fetches)
    from headrace.graph.expansion import Expansion  # few steps call any

    expansion = Expansion(inside=inside)
    expansion.copy(pruned.ops, pruned.controls, feeds, fetches)
    given = [expansion.tensor(tensor) for tensor in feeds]
    outside = [expansion.tensor(tensor) for tensor in fetches]
    aims = [each for target in targets for each in expansion.done(target)]
    again = needed(given, outside, [*aims, *expansion.effects], exact=exact)
    return Wanted(check_before_assigning(again), given, outside, expansion.copies)
