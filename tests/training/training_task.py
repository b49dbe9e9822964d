"""A task of a training that tests kill: `python -m tests.training.training_task SETTINGS` (JSON).

A ps serves; a worker trains until `last_step` and prints what happens: `step N`, the step that it made, and at the end
`done N`.  Its log goes to stderr.  It ends when its stdin does.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from typing import Any

import headrace as tf


def end_with_stdin() -> None:
    """The test has gone."""
    os.read(0, 1)
    os._exit(3)


class Teller(tf.train.SessionRunHook):
    """Prints the sessions that are made.  later: what the environment says from the first one on."""

    def __init__(self, later: dict[str, str]) -> None:
        self._later = later

    def after_create_session(self, session: Any, coord: Any) -> None:
        print("session", int(session.run("global_step:0")), flush=True)
        os.environ.update(self._later)


def train(settings: dict[str, Any], target: str, index: int) -> None:
    """Count x and the global step up together; in step with others, if `sync` says how many."""
    here = f"/job:worker/task:{index}"
    setter = tf.train.replica_device_setter(worker_device=here, cluster=settings["cluster"])
    with tf.device(setter):
        step = tf.train.get_or_create_global_step()
        x = tf.get_variable("x", [100], initializer=tf.zeros_initializer())
        optimizer: Any = tf.train.GradientDescentOptimizer(1.0)
        if "sync" in settings:
            optimizer = tf.train.SyncReplicasOptimizer(optimizer, *settings["sync"])
        train = optimizer.minimize(-tf.reduce_sum(x), step)
    hooks: list[tf.train.SessionRunHook] = [Teller(settings.get("later", {}))]
    if "sync" in settings:
        hooks.append(optimizer.make_session_run_hook(index == 0))
    if settings.get("last_step"):
        hooks.append(tf.train.StopAtStepHook(last_step=settings["last_step"]))
    with tf.train.MonitoredTrainingSession(
        target,
        is_chief=index == 0,
        checkpoint_dir=settings["directory"],
        hooks=hooks,
        **settings.get("options", {}),
    ) as session:
        while not session.should_stop():
            session.run(train)
            value = int(session.run_step_fn(lambda step_context: step_context.session.run(step)))
            print("step", value, flush=True)
    print("done", value, flush=True)


def supervise(settings: dict[str, Any], target: str, index: int) -> None:
    """Count the global step up under a Supervisor; in a new session when a task was lost."""
    here = f"/job:worker/task:{index}"
    with tf.device(tf.train.replica_device_setter(worker_device=here, cluster=settings["cluster"])):
        step = tf.train.get_or_create_global_step()
        train = tf.assign_add(step, 1)
    supervisor = tf.train.Supervisor(
        is_chief=index == 0, logdir=settings["directory"], global_step=step, save_model_secs=1
    )
    while not supervisor.should_stop():
        try:
            with supervisor.managed_session(target, close_summary_writer=False) as session:
                print("session", int(session.run(step)), flush=True)
                while not supervisor.should_stop():
                    print("step", int(session.run(train)), flush=True)
        except (tf.errors.AbortedError, tf.errors.UnavailableError) as error:
            print("lost", type(error).__name__, flush=True)
            supervisor.coord.clear_stop()


def main() -> None:
    """Serve or train."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    settings = json.loads(sys.argv[1])
    job, index = settings["job"], settings["index"]
    threading.Thread(target=end_with_stdin, daemon=True).start()
    server = tf.train.Server(settings["cluster"], job_name=job, task_index=index)
    print("serving", flush=True)
    if job == "ps":
        server.join()
    run = supervise if settings.get("supervised") else train
    run(settings, server.target, index)


if __name__ == "__main__":
    main()
