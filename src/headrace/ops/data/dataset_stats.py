"""Datasets that measure their elements, and the aggregator that they tell.

Called by: library.data, programs that name these ops.  Threads: building as graph; kernels any step's.
Source: TF 1.15 core/ops/experimental_dataset_ops.cc; the names that 2.21 has, too
"""

from __future__ import annotations

from typing import Any, Final

from headrace.base import errors
from headrace.base.traits import HANDLE, STATEFUL
from headrace.graph.registry import op
from headrace.graph.shape_fns import scalar
from headrace.ops.data.dataset_ops import Shapes, Types
from headrace.ops.data.dataset_values import (
    ELEMENTS,
    Passes,
    dataset_of,
    dataset_op,
    made,
    scalar_of,
    value_of,
)
from headrace.run.data.chunks import boxed
from headrace.run.data.stage import Dataset, Iteration, Stage
from headrace.run.data.stats import Aggregator, Measured, Prefixed
from headrace.run.exec.kernel import KernelContext

__all__: list[str] = []


def _aggregator(handle: Any) -> Aggregator:
    if isinstance(handle, Aggregator):
        return handle
    raise errors.invalid_argument(
        f"expected the handle of a StatsAggregator, and not that of a {type(handle).__name__}"
    )


def _text(name: str, value: Any) -> str:
    return bytes(scalar_of(name, value)).decode(errors="replace")


def _handle(ctx: KernelContext, *, container: bytes, shared_name: bytes) -> Aggregator:
    """The aggregator; nodes of one container and shared_name share it."""
    return ctx.private_resource(
        Aggregator, lambda: Aggregator(ctx.node.name), container, shared_name
    )


def _summary(ctx: KernelContext, iterator: Any) -> Any:
    """What an aggregator was told, as a serialized Summary [].  Raises InvalidArgument."""
    return boxed(_aggregator(iterator).summary().SerializeToString())


def _set_aggregator(
    ctx: KernelContext,
    input_dataset: Any,
    stats_aggregator: Any,
    tag: Any,
    counter_prefix: Any,
    *,
    output_types: Types,
    output_shapes: Shapes,
) -> Any:
    """The same elements; what is measured before goes to the aggregator, `tag` before the names.

    Raises InvalidArgument.
    """
    stats = Prefixed(_aggregator(stats_aggregator), _text("tag", tag))
    _text("counter_prefix", counter_prefix)

    def stage(run: Iteration, source: Dataset) -> Stage:
        return source.stage(run.measured(stats))

    return value_of(
        Passes(
            "SetStatsAggregator",
            output_types,
            output_shapes,
            stage,
            [dataset_of(input_dataset)],
            lambda count: count,
        )
    )


def _measured(kind: str, sizes: bool) -> Any:
    def kernel(
        xp: Any, input_dataset: Any, tag: Any, *, output_types: Types, output_shapes: Shapes
    ) -> Any:
        """The same elements, which are measured: the microseconds that each took, or its bytes.

        Raises InvalidArgument.
        """
        name = _text("tag", tag)
        return made(
            kind,
            output_types,
            output_shapes,
            lambda run, source: Measured(run, source, name, sizes),
            dataset_of(input_dataset),
            cardinality=lambda count: count,
        )

    return kernel


_SOURCE: Final = "input_dataset: variant; "

for _prefix in ("", "Experimental"):
    op(
        f"{_prefix}StatsAggregatorHandle",
        outputs="handle: resource",
        attrs="container: string = ''; shared_name: string = ''",
        shape=scalar,
        traits={STATEFUL, HANDLE},
        differentiable=False,
    )(_handle)
    op(
        f"{_prefix}StatsAggregatorSummary",
        inputs="iterator: resource",
        outputs="summary: string",
        shape=scalar,
        traits={STATEFUL},
        differentiable=False,
    )(_summary)
    dataset_op(
        f"{_prefix}SetStatsAggregatorDataset",
        _SOURCE + "stats_aggregator: resource; tag: string; counter_prefix: string",
        ELEMENTS,
        stateful=True,
    )(_set_aggregator)
    for _kind, _sizes in (("Latency", False), ("BytesProduced", True)):
        dataset_op(f"{_prefix}{_kind}StatsDataset", _SOURCE + "tag: string", ELEMENTS)(
            _measured(f"{_kind}Stats", _sizes)
        )
