"""A custom model_fn trained, evaluated and asked on both sides: what is returned, logged, called and left on disk."""

from __future__ import annotations

from typing import Any

import pytest

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

class Listener(tf.train.CheckpointSaverListener):
    def begin(self):
        calls.append("listener.begin")
    def before_save(self, session, step):
        calls.append("listener.before_save %d" % step)
    def after_save(self, session, step):
        calls.append("listener.after_save %d" % step)
    def end(self, session, step):
        calls.append("listener.end %d" % step)

losses = []
class Losses(tf.train.SessionRunHook):
    def before_run(self, run_context):
        return tf.train.SessionRunArgs(run_context.original_args.fetches[1])
    def after_run(self, run_context, run_values):
        losses.append(float(run_values.results))

def model_fn(features, labels, mode, params):
    x = features["x"]
    with tf.variable_scope("layer"):
        w = tf.get_variable("w", [2, 1], initializer=tf.constant_initializer([0.5, -0.25]))
        b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
    y = tf.squeeze(tf.matmul(x, w) + b, 1)
    if mode == M.PREDICT:
        return E.EstimatorSpec(mode, predictions={"y": y, "twice": y * 2.0}, prediction_hooks=[Recorder("prediction")])
    loss = tf.reduce_mean(tf.square(y - labels))
    optimizer = tf.train.MomentumOptimizer(params.get("rate", 0.1), 0.9)
    return E.EstimatorSpec(
        mode, predictions={"y": y}, loss=loss, train_op=optimizer.minimize(loss, tf.train.get_global_step()),
        eval_metric_ops={"mae": tf.metrics.mean_absolute_error(labels, y), "mean": tf.metrics.mean(y)},
        training_hooks=[Recorder("training")], training_chief_hooks=[Recorder("chief")],
        evaluation_hooks=[Recorder("evaluation")])

XS = np.array([[1, 2], [3, 4], [5, 6], [-1, 0], [0.5, -2]], np.float32)
YS = np.array([1, -2, 3, 0.25, 7], np.float32)
def input_fn(epochs=None):
    return lambda: tf.data.Dataset.from_tensor_slices(({"x": XS}, YS)).repeat(epochs).batch(2)
def estimator(params={"rate": 0.01}, **config):
    return E.Estimator(model_fn, folder, E.RunConfig(**{"tf_random_seed": 1, **config}), params)
"""


def test_smoke_losses_checkpoints_events_and_files_of_a_training_are_the_same(agree: Any) -> None:
    found = agree(
        MODEL
        + """
# TensorFlow's hook reads the step before it is raised or after: of every third step that would change which those are.
one = estimator(save_checkpoints_steps=4, save_summary_steps=2, keep_checkpoint_max=2, log_step_count_steps=1000)
one.train(input_fn(), hooks=[Losses()], steps=10)
result = {
    "losses": losses, "files": files(folder, events=True), "checkpoints": checkpoints(folder),
    "values": {name: one.get_variable_value(name) for name in one.get_variable_names()},
    "events": [each for each in scalars(folder)],
}
one.train(input_fn(), hooks=[Losses()], max_steps=12)
one.train(input_fn(), hooks=[Losses()], max_steps=12)
one.train(input_fn(1), hooks=[Losses()])
result["all losses"], result["last"] = losses, os.path.basename(one.latest_checkpoint())
"""
    )
    assert len(found["all losses"]) == 15


def test_smoke_hooks_are_called_in_the_same_order(agree: Any) -> None:
    found = agree(
        MODEL
        + """
one = estimator(save_checkpoints_steps=1)
one.train(input_fn(), hooks=[Recorder("first"), Recorder("second")], steps=2, saving_listeners=[Listener()])
one.evaluate(input_fn(), steps=2, hooks=[Recorder("given")])
list(one.predict(input_fn(1), hooks=[Recorder("asked")]))
result = calls
"""
    )
    assert "chief.end" in found


def test_the_graph_of_a_training_has_the_same_nodes(agree: Any) -> None:
    agree(
        MODEL
        + """
