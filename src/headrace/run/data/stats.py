"""Measures of datasets: how long elements take and how large they are, gathered by an aggregator.

Called by: ops.data.dataset_stats.  Threads: stages as run.data.stage; `Aggregator` any, `_lock` guards it.
Source: TF 1.15 core/kernels/data/experimental/{stats_dataset_ops,stats_aggregator_ops}.cc, for behaviour
"""

from __future__ import annotations

import threading
import time

import numpy as np

from headrace.codec import protos as pb
from headrace.codec.summary_values import Counts
from headrace.run.data.chunks import Chunk, value_bytes, values_of
from headrace.run.data.stage import Iteration, Stage
from headrace.run.state.resources import Resource
from headrace.run.uninterrupted import changes


@changes
class Aggregator(Resource):
    """A histogram for each tag."""

    type_name = "N10tensorflow4data12experimental23StatsAggregatorResourceE"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._lock = threading.Lock()
        self._counts: dict[str, Counts] = {}

    def add(self, tag: str, values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
        """See `Stats`."""
        with self._lock:
            self._counts.setdefault(tag, Counts()).add(values)

    def summary(self) -> pb.Summary:
        """All histograms, in the order of their tags."""
        with self._lock:
            return pb.Summary(
                value=[
                    pb.Summary.Value(tag=tag, histo=counts.histogram())
                    for tag, counts in sorted(self._counts.items())
                ]
            )


class Prefixed:
    """What an aggregator is told, under tags that begin with a prefix."""

    def __init__(self, to: Aggregator, prefix: str) -> None:
        self._to = to
        self._prefix = f"{prefix}::" if prefix else ""

    def add(self, tag: str, values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
        """See `Stats`."""
        self._to.add(self._prefix + tag, values)


class Measured(Stage):
    """The same elements, whose time in microseconds or size in bytes is told: see `of`."""

    steady = False  # who looks at the measures can tell

    def __init__(self, run: Iteration, source: Stage, tag: str, sizes: bool) -> None:
        super().__init__(run, source)
        self._tag = tag
        self._sizes = sizes

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        began_s = time.perf_counter()
        chunk = self.inputs[0].pull(most)
        stats = self.run.stats
        if chunk is None or stats is None:
            return chunk
        if self._sizes:
            stats.add(self._tag, _sizes(chunk))
        else:
            took_us = 1e6 * (time.perf_counter() - began_s)
            stats.add(self._tag, np.full(chunk.count, took_us / chunk.count))
        return chunk


def _sizes(chunk: Chunk) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Of each element."""
    found = np.zeros(chunk.count)
    for column in chunk.columns:
        found += [value_bytes(value) for value in values_of(column)]
    return found
