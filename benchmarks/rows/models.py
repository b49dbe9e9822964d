"""Models as programs train them: a step, and all that comes before the first one ends.

The graphs are in `benchmarks/models.py`.  A first step is that of a new graph and a new session: the graph is built,
its variables are initialized, one step is run; the process has done so before, so what is imported on demand is there.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import (
    autoencoder_by_hand,
    lstm_by_hand,
    models,
    residual_by_hand,
    word2vec_by_hand,
)
from benchmarks.models import Model
from benchmarks.row import FEWEST_SAMPLES, Bench, Floor, Unit, row

KEYS, ASKED = 100_000, 1024


def _step(tf: Any, bench: Bench, model: Model) -> None:
    built = model.build(tf)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        got = [session.run([built.loss, built.train], built.feed)[0] for _ in model.losses]
        bench.expect(got, model.losses, relative=model.close)
        bench.time(lambda: session.run(built.train, built.feed))


def _first(tf: Any, bench: Bench, model: Model) -> None:
    took_s: list[float] = []
    end = time.perf_counter() + bench.seconds
    while len(took_s) <= FEWEST_SAMPLES or time.perf_counter() < end:
        start = time.perf_counter()
        with tf.Graph().as_default():
            built = model.build(tf)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                got = session.run([built.loss, built.train], built.feed)[0]
                took_s.append(time.perf_counter() - start)
        bench.expect(got, model.losses[0], relative=model.close)
    bench.record(statistics.median(took_s[1:]))


def _rows(
    name: str,
    title: str,
    says: str,
    model: Model,
    floors: Sequence[Floor] = (),
    first_floors: Sequence[Floor] = (),
) -> None:
    """The two rows of a model: `name`_step, which `says` what it trains, and `name`_first."""

    def step(tf: Any, bench: Bench) -> None:
        _step(tf, bench, model)

    def first(tf: Any, bench: Bench) -> None:
        _first(tf, bench, model)

    step.__name__, first.__name__ = f"{name}_step", f"{name}_first"
    step.__doc__, first.__doc__ = says, "A new graph, a new session, its variables, one step."
    row(f"training step, {title}", faster=1, floors=floors)(step)
    row("its graph built, and the first step", faster=3, floors=first_floors)(first)


_BY_HAND = "the same in NumPy by hand"
_rows(
    "lstm",
    "LSTM of 128 units by dynamic_rnn, 50 steps, batch 32",
    "Sequences of 128 numbers a step are classified by what the last step gives; descent.",
    models.LSTM,
    [Floor(_BY_HAND, lstm_by_hand.by_hand)],
)
_rows(
    "word2vec",
    "word2vec with nce_loss, 50,000 words, batch 128",
    "Vectors of 128, 64 words sampled; gradients of the rows that took part.",
    models.WORD2VEC,
    [Floor(_BY_HAND, word2vec_by_hand.by_hand)],
    [Floor("the kernels of its random numbers alone", word2vec_by_hand.random_numbers)],
)
_rows(
    "autoencoder",
    "autoencoder 784-256-128-256-784, batch 256",
    "Sigmoids, the mean of squares, RMSProp.",
    models.AUTOENCODER,
    [Floor(_BY_HAND, autoencoder_by_hand.by_hand)],
)
_rows(
    "residual",
    "residual block of 16 channels, 128 pictures of 32 x 32",
    "Three 3x3 convolutions, each with batch normalization, a sum, an average over places, a dense layer; momentum.",
    models.BLOCK,
    [Floor(f"{_BY_HAND}, two threads", residual_by_hand.by_hand)],
    [Floor("its first step in NumPy by hand", residual_by_hand.first_by_hand)],
)
_rows(
    "sparse",
    "sparse 2,000 x 10,000 (100,000 elements) times dense 64",
    "A SparseTensor that is fed times a variable, and the gradient; descent.",
    models.SPARSE,
)


def _lookups(tf: Any, bench: Bench, dtype: Any, keys: np.ndarray) -> None:
    random = np.random.default_rng(1)
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(keys.tolist(), list(range(KEYS)), dtype, tf.int64), -1
    )
    asked = tf.placeholder(dtype, [None])
    found = table.lookup(asked)
    at = random.integers(0, KEYS, ASKED)
    feed = {asked: keys[at]}
    with tf.Session() as session:
        session.run(tf.tables_initializer())
        bench.expect(session.run(found, feed), at)
        bench.rate([lambda: session.run(found, feed)], each_counts=ASKED)


@row("lookups of int64 in a hash table of 100,000, 1,024 at a time", unit=Unit.PER_SECOND, faster=1)
def lookup_int64(tf: Any, bench: Bench) -> None:
    """Keys anywhere among 2^40 numbers, fed."""
    _lookups(tf, bench, tf.int64, _numbers())


@row("the same of strings", unit=Unit.PER_SECOND, faster=1)
def lookup_string(tf: Any, bench: Bench) -> None:
    """Words of up to 14 bytes, fed."""
    _lookups(tf, bench, tf.string, np.array([b"w%d" % each for each in _numbers()], object))


def _numbers() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 1 << 40, KEYS)
