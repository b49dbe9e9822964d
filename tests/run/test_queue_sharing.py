"""Queues that several nodes, sessions and containers mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.base import dtypes, errors
from headrace.run.pending import Pending
from headrace.run.queues.fifo import FIFOQueue
from headrace.run.queues.queue import Queue
from headrace.run.queues.shuffle import RandomShuffleQueue
from headrace.run.queues.spec import QueueSpec
from headrace.run.state.resources import ResourceManager

BASE: dict[str, Any] = {"component_types": [dtypes.int32], "shapes": [()], "capacity": 5}
MISMATCHES: list[tuple[type[Queue], dict[str, Any], type[Queue], dict[str, Any], str]] = [
    (FIFOQueue, {}, FIFOQueue, {"capacity": 6}, "has capacity 5 but requested capacity was 6"),
    (
        FIFOQueue,
        {},
        FIFOQueue,
        {"component_types": [dtypes.float32]},
        "has component types int32 but requested component types were",
    ),
    (
        FIFOQueue,
        {},
        FIFOQueue,
        {"shapes": [(2,)]},
        "has component shapes [[]] but requested component shapes were [[2]]",
    ),
    (
        FIFOQueue,
        {},
        FIFOQueue,
        {"shapes": []},
        "has component shapes [[]] but requested component shapes were []",
    ),
    (FIFOQueue, {}, RandomShuffleQueue, {}, "Expected FIFOQueue, found RandomShuffleQueue"),
    (RandomShuffleQueue, {}, FIFOQueue, {}, "Expected RandomShuffleQueue, found FIFOQueue"),
    (
        RandomShuffleQueue,
        {"min_after_dequeue": 1},
        RandomShuffleQueue,
        {"min_after_dequeue": 2},
        "min_after_dequeue 1 but requested min_after_dequeue was 2",
    ),
    (
        RandomShuffleQueue,
        {},
        RandomShuffleQueue,
        {"seed": 2},
        "random seeds (0, 0) but requested seeds are",
    ),
]


@pytest.mark.parametrize(("have", "attrs", "want", "other_attrs", "words"), MISMATCHES)
def test_nodes_that_share_a_queue_must_agree(
    have: type[Queue],
    attrs: dict[str, Any],
    want: type[Queue],
    other_attrs: dict[str, Any],
    words: str,
) -> None:
    manager = ResourceManager()
    have.open(manager, "", "S", QueueSpec.make(**{**BASE, **attrs}))
    with pytest.raises(errors.InvalidArgumentError) as raised:
        want.open(manager, "", "S", QueueSpec.make(**{**BASE, **other_attrs}))
    assert "'S'" in str(raised.value)
    assert words in str(raised.value)


def test_nodes_that_agree_share_a_queue() -> None:
    manager = ResourceManager()
    seeded = QueueSpec.make(**BASE, seed=1)
    first = RandomShuffleQueue.open(manager, "c", "S", seeded)
    assert RandomShuffleQueue.open(manager, "c", "S", seeded) is first
    assert RandomShuffleQueue.open(manager, "c", "S", QueueSpec.make(**BASE)) is first
    assert RandomShuffleQueue.open(manager, "d", "S", seeded) is not first


def test_a_ref_type_is_its_base_type() -> None:
    ref = QueueSpec.make([dtypes.float32_ref], [()])
    assert ref == QueueSpec.make([dtypes.float32], [()])


def test_a_queue_that_is_dropped_wakes_everyone_and_can_be_used_up() -> None:
    manager = ResourceManager()
    queue = FIFOQueue.open(manager, "c", "S", QueueSpec.make([dtypes.int32], [()], 2))
    waiting = [queue.dequeue_many(3), queue.dequeue()]
    one = (np.int32(1),)
    queue.enqueue(one)
    manager.cleanup(["c"])
    for pending in waiting:
        refused(pending)
    queue.enqueue(one)
    assert queue.dequeue().result() == queue.dequeue().result() == one
    refused(queue.dequeue())
    queue.enqueue(one)
    queue.enqueue(one)
    refused(queue.enqueue(one))


def refused(pending: Pending[Any]) -> None:
    assert isinstance(pending.error, errors.CancelledError)
    assert "FIFOQueue 'S' was removed from container 'c'" in str(pending.error)
