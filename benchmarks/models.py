"""Models of the rows about training: what their programs build, and what they are fed.

A `Model` builds its graph with the library it is given: placeholders, a loss, a training step.  Values are the same in
every process, drawn when they are first asked for, and nobody's to change; `losses` are those before each of the first
steps, for which both libraries draw the same random numbers.

Used by: rows.models.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

SEED = 7


@dataclass(frozen=True)
class Built:
    """A graph: its loss, its step, and what they are fed, by placeholder."""

    loss: Any
    train: Any
    feed: Mapping[Any, np.ndarray]


@dataclass(frozen=True)
class Model:
    """build: puts the model into the default graph.  losses: of the first steps, to within `close` (relative)."""

    build: Callable[[Any], Built]
    losses: Sequence[float]
    close: float = 1e-4


def _values(random: np.random.Generator, *shape: int, scale: float = 0.05) -> np.ndarray:
    drawn = (random.standard_normal(shape) * scale).astype(np.float32)
    drawn.flags.writeable = False
    return drawn


# An LSTM that reads sequences and says which class each is of.

LSTM_BATCH, LSTM_STEPS, LSTM_INPUTS, LSTM_UNITS, CLASSES = 32, 50, 128, 128, 10


@functools.cache
def lstm_values() -> Mapping[str, np.ndarray]:
    """x [batch, steps, inputs], labels [batch], and variables: kernel, weights of the last layer."""
    random = np.random.default_rng(3)
    return {
        "x": _values(random, LSTM_BATCH, LSTM_STEPS, LSTM_INPUTS, scale=1.0),
        "labels": random.integers(0, CLASSES, LSTM_BATCH),
        "kernel": _values(random, LSTM_INPUTS + LSTM_UNITS, 4 * LSTM_UNITS),
        "last": _values(random, LSTM_UNITS, CLASSES),
    }


def _lstm(tf: Any) -> Built:
    of = lstm_values()
    x = tf.placeholder(tf.float32, [None, LSTM_STEPS, LSTM_INPUTS])
    labels = tf.placeholder(tf.int64, [None])
    with tf.variable_scope("lstm", initializer=tf.constant_initializer(of["kernel"])):
        cell = tf.nn.rnn_cell.BasicLSTMCell(LSTM_UNITS)
        outputs, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    logits = tf.matmul(outputs[:, -1], tf.Variable(of["last"])) + tf.Variable(tf.zeros([CLASSES]))
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    return Built(loss, train, {x: of["x"], labels: of["labels"]})


LSTM = Model(_lstm, (2.293388, 2.168728, 2.046526))

# Word vectors, as of the tutorial: skip-grams, and a loss that samples words that were not there.

WORDS, WORD_SIZE, WORD_BATCH, SAMPLED = 50_000, 128, 128, 64


@functools.cache
def word_values() -> Mapping[str, np.ndarray]:
    """inputs [batch], labels [batch, 1]."""
    random = np.random.default_rng(4)
    # The k-th word as often as 1 / k, and two neighbours of each.
    drawn = np.exp(random.random((2, WORD_BATCH)) * np.log(WORDS)).astype(np.int32) - 1
    return {
        "inputs": np.repeat(drawn[0, : WORD_BATCH // 2], 2),
        "labels": drawn[1].reshape(-1, 1),
    }


def _words(tf: Any) -> Built:
    tf.set_random_seed(SEED)
    inputs = tf.placeholder(tf.int32, [WORD_BATCH])
    labels = tf.placeholder(tf.int32, [WORD_BATCH, 1])
    vectors = tf.Variable(tf.random_uniform([WORDS, WORD_SIZE], -1.0, 1.0))
    weights = tf.Variable(tf.truncated_normal([WORDS, WORD_SIZE], stddev=WORD_SIZE**-0.5))
    biases = tf.Variable(tf.zeros([WORDS]))
    embedded = tf.nn.embedding_lookup(vectors, inputs)
    loss = tf.reduce_mean(tf.nn.nce_loss(weights, biases, labels, embedded, SAMPLED, WORDS))
    train = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    of = word_values()
    return Built(loss, train, {inputs: of["inputs"], labels: of["labels"]})


WORD2VEC = Model(_words, (276.52203, 280.26514, 277.99756))

# An autoencoder of digits.

LAYERS, CODE_BATCH = (784, 256, 128, 256, 784), 256


@functools.cache
def code_values() -> tuple[np.ndarray, list[np.ndarray]]:
    """Pictures [batch, 784], and the weights of the layers."""
    random = np.random.default_rng(5)
    pictures = random.random((CODE_BATCH, LAYERS[0]), np.float32)
    shapes = itertools.pairwise(LAYERS)
    return pictures, [_values(random, *shape) for shape in shapes]


def _autoencoder(tf: Any) -> Built:
    pictures, weights = code_values()
    x = tf.placeholder(tf.float32, [None, LAYERS[0]])
    signal = x
    for weight in weights:
        bias = tf.Variable(tf.zeros(weight.shape[1:]))
        signal = tf.nn.sigmoid(tf.add(tf.matmul(signal, tf.Variable(weight)), bias))
    loss = tf.reduce_mean(tf.pow(x - signal, 2))
    return Built(loss, tf.train.RMSPropOptimizer(0.01).minimize(loss), {x: pictures})


AUTOENCODER = Model(_autoencoder, (0.092676, 0.092674, 0.092672))

# A residual block, and what it takes to train one.

BLOCK_BATCH, SIDE, CHANNELS = 128, 32, 16


@functools.cache
def block_values() -> Mapping[str, np.ndarray]:
    """images [batch, side, side, 3], labels [batch], and filters."""
    random = np.random.default_rng(6)
    return {
        "images": _values(random, BLOCK_BATCH, SIDE, SIDE, 3, scale=1.0),
        "labels": random.integers(0, CLASSES, BLOCK_BATCH),
        "first": _values(random, 3, 3, 3, CHANNELS, scale=0.2),
        "one": _values(random, 3, 3, CHANNELS, CHANNELS, scale=0.1),
        "two": _values(random, 3, 3, CHANNELS, CHANNELS, scale=0.1),
        "last": _values(random, CHANNELS, CLASSES, scale=0.3),
    }


def _block(tf: Any) -> Built:
    of = block_values()
    images = tf.placeholder(tf.float32, [None, SIDE, SIDE, 3])
    labels = tf.placeholder(tf.int64, [None])

    def normed(signal: Any, filters: str) -> Any:
        made = tf.nn.conv2d(signal, tf.Variable(of[filters]), [1, 1, 1, 1], "SAME")
        scale, offset = tf.Variable(tf.ones([CHANNELS])), tf.Variable(tf.zeros([CHANNELS]))
        return tf.nn.fused_batch_norm(made, scale, offset, is_training=True)[0]

    signal = tf.nn.relu(normed(images, "first"))
    inner = tf.nn.relu(normed(signal, "one"))
    signal = tf.nn.relu(normed(inner, "two") + signal)
    pooled = tf.reduce_mean(signal, [1, 2])
    logits = tf.matmul(pooled, tf.Variable(of["last"])) + tf.Variable(tf.zeros([CLASSES]))
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    return Built(loss, train, {images: of["images"], labels: of["labels"]})


BLOCK = Model(_block, (2.410543, 2.384899, 2.346960))

# A sparse matrix times a dense one.

ROWS, COLUMNS, WIDTH, FULL = 2_000, 10_000, 64, 100_000


@functools.cache
def sparse_values() -> Mapping[str, np.ndarray]:
    """indices [n, 2] in order, values [n], labels [rows, width], variable: weights."""
    random = np.random.default_rng(8)
    places = np.sort(random.choice(ROWS * COLUMNS, FULL, replace=False))
    return {
        "indices": np.stack([places // COLUMNS, places % COLUMNS], 1),
        "values": _values(random, FULL, scale=1.0),
        "labels": _values(random, ROWS, WIDTH, scale=1.0),
        "weights": _values(random, COLUMNS, WIDTH),
    }


def _sparse(tf: Any) -> Built:
    of = sparse_values()
    matrix = tf.sparse_placeholder(tf.float32, [ROWS, COLUMNS])
    labels = tf.placeholder(tf.float32, [None, WIDTH])
    made = tf.sparse_tensor_dense_matmul(matrix, tf.Variable(of["weights"]))
    loss = tf.reduce_mean(tf.square(made - labels))
    train = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    feed = {matrix.indices: of["indices"], matrix.values: of["values"], labels: of["labels"]}
    return Built(loss, train, feed)


SPARSE = Model(_sparse, (1.125467, 1.123653, 1.121842))
