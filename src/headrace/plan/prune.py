"""Prune: the nodes that a run needs, in an order in which inputs come first.

A control edge from a node that only computes is worth as much as control edges from that node's
own sources, so such a node is not run for the edge's sake: the gradients that `tf.gradients` ties
together with a group are computed only if somebody uses them.  This cannot be observed, but by
tracing, for which `exact` keeps every edge.
Called by: client.local, serve.  Threads: any; the graph must not change meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from headrace.base import errors
from headrace.base.traits import MERGE, NEVER_FAILS, NEXT_ITERATION, PLACEHOLDER
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.plan.binding import wants_reference
from headrace.plan.initialized_reads import has_branches


class Pruned(NamedTuple):
    """What runs: `ops`, inputs first, and what each waits for beside its inputs."""

    ops: Sequence[Operation]
    controls: Mapping[Operation, Sequence[Operation]]


def needed(
    feeds: Iterable[Tensor],
    fetches: Iterable[Tensor],
    targets: Iterable[Operation],
    *,
    exact: bool = False,
) -> Pruned:
    """Nodes needed for `fetches` and `targets` when `feeds` are given.

    A fed tensor needs nothing; its node runs only if another output or the node itself is needed.
    Equal requests give equal orders: the order is that of a depth-first walk from the roots.
    Raises InvalidArgument on a cycle that no loop explains, for a node that asks for a kernel by its label, and for one
    that is to change a variable in the place of which a value is fed.
    """
    fed = set(feeds)
    references = {tensor for tensor in fed if tensor._dtype._is_ref_dtype}
    roots = [tensor.op for tensor in fetches if tensor not in fed]
    roots.extend(targets)
    if not exact:
        found = _found(fed, roots)
        if not has_branches(found, roots):
            # Nodes that run anyway keep their edges: order among them can be observed.
            walk = _Walk(fed, found)
            return _pruned(walk, roots, references)
    return _pruned(
        _Walk(fed, None), roots, references
    )  # with control flow an edge also says what is dead


def _pruned(walk: _Walk, roots: Sequence[Operation], references: set[Tensor]) -> Pruned:
    ops = walk.run(list(roots))
    if references:
        _check_none_changed(ops, references)
    for op in ops:
        if "_kernel" in op.attrs and (label := op.attrs["_kernel"]):
            text = label.decode(errors="replace") if isinstance(label, bytes) else label
            raise errors.invalid_argument(
                f"No OpKernel was registered to support Op {op.type!r} with the label {text!r}, which node {op.name!r} "
                "asks for: headrace's ops have one kernel each; build the node outside of _kernel_label_map",
                node=op.name,
                op_type=op.type,
                built_at=op.built_at,
            )
    return Pruned(ops, walk.controls)


def _check_none_changed(ops: Sequence[Operation], fed: set[Tensor]) -> None:
    for op in ops:
        if op.spec is None or not op.spec.takes_ref:
            continue
        for at, tensor in enumerate(op.inputs):
            if tensor in fed and wants_reference(op, op.spec)[at]:
                kind = tensor._dtype._base.name
                raise errors.invalid_argument(
                    f"Input {at} of node {op.name} was passed {kind} from {tensor.name}, which is fed, incompatible "
                    f"with expected {kind}_ref: {op.type} needs the variable itself; assign it a placeholder, and "
                    "feed that",
                    node=op.name,
                    op_type=op.type,
                    built_at=op.built_at,
                )


def _found(fed: set[Tensor], roots: Sequence[Operation]) -> dict[Operation, list[Operation]]:
    """The nodes that are needed, when an edge from a node that only computes stands for what is behind it.

    For each the nodes whose outputs it takes, but for those that are fed.
    """
    found: dict[Operation, list[Operation]] = {}
    passed: set[Operation] = set()  # only on the way to what is behind them
    needed, behind = list(roots), list[Operation]()
    while needed or behind:
        while needed:
            op = needed.pop()
            if op in found:
                continue
            found[op] = sources = [tensor.op for tensor in op.inputs if tensor not in fed]
            needed += sources
            if op.control_inputs:
                _sort(_waited_for(op, fed), needed, behind)
        if behind:
            op = behind.pop()
            if op in found or op in passed:
                continue
            passed.add(op)
            sources = [tensor.op for tensor in op.inputs if tensor not in fed]
            _sort([*sources, *_waited_for(op, fed)], needed, behind)
    return found


def _sort(sources: Iterable[Operation], needed: list[Operation], behind: list[Operation]) -> None:
    """Nodes that only compute go to `behind`, others are needed."""
    for source in sources:
        (behind if _is_silent(source) else needed).append(source)


def _waited_for(op: Operation, fed: set[Tensor]) -> list[Operation]:
    """Control inputs; a placeholder that is fed is there from the start and does not run."""
    return [
        control
        for control in op.control_inputs
        if PLACEHOLDER not in control.traits or control.outputs[0] not in fed
    ]


def _is_silent(op: Operation) -> bool:
    """Whether `op` only computes."""
    if NEVER_FAILS not in op.traits:
        return False
    return True not in [tensor._dtype._is_ref_dtype for tensor in op.inputs]


class _Walk:
    def __init__(self, fed: set[Tensor], kept: Mapping[Operation, list[Operation]] | None) -> None:
        """kept: nodes to which control edges stay though they only compute, as `_found` gives them; None: all."""
        self._fed = fed
        self._kept = kept
        self._behind: dict[Operation, dict[Operation, None]] = {}
        self.controls: dict[Operation, list[Operation]] = {}

    def run(self, roots: list[Operation]) -> list[Operation]:
        ordered: list[Operation] = []
        done: dict[Operation, bool] = {}  # False: being walked
        for root in roots:  # grows: what closes a loop is walked after the loop
            if root in done:
                continue
            done[root] = False
            op, sources = root, iter(self._sources(root))
            stack: list[tuple[Operation, Iterator[Operation]]] = []
            while True:
                for source in sources:
                    seen = done.get(source)
                    if seen:
                        continue
                    if NEXT_ITERATION in source.traits and MERGE in op.traits:
                        roots.append(source)
                        continue
                    if seen is not None:
                        raise errors.invalid_argument(
                            f"the graph has a cycle through {source.name!r} and {op.name!r}",
                            node=op.name,
                        )
                    behind = self._sources(source)
                    if not behind:
                        done[source] = True
                        ordered.append(source)
                        continue
                    done[source] = False
                    stack.append((op, sources))
                    op, sources = source, iter(behind)
                    break
                else:
                    done[op] = True
                    ordered.append(op)
                    if not stack:
                        break
                    op, sources = stack.pop()
        return ordered

    def _sources(self, op: Operation) -> list[Operation]:
        """Nodes that `op` waits for."""
        kept = self._kept
        sources = None if kept is None else kept.get(op)
        if sources is None:
            sources = [tensor.op for tensor in op.inputs if tensor not in self._fed]
        if not op.control_inputs:
            self.controls[op] = []
            return sources
        controls = _waited_for(op, self._fed)
        if kept is not None and controls:
            controls = list(
                dict.fromkeys(real for control in controls for real in self._real(control))
            )
        self.controls[op] = controls
        return [*sources, *controls]

    def _real(self, control: Operation) -> Iterable[Operation]:
        """`control`, or, if it only computes, the nodes behind it that do more."""
        if not self._skips(control):
            return (control,)
        behind = self._behind
        stack = [control]
        while stack:
            op = stack[-1]
            if behind.get(op):
                stack.pop()
                continue
            sources = [tensor.op for tensor in op.inputs if tensor not in self._fed]
            sources += _waited_for(op, self._fed)
            if op not in behind:
                behind[op] = {}  # a cycle ends here; the walk proper reports it
                later = [s for s in sources if s not in behind and self._skips(s)]
                if later:
                    stack += later
                    continue
            stack.pop()
            found = behind[op]
            for source in sources:
                found.update(behind[source] if self._skips(source) else {source: None})
        return behind[control]

    def _skips(self, op: Operation) -> bool:
        return self._kept is not None and op not in self._kept and _is_silent(op)
