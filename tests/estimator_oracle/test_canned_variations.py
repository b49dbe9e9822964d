"""Canned estimators with each optimizer, and with what does not fit: names of checkpoints, errors, calls of hooks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.estimator_oracle.table import TABLE

OPTIMIZERS = ("Adagrad", "Adam", "Ftrl", "RMSProp", "SGD")
FAMILIES = {
    "linear": "LinearClassifier([city, ages], at, optimizer=each)",
    "networks": "DNNRegressor([3, 2], [small, where], at, optimizer=each, batch_norm=True)",
    "both": """DNNLinearCombinedClassifier(
        at, linear_feature_columns=[city], linear_optimizer=each, dnn_feature_columns=[where],
        dnn_optimizer=each, dnn_hidden_units=[2], n_classes=3)""",
    "baselines": "BaselineClassifier(at, optimizer=each, n_classes=3)",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_checkpoints_hold_the_same_names_and_shapes(agree: Any, family: str) -> None:
    found = agree(
        f"""{TABLE}
result = {{}}
for each in {OPTIMIZERS}:
    at = os.path.join(folder, each)
    made = tf.estimator.{FAMILIES[family]}
    made.train(once(1.0 * yes if {family == "networks"} else yes), steps=1)
    result[each] = [[name, list(shape)] for name, shape in tf.train.list_variables(at)]
"""
    )
    assert len({str(names) for names in found.values()}) > 2


REFUSED = {
    "no such optimizer": (
        "LinearClassifier([city], at, optimizer='Nadam')",
        "yes",
        "Unsupported optimizer name: Nadam",
    ),
    "an optimizer that is none": (
        "LinearClassifier([city], at, optimizer=3)",
        "yes",
        "The given object is not an Optimizer instance",
    ),
    "one class": ("LinearClassifier([city], at, n_classes=1)", "yes", "n_classes must be > 2"),
    "names of fewer classes": (
        "LinearClassifier([city], at, n_classes=3, label_vocabulary=['a'])",
        "np.where(yes == 1, 'a', 'b')",
        "Labels must >= 0",
    ),
    "nothing to learn from": (
        "DNNLinearCombinedClassifier(at)",
        "yes",
        "Either linear_feature_columns or dnn_feature_columns must be defined.",
    ),
    "no hidden units": (
        "DNNLinearCombinedClassifier(at, dnn_feature_columns=[small])",
        "yes",
        "dnn_hidden_units must be defined when dnn_feature_columns is specified",
    ),
    "categories in a network": (
        "DNNClassifier([2], [city], at)",
        "yes",
        "Items of feature_columns must be a",
    ),
    "weights that are no feature": (
        "LinearClassifier([city], at, weight_column='heft')",
        "yes",
        "heft",
    ),
    "weights that are words": (
        "LinearClassifier([city], at, weight_column='town')",
        "yes",
        "is not supported",
    ),
    "no reduction": ("LinearClassifier([city], at, loss_reduction='none')", "yes", "none"),
    "words without a vocabulary": (
        "LinearClassifier([city], at, n_classes=3)",
        "np.where(yes == 1, 'a', 'b')",
        "Labels dtype should be integer",
    ),
    "a third class of two": (
        "LinearClassifier([city], at)",
        "yes + 1",
        "Labels must <= n_classes - 1",
    ),
    "a class too many": (
        "LinearClassifier([city], at, n_classes=3)",
        "yes + 2",
        "Labels must <= n_classes - 1",
    ),
    "a negative class": ("LinearClassifier([city], at)", "yes - 1", "Labels must >= 0"),
    "two labels": ("LinearClassifier([city], at)", "np.hstack([yes, yes])", "labels"),
    "numbers of another width": (
        "LinearRegressor([city], at, label_dimension=2)",
        "1.0 * yes",
        "labels",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_as_tensorflow_refuses_it(agree: Any, case: str) -> None:
    made, labels, phrase = REFUSED[case]
    found = agree(
        f"""{TABLE}
at = os.path.join(folder, "model")
result = attempt(lambda: str(tf.estimator.{made}.train(once({labels}), steps=1)), {phrase!r})
"""
    )
    assert "error" in found


HOOKS = """
calls = []
class Recorder(tf.train.SessionRunHook):
    def __init__(self, name):
        self.name = name
    def note(self, what):
        calls.append([self.name, what])
    def begin(self):
        self.note("begin")
    def after_create_session(self, session, coord):
        self.note("created")
    def before_run(self, context):
        self.note("before")
    def after_run(self, context, values):
        self.note("after")
    def end(self, session):
        self.note("end")

class Listener(tf.train.CheckpointSaverListener):
    def begin(self):
        calls.append(["listener", "begin"])
    def before_save(self, session, step):
        calls.append(["listener", "before %d" % step])
    def after_save(self, session, step):
        calls.append(["listener", "after %d" % step])
    def end(self, session, step):
        calls.append(["listener", "end %d" % step])
"""


def test_hooks_and_listeners_of_a_canned_model_are_called_in_the_same_order(agree: Any) -> None:
    found = agree(
        f"""{TABLE}{HOOKS}
at = os.path.join(folder, "model")
config = tf.estimator.RunConfig(save_checkpoints_steps=2, log_step_count_steps=1)
made = tf.estimator.DNNClassifier([2], [where], at, config=config)
train = tf.estimator.TrainSpec(
    again(yes), max_steps=4, hooks=[Recorder("train")], saving_listeners=[Listener()])
evaluation = tf.estimator.EvalSpec(once(yes), steps=1, hooks=[Recorder("evaluation")], throttle_secs=0)
tf.estimator.train_and_evaluate(made, train, evaluation)
next(made.predict(once(yes), hooks=[Recorder("prediction")]))
result = calls
"""
    )
    assert ["listener", "end 4"] in found
    assert ["prediction", "after"] in found


@pytest.mark.parametrize(
    "made",
    [
        "BinaryClassHead(label_vocabulary=['a'])",
        "MultiClassHead(3, label_vocabulary=['a'])",
        "MultiLabelHead(3, label_vocabulary=['a'])",
        "LinearClassifier([columns.numeric_column('a')], n_classes=3, label_vocabulary=['a'])",
    ],
)
def test_vocabularies_of_other_lengths_are_refused_where_tensorflow_refuses_them(
    agree: Any, made: str
) -> None:
    phrases = "('does not have \"n_classes\" items', 'Length of label_vocabulary must be')"
    agree(
        f"""{TABLE}
found = attempt(lambda: bool(tf.estimator.{made}))
said = found.pop("says", "")
result = [found, [phrase for phrase in {phrases} if phrase in said]]
"""
    )
