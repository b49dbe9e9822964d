"""The model of TensorFlow's first tutorial: two hidden layers that tell MNIST's digits apart.

Called by: programs.  Threads: as graph.
Source: TF 1.15 examples/tutorials/mnist/mnist.py, for names and behaviour
"""

from __future__ import annotations

import math
from typing import Any

from headrace.base import dtypes
from headrace.graph.collections import GraphKeys
from headrace.graph.graph import Operation
from headrace.graph.names import add_to_collection, name_scope
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.library.nn.losses import sparse_softmax_cross_entropy
from headrace.library.variables.variables import Variable
from headrace.ops.array.constants import zeros
from headrace.ops.linalg.products import matmul
from headrace.ops.math.casting import cast
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.nn.activations import relu
from headrace.ops.nn.basics import in_top_k
from headrace.ops.random.draws import truncated_normal
from headrace.training.gradient_descent import GradientDescentOptimizer

__all__ = [
    "IMAGE_PIXELS",
    "IMAGE_SIZE",
    "NUM_CLASSES",
    "evaluation",
    "inference",
    "loss",
    "training",
]

NUM_CLASSES = 10
IMAGE_SIZE = 28
IMAGE_PIXELS = IMAGE_SIZE * IMAGE_SIZE


def inference(images: Any, hidden1_units: int, hidden2_units: int) -> Tensor:
    """Logits [n, 10] of images [n, 784], by layers in scopes hidden1, hidden2 and softmax_linear."""
    with name_scope("hidden1"):
        hidden1 = relu(_linear(images, IMAGE_PIXELS, hidden1_units))
    with name_scope("hidden2"):
        hidden2 = relu(_linear(hidden1, hidden1_units, hidden2_units))
    with name_scope("softmax_linear"):
        return _linear(hidden2, hidden2_units, NUM_CLASSES)


def _linear(inputs: Any, size: int, units: int) -> Tensor:
    """inputs [n, size] times `weights`, plus `biases`."""
    spread = 1.0 / math.sqrt(size)
    weights = Variable(truncated_normal([size, units], stddev=spread), name="weights")
    biases = Variable(zeros([units]), name="biases")
    product: Tensor = matmul(inputs, weights) + biases
    return product


def loss(logits: Tensor, labels: Any) -> Tensor:
    """The mean cross entropy of logits [n, 10] for labels [n]."""
    numbers = cast(labels, dtypes.int64)
    found: Tensor = sparse_softmax_cross_entropy(labels=numbers, logits=logits)
    return found


def training(loss: Tensor, learning_rate: Any) -> Operation:
    """The op of one step of gradient descent, which counts in a variable `global_step`; a summary of the loss."""
    summary = get("ScalarSummary")("loss", loss, name="loss")
    add_to_collection(GraphKeys.SUMMARIES, summary)
    optimizer = GradientDescentOptimizer(learning_rate)
    global_step = Variable(0, name="global_step", trainable=False)
    return optimizer.minimize(loss, global_step=global_step)


def evaluation(logits: Tensor, labels: Any) -> Tensor:
    """How many of labels [n] have the highest of their logits [n, 10], int32."""
    correct = in_top_k(logits, labels, 1)
    found: Tensor = reduce_sum(cast(correct, dtypes.int32))
    return found
