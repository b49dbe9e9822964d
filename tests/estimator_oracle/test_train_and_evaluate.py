"""train_and_evaluate in one process: what is called when, what comes back, and which roles are refused."""

from __future__ import annotations

from typing import Any

import pytest

SETUP = """
E, M = tf.estimator, tf.estimator.ModeKeys
log = []

def model_fn(features, labels, mode):
    log.append("model " + mode)
    w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    p = features["x"] * w
    if mode == M.PREDICT:
        return E.EstimatorSpec(mode, predictions={"p": p})
    loss = tf.reduce_mean(tf.square(p - labels))
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return E.EstimatorSpec(mode, predictions={"p": p}, loss=loss, train_op=train_op)

def input_fn(epochs=None):
    return lambda: tf.data.Dataset.from_tensors(({"x": np.float32([1, 2])}, np.float32([2, 4]))).repeat(epochs)

class Noted(E.Exporter):
    def __init__(self, name):
        self._name = name
    @property
    def name(self):
        return self._name
    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        log.append(["export", os.path.relpath(export_path, estimator.model_dir), os.path.basename(checkpoint_path),
                    eval_result["loss"], eval_result["global_step"], is_the_final_export])
        return "by " + self._name

class Listener(tf.train.CheckpointSaverListener):
    def begin(self):
        log.append("begin")
    def before_save(self, session, step):
        log.append("before %d" % step)
    def after_save(self, session, step):
        log.append("after %d" % step)
    def end(self, session, step):
        log.append("end %d" % step)

class Hook(tf.train.SessionRunHook):
    def begin(self):
        log.append("hook begins")
    def end(self, session):
        log.append("hook ends")

def run(max_steps=5, epochs=None, throttle=0, **config):
    config = config or {"save_checkpoints_steps": 2}
    found = E.train_and_evaluate(
        E.Estimator(model_fn, folder, E.RunConfig(**config)),
        E.TrainSpec(input_fn(epochs), max_steps, [Hook()], [Listener()]),
        E.EvalSpec(input_fn(3), 1, exporters=[Noted("a"), Noted("b")], throttle_secs=throttle, hooks=[Hook()]))
    noted = list(log)
    log.clear()
    return [found, noted]
"""

RUNS = [
    "[run()]",
    "[run(throttle=1000)]",
    "[run(max_steps=None, epochs=3)]",
    "[run(max_steps=None, epochs=3, throttle=1000)]",
    "[run(), run(), run(max_steps=7)]",
]


@pytest.mark.parametrize("runs", RUNS)
def test_checkpoints_are_evaluated_and_exported_at_the_same_moments(agree: Any, runs: str) -> None:
    agree(SETUP + f"result = [{runs}, files(folder, events=True), checkpoints(folder)]")


REFUSED = [
    (
        "E.train_and_evaluate(3, 4, 5)",
        "`eval_spec` must have type `tf.estimator.EvalSpec`. Got: <class 'int'>",
    ),
    (
        "E.train_and_evaluate(E.Estimator(model_fn, folder), 4, E.EvalSpec(len))",
        "`train_spec` must have type `tf.estimator.TrainSpec`. Got: <class 'int'>",
    ),
    (
        "E.train_and_evaluate(3, E.TrainSpec(len), E.EvalSpec(len))",
        "`estimator` must have type `tf.estimator.Estimator`",
    ),
    (
        "run(save_checkpoints_steps=None)",
        "There should be a CheckpointSaverHook to use saving_listeners.",
    ),
    (
        "task('evaluator', 1, {'chief': ['h:1']})",
        "For distributed training, there can only be one `evaluator` task (with task id 0).  Given task id 1",
    ),
    (
        "task('foo', 0, {'chief': ['h:1'], 'foo': ['h:2']})",
        "Task type foo is not supported. Supported task types are ['chief', 'evaluator', 'master', 'ps', 'worker']",
    ),
    (
        "task('local', 0, {'chief': ['h:1'], 'local': ['h:2']})",
        "`task.type` in TF_CONFIG cannot be `local`.",
    ),
    ("task('chief', 0, {'chief': ['h:1']})", ""),
]
TASK = """
def task(job, index, cluster):
    import json
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})
    try:
        return run()
    finally:
        del os.environ["TF_CONFIG"]
"""


