"""tf.contrib's samplers, its `train`, more of its layers, and what TensorBoard's projector reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf

training, layers = tf.contrib.training, tf.contrib.layers


def _batches(session: Any, found: Any, number: int) -> list[Any]:
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    coordinator = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(session, coordinator)
    batches = [session.run(found) for _ in range(number)]
    coordinator.request_stop()
    coordinator.join(threads)
    return batches


def test_examples_are_taken_by_their_probability_and_by_class() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(4)
        number = tf.constant(np.arange(10.0, dtype=np.float32))
        even = training.rejection_sample(
            [number, number * 2],
            lambda each: tf.cast(tf.equal(tf.mod(each[0], 2.0), 0.0), tf.float32),
            5,
            enqueue_many=True,
            runtime_checks=True,
        )
        label = tf.cast(tf.random_uniform([]) < 0.2, tf.int32)
        known = training.stratified_sample(
            [tf.cast(label, tf.float32) * 3], label, [0.5, 0.5], 200, init_probs=[0.8, 0.2]
        )
        guessed = training.stratified_sample([label], label, [0.0, 1.0], 20)
        found = _batches(session, [even, known, guessed], 2)
        with pytest.raises(ValueError, match="add up to 1"):
            training.stratified_sample([label], label, [0.5, 0.7], 2)
    for (one, two), ((values,), classes), (_, last) in found:
        assert (one % 2 == 0).all()
        np.testing.assert_array_equal(two, one * 2)
        np.testing.assert_array_equal(values, classes * 3)
        assert 50 < classes.sum() < 150
        assert last.tolist() == [1] * 20


def test_rows_come_as_often_as_their_rates_say() -> None:
    rates = np.array([0.0, 1.0, 5.0], np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(4)
        wide = np.repeat(rates, 400)
        rows, alike = training.resample_at_rate([wide, wide * 2], wide, seed=3)
        weighed, (others,) = training.weighted_resample([wide], wide, 0.5, seed=5)
        session.run(tf.global_variables_initializer())
        found, same, rate, other = session.run([rows, alike, weighed, others])
    np.testing.assert_array_equal(same, found * 2)
    counts = [(found == rate).sum() / 400 for rate in rates]
    np.testing.assert_allclose(counts, rates, atol=0.8)
    np.testing.assert_allclose(rate, other * 0.5 / 2, rtol=1e-4)
    assert abs(len(other) / 1200 - 0.5) < 0.2


def test_train_runs_until_a_hook_stops_it(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        last = training.train(
            tf.assign_add(step, 1), str(tmp_path), hooks=[tf.train.StopAtStepHook(last_step=4)]
        )
        with pytest.raises(ValueError, match="logdir cannot be None"):
            training.train(step, None)
    tf.summary.FileWriterCache.clear()
    assert last == 4
    assert tf.train.latest_checkpoint(str(tmp_path)) is not None
    spread = training.RandomStrategy(3, seed=1)
    tasks = [spread(None) for _ in range(40)]
    assert set(tasks) == {0, 1, 2}
    again = training.RandomStrategy(3, seed=1)
    assert tasks == [again(None) for _ in range(40)]


def test_layers_that_change_gradients_and_normalize() -> None:
    x = np.random.RandomState(0).standard_normal((2, 3, 4)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        given = tf.constant(x)
        scaled = layers.scale_gradient(given, 0.25)
        normal = layers.gdn(given, name="gdn", gamma_init=0.5)
        back = layers.gdn(normal, inverse=True, name="inverse")
        first = layers.gdn(
            tf.transpose(given, [0, 2, 1]), data_format="channels_first", gamma_init=0.5
        )
        one, two = layers.rev_block(
            given, given * 2, lambda v: tf.layers.dense(v, 4), tf.square, num_layers=2
        )
        names = sorted(v.op.name for v in tf.trainable_variables())
        session.run(tf.global_variables_initializer())
        found = session.run([scaled, tf.gradients(scaled, given)[0], normal, first, back])
        session.run([one, two, tf.gradients(one, given)])
        slope = tf.gradients(normal, tf.trainable_variables()[:2])
        assert all(np.isfinite(each).all() for each in session.run(slope))
        assert session.run(layers.recompute_grad(tf.square)(given))[0, 0, 0] == x[0, 0, 0] ** 2
        with pytest.raises(ValueError, match="known rank"):
            layers.gdn(tf.placeholder(tf.float32))
    assert names[:2] == ["gdn/reparam_beta", "gdn/reparam_gamma"]
    assert "revblock/revlayer_1/f/dense/kernel" in names
    np.testing.assert_array_equal(found[0], x)
    np.testing.assert_array_equal(found[1], np.full_like(x, 0.25))
    expected = x / np.sqrt(1 + 0.5 * x**2)
    np.testing.assert_allclose(found[2], expected, rtol=1e-4)
    np.testing.assert_allclose(found[3], expected.transpose(0, 2, 1), rtol=1e-4)
    np.testing.assert_allclose(found[4], expected * np.sqrt(1 + 0.1 * expected**2), rtol=1e-4)


def test_what_the_projector_shows_is_read_by_tensorboard(tmp_path: Path) -> None:
    projector = tf.contrib.tensorboard.plugins.projector
    config = projector.ProjectorConfig()
    embedding = config.embeddings.add(tensor_name="words:0", metadata_path="words.tsv")
    embedding.sprite.image_path = "words.png"
    embedding.sprite.single_image_dim.extend([28, 28])
    with tf.Graph().as_default():
        writer = tf.summary.FileWriter(str(tmp_path))
        projector.visualize_embeddings(writer, config)
        writer.close()
    text_format = pytest.importorskip("google.protobuf.text_format")
    theirs = pytest.importorskip("tensorboard.plugins.projector.projector_config_pb2")
    read = text_format.Parse(
        (tmp_path / "projector_config.pbtxt").read_text(), theirs.ProjectorConfig()
    )
    assert read.SerializeToString() == config.SerializeToString()
    assert list(read.embeddings[0].sprite.single_image_dim) == [28, 28]
