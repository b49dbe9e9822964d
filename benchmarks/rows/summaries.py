"""Summaries: made in a step and added to an event file."""

from __future__ import annotations

import glob
import tempfile
from typing import Any

import numpy as np

from benchmarks.row import Bench, Floor, row

SCALARS = 10
TAG = "loss"


def _by_hand(bench: Bench) -> None:
    """A record of ten numbers, checked and appended to a file."""
    from headrace.codec import protos as pb
    from headrace.codec.records import framed

    with tempfile.TemporaryFile() as file:

        def step() -> int:
            summary = pb.Summary()
            for index in range(SCALARS):
                summary.value.add(tag=f"{TAG}_{index}", simple_value=index)
            event = pb.Event(wall_time=1.0, step=1, summary=summary)
            return file.write(framed(event.SerializeToString()))

        bench.expect(step() > SCALARS, True)
        bench.time(step)


@row(
    "10 scalars merged, fetched and added to an event file",
    faster=3,
    floors=[Floor("the messages made and written by hand", _by_hand)],
)
def scalar_summaries(tf: Any, bench: Bench) -> None:
    """A step that summarizes ten numbers, and FileWriter.add_summary; all of them are in the file."""
    value = tf.placeholder(tf.float32, [])
    for index in range(SCALARS):
        tf.summary.scalar(f"{TAG}_{index}", value + index)
    _time(tf, bench, tf.summary.merge_all(), {value: 1.0})


@row("histograms of 100,000 numbers", faster=3)
def histogram_summaries(tf: Any, bench: Bench) -> None:
    """A step with the histogram of normally distributed numbers, and FileWriter.add_summary."""
    numbers = np.random.RandomState(0).standard_normal(100_000).astype(np.float32)
    values = tf.placeholder(tf.float32, [None])
    _time(tf, bench, tf.summary.histogram(TAG, values), {values: numbers})


def _time(tf: Any, bench: Bench, summary: Any, feed: dict[Any, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder, tf.Session() as session:
        writer = tf.summary.FileWriter(folder)

        def step() -> None:
            writer.add_summary(session.run(summary, feed), 1)

        def events() -> int:
            (path,) = glob.glob(f"{folder}/*")
            return sum(1 for _ in tf.train.summary_iterator(path))

        step()
        writer.flush()
        bench.expect(events(), 2)
        calls = bench.time(step)
        writer.close()
        bench.expect(events(), calls + 2)