one = estimator()
one.train(input_fn(), steps=1)
with open(os.path.join(folder, "graph.pbtxt")) as text:
    names = [line.split('"')[1] for line in text if line.startswith('  name: "')]
result = sorted(n for n in names if not n.startswith(("gradients", "save/")) and "Dataset" not in n)
"""
    )


def test_evaluations_give_the_same_metrics_and_events(agree: Any) -> None:
    agree(
        MODEL
        + """
one = estimator(save_checkpoints_steps=2)
first = one.evaluate(input_fn(1))
one.train(input_fn(), steps=4)
old = os.path.join(folder, "model.ckpt-2")
result = [
    first, one.evaluate(input_fn(), steps=3), one.evaluate(input_fn(1), name="all"),
    one.evaluate(input_fn(1), checkpoint_path=old, name="old"), files(folder, events=True),
    scalars(one.eval_dir()), scalars(one.eval_dir("all")), scalars(one.eval_dir("old")),
]
paths = []
for event in tf.train.summary_iterator(os.path.join(one.eval_dir("all"), os.listdir(one.eval_dir("all"))[0])):
    for value in event.summary.value:
        if value.tag == "checkpoint_path":
            paths.append([event.step, os.path.basename(value.tensor.string_val[0].decode())])
result.append(paths)
"""
    )


def test_predictions_come_one_by_one_or_by_the_batch(agree: Any) -> None:
    agree(
        MODEL
        + """
