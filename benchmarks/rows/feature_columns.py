"""Feature columns, beside TensorFlow 2.15: lines of a table to what a network reads; a wide-and-deep step

The floor is the same layer by hand: Python's csv and numbers, dictionaries for words, NumPy for the rest.
"""

from __future__ import annotations

import csv
import itertools
from typing import Any

import numpy as np

from benchmarks.row import Bench, Floor, Unit, row

LINES, BATCH = 4096, 256
CITIES = ["oslo", "lima", "rome", "cairo", "quito"]
DEFAULTS = {"age": 0.0, "km": 0.0, "city": "", "label": 0}


def _lines() -> list[str]:
    draw = np.random.RandomState(5)
    ages, far = draw.uniform(16, 80, LINES), draw.gamma(2.0, 3.0, LINES)
    cities = draw.choice(CITIES, LINES)
    return [
        f"{age:.1f},{km:.2f},{city},{int(km < 5)}"
        for age, km, city in zip(ages, far, cities, strict=True)
    ]


def _columns(tf: Any) -> tuple[list[Any], list[Any]]:
    """Those of a linear model, and those of a network: 11 numbers an example."""
    make = tf.feature_column
    km = make.numeric_column("km")
    far = make.bucketized_column(km, [1, 2, 4, 8])
    city = make.categorical_column_with_vocabulary_list("city", CITIES)
    wide = [far, city, make.crossed_column([far, "city"], 100)]
    hashed = make.categorical_column_with_hash_bucket("city", 50)
    start = tf.constant_initializer(0.5)
    deep = [make.numeric_column("age"), km, make.indicator_column(city)]
    return wide, [*deep, make.embedding_column(hashed, 4, initializer=start)]


def _dataset(tf: Any) -> Any:
    """Endless batches of features [BATCH, 1] by name, and labels."""

    def parsed(lines: Any) -> Any:
        values = tf.io.decode_csv(lines, [[default] for default in DEFAULTS.values()])
        named = zip(DEFAULTS, values, strict=True)
        features = {key: tf.expand_dims(value, 1) for key, value in named}
        return features, features.pop("label")

    return tf.data.Dataset.from_tensor_slices(_lines()).repeat().batch(BATCH).map(parsed)


def _check_sums(bench: Bench, found: Any) -> None:
    first = [line.split(",") for line in _lines()[:BATCH]]
    wanted = [sum(float(each[at]) for each in first) for at in (0, 1)]
    bench.expect(found.shape, (11,))
    bench.expect([found[0], found[10]], wanted, relative=1e-4)


def _columns_by_hand(bench: Bench) -> None:
    lines = itertools.cycle(_lines())
    words = {city: number for number, city in enumerate(CITIES)}
    table = np.full((50, 4), 0.5, np.float32)
    one_hot = np.eye(len(CITIES), dtype=np.float32)
    buckets: dict[str, int] = {}  # of words that were hashed before

    def step() -> Any:
        rows = csv.reader(itertools.islice(lines, BATCH))
        ages, far, cities, labels = zip(*rows, strict=True)
        age, km = (np.array(list(map(float, each)), np.float32)[:, None] for each in (ages, far))
        np.array(list(map(int, labels)), np.int32)
        of_words = one_hot[[words[city] for city in cities]]
        rows_of = [buckets.setdefault(city, hash(city) % 50) for city in cities]
        layer = np.concatenate([age, of_words, table[rows_of], km], axis=1)
        return layer.sum(axis=0)

    _check_sums(bench, step())
    bench.rate([step], BATCH)


@row(
    "lines of CSV to the input layer of a network, batches of 256",
    unit=Unit.PER_SECOND,
    floors=[Floor("csv.reader, dictionaries and NumPy by hand", _columns_by_hand)],
    estimator=True,
    faster=3,
)
def columns_of_csv(tf: Any, bench: Bench) -> None:
    """Lines a second: decode_csv in a dataset; numbers, an indicator and an embedding of it, summed."""
    iterator = tf.data.make_initializable_iterator(_dataset(tf))
    features, _ = iterator.get_next()
    layer = tf.feature_column.input_layer(features, _columns(tf)[1])
    total = tf.reduce_sum(layer, axis=0)
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        session.run(iterator.initializer)
        _check_sums(bench, session.run(total))
        bench.rate([lambda: session.run(total)], BATCH)


@row("a step of DNNLinearCombinedClassifier, batches of 256 lines of CSV", estimator=True, faster=1)
def wide_and_deep_step(tf: Any, bench: Bench) -> None:
    """Columns, both models, and an optimizer for each; in a session of its own, without an Estimator's hooks."""
    wide, deep = _columns(tf)
    model = tf.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=wide, dnn_feature_columns=deep, dnn_hidden_units=[32, 16]
    )
    tf.train.create_global_step()
    iterator = tf.data.make_initializable_iterator(_dataset(tf))
    spec = model.model_fn(*iterator.get_next(), tf.estimator.ModeKeys.TRAIN, model.config)
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        session.run(iterator.initializer)
        before = session.run(tf.train.get_global_step())
        session.run(spec.train_op)
        bench.expect(int(session.run(tf.train.get_global_step()) - before), 1)
        bench.time(lambda: session.run(spec.train_op))
