"""Who cycles to work: a linear model and a network over the columns of a small table, trained, evaluated and exported.

    python examples/wide_and_deep/train.py DIRECTORY [--steps 300]

Checkpoints, events for TensorBoard and exports go to DIRECTORY; run it again, and it goes on from there.
"""

import argparse
from pathlib import Path

import headrace as tf

HERE = Path(__file__).parent
DEFAULTS = {
    "age": 0.0,
    "km": 0.0,
    "town": "",
    "weather": "",
    "owns_bicycle": 0,
    "cycles": 0,
}
WEATHER = ["sun", "clouds", "rain"]


def rows(name, epochs=None, batch=30):
    """An input_fn: rows of a file, parsed in batches, shuffled and repeated unless they are read once."""

    def parsed(lines):
        values = tf.io.decode_csv(lines, [[default] for default in DEFAULTS.values()])
        features = {
            key: tf.expand_dims(value, 1) for key, value in zip(DEFAULTS, values, strict=True)
        }
        return features, features.pop("cycles")

    def input_fn():
        lines = tf.data.TextLineDataset(str(HERE / f"commutes-{name}.csv")).skip(1)
        if epochs is None:
            lines = lines.shuffle(500)
        return lines.repeat(epochs).batch(batch).map(parsed)

    return input_fn


def columns():
    """What the linear model reads, and what the network does."""
    make = tf.feature_column
    age = make.numeric_column("age", normalizer_fn=lambda years: (years - 45.0) / 15.0)
    km = make.numeric_column("km", normalizer_fn=lambda far: far / 5.0)
    owns = make.numeric_column("owns_bicycle", dtype=tf.int64)
    far = make.bucketized_column(make.numeric_column("km"), [1, 2, 3, 5, 8, 13])
    town = make.categorical_column_with_hash_bucket("town", 20)
    weather = make.categorical_column_with_vocabulary_list("weather", WEATHER)
    wide = [far, town, weather, make.crossed_column([far, "town"], 100)]
    wide += [make.crossed_column(["town", "weather"], 60)]
    deep = [age, km, owns, make.embedding_column(town, 3), make.indicator_column(weather)]
    return wide, deep


def main():
    """Train and evaluate in turn, and export what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory")
    parser.add_argument("--steps", type=int, default=300)
    given = parser.parse_args()
    wide, deep = columns()
    estimator = tf.estimator.DNNLinearCombinedClassifier(
        model_dir=given.directory,
        linear_feature_columns=wide,
        linear_optimizer=tf.train.FtrlOptimizer(0.05, l1_regularization_strength=0.01),
        dnn_feature_columns=deep,
        dnn_optimizer=tf.train.AdagradOptimizer(0.05),
        dnn_hidden_units=[16, 8],
        config=tf.estimator.RunConfig(tf_random_seed=1, save_checkpoints_steps=150),
    )
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(
        tf.feature_column.make_parse_example_spec(wide + deep)
    )
    found, exports = tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(rows("train"), max_steps=given.steps),
        tf.estimator.EvalSpec(
            rows("test", epochs=1), exporters=tf.estimator.FinalExporter("commutes", receiver)
        ),
    )
    print(
        f"step {found['global_step']}: of the test rows {found['accuracy']:.0%} are right; "
        f"always saying the same would be {found['accuracy_baseline']:.0%}"
    )
    print(f"exported to {exports[0].decode()}")


if __name__ == "__main__":
    main()
