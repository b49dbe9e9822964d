"""Canned estimators: losses of steps, variables, metrics, predictions, summaries and signatures are TensorFlow's."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

import headrace as tf
from tests.estimator_oracle.runner import differences, executed, plain
from tests.estimator_oracle.table import TABLE

LINEAR = {
    "smoke_classes": ("LinearClassifier([age, ages, city, crossed], at)", "yes"),
    "three_classes": ("LinearClassifier([small, ages, city], at, n_classes=3)", "yes"),
    "numbers": ("LinearRegressor([small, ages, city], at)", "yes.astype(np.float32)"),
    "two_numbers": (
        "LinearRegressor([city], at, label_dimension=2, weight_column='weight')",
        "np.hstack([yes, 1 - yes]).astype(np.float32)",
    ),
    "words": (
        "LinearClassifier([city], at, label_vocabulary=['no', 'so'], weight_column='weight')",
        "np.where(yes == 1, 'so', 'no')",
    ),
    "mean_of_the_batch": (
        "LinearClassifier([city], at, loss_reduction=tf.losses.Reduction.MEAN, weight_column='weight')",
        "yes",
    ),
    "by_weights": (
        "LinearClassifier([city], at, loss_reduction='weighted_sum_by_nonzero_weights', weight_column='weight')",
        "yes",
    ),
    "adam": ("LinearClassifier([city], at, optimizer='Adam')", "yes"),
    "sgd_and_mean": (
        "LinearRegressor([city], at, optimizer='SGD', sparse_combiner='mean')",
        "1.0 * yes",
    ),
    "an_optimizer": (
        "LinearClassifier([city], at, optimizer=tf.train.MomentumOptimizer(0.1, 0.9))",
        "yes",
    ),
    "a_function": (
        "LinearClassifier([city], at, optimizer=lambda: tf.train.RMSPropOptimizer(0.1))",
        "yes",
    ),
    "parts": (
        "LinearClassifier([city, ages], at, partitioner=tf.fixed_size_partitioner(2), optimizer='SGD')",
        "yes",
    ),
    "baseline_classes": ("BaselineClassifier(at)", "yes"),
    "baseline_three_classes": (
        "BaselineClassifier(at, n_classes=3, weight_column='weight')",
        "yes",
    ),
    "baseline_numbers": ("BaselineRegressor(at, optimizer='SGD')", "1.0 * yes"),
}
DEEP = {
    "smoke_classes": ("DNNClassifier([4, 3], [small, which, where], at)", "yes"),
    "numbers": ("DNNRegressor([4], [small, which], at, batch_norm=True)", "yes.astype(np.float32)"),
    "activation": (
        "DNNClassifier([4, 2], [small], at, n_classes=3, activation_fn=tf.nn.tanh, optimizer='SGD')",
        "yes",
    ),
    "parts": (
        "DNNClassifier([4], [where], at, input_layer_partitioner=tf.fixed_size_partitioner(2), "
        "optimizer='SGD')",
        "yes",
    ),
    "shared_embeddings": (
        "DNNClassifier([3], columns.shared_embedding_columns([city, columns.categorical_column_with_vocabulary_list("
        "'town', ['c', 'a', 'b'])], 2), at, optimizer='SGD')",
        "yes",
    ),
    "wide_and_deep": (
        "DNNLinearCombinedClassifier(at, linear_feature_columns=[ages, city, crossed], "
        "dnn_feature_columns=[small, where], dnn_hidden_units=[4], n_classes=3)",
        "yes",
    ),
    "wide_and_deep_numbers": (
        "DNNLinearCombinedRegressor(at, linear_feature_columns=[city], dnn_feature_columns=[small], "
        "dnn_hidden_units=[3, 2], linear_optimizer='SGD', dnn_optimizer='Adam', weight_column='weight')",
        "yes.astype(np.float32)",
    ),
    "only_wide": ("DNNLinearCombinedClassifier(at, linear_feature_columns=[city])", "yes"),
    "only_deep": (
        "DNNLinearCombinedClassifier(at, dnn_feature_columns=[which], dnn_hidden_units=[3])",
        "yes",
    ),
}


def look(agree: Any, made: str, labels: str, start: bool) -> None:
    agree(
        f"{TABLE}\nresult = look(lambda at: tf.estimator.{made}, {labels}, start={start})",
        rtol=2e-4,
        atol=2e-5,
    )


@pytest.mark.parametrize("name", LINEAR)
def test_linear_models_and_baselines_learn_what_tensorflows_do(agree: Any, name: str) -> None:
    look(agree, *LINEAR[name], start=False)


@pytest.mark.parametrize("name", DEEP)
def test_networks_that_begin_alike_learn_what_tensorflows_do(agree: Any, name: str) -> None:
    look(agree, *DEEP[name], start=True)


WIDE_AND_DEEP = """DNNLinearCombinedClassifier(
    at, linear_feature_columns=[ages, city, crossed], dnn_feature_columns=[small, where], dnn_hidden_units=[4, 3],
    config=tf.estimator.RunConfig(tf_random_seed=3))"""
SHARED = """DNNRegressor(
    [3], columns.shared_embedding_columns(
        [city, columns.categorical_column_with_vocabulary_list("town", ["b", "c", "a"])], 2), at,
    input_layer_partitioner=tf.fixed_size_partitioner(2))"""


@pytest.mark.parametrize("made", [WIDE_AND_DEEP, SHARED], ids=["wide_and_deep", "shared_in_parts"])
@pytest.mark.parametrize("begins", ["ours", "theirs"])
def test_a_model_goes_on_from_the_others_checkpoint(
    both: Any, tmp_path: Any, made: str, begins: str
) -> None:
    """Three steps there and three here are six there."""
    program = f"""{TABLE}
