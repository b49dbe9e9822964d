"""The test set through the trained variables, which outlive the sessions that trained them.

Called by: run, when the trainers have ended and the servers still run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import headrace as tf
from headrace.tools.demo.model import network


@dataclass(frozen=True)
class Evaluation:
    """pixels [n, 64], labels [n], predictions [n]; `steps` is the global step they come from."""

    pixels: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int32]
    predictions: npt.NDArray[np.int64]
    steps: int

    @property
    def accuracy(self) -> float:
        """The fraction that is right, 0 to 1."""
        return float(np.mean(self.labels == self.predictions))


def evaluate(
    cluster: Any,
    pixels: npt.NDArray[np.float32],
    labels: npt.NDArray[np.int32],
    timeout_s: float = 30.0,
) -> Evaluation:
    """Classify `pixels` [n, 64] in a session on worker 0.  Raises what the session raises."""
    graph = tf.Graph()
    with graph.as_default(), tf.device(tf.train.replica_device_setter(cluster=cluster)):
        batch = tf.placeholder(tf.float32, [None, pixels.shape[1]], name="pixels")
        predicted = tf.argmax(network(batch), 1)
        global_step = tf.train.get_or_create_global_step()
    config = tf.ConfigProto(operation_timeout_in_ms=int(timeout_s * 1000))
    target = f"grpc://{cluster.task_address('worker', 0)}"
    with tf.Session(target, graph=graph, config=config) as session:
        predictions, steps = session.run([predicted, global_step], {batch: pixels})
    return Evaluation(pixels, labels, predictions, int(steps))
