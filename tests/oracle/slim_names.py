"""What TensorFlow 2.21 has to be told before tf-slim 1.1 runs on it; source for the oracle's process.

tf-slim asks for names that TensorFlow 2 moved, and for layers that tf-keras has under another path.  Where tf-keras
is not installed (`make oracle` installs it), `has_keras` is False, and most layers do not run there.
"""

PREPARED = """
import importlib, sys, warnings
warnings.simplefilter("ignore")
from tensorflow.python.framework import ops
from tensorflow.python.ops import control_flow_ops
for name in ("Tensor", "IndexedSlices", "SparseTensor"):
    if not hasattr(ops, name):
        setattr(ops, name, getattr(tf, name))
control_flow_ops.cond = tf.cond
has_keras = importlib.util.find_spec("tf_keras") is not None
if has_keras and "tf_keras.legacy_tf_layers" not in sys.modules:
    legacy = importlib.import_module("tf_keras.src.legacy_tf_layers")
    for name in "base convolutional core normalization pooling".split():
        found = importlib.import_module("tf_keras.src.legacy_tf_layers." + name)
        sys.modules["tf_keras.legacy_tf_layers." + name] = found
    sys.modules["tf_keras.legacy_tf_layers"] = legacy
import tf_slim as slim
import tf_slim.layers, tf_slim.layers.utils, tf_slim.summaries
L = sys.modules["tf_slim.layers"]
U = sys.modules["tf_slim.layers.utils"]
S = sys.modules["tf_slim.summaries"]
"""
