"""Time limits that are to pass in a certain place: who comes there late, on a busy machine, gets more time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

import headrace as tf

LIMITS_MS = (50, 200, 1000, 5000, 20_000)
PROGRAM_WITHIN_S = 240.0
"""For a program with TensorFlow, which has taken 100 s to be imported by seven at once on two busy processors."""


def limits() -> Iterator[tf.RunOptions]:
    """Options with a time limit, a longer one each time."""
    for limit_ms in LIMITS_MS:
        yield tf.RunOptions(timeout_in_ms=limit_ms)


def deadline_that_says(
    step: Callable[[tf.RunOptions], object], said: str
) -> tf.errors.DeadlineExceededError:
    """step(options) must run into its limit each time; the error of the first time that it says what `said` matches."""
    story = []
    for options in limits():
        with pytest.raises(tf.errors.DeadlineExceededError) as caught:
            step(options)
        if re.search(said, str(caught.value)):
            return caught.value
        story.append(str(caught.value))
    raise AssertionError(f"none says {said!r}: {story}")
