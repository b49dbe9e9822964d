"""TPUEstimator with use_tpu=False: what its functions are given, and what comes of it, is TensorFlow's."""

from __future__ import annotations

from typing import Any

SETUP = """
T = tf.contrib.tpu if hasattr(tf, "contrib") else tf.estimator.tpu
log = []

def model_fn(features, labels, mode, params, config):
    log.append([mode, sorted(params), params.get("batch_size"), params["use_tpu"], type(config).__name__])
    w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    predicted = features["x"] * w
    if mode == "infer":
        output = tf.estimator.export.PredictOutput({"p": predicted})
        return T.TPUEstimatorSpec(mode, predictions={"p": predicted}, export_outputs={"serving_default": output})
    loss = tf.reduce_mean(tf.square(predicted - labels))
    if mode == "eval":
        def metrics(labels, predicted):
            return {"off": tf.metrics.mean_absolute_error(labels, predicted)}
        given = {"labels": labels, "predicted": predicted} if params["by_name"] else [labels, predicted]
        return T.TPUEstimatorSpec(mode, loss=loss, eval_metrics=(metrics, given))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=tf.train.get_global_step())
    def host_call(step, loss):
        log.append(["host_call", step.shape.as_list(), loss.shape.as_list()])
        calls = tf.get_variable("calls", [], initializer=tf.zeros_initializer(), trainable=False)
        return tf.assign_add(calls, 1.0)
    return T.TPUEstimatorSpec(mode, loss=loss, train_op=train, host_call=(
        host_call, [tf.reshape(tf.train.get_global_step(), [1]), tf.reshape(loss, [1])]))

def input_fn(params):
    log.append(["input", sorted(params), params["batch_size"]])
    x = np.arange(8, dtype=np.float32)
    return tf.data.Dataset.from_tensor_slices(({"x": x}, 2 * x)).repeat().batch(params["batch_size"])

def asked(params):
    return tf.data.Dataset.from_tensor_slices({"x": np.arange(8, dtype=np.float32)}).batch(params["batch_size"])

def made(model_fn=model_fn, **more):
    more.setdefault("use_tpu", False)
    more.setdefault("config", T.RunConfig(tf_random_seed=1, tpu_config=T.TPUConfig(iterations_per_loop=3)))
    return T.TPUEstimator(model_fn=model_fn, model_dir=os.path.join(folder, "model"), **more)
"""


def test_functions_are_told_the_batch_size_of_their_mode(agree: Any) -> None:
    agree(
        f"""{SETUP}
estimator = made(train_batch_size=4, eval_batch_size=2, predict_batch_size=1, params={{"by_name": False}})
estimator.train(input_fn, max_steps=5)
evaluated = estimator.evaluate(input_fn, steps=3)
predicted = [each["p"] for each in estimator.predict(asked)]
said = list(log)
by_name = made(train_batch_size=4, eval_batch_size=2, params={{"by_name": True}}).evaluate(input_fn, steps=3)
def receiver():
    x = tf.placeholder(tf.float32, [None])
    return tf.estimator.export.ServingInputReceiver({{"x": x}}, {{"x": x}})
del log[:]
path = estimator.export_saved_model(os.path.join(folder, "export"), receiver)
learned = variables(estimator.latest_checkpoint())
result = [said, evaluated, predicted, by_name, log[-1], learned, estimator.get_variable_names()]
"""
    )


