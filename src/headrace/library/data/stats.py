"""`tf.data.experimental.StatsAggregator`, and what it is told: how long elements take, how large they are.

Called by: programs.  Threads: building as graph.
Source: TF 1.15 python/data/experimental/ops/{stats_aggregator,stats_ops}.py, for behaviour
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.library.data.datasets import Dataset

__all__ = ["StatsAggregator", "bytes_produced_stats", "latency_stats"]

Transformation = Callable[[Dataset], Dataset]


class StatsAggregator:
    """Gathers what datasets measure whose options have it: `options.experimental_stats.aggregator`.

    What `latency_stats` and `bytes_produced_stats` measure in such a dataset becomes a histogram for each tag, of all
    iterations together.
    """

    def __init__(self) -> None:
        self._resource = get("StatsAggregatorHandle")()

    def get_summary(self) -> Tensor:
        """A serialized Summary, string [], with a histogram for each tag; for the collection `SUMMARIES`."""
        made: Tensor = get("StatsAggregatorSummary")(self._resource)
        return made


def bytes_produced_stats(tag: Any) -> Transformation:
    """The same elements; the bytes of each are told to the aggregator of the options, as `tag`."""
    return lambda dataset: dataset._like("BytesProducedStatsDataset", _tag(tag))


def latency_stats(tag: Any) -> Transformation:
    """The same elements; the microseconds that each took are told to the aggregator of the options, as `tag`."""
    return lambda dataset: dataset._like("LatencyStatsDataset", _tag(tag))


def _tag(tag: Any) -> Tensor:
    made: Tensor = convert(tag, dtypes.string, "tag")
    return made
