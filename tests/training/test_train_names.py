"""tf.train and tf.summary have every public name of TensorFlow 1.15, but for those that say why not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.base import missing
from headrace.graph.registry import get

ABSENT = {
    "train.experimental": "trees of TensorFlow 1.15 that are experimental there: loss scales, Python state",
    "train.sdca_fprint": "dual coordinate ascent is not offered",
    "train.sdca_optimizer": "dual coordinate ascent is not offered",
    "train.sdca_shrink_l1": "dual coordinate ascent is not offered",
}
"""Names that are not there, deliberately, and why."""


def names(family: str) -> list[str]:
    """The public names of tf.`family` and the namespaces beneath it in TensorFlow 1.15."""
    text = Path(missing.__file__).with_name("tensorflow_names.txt").read_text()
    rows = re.split(r"\n(?! )", text)
    found = []
    for row in rows:
        namespace, *listed = row.split() or [""]
        short = namespace.removeprefix("tf.")
        if short == family or short.startswith(f"{family}."):
            found += [f"{short}.{name}" for name in listed]
    return found


def value_of(name: str) -> Any:
    found: Any = tf
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize(("family", "least"), [("train", 120), ("summary", 18)])
def test_every_name_is_there_or_says_why_not(family: str, least: int) -> None:
    listed = names(family)
    assert len(listed) >= least
    for name in listed:
        if name in ABSENT or any(name.startswith(f"{absent}.") for absent in ABSENT):
            continue
        value_of(name)


@pytest.mark.parametrize("name", [name for name in ABSENT if "sdca" in name])
def test_what_is_not_offered_says_what_to_use(name: str) -> None:
    with pytest.raises(AttributeError, match="FtrlOptimizer"):
        value_of(name)


def test_graphs_are_not_rewritten_for_fewer_bits() -> None:
    with pytest.raises(tf.errors.UnimplementedError, match="fake_quant"):
        tf.train.do_quantize_training_on_graphdef(tf.Graph().as_graph_def(), 8)


def test_queue_runners_have_a_module_too() -> None:
    assert tf.train.queue_runner.QueueRunner is tf.train.QueueRunner
    assert tf.train.queue_runner.add_queue_runner is tf.train.add_queue_runner
    assert tf.train.queue_runner.start_queue_runners is tf.train.start_queue_runners


def test_summaries_are_not_written_to_databases() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        writer = get("SummaryWriter")(shared_name="w")
        with pytest.raises(tf.errors.UnimplementedError, match="CreateSummaryFileWriter"):
            session.run(get("CreateSummaryDbWriter")(writer, "db", "experiment", "run", "user"))


def test_a_handle_may_be_a_resource_whose_name_stands_for_the_tensor() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        kept = session.run(get("GetSessionHandleV2")(tf.constant([1.0, 2.0])))
        holder, value = tf.get_session_tensor(kept.handle, tf.float32)
        assert session.run(value, {holder: kept.handle}).tolist() == [1.0, 2.0]
        kept.delete()
        with pytest.raises(tf.errors.InvalidArgumentError, match="session store"):
            session.run(value, {holder: kept.handle})