@pytest.mark.parametrize(("made", "phrase"), REFUSED)
def test_what_it_refuses_is_the_same(agree: Any, made: str, phrase: str) -> None:
    agree(SETUP + TASK + f"result = attempt(lambda: {made}, {phrase!r})")


EXPORTERS = """
def receiver():
    x = tf.placeholder(tf.float32, [None])
    return E.export.ServingInputReceiver({"x": x}, x)

def exports(name):
    base = os.path.join(folder, "export", name)
    return len(os.listdir(base)) if os.path.isdir(base) else 0

def trained(exporter, steps):
    E.train_and_evaluate(
        E.Estimator(model_fn, folder, E.RunConfig(save_checkpoints_steps=1)),
        E.TrainSpec(input_fn(), steps), E.EvalSpec(input_fn(1), exporters=exporter, throttle_secs=0))
"""


def test_the_final_exporter_exports_once(agree: Any) -> None:
    agree(
        SETUP
        + EXPORTERS
        + """
trained(E.FinalExporter("final", receiver), 3)
base = os.path.join(folder, "export", "final")
result = [exports("final"), files(os.path.join(base, os.listdir(base)[0]))]
"""
    )


def test_the_latest_exporter_keeps_the_newest(agree: Any) -> None:
    agree(
        SETUP
        + EXPORTERS
        + """
trained(E.LatestExporter("latest", receiver, exports_to_keep=1), 2)
result = exports("latest")
"""
    )


BEST = """
asked = []
def better(best_eval_result, current_eval_result):
    asked.append([sorted(best_eval_result), best_eval_result["loss"], current_eval_result["loss"]])
    return best_eval_result["loss"] > current_eval_result["loss"]
class Result:
    model_dir = folder
    def __init__(self):
        self.done = []
    def export_saved_model(self, path, receiver, **more):
        self.done.append(os.path.basename(more["checkpoint_path"]))
        return "exported"
def asked_of(losses, **more):
    exporter = E.BestExporter(serving_input_receiver_fn=receiver, compare_fn=better, **more)
    one = Result()
    gave = [exporter.export(one, folder, "c-%d" % at, {"loss": loss, "global_step": at}, False) for at, loss in
            enumerate(losses)]
    return one.done, gave
"""


def test_the_best_exporter_exports_what_is_better_than_all_before(agree: Any) -> None:
    agree(SETUP + EXPORTERS + BEST + "result = [asked_of([3.0, 2.0, 4.0, 2.0, 1.0]), asked]")


def test_the_best_exporter_finds_the_best_in_event_files_after_a_restart(agree: Any) -> None:
    agree(
        SETUP
        + EXPORTERS
        + BEST
        + """
one = E.Estimator(model_fn, folder)
one.train(input_fn(), steps=1)
one.evaluate(input_fn(1))
one.train(input_fn(), steps=1)
one.evaluate(input_fn(1))
tf.summary.FileWriterCache.clear()
result = [asked_of([3.0, 0.5]), list(asked), asked_of([3.0, 4.0], event_file_pattern=None), asked]
"""
    )


def test_results_without_loss_cannot_be_compared_by_default(agree: Any) -> None:
    agree(
        """
def exported(results):
    exporter = tf.estimator.BestExporter(serving_input_receiver_fn=len)
    class One:
        model_dir = folder
        def export_saved_model(self, path, receiver, **more):
            return "exported"
    return [exporter.export(One(), folder, "c", each, False) for each in results]
result = [
    attempt(lambda: exported([{"loss": 1.0}, {"a": 2.0}]), "cannot be empty or no loss is found in it"),
    attempt(lambda: exported([{"a": 1.0}, {"loss": 2.0}]), "cannot be empty or no loss is found in it"),
    attempt(lambda: exported([{"loss": 2.0}, {"loss": 2.0}, {"loss": 1.0}])),
]
"""
    )
