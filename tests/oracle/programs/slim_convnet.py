"""A small convnet: slim.learning.train with queues, checkpoints and summaries, then slim.evaluation of what it saved.

slim_convnet.py LOGDIR [PREPARED]: the second is run first where tf-slim stands for tensorflow.contrib.slim.
"""

import glob
import os
import sys

import numpy as np

logdir = sys.argv[1]
if len(sys.argv) > 2:
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    tf.disable_resource_variables()
    with open(sys.argv[2]) as prepared:
        exec(prepared.read())
else:
    import tensorflow as tf
    import tensorflow.contrib.slim as slim
    from tensorflow.contrib.layers.python.layers import batch_norm

    assert batch_norm is tf.contrib.layers.batch_norm is slim.batch_norm
tf.logging.set_verbosity(tf.logging.ERROR)

rng = np.random.RandomState(0)
IMAGES = rng.rand(64, 8, 8, 1).astype("f")
LABELS = (IMAGES.mean((1, 2, 3)) > 0.5).astype("i8")


def net(images, training):
    with slim.arg_scope(
        [slim.conv2d, slim.fully_connected],
        weights_regularizer=slim.l2_regularizer(1e-4),
        weights_initializer=slim.xavier_initializer(seed=3),
        normalizer_fn=slim.batch_norm,
        normalizer_params={"is_training": training, "decay": 0.9},
        outputs_collections="ends",
    ):
        hidden = slim.repeat(images, 2, slim.conv2d, 4, [3, 3], scope="conv")
        hidden = slim.flatten(slim.max_pool2d(hidden, 2, scope="pool"))
        return slim.fully_connected(
            hidden, 2, activation_fn=None, normalizer_fn=None, scope="logits"
        )


with tf.Graph().as_default():
    tf.set_random_seed(1)
    image, label = tf.train.slice_input_producer(
        [tf.constant(IMAGES), tf.constant(LABELS)], shuffle=False
    )
    images, labels = tf.train.batch([image, label], 16)
    slim.losses.sparse_softmax_cross_entropy(net(images, True), labels)
    loss = slim.losses.get_total_loss()
    tf.summary.scalar("loss", loss)
    train_op = slim.learning.create_train_op(
        loss,
        tf.train.MomentumOptimizer(0.05, 0.9),
        clip_gradient_norm=2.0,
        summarize_gradients=True,
    )
    final = slim.learning.train(train_op, logdir, number_of_steps=40, log_every_n_steps=20)
    print(f"> loss {final:.4f}")
    pretrained = slim.get_variables_to_restore(include=["conv"])
    print(">", sorted(variable.op.name for variable in pretrained))

files = [os.path.basename(file) for file in glob.glob(os.path.join(logdir, "*"))]
print(">", sorted(file for file in files if "tfevents" not in file))
print("> events:", any("tfevents" in file for file in files))
print(">", tf.train.list_variables(logdir))

with tf.Graph().as_default():
    logits = net(tf.constant(IMAGES), False)
    tf.train.get_or_create_global_step()
    values, updates = slim.metrics.aggregate_metric_map(
        {"accuracy": slim.metrics.streaming_accuracy(tf.argmax(logits, 1), tf.constant(LABELS))}
    )
    tf.summary.scalar("accuracy", values["accuracy"])
    found = slim.evaluation.evaluate_once(
        "",
        tf.train.latest_checkpoint(logdir),
        os.path.join(logdir, "eval"),
        num_evals=2,
        eval_op=list(updates.values()),
        final_op=values["accuracy"],
    )
    print(f"> accuracy {found:.4f}")
    print("> events:", len(os.listdir(os.path.join(logdir, "eval"))))

with tf.Graph().as_default():
    logits = net(tf.constant(IMAGES), False)
    restore = slim.assign_from_checkpoint_fn(
        tf.train.latest_checkpoint(logdir), slim.get_model_variables(), ignore_missing_vars=True
    )
    assign, feeds = slim.assign_from_checkpoint(
        tf.train.latest_checkpoint(logdir), slim.get_variables_to_restore(include=["logits"])
    )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(assign, feeds)
        restore(session)
        share = np.mean(session.run(logits).argmax(1) == LABELS)
        print(f"> accuracy {share:.4f}")
