"""The floor of word2vec's training step: the same arithmetic in NumPy, written for this network alone.

The variables' first values and the sampler's seeds are those that headrace's graph has, so that losses can be compared;
random words are TensorFlow's, and made for many steps at once.  What subtracts rows of which some are the same is
headrace's: `np.subtract.at`, a product and `reduceat` all take twice as long.

Used by: rows.models.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks import models
from benchmarks.models import SAMPLED, WORD_BATCH, WORDS
from benchmarks.row import Bench

Array = np.ndarray[Any, Any]
TRIED, STRIDE, AHEAD = (
    128,
    2048 * SAMPLED // 4,
    64,
)  # draws of a step, blocks it takes, steps whose draws are made at once


def _softplus_and_slope(x: Array) -> tuple[Array, Array]:
    """log(1 + exp(x)) and its derivative."""
    small = np.exp(-np.abs(x))
    one = 1 + small
    return np.maximum(x, 0) + np.log1p(small), np.where(x >= 0, 1, small) / one


class Step:
    """Variables, and a step of descent on them."""

    def __init__(self) -> None:
        import headrace as tf  # which the process that measures TensorFlow has not
        from headrace.ops._kernels.row_sums import change_rows
        from headrace.run.queues.philox import philox_words

        self._words, self._change_rows = philox_words, change_rows
        with tf.Graph().as_default() as graph, tf.Session() as session:
            models.WORD2VEC.build(tf)
            session.run(tf.global_variables_initializer())
            self.vectors, self.weights, self.biases = session.run(tf.global_variables())
            (sampler,) = [op for op in graph.get_operations() if "CandidateSampler" in op.type]
            self.seeds = sampler.get_attr("seed"), sampler.get_attr("seed2")
        of = models.word_values()
        self.inputs, self.labels = of["inputs"], of["labels"].ravel()
        self.steps = 0
        self.drawn = np.empty((0, TRIED), np.int64)

    def _sampled(self) -> tuple[Array, int]:
        """Different classes, and how many were drawn for them."""
        at = self.steps % AHEAD
        if not at:
            blocks = STRIDE * (self.steps + np.arange(AHEAD))[:, None] + np.arange(TRIED // 2)
            words = self._words(*self.seeds, blocks.ravel().astype(np.uint64)).reshape(-1, 2)
            bits = (1023 << 52) | (words[:, 0] & np.uint64(0xFFFFF)) << np.uint64(32) | words[:, 1]
            uniform = (bits.view(np.float64) - 1).reshape(AHEAD, TRIED)
            self.drawn = np.exp(uniform * math.log(WORDS + 1)).astype(np.int64) - 1
        self.steps += 1
        found: dict[int, None] = {}
        for tries, each in enumerate(self.drawn[at].tolist(), 1):
            found[each] = None
            if len(found) == SAMPLED:
                return np.array(list(found)), tries
        raise ArithmeticError("too few different classes")

    def __call__(self) -> float:
        """The loss, before the step."""
        sampled, tries = self._sampled()
        classes = np.concatenate([self.labels, sampled])
        shares = np.log((classes + 2.0) / (classes + 1.0)) / math.log(WORDS + 1)
        often = np.log(-np.expm1(tries * np.log1p(-shares))).astype(np.float32)
        embedded, weights = self.vectors[self.inputs], self.weights[classes]
        offset = self.biases[classes] - often
        of_true, of_sampled = weights[:WORD_BATCH], weights[WORD_BATCH:]
        true = np.einsum("ij,ij->i", embedded, of_true) + offset[:WORD_BATCH]
        false = embedded @ of_sampled.T + offset[WORD_BATCH:]
        loss_true, slope_true = _softplus_and_slope(-true)
        loss_false, slope_false = _softplus_and_slope(false)
        loss = (loss_true.sum() + loss_false.sum()) / WORD_BATCH
        slope_true *= np.float32(-1 / WORD_BATCH)
        slope_false *= np.float32(1 / WORD_BATCH)
        to_embedded = slope_false @ of_sampled
        to_embedded += slope_true[:, None] * of_true
        to_weights = np.empty_like(weights)
        np.multiply(slope_true[:, None], embedded, out=to_weights[:WORD_BATCH])
        np.matmul(slope_false.T, embedded, out=to_weights[WORD_BATCH:])
        to_biases = np.concatenate([slope_true, slope_false.sum(0)])
        self._change_rows(np.subtract, self.vectors, self.inputs, to_embedded)
        self._change_rows(np.subtract, self.weights, classes, to_weights)
        np.subtract.at(self.biases, classes, to_biases)
        return float(loss)


def random_numbers(bench: Bench) -> None:
    """The floor of a first step: what its two variables begin with, by the kernels that make it."""
    from headrace.ops._kernels import random_streams
    from headrace.run.exec.worker_pool import WorkerPool

    size, kind = WORDS * models.WORD_SIZE, np.dtype(np.float32)

    def begin() -> None:
        random_streams.uniform(random_streams.Stream(1, 2), size, kind)
        random_streams.truncated_normal(random_streams.Stream(1, 3), size, kind)

    with WorkerPool():
        first = random_streams.uniform(random_streams.Stream(1, 2), 4, kind)
        bench.expect(first, random_streams.uniform(random_streams.Stream(1, 2), 8, kind)[:4])
        bench.time(begin)


def by_hand(bench: Bench) -> None:
    """The floor: with the threads that BLAS takes by itself."""
    step = Step()
    model = models.WORD2VEC
    bench.expect([step() for _ in model.losses], model.losses, relative=model.close)
    bench.time(step)
