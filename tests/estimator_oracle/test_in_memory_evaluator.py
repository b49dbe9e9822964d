"""InMemoryEvaluatorHook on both sides: what is written and when, which hooks are called, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.estimator_oracle.table import TABLE

MODEL = """
E, M = tf.estimator, tf.estimator.ModeKeys
calls = []

class Recorder(tf.train.SessionRunHook):
    def __init__(self, name):
        self.name = name
    def begin(self):
        calls.append(self.name + ".begin")
    def after_create_session(self, session, coord):
        calls.append(self.name + ".after_create_session")
    def before_run(self, run_context):
        calls.append(self.name + ".before_run")
    def after_run(self, run_context, run_values):
        calls.append(self.name + ".after_run")
    def end(self, session):
        calls.append(self.name + ".end")

XS = np.array([[1, 2], [3, 4], [5, 6], [-1, 0], [0.5, -2]], np.float32)
YS = np.array([1, 2, 3, 0, -1], np.float32)

def input_fn(epochs=None):
    return lambda: tf.data.Dataset.from_tensor_slices(({"x": XS}, YS)).repeat(epochs).batch(2)

def model_fn(features, labels, mode, params):
    with tf.variable_scope("layer", use_resource=params.get("resource", False), partitioner=params.get("parts")):
        w = tf.get_variable("w", [2, 1], initializer=tf.constant_initializer(0.25))
        b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
    y = tf.squeeze(tf.matmul(features["x"], tf.convert_to_tensor(w)) + b, 1)
    loss = tf.reduce_mean(tf.square(y - labels))
    optimizer = tf.train.MomentumOptimizer(0.01, 0.9)
    more = params.get("more", lambda mode: {})(mode)
    return E.EstimatorSpec(
        mode, predictions=y, loss=loss, train_op=optimizer.minimize(loss, tf.train.get_global_step()),
        eval_metric_ops={"mae": tf.metrics.mean_absolute_error(labels, y), "b": tf.metrics.mean(b)}, **more)

def estimator(name="model", warm=None, **params):
    return E.Estimator(
        model_fn, os.path.join(folder, name),
        E.RunConfig(tf_random_seed=1, save_checkpoints_steps=100, log_step_count_steps=None), params, warm)

def learned(one):
    return {name: one.get_variable_value(name) for name in one.get_variable_names()}

InMemory = E.experimental.InMemoryEvaluatorHook
"""


def test_smoke_it_evaluates_at_first_now_and_then_and_at_the_end(agree: Any) -> None:
    found = agree(
        MODEL
        + """
one = estimator(more=lambda mode: {"evaluation_hooks": [Recorder("own")]})
hook = InMemory(one, input_fn(1), hooks=[Recorder("given")], every_n_iter=3)
one.train(input_fn(), steps=7, hooks=[Recorder("before"), hook, Recorder("after")])
result = [scalars(one.eval_dir()), calls, files(folder, events=True), learned(one)]
"""
    )
    assert [each[0] for each in found[0] if each[1] == "loss"] == [0, 3, 6, 7]


def test_several_with_names_of_their_own_and_of_so_many_steps(agree: Any) -> None:
    found = agree(
        MODEL
        + """
one = estimator()
hooks = [InMemory(one, input_fn(), 2, None, "a", 2), InMemory(one, input_fn(1), name="b", every_n_iter=5),
         InMemory(one, input_fn(), steps=1)]
one.train(input_fn(1), hooks=hooks)
one.train(input_fn(), hooks=hooks, max_steps=7)
result = [scalars(one.eval_dir("a")), scalars(one.eval_dir("b")), scalars(one.eval_dir()), files(folder, events=True)]
"""
    )
    assert [each[0] for each in found[0] if each[1] == "loss"] == [0, 2, 3, 3, 5, 7, 7]


def test_variables_in_parts_of_resources_and_of_one_graph_alone(agree: Any) -> None:
    agree(
        MODEL
        + """
def more(mode):
    if mode == M.EVAL:
        tf.assign_add(tf.get_variable("alone", [], initializer=tf.ones_initializer()), 1.0, name="counts")
    return {}
result = []
for name, params in (
    ("resource", {"resource": True}), ("parts", {"parts": tf.fixed_size_partitioner(2)}), ("alone", {"more": more})
):
    one = estimator(name, **params)
    one.train(input_fn(), steps=4, hooks=[InMemory(one, input_fn(1), every_n_iter=2)])
    result += [scalars(one.eval_dir()), learned(one)]
"""
    )


def test_a_training_that_goes_on_or_begins_warm_is_evaluated_as_it_is(agree: Any) -> None:
    found = agree(
        MODEL
        + """