ERRORS = [
    ("made(train_batch_size=2, params={'batch_size': 3})", "are reserved keys but existed in params"),
    ("made(config=tf.estimator.RunConfig())", "`config` must be provided with type `tpu_config.RunConfig`"),
    ("made(train_batch_size=2, config=None)", "`config` must be provided with type `tpu_config.RunConfig`"),
    ("made(params={'by_name': 1}).train(input_fn, steps=1)", "'batch_size'"),
    ("made(train_batch_size=2).train(lambda: asked({'batch_size': 1}), steps=1)",
     "does not include params argument, required by"),
    ("made(lambda features, labels, mode: 3, train_batch_size=2).train(input_fn)",
     "does not include params argument, required by"),
    ("spec(loss=tf.constant(1.0), eval_metrics=3)", "eval_metrics should be tuple or list"),
    ("spec(loss=tf.constant(1.0), eval_metrics=(3, []))", "eval_metrics[0] should be callable."),
    ("spec(loss=tf.constant(1.0), eval_metrics=(lambda a: 1, 3))", "eval_metrics[1] should be tuple or list, or dict."),
    ("spec(loss=tf.constant(1.0), eval_metrics=(lambda a, b: 1, [3]))",
     "length of tensors 1 does not match method args"),
    ("spec(loss=tf.constant(1.0), host_call=3)", "host_call should be tuple or list"),
    ("spec()", "Missing loss."),
    ("T.TPUConfig(iterations_per_loop=0)", "Invalid TPUConfig `iterations_per_loop` value."),
    ("T.TPUConfig(num_shards=0)", "TPUConfig num_shards must be positive, got 0"),
    ("T.TPUConfig(num_cores_per_replica=3)", "num_cores_per_replica must be 1, 2, 4, 8, 16, 32, 64, 128; got 3"),
    ("T.TPUConfig(initial_infeed_sleep_secs=-1)", "TPUConfig initial_infeed_sleep_secs must be positive, got -1"),
    ("T.TPUConfig(num_shards='a')", "TPUConfig num_shards must be int, got <class 'str'>"),
    ("T.TPUConfig(input_partition_dims=[{}], num_cores_per_replica=2)",
     "input_partition_dims is only supported in PER_HOST_V2 mode."),
    ("T.TPUConfig(input_partition_dims=[{}], per_host_input_for_training=3)",
     "input_partition_dims requires setting num_cores_per_replica."),
    ("T.TPUConfig(input_partition_dims=[{}] * 3)",
     "input_partition_dims must be a list/tuple with one or two elements."),
    ("T.TPUConfig(eval_training_input_configuration=9)",
     "eval_training_input_configuration must be PER_HOST_V1 or SLICED;"),
    ("made(params={'by_name': 1}, export_saved_model_api_version=3)",
     "export_saved_model_api_version should be 1 or 2; got 3."),
    ("T.RunConfig(cluster=3, master='x')", "Both master and cluster are set."),
]  # fmt: skip


def test_what_does_not_fit_is_refused_as_tensorflow_refuses_it(agree: Any) -> None:
    found = agree(
        f"""{SETUP}
def spec(**given):
    return T.TPUEstimatorSpec("eval", **given)
result = [attempt(lambda: eval(text), phrase) for text, phrase in cases]
""",
        cases=ERRORS,
    )
    for (text, phrase), each in zip(ERRORS, found, strict=True):
        assert each.get("says") == phrase, (text, each)


def test_configurations_have_the_same_fields_and_defaults(agree: Any) -> None:
    agree(
        f"""{SETUP}
config = T.RunConfig(tpu_config=T.TPUConfig(7), master="local", evaluation_master="x", save_checkpoints_steps=9)
changed = config.replace(tpu_config=T.TPUConfig("1h"), save_checkpoints_steps=11)
result = [
    list(T.TPUConfig._fields), list(T.TPUConfig()), T.RunConfig().master, T.RunConfig().evaluation_master,
    list(config.tpu_config), config.master, config.evaluation_master, config.save_checkpoints_steps,
    list(changed.tpu_config), changed.master, changed.save_checkpoints_steps,
    [T.TPUConfig(per_host_input_for_training=each).per_host_input_for_training for each in (True, False, 1, 2, 3, 4)],
    {{each: getattr(T.InputPipelineConfig, each) for each in dir(T.InputPipelineConfig) if each.isupper()}},
    list(T.TPUEstimatorSpec._fields),
]
"""
    )
