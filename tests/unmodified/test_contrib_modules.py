"""Every module of TensorFlow 1.15's contrib is there, or an error that says what to use."""

from __future__ import annotations

import re

import pytest

import headrace as tf
from headrace.base.replaced import advice
from headrace.unmodified import facade

HERE = """
    checkpoint cluster_resolver copy_graph crf cudnn_rnn data distributions framework hooks image layers learn
    legacy_seq2seq linear_optimizer lookup losses metrics nccl nn opt quantization rnn seq2seq signal slim staging
    stateless summary tensorboard training util
""".split()
NOT_HERE = """
    all_reduce autograph bayesflow bigtable boosted_trees cloud coder compiler constrained_optimization decision_trees
    deprecated distribute eager factorization ffmpeg fused_conv gan gdr graph_editor grid_rnn
    hadoop hvx ignite input_pipeline integrate kafka keras kernel_methods kinesis labeled_tensor libsvm lite
    memory_stats meta_graph_transform mixed_precision model_pruning mpi mpi_collectives nearest_neighbor optimizer_v2
    periodic_resample predictor quantize rate receptive_field recurrent reduce_slice_ops remote_fused_graph resampler
    rpc saved_model session_bundle sparsemax specs speech stat_summarizer tensor_forest tensorrt testing text timeseries
    verbs
""".split()


def test_modules_that_are_there() -> None:
    for name in HERE:
        assert getattr(tf.contrib, name) is facade.module_at(f"contrib.{name}"), name


def test_modules_that_are_not_there_say_what_to_use() -> None:
    for name in NOT_HERE:
        assert not hasattr(tf.contrib, name), name
        with pytest.raises(AttributeError, match=re.escape(str(advice(f"contrib.{name}")))):
            getattr(tf.contrib, name)
        assert facade.module_at(f"contrib.{name}") is None, name


@pytest.mark.parametrize(
    ("space", "name", "says"),
    [
        ("slim", "data", "tf.parse_single_example"),
        ("image", "connected_components", "scipy.ndimage.label in tf.py_func"),
        ("framework", "convolutional_orthogonal_2d", "tf.orthogonal_initializer"),
        ("layers", "scattered_embedding_lookup", "tf.string_to_hash_bucket_fast"),
        ("slim", "tfexample_decoder", "tf.parse_single_example"),
        ("layers", "real_valued_column", "tf.feature_column"),
        ("rnn", "NTMCell", "AttentionWrapper"),
        ("opt", "DropStaleGradientOptimizer", "tf.train.SyncReplicasOptimizer"),
        ("learn", "Estimator", "use tf.estimator"),
        ("learn", "DNNLinearCombinedClassifier", "use tf.estimator"),
        ("estimator", "replicate_model_fn", "use tf.estimator"),
        ("tpu", "rewrite", "TPUEstimator with use_tpu=False"),
        ("cudnn_rnn", "CudnnGRU", "CudnnCompatibleGRUCell"),
    ],
)
def test_names_that_are_not_there_say_what_to_use(space: str, name: str, says: str) -> None:
    with pytest.raises(AttributeError, match=says):
        getattr(getattr(tf.contrib, space), name)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("contrib.slim.python.slim.nets.inception_v3", "research/slim/nets"),
        ("contrib.slim.python.slim.data.tfexample_decoder", "tf.parse_single_example"),
        ("contrib.data.python.ops.threadpool", "leave override_threadpool out"),
        ("contrib.cudnn_rnn.python.layers", "CudnnCompatibleLSTMCell"),
        ("contrib.layers.python.layers.feature_column", "tf.feature_column"),
        ("contrib.learn.datasets.load_dataset", "numpy.genfromtxt"),
        ("contrib.learn.python.learn.datasets.base.load_csv_with_header", "numpy.genfromtxt"),
    ],
)
def test_paths_that_lead_nowhere_say_what_to_use(path: str, says: str) -> None:
    above, _, name = path.rpartition(".")
    there = facade.module_at(above)
    if there is None:
        assert says in str(advice(path))
        return
    with pytest.raises(AttributeError, match=says):
        getattr(there, name)
