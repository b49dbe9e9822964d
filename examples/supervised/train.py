"""A training under tf.train.Supervisor, which saves, restores and writes summaries by itself; README.md says more.

python examples/supervised/train.py [DIRECTORY [STEPS]]
"""

import sys

import headrace as tf

SLOPE, OFFSET = 3.0, -1.0


def build():
    """A line is fitted to points of SLOPE x + OFFSET; the training op, the loss and what is fitted."""
    x = tf.random_uniform([20], -1.0, 1.0)
    slope = tf.get_variable("slope", [], initializer=tf.zeros_initializer())
    offset = tf.get_variable("offset", [], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.squared_difference(slope * x + offset, SLOPE * x + OFFSET))
    tf.summary.scalar("error", loss)
    step = tf.train.get_or_create_global_step()
    train = tf.train.GradientDescentOptimizer(0.05).minimize(loss, global_step=step)
    return train, step, slope, offset


def main(directory="/tmp/supervised", steps="200"):
    train, global_step, slope, offset = build()
    supervisor = tf.train.Supervisor(
        logdir=directory, save_model_secs=1, save_summaries_secs=1, global_step=global_step
    )
    with supervisor.managed_session() as session:
        step = begun = session.run(global_step)
        last = begun + int(steps)
        print(f"begins at step {begun}", flush=True)
        while step < last and not supervisor.should_stop():
            _, step = session.run([train, global_step])
        print(f"step {step}: {session.run(slope):.2f} x + {session.run(offset):.2f}", flush=True)
        supervisor.saver.save(session, supervisor.save_path, global_step=global_step)
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
