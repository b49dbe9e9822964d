"""`tf.contrib.training`: examples drawn by chance, weight or class, and `train`, the loop around a training op.

Called by: programs.  Threads: as graph; those of `train` have ended when it returns.
Source: behaviour of TensorFlow 1.15's contrib
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base.arguments import check_function, several
from headrace.graph.collections import GraphKeys
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.sorting import repeat
from headrace.library.variables.initializers import zeros_initializer
from headrace.library.variables.moving_average import assign_moving_average
from headrace.library.variables.variable_scope import get_variable, variable_scope
from headrace.library.variables.variables import Variable
from headrace.ops.array.gathering import gather
from headrace.ops.array.one_hot import one_hot
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.shapes import squeeze
from headrace.ops.flow.checks import assert_less_equal
from headrace.ops.flow.identities import stop_gradient, with_dependencies
from headrace.ops.math.casting import cast
from headrace.ops.math.reductions import reduce_max, reduce_mean, reduce_sum
from headrace.ops.random.draws import random_poisson, random_uniform
from headrace.ops.tables import make
from headrace.training.batching import batch, maybe_batch
from headrace.training.monitored_training import MonitoredTrainingSession

__all__ = [
    "RandomStrategy",
    "rejection_sample",
    "resample_at_rate",
    "stratified_sample",
    "train",
    "weighted_resample",
]


def _one_by_one(tensors: list[Any], enqueue_many: bool, capacity: int, threads: int) -> list[Any]:
    """The examples of a batch, one in each step; examples themselves as they are."""
    if not enqueue_many:
        return tensors
    found = batch(tensors, 1, num_threads=threads, capacity=capacity, enqueue_many=True)
    return [squeeze(each, [0]) for each in (found if isinstance(found, list) else [found])]


def _kept(tensors: list[Any], chance: Any, batch_size: int, threads: int) -> list[Any]:
    """Batches of what is taken with this chance."""
    keep = random_uniform([], dtype=dtypes.float32) < cast(chance, dtypes.float32)
    found = maybe_batch(tensors, keep, batch_size, num_threads=threads)
    return found if isinstance(found, list) else [found]


def rejection_sample(
    tensors: Sequence[Any],
    accept_prob_fn: Callable[[list[Any]], Any],
    batch_size: int,
    queue_threads: int = 1,
    enqueue_many: bool = False,
    prebatch_capacity: int = 16,
    prebatch_threads: int = 1,
    runtime_checks: bool = False,
    name: str | None = None,
) -> list[Tensor]:
    """Batches of examples that are each taken with the probability that accept_prob_fn gives, a scalar.

    enqueue_many: tensors hold examples along their first axis; a queue of prebatch_capacity hands them on.
    runtime_checks: a probability that is not in [0, 1] is an InvalidArgumentError of the step.  Queue runners are added
    to the graph.
    """
    tensors = several("rejection_sample", "tensors", tensors, "tensors")
    check_function("rejection_sample", "accept_prob_fn", accept_prob_fn, "lambda tensors: 0.5")
    with variable_scope(name, "rejection_sample", tensors):
        given = [convert(each) for each in tensors]
        given = _one_by_one(given, enqueue_many, prebatch_capacity, prebatch_threads)
        chance = convert(accept_prob_fn(given))
        if runtime_checks:
            inside = [
                assert_less_equal(cast(0, chance.dtype), chance),
                assert_less_equal(chance, cast(1, chance.dtype)),
            ]
            chance = with_dependencies(inside, chance)
        return _kept(given, chance, batch_size, queue_threads)


def stratified_sample(
    tensors: Sequence[Any],
    labels: Any,
    target_probs: Any,
    batch_size: int,
    init_probs: Any = None,
    enqueue_many: bool = False,
    queue_capacity: int = 16,
    threads_per_queue: int = 1,
    name: str | None = None,
) -> tuple[list[Tensor], Tensor]:
    """(Batches of examples, labels [batch_size]) in which classes are as frequent as target_probs [classes] say.

    labels: an int scalar, or [n] with enqueue_many, where tensors hold examples along their first axis.  init_probs
    [classes]: how frequent classes are in the data; without it that is estimated while the program runs, in local
    variables.  Queue runners are added to the graph.  Raises ValueError: probabilities that are none.
    """
    with name_scope(name, "stratified_sample", [*tensors, labels]):
        wanted = convert(target_probs, dtypes.float32, "target_probs")
        _check_probabilities("target_probs", wanted)
        given = [*(convert(each) for each in tensors), convert(labels)]
        *given, label = _one_by_one(given, enqueue_many, queue_capacity, threads_per_queue)
        label.shape.assert_has_rank(0)
        if init_probs is None:
            had = _estimated(label, wanted.shape[0].value)
        else:
            had = convert(init_probs, dtypes.float32, "init_probs")
            _check_probabilities("init_probs", had)
            had.shape.assert_is_compatible_with(wanted.shape)
        ratios = make.DivNoNan(wanted, had)
        chances = ratios / reduce_max(ratios)
        *found, classes = _kept(
            [*given, label], gather(chances, label), batch_size, threads_per_queue
        )
        return found, classes


def _check_probabilities(what: str, value: Tensor) -> None:
    value.shape.assert_has_rank(1)
    if value.shape[0].value is None:
        raise ValueError(f"{what} must have a known number of classes")
    known = constant_value(value)
    if known is not None and (np.any(known < 0) or abs(float(np.sum(known)) - 1) > 1e-3):
        raise ValueError(f"{what} must be probabilities that add up to 1, not {known}")


def _estimated(label: Tensor, classes: Any) -> Tensor:
    """How frequent classes are, by counts that begin with ten of each."""
    seen = Variable(
        initial_value=np.full(classes, 10.0, np.float32),
        trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES],
        name="class_count",
    )
    counted = seen.assign_add(one_hot(label, classes, dtype=dtypes.float32))
    found: Tensor = counted / reduce_sum(counted)
    return found


def resample_at_rate(
    inputs: Sequence[Any],
    rates: Any,
    scope: str | None = None,
    seed: int | None = None,
    back_prop: bool = False,
) -> list[Tensor]:
    """Rows [n, …] of all inputs, each as often as a Poisson draw of its rate [n] says: [m, …], m by chance.

    back_prop: whether gradients flow to the inputs.
    """
    inputs = several("resample_at_rate", "inputs", inputs, "tensors")
    with name_scope(scope, "resample_at_rate", inputs):
        frequency = convert(rates, name="rates")
        times = cast(random_poisson(frequency, [], dtypes.float32, seed), dtypes.int32)
        rows = repeat(range_of(shape_of(frequency)[0]), times)
        found = [gather(each, rows) for each in inputs]
        return found if back_prop else [stop_gradient(each) for each in found]


def weighted_resample(
    inputs: Sequence[Any],
    weights: Any,
    overall_rate: Any,
    scope: str | None = None,
    mean_decay: float = 0.999,
    seed: int | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """(Rates, rows of all inputs): as `resample_at_rate`, a row as often as its weight [n] over the mean one says.

    overall_rate: how many rows come out for each that goes in.  The mean is a moving average over steps, by mean_decay.
    """
    inputs = several("weighted_resample", "inputs", inputs, "tensors")
    with variable_scope(scope, "weighted_resample", inputs) as inner:
        frequency = convert(weights, name="weights")
        average = get_variable(
            "estimate_mean", [], frequency.dtype, zeros_initializer(), trainable=False
        )
        mean = assign_moving_average(average, reduce_mean(frequency), mean_decay, True)
        rates = frequency * (overall_rate / convert(mean))
        found = resample_at_rate([rates, *inputs], rates, inner.name, seed)
        return found[0], found[1:]


def train(
    train_op: Any,
    logdir: str | None,
    master: str = "",
    is_chief: bool = True,
    scaffold: Any = None,
    hooks: Sequence[Any] | None = None,
    chief_only_hooks: Sequence[Any] | None = None,
    save_checkpoint_secs: float | None = 600,
    save_summaries_steps: int | None = 100,
    config: Any = None,
    max_wait_secs: int = 7200,
) -> Any:
    """Run train_op until a hook stops the session; what it gave last.  Blocks.

    logdir: for checkpoints and summaries; only tasks that are not the chief go without.  Other arguments: as of
    tf.train.MonitoredTrainingSession.  Raises ValueError.
    """
    if logdir is None and is_chief:
        raise ValueError("logdir cannot be None when is_chief=True")
    loss = None
    with MonitoredTrainingSession(
        master=master,
        is_chief=is_chief,
        checkpoint_dir=logdir,
        scaffold=scaffold,
        hooks=hooks,
        chief_only_hooks=chief_only_hooks,
        save_checkpoint_secs=save_checkpoint_secs,
        save_summaries_steps=save_summaries_steps,
        config=config,
        max_wait_secs=max_wait_secs,
    ) as session:
        while not session.should_stop():
            loss = session.run(train_op)
    return loss


class RandomStrategy:
    """For `tf.train.replica_device_setter`: variables on parameter servers by chance, the same in all tasks."""

    def __init__(self, num_ps: int, seed: int = 0) -> None:
        """num_ps: how many parameter servers; seed: the same everywhere."""
        self._num_tasks, self._random = num_ps, random.Random(seed)

    def __call__(self, op: Any) -> int:
        """The task of an op."""
        return self._random.randrange(self._num_tasks)