one = estimator()
new = [each for each in one.predict(input_fn(1))]
one.train(input_fn(), steps=2)
result = [
    new, list(one.predict(input_fn(1))), list(one.predict(input_fn(1), predict_keys=["y"])),
    list(one.predict(input_fn(1), predict_keys="twice", yield_single_examples=False)),
]
"""
    )


ERRORS = [
    ("E.Estimator(None)", "model_fn must be provided to Estimator."),
    ("E.Estimator(lambda x: x)", "must include features argument."),
    (
        "E.Estimator(lambda features: 1, params={'a': 1})",
        "does not include params argument, but params ({'a': 1}) is passed to Estimator.",
    ),
    ("E.Estimator(lambda features, foo: 1)", "has following not expected args: ['foo']"),
    (
        "E.Estimator(model_fn, config=3)",
        "config must be an instance of `RunConfig`, but provided 3.",
    ),
    (
        "E.Estimator(model_fn, '/a', E.RunConfig('/b'))",
        "with different values. In constructor: '/a', in `RunConfig`: '/b'",
    ),
    (
        "E.Estimator(model_fn, warm_start_from=3)",
        "warm_start_from must be a string or a WarmStartSettings, instead got <class 'int'>",
    ),
    (
        "type('Sub', (E.Estimator,), {'train': lambda self: 1})(model_fn)",
        "Subclasses of Estimator cannot override members of Estimator. <class 'program.Sub'> does override ['train']",
    ),
    ("estimator().config.session_config.allow_soft_placement", ""),
    ("estimator().params", ""),
    (
        "estimator().train(input_fn(), steps=1, max_steps=1)",
        "Can not provide both steps and max_steps.",
    ),
    ("estimator().train(input_fn(), steps=0)", "Must specify steps > 0, given: 0"),
    ("estimator().train(input_fn(), max_steps=-1)", "Must specify max_steps > 0, given: -1"),
    ("estimator().train(input_fn(), hooks=[3])", "Hooks must be a SessionRunHook, given: 3"),
    (
        "estimator().train(input_fn(), saving_listeners=[3])",
        "saving_listeners must be a list of CheckpointSaverListener, given: 3",
    ),
    (
        "estimator(save_checkpoints_secs=None).train(input_fn(), saving_listeners=[Listener()])",
        "There should be a CheckpointSaverHook to use saving_listeners.",
    ),
    ("estimator().train(3)", "unsupported callable"),
    (
        "estimator().train(lambda: (1, 2, 3))",
        "input_fn should return (features, labels) as a len 2 tuple.",
    ),
    (
        "E.Estimator(lambda features: 1, folder).train(input_fn())",
        "model_fn does not take labels, but input_fn returns labels.",
    ),
    (
        "E.Estimator(lambda features, labels: 1, folder).train(input_fn())",
        "model_fn should return an EstimatorSpec.",
    ),
    ("estimator().evaluate(input_fn(), steps=0)", "Must specify steps > 0, given: 0"),
    (
        "estimator().evaluate(input_fn(), checkpoint_path='/nope/x')",
        "The passed save_path is not a valid checkpoint: /nope/x",
    ),
    (
        "next(estimator().predict(input_fn(), predict_keys=['z']))",
        "Expected to run at least one output from dict_keys(['y', 'twice']), provided ['z'].",
    ),
    (
        "next(estimator().predict(input_fn(), hooks=[3]))",
        "Hooks must be a SessionRunHook, given: 3",
    ),
    ("estimator().get_variable_names()", "Could not find trained model in model_dir: "),
    ("estimator().get_variable_value('x')", "Could not find trained model in model_dir: "),
    ("estimator().latest_checkpoint()", ""),
    ("os.path.basename(estimator().eval_dir())", ""),
    ("os.path.basename(estimator().eval_dir('a'))", ""),
    ("estimator().export_saved_model(folder, lambda: 1)", "Couldn't find trained model at "),
    ("estimator().export_saved_model(folder, None)", "An input_receiver_fn must be defined."),
    (
        "E.WarmStartSettings('')",
        "`ckpt_to_initialize_from` MUST be set in WarmStartSettings",
    ),
    ("list(E.WarmStartSettings('x'))", ""),
]


@pytest.mark.parametrize(("made", "phrase"), ERRORS, ids=[each[0] for each in ERRORS])
def test_what_an_estimator_refuses_is_the_same(agree: Any, made: str, phrase: str) -> None:
    agree(MODEL + f"result = attempt(lambda: {made}, {phrase!r})")


METRICS = [
    ("loss", 'Metric with name "loss" is not allowed'),
    ("global_step", "Metric with name `global_step` is not"),
]


@pytest.mark.parametrize(("name", "phrase"), METRICS)
def test_metrics_of_the_estimator_s_own_names_are_refused(
    agree: Any, name: str, phrase: str
) -> None:
    agree(
        f"""
def model_fn(features, labels, mode):
    return tf.estimator.EstimatorSpec(
        mode, loss=tf.constant(1.0), eval_metric_ops={{{name!r}: tf.metrics.mean(tf.constant(1.0))}})
one = tf.estimator.Estimator(model_fn, folder)
result = attempt(lambda: one.evaluate(lambda: (tf.constant(1.0), tf.constant(1.0)), steps=1), {phrase!r})
"""
    )


PREDICTIONS = [
    (
        "{'a': tf.constant([1.0]), 'b': tf.constant([1.0, 2.0])}",
        "b has different batch length than others.",
    ),
    ("{'a': tf.constant(1.0)}", "tuple index out of range"),
    ("tf.constant(1.0)", "object is not iterable"),
    ("tf.constant([1.0, 2.0])", ""),
]


@pytest.mark.parametrize(("predictions", "phrase"), PREDICTIONS)
def test_predictions_that_are_no_batch_are_refused(
    agree: Any, predictions: str, phrase: str
) -> None:
    agree(
        f"""
def model_fn(features):
    return tf.estimator.EstimatorSpec("infer", predictions={predictions})
one = tf.estimator.Estimator(model_fn, folder)
result = attempt(lambda: next(one.predict(lambda: tf.constant([1.0]))), {phrase!r})
"""
    )
