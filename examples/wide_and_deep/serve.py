"""What an export of train.py says of three commuters: python examples/wide_and_deep/serve.py EXPORT.

It knows nothing of the model but the names of its features; TensorFlow runs it as well.
"""

import sys

import headrace as tf

COMMUTERS = [
    (23, 2.5, "Delft", "rain", 1),
    (61, 9.0, "Porto", "sun", 1),
    (35, 1.2, "Graz", "sun", 0),
]


def serialized(age, km, town, weather, owns_bicycle):
    """A tf.train.Example as it is sent to the model."""
    example = tf.train.Example()
    feature = example.features.feature
    feature["age"].float_list.value.append(age)
    feature["km"].float_list.value.append(km)
    feature["town"].bytes_list.value.append(town.encode())
    feature["weather"].bytes_list.value.append(weather.encode())
    feature["owns_bicycle"].int64_list.value.append(owns_bicycle)
    return example.SerializeToString()


with tf.Session(graph=tf.Graph()) as sess:
    model = tf.saved_model.loader.load(sess, [tf.saved_model.tag_constants.SERVING], sys.argv[1])
    signature = model.signature_def["predict"]
    fed = {signature.inputs["examples"].name: [serialized(*each) for each in COMMUTERS]}
    found = sess.run(signature.outputs["logistic"].name, fed)
    for who, likely in zip(COMMUTERS, found, strict=True):
        print(*who, f"cycles with {likely[0]:.0%}")
