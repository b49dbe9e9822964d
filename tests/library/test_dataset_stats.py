"""What datasets measure of their elements, and who gathers it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import headrace as tf

Dataset = tf.data.Dataset
experimental = tf.data.experimental


@pytest.fixture(autouse=True)
def _in_a_graph_of_its_own() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def told_to(aggregator: Any, dataset: Any, **more: str) -> Any:
    options = tf.data.Options()
    options.experimental_stats.aggregator = aggregator
    for name, value in more.items():
        setattr(options.experimental_stats, name, value)
    return dataset.with_options(options)


def histograms(summary: bytes) -> dict[str, Any]:
    return {value.tag: value.histo for value in tf.Summary.FromString(summary).value}


def test_sizes_and_times_are_histograms_of_all_iterations() -> None:
    aggregator = experimental.StatsAggregator()
    elements = Dataset.range(4).map(lambda x: tf.fill([x], x))
    measured = elements.apply(experimental.bytes_produced_stats("bytes")).prefetch(1)
    measured = measured.apply(experimental.latency_stats("time"))
    iterator = tf.data.make_initializable_iterator(told_to(aggregator, measured, prefix="train"))
    element, summary = iterator.get_next(), aggregator.get_summary()
    with tf.Session() as session:
        assert session.run(summary) == b""
        for _ in range(2):
            session.run(iterator.initializer)
            for _ in range(4):
                session.run(element)
        found = histograms(session.run(summary))
    assert sorted(found) == ["train::bytes", "train::time"]
    assert (found["train::bytes"].num, found["train::bytes"].sum) == (8, 2 * (0 + 8 + 16 + 24))
    assert found["train::bytes"].max == 24
    assert (found["train::time"].num, found["train::time"].min > 0) == (8, True)


def test_datasets_share_an_aggregator_and_without_one_nothing_is_kept() -> None:
    aggregator = experimental.StatsAggregator()
    measured = [Dataset.range(n).apply(experimental.latency_stats("time")) for n in (2, 3)]
    structure = tf.data.Iterator.from_structure(tf.int64, [])
    begin = [structure.make_initializer(told_to(aggregator, each)) for each in measured]
    quiet = tf.data.make_initializable_iterator(measured[0])
    element, silent, summary = structure.get_next(), quiet.get_next(), aggregator.get_summary()
    with tf.Session() as session:
        for initializer, count in zip(begin, (2, 3), strict=True):
            session.run([initializer, quiet.initializer])
            for _ in range(count):
                session.run(element)
            session.run(silent)
        assert histograms(session.run(summary))["time"].num == 5


def test_a_one_shot_iterator_cannot_take_an_aggregator() -> None:
    with pytest.raises(ValueError, match="stateful node"):
        told_to(experimental.StatsAggregator(), Dataset.range(3)).make_one_shot_iterator()


def test_nodes_of_one_container_and_name_share_an_aggregator() -> None:
    handles = [tf.raw_ops.StatsAggregatorHandle(container="c", shared_name="s") for _ in "ab"]
    with tf.Session() as session:
        first, second = session.run(handles)
    assert first == second


def test_the_older_names_of_the_ops_do_the_same() -> None:
    raw, elements = tf.raw_ops, {"output_types": [tf.int64], "output_shapes": [[]]}
    handle = raw.ExperimentalStatsAggregatorHandle()
    made = raw.ExperimentalLatencyStatsDataset(
        input_dataset=Dataset.range(3)._variant_tensor, tag="time", **elements
    )
    made = raw.ExperimentalBytesProducedStatsDataset(input_dataset=made, tag="bytes", **elements)
    told = raw.ExperimentalSetStatsAggregatorDataset(
        input_dataset=made, stats_aggregator=handle, tag="", counter_prefix="", **elements
    )
    iterator = raw.IteratorV2(shared_name="", container="", **elements)
    begin = raw.MakeIterator(dataset=told, iterator=iterator)
    (element,) = raw.IteratorGetNext(iterator=iterator, **elements)
    summary = raw.ExperimentalStatsAggregatorSummary(iterator=handle)
    wrong = raw.ExperimentalStatsAggregatorSummary(iterator=iterator)
    with tf.Session() as session:
        session.run(begin)
        session.run(element)
        assert {tag: h.num for tag, h in histograms(session.run(summary)).items()} == {
            "time": 1, "bytes": 1,
        }  # fmt: skip
        with pytest.raises(tf.errors.InvalidArgumentError, match="handle of a StatsAggregator"):
            session.run(wrong)
