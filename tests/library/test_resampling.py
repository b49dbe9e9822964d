"""`rejection_resample`; its nodes and draws are compared with TensorFlow's in tests/oracle/programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from tests.library.test_datasets import everything

Dataset = tf.data.Dataset
resample = tf.data.experimental.rejection_resample
WANTED = [0.2, 0.3, 0.5]


@pytest.fixture(autouse=True)
def _in_a_graph_of_its_own() -> Iterator[None]:
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        yield


def classes(count: int = 4000) -> Any:
    """0 with probability 0.6, 1 with 0.3, 2 with 0.1."""
    drawn = np.random.default_rng(3).choice(3, count, p=[0.6, 0.3, 0.1])
    return Dataset.from_tensor_slices(drawn.astype(np.int32))


@pytest.mark.parametrize("initial", [None, [0.6, 0.3, 0.1], np.array([6, 3, 1])])
def test_classes_come_as_often_as_they_are_wanted(initial: Any) -> None:
    initial = initial / 10 if isinstance(initial, np.ndarray) else initial
    found = everything(classes().apply(resample(lambda x: x, WANTED, initial, seed=2)), 1000)
    assert all(number == element for number, element in found)
    counts = np.bincount([number for number, _ in found], minlength=3) / len(found)
    assert np.abs(counts - WANTED).max() < 0.06


def test_what_is_wanted_already_passes_as_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    dataset = Dataset.from_tensor_slices(([0, 1, 1], ["a", "b", "c"]))
    same = dataset.apply(resample(lambda x, _: x, [0.5, 0.5], [0.5, 0.5]))
    assert everything(same) == [(0, (0, b"a")), (1, (1, b"b")), (1, (1, b"c"))]
    assert not capfd.readouterr().err


def test_many_that_are_left_out_are_told_of(capfd: pytest.CaptureFixture[str]) -> None:
    only = classes(100).apply(resample(lambda x: x, [0.0, 0.0, 1.0], [0.6, 0.3, 0.1], seed=2))
    assert {number for number, _ in everything(only)} == {2}
    assert "Proportion of examples rejected by sampler is high" in capfd.readouterr().err


def test_how_many_classes_there_are_must_be_known_for_an_estimate() -> None:
    with pytest.raises(ValueError, match="Tried to convert 'depth'"):
        classes().apply(resample(lambda x: x, tf.placeholder(tf.float32)))
    with pytest.raises(ValueError, match="Dimensions must be equal"):
        classes().apply(resample(lambda x: x, [0.5, 0.5], [0.6, 0.3, 0.1]))
