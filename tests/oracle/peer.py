"""The other end of the `oracle` fixture: runs in a Python that has TensorFlow, never in headrace's.

Reads (source, inputs) from stdin, writes (True, result) or (False, (class, message, trace)) to what was stdout; what
the source prints goes to stderr.
"""

import os
import pickle
import struct
import sys
import traceback
import types

replies = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)

import numpy as np  # noqa: E402
import tensorflow.compat.v1 as tf  # noqa: E402
from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl  # noqa: E402
from tensorflow.python.keras.legacy_tf_layers import base, convolutional, core, pooling  # noqa: E402

# What this TensorFlow still has, but does not name beside Keras 3:
tf.nn.rnn_cell = rnn_cell_impl
tf.layers = types.SimpleNamespace(
    **{**vars(core), **vars(convolutional), **vars(pooling), "Layer": base.Layer}
)
tf.disable_v2_behavior()
tf.disable_resource_variables()


def main():
    requests = sys.stdin.buffer
    while len(head := requests.read(8)) == 8:
        source, inputs = pickle.loads(requests.read(struct.unpack("<Q", head)[0]))
        reply = pickle.dumps(answer(source, inputs))
        replies.write(struct.pack("<Q", len(reply)) + reply)
        replies.flush()


def answer(source, inputs):
    tf.reset_default_graph()
    names = {"tf": tf, "np": np, **inputs}
    try:
        exec(compile(source, "<oracle>", "exec"), names)
        pickle.dumps(names["result"])
    except Exception as error:
        message = getattr(error, "message", None) or str(error)
        return False, (type(error).__name__, message, traceback.format_exc())
    return True, names["result"]


main()
