"""TensorBoard's reader finds in event files what was put there, in the kinds that its pages show."""

from __future__ import annotations

import io
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf

STEPS = 3
PICTURES = np.random.RandomState(0).randint(0, 256, (2, 5, 4, 3)).astype(np.uint8)
SOUND = np.sin(np.arange(200) / 5).astype(np.float32).reshape(1, 200)
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def train(directory: Path) -> None:
    """A few steps with a summary of every kind, the last of them traced."""
    with tf.Graph().as_default() as graph, tf.Session() as session:
        step = tf.placeholder(tf.float32, [])
        with tf.device(CPU), tf.name_scope("layer"):
            grown = tf.matmul(tf.fill([20, 20], step), tf.ones([20, 20]), name="grown")
        tf.summary.scalar("loss", 10.0 - step)
        tf.summary.scalar("rate", step, family="training")
        tf.summary.histogram("weights", grown)
        tf.summary.image("pictures", PICTURES)
        tf.summary.audio("sound", SOUND, 8000)
        tf.summary.text("note", tf.constant("*good*"))
        everything = tf.summary.merge_all()
        with tf.summary.FileWriter(str(directory), graph) as writer:
            for number in range(STEPS):
                metadata = tf.RunMetadata()
                options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
                found = session.run(everything, {step: number}, options, metadata)
                writer.add_summary(found, number)
            writer.add_run_metadata(metadata, "the last step", number)
            writer.add_session_log(tf.SessionLog(status=tf.SessionLog.STOP), number)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Any:
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    directory = tmp_path_factory.mktemp("run")
    train(directory)
    return EventAccumulator(str(directory)).Reload()


def test_scalars_are_curves(board: Any) -> None:
    assert board.Tags()["scalars"] == ["loss", "training/training/rate"]
    assert [(each.step, each.value) for each in board.Scalars("loss")] == [(0, 10), (1, 9), (2, 8)]


def test_histograms_have_their_distributions(board: Any) -> None:
    assert board.Tags()["histograms"] == board.Tags()["distributions"] == ["weights"]
    last = board.Histograms("weights")[-1].histogram_value
    assert (last.min, last.max, last.num, last.sum) == (40, 40, 400, 16000)
    compressed = board.CompressedHistograms("weights")[-1].compressed_histogram_values
    spread = [value for _, value in compressed]
    assert len(spread) == 9
    assert all(30 < each < 50 for each in spread)


def test_images_have_their_pixels(board: Any) -> None:
    image = pytest.importorskip("PIL.Image")
    assert board.Tags()["images"] == ["pictures/image/0", "pictures/image/1"]
    for index, wanted in enumerate(PICTURES):
        found = board.Images(f"pictures/image/{index}")[-1]
        assert (found.height, found.width) == wanted.shape[:2]
        pixels = np.asarray(image.open(io.BytesIO(found.encoded_image_string)))
        np.testing.assert_array_equal(pixels, wanted)


def test_sound_is_a_file_that_plays(board: Any) -> None:
    (clip,) = [each for tag in board.Tags()["audio"] for each in board.Audio(tag)[-1:]]
    assert (clip.sample_rate, clip.length_frames, clip.content_type) == (8000, 200, "audio/wav")
    with wave.open(io.BytesIO(clip.encoded_audio_string)) as file:
        assert file.getparams()[:4] == (1, 2, 8000, 200)
        samples = np.frombuffer(file.readframes(200), "<i2") / 32768
    np.testing.assert_allclose(samples, SOUND[0], atol=1e-4)


def test_text_goes_to_its_plugin(board: Any) -> None:
    assert "note" in board.Tags()["tensors"]
    assert board.SummaryMetadata("note").plugin_data.plugin_name == "text"
    assert board.Tensors("note")[-1].tensor_proto.string_val == [b"*good*"]


def test_the_graph_has_devices_and_the_time_of_a_traced_step(board: Any) -> None:
    nodes = {node.name: node for node in board.Graph().node}
    assert nodes["layer/grown"].device == CPU
    assert nodes["layer/grown"].attr["_output_shapes"].list.shape[0].dim[0].size == 20
    assert board.Tags()["run_metadata"] == ["the last step"]
    (device,) = board.RunMetadata("the last step").step_stats.dev_stats
    assert device.device == CPU
    timed = {each.node_name: each for each in device.node_stats}
    assert timed["layer/grown"].all_end_rel_micros > 0
    assert (
        timed["layer/grown"].output[0].tensor_description.allocation_description.requested_bytes
        == 1600
    )
    assert timed.keys() & nodes.keys() >= {"layer/grown", "loss", "weights"}
