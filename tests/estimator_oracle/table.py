"""A small table, its columns, and how programs of canned estimators look at what they learned: source of both sides."""

from __future__ import annotations

TABLE = '''
columns = tf.feature_column
age = columns.numeric_column("age")
ages = columns.bucketized_column(age, [20, 40, 60])
city = columns.categorical_column_with_vocabulary_list("city", ["a", "b", "c"])
crossed = columns.crossed_column([ages, city], 17)
which = columns.indicator_column(city)
where = columns.embedding_column(city, 2)
table = {
    "age": np.array([[15.0], [25.0], [45.0], [65.0], [33.0], [52.0]], np.float32) ,
    "city": np.array([["a"], ["b"], ["c"], ["a"], ["d"], ["b"]]),
    "town": np.array([["a"], ["b"], ["c"], ["a"], ["d"], ["b"]]),
    "weight": np.array([[1.0], [2.0], [0.5], [0.0], [1.0], [3.0]], np.float32),
}
yes = np.array([[0], [1], [1], [0], [1], [0]])
small = columns.numeric_column("age", normalizer_fn=lambda ages: ages / 50.0)

def once(labels, batch=3):
    return lambda: tf.data.Dataset.from_tensor_slices((table, labels)).batch(batch)

def again(labels, batch=3):
    return lambda: tf.data.Dataset.from_tensor_slices((table, labels)).repeat().batch(batch)

class Losses(tf.train.SessionRunHook):
    """The losses of the steps, which are the last of the collection."""
    def __init__(self):
        self.found = []
    def before_run(self, context):
        return tf.train.SessionRunArgs(tf.get_collection(tf.GraphKeys.LOSSES)[-1])
    def after_run(self, context, values):
        self.found.append(float(values.results))

def started(name, shape):
    """What a variable of that name begins with: the same on both sides."""
    if name == "global_step":
        return np.array(0, np.int64)
    if "beta1_power" in name or "beta2_power" in name:
        return np.array(0.9 if "1" in name else 0.999, np.float32)
    if name.endswith("Ftrl_1") or "Adam" in name:
        return np.zeros(shape, np.float32)
    if "Adagrad" in name or name.endswith("Ftrl"):
        return np.full(shape, 0.1, np.float32)
    if "moving_variance" in name or "gamma" in name:
        return np.ones(shape, np.float32)
    return np.sin(np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32) + len(name)).reshape(shape) * 0.4

def begin(make, labels):
    """make(directory) with a checkpoint of values that both sides know; the names in it are the model's own."""
    scratch = make(os.path.join(folder, "scratch")).train(again(labels), steps=1)
    values = {name: started(name, scratch.get_variable_value(name).shape) for name in scratch.get_variable_names()}
    directory = os.path.join(folder, "model")
    os.makedirs(directory)
    with tf.Graph().as_default(), tf.Session() as sess:
        saver = tf.train.Saver({name: tf.Variable(value, name=name) for name, value in values.items()})
        sess.run(tf.global_variables_initializer())
        saver.save(sess, os.path.join(directory, "model.ckpt"), global_step=0)
    return make(directory)

def signatures(estimator):
    """Of an export that parses examples: method, dtypes and shapes by name."""
    spec = columns.make_parse_example_spec([
        age, city, columns.categorical_column_with_vocabulary_list("town", ["a"]), columns.numeric_column("weight")])
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
    path = estimator.export_saved_model(os.path.join(folder, "export"), receiver)
    with tf.Graph().as_default(), tf.Session() as sess:
        meta = tf.saved_model.loader.load(sess, ["serve"], path.decode())
    def of(tensors):
        return {name: [each.dtype, [size.size for size in each.tensor_shape.dim]] for name, each in tensors.items()}
    return {key: [each.method_name, of(each.inputs), of(each.outputs)] for key, each in meta.signature_def.items()}

def look(make, labels, steps=4, start=True):
    """All that one sees of an estimator: losses, variables, metrics, predictions, summaries, signatures."""
    estimator = begin(make, labels) if start else make(os.path.join(folder, "model"))
    losses = Losses()
    estimator.train(again(labels), steps=steps, hooks=[losses])
    return {
        "losses": losses.found,
        "variables": variables(estimator.latest_checkpoint()),
        "evaluation": estimator.evaluate(once(labels)),
        "predictions": [
            {"/".join(key) if isinstance(key, tuple) else key: [value.dtype.kind, value] for key, value in each.items()}
            for each in estimator.predict(once(labels))
        ],
        "summaries": scalars(estimator.model_dir),
        "signatures": signatures(estimator),
    }
'''