one = estimator()
one.train(input_fn(), steps=3)
one.train(input_fn(), steps=2, hooks=[InMemory(one, input_fn(1))])
two = estimator("two", one.model_dir)
two.train(input_fn(), steps=2, hooks=[InMemory(two, input_fn(1), every_n_iter=1)])
result = [scalars(one.eval_dir()), scalars(two.eval_dir())]
"""
    )
    assert [[each[0] for each in some if each[1] == "loss"] for some in found] == [
        [3, 5],
        [0, 1, 2, 2],
    ]


def test_a_scaffold_of_the_model_is_used(agree: Any) -> None:
    agree(
        MODEL
        + """
def more(mode):
    if mode != M.EVAL:
        return {}
    local = tf.get_variable("mine", [], initializer=tf.zeros_initializer(), trainable=False)
    return {"scaffold": tf.train.Scaffold(local_init_op=tf.group(tf.assign(local, 3.0)))}
def model_of_local(features, labels, mode, params):
    spec = model_fn(features, labels, mode, params)
    if mode != M.EVAL:
        return spec
    mine = tf.get_default_graph().get_tensor_by_name("mine:0")
    return spec._replace(eval_metric_ops={"mine": (tf.identity(mine), tf.no_op())})
one = E.Estimator(model_of_local, folder, E.RunConfig(tf_random_seed=1), {"more": more})
one.train(input_fn(), steps=2, hooks=[InMemory(one, input_fn(1), every_n_iter=1)])
result = scalars(one.eval_dir())
"""
    )


def test_canned_estimators_are_evaluated_too(agree: Any) -> None:
    agree(
        TABLE
        + """
def make(directory):
    return tf.estimator.DNNLinearCombinedClassifier(
        directory, [city, crossed], "Ftrl", [small, where], "Adagrad", [3])
one = begin(make, yes)
hook = tf.estimator.experimental.InMemoryEvaluatorHook(one, once(yes), every_n_iter=2)
one.train(again(yes), steps=3, hooks=[hook])
result = [scalars(one.eval_dir()), one.evaluate(once(yes))]
"""
    )


REFUSED = [
    ("InMemory(one, input_fn(1), every_n_iter=0)", "invalid every_n_iter=0."),
    ("InMemory(one, input_fn(1), every_n_iter=None)", "invalid every_n_iter=None."),
    ("InMemory(one, input_fn(1), every_n_iter=-2)", "invalid every_n_iter=-2."),
    ("InMemory(one, input_fn(1), steps=0)", "Must specify steps > 0, given: 0"),
    ("InMemory(one, input_fn(1), hooks=[3])", "Hooks must be a SessionRunHook, given: 3"),
    (
        "InMemory(cluster({'chief': ['h:1'], 'ps': ['h:2']}), input_fn(1))",
        "InMemoryEvaluator supports only single machine (aka Local) setting.",
    ),
    (
        "InMemory(cluster({'chief': ['h:1'], 'worker': ['h:2']}), input_fn(1))",
        "InMemoryEvaluator supports only single machine (aka Local) setting.",
    ),
    ("InMemory(cluster({'chief': ['h:1']}), input_fn(1)) and 1", ""),
    (
        "train({'more': lambda mode: {'scaffold': tf.train.Scaffold(saver=tf.train.Saver())}})",
        "InMemoryEvaluator does not support custom saver",
    ),
    (
        "train({'more': lambda mode: {'scaffold': tf.train.Scaffold(init_fn=lambda scaffold, sess: None)}})",
        "InMemoryEvaluator does not support custom init_fn",
    ),
    (
        "train({'more': with_table})",
        "InMemoryEvaluator does not support saveables other than global variables.",
    ),
    (
        "train({}, lambda: (1, 2, 3))",
        "input_fn should return (features, labels) as a len 2 tuple.",
    ),
    ("train({'more': other_shape})", "Assign requires shapes of both tensors to match."),
]


@pytest.mark.parametrize(("made", "phrase"), REFUSED, ids=[each[0] for each in REFUSED])
def test_what_it_refuses_is_the_same(agree: Any, made: str, phrase: str) -> None:
    agree(
        MODEL
        + f"""
import json
one = estimator()
def cluster(spec):
    os.environ["TF_CONFIG"] = json.dumps({{"cluster": spec, "task": {{"type": "chief", "index": 0}}}})
    try:
        return estimator()
    finally:
        del os.environ["TF_CONFIG"]
def with_table(mode):
    tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, -2, -3, name="table")
    return {{}}
def other_shape(mode):
    tf.get_variable("odd", [2 if mode == M.EVAL else 3], initializer=tf.zeros_initializer())
    return {{}}
def train(params, evaluated=input_fn(1)):
    one = estimator(**params)
    one.train(input_fn(), hooks=[InMemory(one, evaluated)], steps=1)
result = attempt(lambda: {made}, {phrase!r})
"""
    )
