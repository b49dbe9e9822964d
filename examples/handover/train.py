"""A training that one library begins and the other finishes; README.md says how.

    python examples/handover/train.py LIBRARY DIRECTORY [STEPS]

LIBRARY is headrace or tensorflow.  Logistic regression on handwritten digits, by Momentum, from the last checkpoint in
DIRECTORY on; batches follow from the global step alone, so that it does not matter who computes which step.
"""

import sys
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parents[1] / "data"
PIXELS, DIGITS = 64, 10
BATCH_SIZE = 100


def library(name):
    """The module that is called tf."""
    if name == "headrace":
        import headrace as tf
    else:
        import tensorflow.compat.v1 as tf

        tf.disable_v2_behavior()
        tf.disable_resource_variables()
    return tf


def read():
    """Pixels float32 [n, 64] of 0 to 1 and labels int32 [n]; an empty cell is a pixel 0."""
    rows = np.concatenate(
        [
            np.genfromtxt(file, delimiter=",", skip_header=1, filling_values=0)
            for file in sorted(DATA.glob("digits-train-*.csv"))
        ]
    )
    return (rows[:, :-1] / 16).astype(np.float32), rows[:, -1].astype(np.int32)


def build(tf):
    """Placeholders of pixels and labels, the training op, the loss and the global step."""
    pixels = tf.placeholder(tf.float32, [None, PIXELS], name="pixels")
    labels = tf.placeholder(tf.int32, [None], name="labels")
    weights = tf.get_variable("weights", [PIXELS, DIGITS], initializer=tf.zeros_initializer())
    biases = tf.get_variable("biases", [DIGITS], initializer=tf.zeros_initializer())
    logits = tf.matmul(pixels, weights) + biases
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_mean(losses, name="loss")
    step = tf.train.get_or_create_global_step()
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss, global_step=step)
    tf.summary.scalar("cross_entropy", loss)
    return pixels, labels, train, loss, step


def main(name, directory, steps="100"):
    tf = library(name)
    pixels, labels, train, loss, global_step = build(tf)
    summary = tf.summary.merge_all()
    images, digits = read()
    saver = tf.train.Saver()
    checkpoint = tf.train.latest_checkpoint(directory)
    with tf.Session() as session, tf.summary.FileWriter(directory, session.graph) as writer:
        if checkpoint is None:
            session.run(tf.global_variables_initializer())
        else:
            saver.restore(session, checkpoint)
        step = begun = session.run(global_step)
        print(f"{name} begins at step {begun}")
        for _ in range(int(steps)):
            chosen = np.random.RandomState(step).randint(len(images), size=BATCH_SIZE)
            feed = {pixels: images[chosen], labels: digits[chosen]}
            _, text, step = session.run([train, summary, global_step], feed)
            writer.add_summary(text, step)
        error = session.run(loss, {pixels: images, labels: digits})
        print(f"{name} ends at step {step} with a cross entropy of {error:.5f}")
        saver.save(session, f"{directory}/model.ckpt", global_step=global_step)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
