"""Several outputs come as a named tuple, called like the op, as TensorFlow's functions return them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import headrace as tf

_SAMPLES = ("sampled_candidates", "true_expected_count", "sampled_expected_count")
_SLOPES = ("backprops_wrt_input", "backprop_wrt_min", "backprop_wrt_max")
_WINDOWS = ("output", "row_pooling_sequence", "col_pooling_sequence")

CASES: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "UniformCandidateSampler": (
        lambda: tf.nn.uniform_candidate_sampler([[1]], 1, 2, True, 5),
        _SAMPLES,
    ),
    "LearnedUnigramCandidateSampler": (
        lambda: tf.nn.learned_unigram_candidate_sampler([[1]], 1, 2, True, 5),
        _SAMPLES,
    ),
    "AllCandidateSampler": (
        lambda: tf.nn.all_candidate_sampler([[1]], 1, 2, True),
        _SAMPLES,
    ),
    "ComputeAccidentalHits": (
        lambda: tf.nn.compute_accidental_hits([[1]], [1, 2], 1),
        ("indices", "ids", "weights"),
    ),
    "Unique": (lambda: tf.unique([1]), ("y", "idx")),
    "ListDiff": (lambda: tf.setdiff1d([1], [2]), ("out", "idx")),
    "TopKV2": (lambda: tf.nn.top_k([1.0]), ("values", "indices")),
    "MaxPoolWithArgmax": (
        lambda: tf.nn.max_pool_with_argmax(tf.zeros([1, 2, 2, 1]), [1] * 4, [1] * 4, "SAME"),
        ("output", "argmax"),
    ),
    "FractionalAvgPool": (
        lambda: tf.nn.fractional_avg_pool(tf.zeros([1, 4, 4, 1]), [1.0, 1.4, 1.4, 1.0]),
        _WINDOWS,
    ),
    "DecodeWav": (lambda: tf.audio.decode_wav(""), ("audio", "sample_rate")),
    "QuantizeV2": (
        lambda: tf.quantize([1.0], 0.0, 1.0, tf.quint8),
        ("output", "output_min", "output_max"),
    ),
    "QuantizedAvgPool": (
        lambda: tf.nn.quantized_avg_pool(
            tf.placeholder(tf.quint8, [1, 2, 2, 1]), 0.0, 1.0, [1] * 4, [1] * 4, "SAME"
        ),
        ("output", "min_output", "max_output"),
    ),
    "QuantizedReluX": (
        lambda: tf.nn.quantized_relu_x(tf.placeholder(tf.quint8), 1.0, 0.0, 1.0),
        ("activations", "min_activations", "max_activations"),
    ),
    "GenerateBoundingBoxProposals": (
        lambda: tf.image.generate_bounding_box_proposals(*[tf.placeholder(tf.float32)] * 4),
        ("rois", "roi_probabilities"),
    ),
    "FakeQuantWithMinMaxVarsGradient": (
        lambda: tf.fake_quant_with_min_max_vars_gradient([1.0], [1.0], 0.0, 1.0),
        _SLOPES,
    ),
    "ReaderReadV2": (
        lambda: tf.TFRecordReader().read(tf.FIFOQueue(1, [tf.string])),
        ("key", "value"),
    ),
    "ReaderReadUpToV2": (
        lambda: tf.TFRecordReader().read_up_to(tf.FIFOQueue(1, [tf.string]), 2),
        ("keys", "values"),
    ),
    "Switch": (
        lambda: tf.raw_ops.Switch(data=1, pred=True),
        ("output_false", "output_true"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_several_outputs_have_names(name: str) -> None:
    make, fields = CASES[name]
    with tf.Graph().as_default():
        found = make()
    assert (type(found).__name__, found._fields) == (name, fields)
    assert found[0] is getattr(found, fields[0])


def test_outputs_that_are_lists_stand_under_their_name() -> None:
    with tf.Graph().as_default():
        parts = tf.raw_ops.SparseSplit(
            split_dim=0, indices=[[0, 0]], values=[1], shape=[2, 1], num_split=2
        )
    assert parts._fields == ("output_indices", "output_values", "output_shape")
    assert [len(each) for each in parts] == [2, 2, 2]
