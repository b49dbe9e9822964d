"""Models as programs train them: a step, and all that comes before the first one ends.

The graphs are in `benchmarks/models.py`.  A first step is that of a new graph and a new session: the graph is built,
its variables are initialized, one step is run; the process has done so before, so what is imported on demand is there.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

from benchmarks import lstm_by_hand, models
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


@row(
    "training step, LSTM of 128 units by dynamic_rnn, 50 steps, batch 32",
    faster=1,
    floors=[Floor("the same in NumPy by hand", lstm_by_hand.by_hand)],
)
def lstm_step(tf: Any, bench: Bench) -> None:
    """Sequences of 128 numbers a step are classified by what the last step gives; descent."""
    _step(tf, bench, models.LSTM)


@row("its graph built, and the first step", faster=3)
def lstm_first(tf: Any, bench: Bench) -> None:
    """A new graph, a new session, its variables, one step."""
    _first(tf, bench, models.LSTM)


@row("training step, word2vec with nce_loss, 50,000 words, batch 128", faster=1)
def word2vec_step(tf: Any, bench: Bench) -> None:
    """Vectors of 128, 64 words sampled; gradients of the rows that took part."""
    _step(tf, bench, models.WORD2VEC)


@row("its graph built, and the first step", faster=3)
def word2vec_first(tf: Any, bench: Bench) -> None:
    """As `lstm_first`; two variables of 6.4 M floats, one uniform, the other from a truncated normal distribution."""
    _first(tf, bench, models.WORD2VEC)


@row("training step, autoencoder 784-256-128-256-784, batch 256", faster=1)
def autoencoder_step(tf: Any, bench: Bench) -> None:
    """Sigmoids, the mean of squares, RMSProp."""
    _step(tf, bench, models.AUTOENCODER)


@row("its graph built, and the first step", faster=3)
def autoencoder_first(tf: Any, bench: Bench) -> None:
    """As `lstm_first`."""
    _first(tf, bench, models.AUTOENCODER)


@row("training step, residual block of 16 channels, 128 pictures of 32 x 32", faster=1)
def residual_step(tf: Any, bench: Bench) -> None:
    """Three 3x3 convolutions, each with batch normalization, a sum, an average over places, a dense layer; momentum."""
    _step(tf, bench, models.BLOCK)


@row("its graph built, and the first step", faster=3)
def residual_first(tf: Any, bench: Bench) -> None:
    """As `lstm_first`."""
    _first(tf, bench, models.BLOCK)


@row("training step, sparse 2,000 x 10,000 (100,000 elements) times dense 64", faster=1)
def sparse_step(tf: Any, bench: Bench) -> None:
    """A SparseTensor that is fed times a variable, and the gradient; descent."""
    _step(tf, bench, models.SPARSE)


@row("its graph built, and the first step", faster=3)
def sparse_first(tf: Any, bench: Bench) -> None:
    """As `lstm_first`."""
    _first(tf, bench, models.SPARSE)


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
