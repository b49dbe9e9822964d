"""`tf.train`: clusters and servers, optimizers, input pipelines, coordination."""

from __future__ import annotations

from headrace.codec.protos import (
    BytesList,
    ClusterDef,
    Example,
    Feature,
    FeatureList,
    FeatureLists,
    Features,
    FloatList,
    Int64List,
    JobDef,
    SaverDef,
    SequenceExample,
    ServerDef,
)
from headrace.serve.cluster import ClusterSpec
from headrace.serve.server import Server
from headrace.training.adagrad import AdagradOptimizer
from headrace.training.adam import AdamOptimizer
from headrace.training.coordinator import Coordinator, LooperThread
from headrace.training.global_step import (
    assert_global_step,
    create_global_step,
    get_global_step,
    get_or_create_global_step,
    global_step,
)
from headrace.training.gradient_descent import GradientDescentOptimizer
from headrace.training.momentum import MomentumOptimizer
from headrace.training.optimizer import Optimizer
from headrace.training.queue_runner import QueueRunner, add_queue_runner, start_queue_runners

__all__ = [
    "AdagradOptimizer",
    "AdamOptimizer",
    "BytesList",
    "ClusterDef",
    "ClusterSpec",
    "Coordinator",
    "Example",
    "Feature",
    "FeatureList",
    "FeatureLists",
    "Features",
    "FloatList",
    "GradientDescentOptimizer",
    "Int64List",
    "JobDef",
    "LooperThread",
    "MomentumOptimizer",
    "Optimizer",
    "QueueRunner",
    "SaverDef",
    "SequenceExample",
    "Server",
    "ServerDef",
    "add_queue_runner",
    "assert_global_step",
    "create_global_step",
    "get_global_step",
    "get_or_create_global_step",
    "global_step",
    "start_queue_runners",
]
