"""Hooks that stop early, on both sides: at which steps, which variables they add, what they refuse."""

from __future__ import annotations

from typing import Any

MODEL = """
E = tf.estimator
hooks = E.experimental

def data(repeat=None):
    def make():
        x = {"x": np.array([[1.], [2.], [3.], [4.]], np.float32)}
        y = np.array([[1.], [3.], [5.], [7.]], np.float32)
        return tf.data.Dataset.from_tensor_slices((x, y)).repeat(repeat).batch(2)
    return make

def line(features, labels, mode):
    w = tf.get_variable("w", [1, 1], initializer=tf.constant_initializer(0.5))
    loss = tf.reduce_mean(tf.square(tf.matmul(features["x"], w) - labels))
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss, tf.train.get_global_step())
    return E.EstimatorSpec(mode, loss=loss, train_op=train)

def made(name="model", **more):
    return E.Estimator(line, os.path.join(folder, name), E.RunConfig(tf_random_seed=1, **more))

def steps(one):
    return int(one.get_variable_value("global_step"))

def refused(function):
    try:
        function()
    except Exception as error:
        return type(error).__name__
"""


def test_a_training_stops_by_what_evaluations_wrote(agree: Any) -> None:
    agree(
        MODEL
        + """
one = made()
never = hooks.make_early_stopping_hook(one, lambda: False, run_every_secs=None, run_every_steps=1)
one.train(data(), steps=4, hooks=[never])
result = [hooks.stop_if_higher_hook.__name__]
def go(make, *args, taken=7, **more):
    one.train(data(), hooks=[make(one, "loss", *args, run_every_secs=None, **more)], steps=taken)
    result.append(steps(one))
go(hooks.stop_if_higher_hook, 0.0, run_every_steps=2)
one.evaluate(data(1))
go(hooks.stop_if_higher_hook, 0.0, run_every_steps=2)
go(hooks.stop_if_higher_hook, 0.0, run_every_steps=2, min_steps=100)
go(hooks.stop_if_lower_hook, 1e9, run_every_steps=3)
one.evaluate(data(1), name="other")
go(hooks.stop_if_lower_hook, 1e9, run_every_steps=3, eval_dir=one.eval_dir("nothing"))
go(hooks.stop_if_lower_hook, 1e9, run_every_steps=3, eval_dir=one.eval_dir("other"))
one.evaluate(data(1))
for make in (hooks.stop_if_no_decrease_hook, hooks.stop_if_no_increase_hook):
    for most in (1, 5, 100):
        go(make, most, run_every_steps=2, taken=3)
result.append(sorted(one.get_variable_names()))
result.append(bool(one.get_variable_value("signal_early_stopping/STOP")))
"""
    )


def test_a_function_of_the_programs_stops_it(agree: Any) -> None:
    result = agree(
        MODEL
        + """
one, asked = made(save_checkpoints_steps=3), []
def stop():
    asked.append(1)
    return len(asked) == 3
one.train(data(), steps=20, hooks=[hooks.make_early_stopping_hook(one, stop, run_every_secs=None, run_every_steps=4)])
result = [steps(one), len(asked), checkpoints(one.model_dir)]
two = made("two")
two.train(data(), hooks=[hooks.make_stop_at_checkpoint_step_hook(two, 4)], steps=10)
result.append(steps(two))
"""
    )
    assert result[-1] == 4


def test_what_is_refused(agree: Any) -> None:
    agree(
        MODEL
        + """
one = made()
result = [refused(each) for each in (
    lambda: hooks.make_early_stopping_hook(one, 3),
    lambda: hooks.make_early_stopping_hook(3, lambda: True),
    lambda: hooks.make_early_stopping_hook(one, lambda: True, run_every_secs=None),
    lambda: hooks.stop_if_lower_hook(one, "loss", 1.0, run_every_secs=1, run_every_steps=1),
    lambda: hooks.stop_if_no_increase_hook(3, "loss", 1),
)]
never = hooks.make_early_stopping_hook(one, lambda: False)
one.train(data(), steps=1, hooks=[never])
one.evaluate(data(1))
lacking = hooks.stop_if_lower_hook(one, "nothing", 1.0, run_every_secs=None, run_every_steps=1)
result.append(refused(lambda: one.train(data(), hooks=[lacking], steps=1)))
"""
    )
