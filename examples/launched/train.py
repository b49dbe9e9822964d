"""One task of a cluster that fits a line, as TF_CONFIG says which; `headrace launch` starts all of them (README.md).

The chief initializes the variables or restores them, and saves every 50 steps.  With --fails JOB a task of
that job kills itself at step --fail-at, once, so that its launch has something to restart; the other waits for it.
"""

import argparse
import os
import signal
import time
from pathlib import Path

import headrace as tf

SLOPE, OFFSET = 3.0, -1.0


def build(device):
    """The training op, the global step, and what is fitted: the variables are on the parameter server."""
    with tf.device(device):
        x = tf.random_uniform([20], -1.0, 1.0)
        slope = tf.get_variable("slope", [], initializer=tf.zeros_initializer())
        offset = tf.get_variable("offset", [], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.squared_difference(slope * x + offset, SLOPE * x + OFFSET))
        step = tf.train.get_or_create_global_step()
        train = tf.train.GradientDescentOptimizer(0.05).minimize(loss, global_step=step)
    return train, step, (slope, offset)


def fail(args, task, step):
    """At step --fail-at: kill this task if it is the one that fails, the first time, or wait until that is back."""
    if args.fails is None or step < args.fail_at:
        return
    failed, back = (Path(args.directory, f"{word}-{args.fails}") for word in ("failed", "back"))
    if task == args.fails and not failed.exists():
        failed.touch()
        print(f"fails at step {step}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    while not back.exists():  # else the training may have ended before a slow task fails
        time.sleep(0.1)


def begin(args, task):
    """Tell the one that waits if this is the task that has failed, which was started again."""
    if task == args.fails and Path(args.directory, f"failed-{task}").exists():
        Path(args.directory, f"back-{task}").touch()


def work(args, resolver, server):
    """Train until the global step is --steps."""
    job, index = resolver.task_type, resolver.task_id
    device = tf.train.replica_device_setter(
        cluster=resolver.cluster_spec(), worker_device=f"/job:{job}/task:{index}"
    )
    train, global_step, line = build(device)
    chief = job == "chief"
    with tf.train.MonitoredTrainingSession(
        master=server.target,
        is_chief=chief,
        checkpoint_dir=args.directory if chief else None,
        save_checkpoint_steps=50 if chief else None,
        save_checkpoint_secs=None,
        hooks=[tf.train.StopAtStepHook(last_step=args.steps)],
    ) as session:
        step = session.run_step_fn(lambda step_context: step_context.session.run(global_step))
        print(f"begins at step {step}", flush=True)
        fitted = (0.0, 0.0)
        while not session.should_stop():
            _, step, fitted = session.run([train, global_step, line])
            fail(args, job, step)
    print(f"{fitted[0]:.2f} x + {fitted[1]:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("directory", nargs="?", default="/tmp/launched", help="of the checkpoints")
    add("--steps", type=int, default=1000)
    add("--fails", choices=["chief", "worker"], help="the job whose task kills itself")
    add("--fail-at", type=int, default=300, metavar="STEP")
    args = parser.parse_args()
    Path(args.directory).mkdir(parents=True, exist_ok=True)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    begin(args, resolver.task_type)
    server = tf.train.Server()
    if resolver.task_type == "ps":
        server.join()
    else:
        work(args, resolver, server)


if __name__ == "__main__":
    main()