make = lambda at: tf.estimator.{made}
estimator = make(os.path.join(folder, "model"))
result = []
for steps in lengths:
    losses = Losses()
    estimator.train(again(1.0 * yes if "Regressor" in type(estimator).__name__ else yes), steps=steps, hooks=[losses])
    result.append(losses.found)
names = [name for name in estimator.get_variable_names() if "/t_" not in name]  # slots of parts are no whole tensors
result.append({{name: estimator.get_variable_value(name) for name in names}})
"""

    def run(side: str, folder: Any, lengths: list[int]) -> Any:
        if side == "ours":
            return executed(program, tf, str(folder), {"lengths": lengths})
        return both.peer.run(program, str(folder), {"lengths": lengths})

    other = "theirs" if begins == "ours" else "ours"
    run(begins, tmp_path / "a", [3])
    shutil.copytree(tmp_path / "a" / "model", tmp_path / "b" / "model")
    wanted, found = run(begins, tmp_path / "a", [3]), run(other, tmp_path / "b", [3])
    assert not [*differences(plain(found), plain(wanted), 2e-4, 2e-5, "result")]


def test_a_model_begins_warm_with_what_another_has_learned(agree: Any) -> None:
    agree(
        f"""{TABLE}
def of(at, **more):
    return tf.estimator.DNNClassifier([4, 3], [small, which], at, optimizer="SGD", **more)
first = begin(of, yes)
first.train(again(yes), steps=2)
result = []
for settings in (
    first.model_dir,
    tf.estimator.WarmStartSettings(first.latest_checkpoint(), vars_to_warm_start=".*"),
):
    losses = Losses()
    second = of(os.path.join(folder, f"second{{len(result)}}"), warm_start_from=settings)
    second.train(again(yes), steps=2, hooks=[losses])
    result.append([losses.found, variables(second.latest_checkpoint())])
""",
        rtol=2e-4,
        atol=2e-5,
    )


def test_a_model_of_another_vocabulary_begins_warm_with_the_words_that_both_have(
    agree: Any,
) -> None:
    agree(
        f"""{TABLE}
def words(name, *lines):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write("\\n".join(lines) + "\\n")
    return path
old, new = words("old", "a", "b", "c", "d"), words("new", "c", "z", "a", "b", "y")
def of(at, path, **more):
    towns = columns.categorical_column_with_vocabulary_file("city", path)
    return tf.estimator.LinearClassifier([towns, small], at, optimizer="SGD", **more)
first = of(os.path.join(folder, "first"), old)
first.train(again(yes), steps=2)
Vocabulary, ones = tf.estimator.VocabInfo, tf.ones_initializer()
weights = "linear/linear_model/city/weights"
result = []
for wanted, info in (
    (".*", Vocabulary(new, 5, 0, old)), (None, Vocabulary(new, 5, 0, old, -1, ones)),
    (["linear/linear_model/city.*"], Vocabulary(new, 5, 0, old, 2, ones)),
):
    settings = tf.estimator.WarmStartSettings(first.model_dir, wanted, {{weights: info}})
    second = of(os.path.join(folder, f"second{{len(result)}}"), new, warm_start_from=settings)
    result.append(second.evaluate(once(yes)))
    second.train(again(yes), steps=1)
    result.append(variables(second.latest_checkpoint()))
refused = tf.estimator.WarmStartSettings(first.model_dir, 3)
result.append(attempt(
    lambda: of(os.path.join(folder, "no"), new, warm_start_from=refused).train(once(yes), steps=1),
    "`vars_to_warm_start must be a `list` or `str`.  Given type is <class 'int'>"))
""",
        rtol=2e-4,
        atol=2e-5,
    )
