"""A task of `train_and_evaluate` that tests kill: `python -m tests.training.estimator.estimator_task SETTINGS` (JSON).

It prints what happens: `serving` first, `session N`, the step that a session begins with, `step N` after each of its
steps, `evaluated N` and `final N`, `done` at the end.  Its log goes to stderr.  It ends when its stdin does.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from typing import Any

import headrace as tf
from tests.training.estimator.models import estimator, rows
from tests.training.training_task import end_with_stdin


class Teller(tf.train.SessionRunHook):
    """Prints sessions and steps; raises at a step, if it is told to."""

    def __init__(self, raise_at: int | None) -> None:
        self._raise_at = raise_at

    def after_create_session(self, session: Any, coord: Any) -> None:
        print("session", int(session.run("global_step:0")), flush=True)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        step = int(run_context.session.run("global_step:0"))
        print("step", step, flush=True)
        if self._raise_at is not None and step >= self._raise_at:
            raise LookupError("the task is told to fail")


class Evaluated(tf.estimator.Exporter):
    """Prints evaluations."""

    @property
    def name(self) -> str:
        return "evaluated"

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Any,
        is_the_final_export: bool,
    ) -> None:
        what = "final" if is_the_final_export else "evaluated"
        print(what, int(eval_result["global_step"]), flush=True)


def main() -> None:
    """Be a task."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    settings = json.loads(sys.argv[1])
    task = {"type": settings["job"], "index": settings["index"]}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": settings["cluster"], "task": task})
    threading.Thread(target=end_with_stdin, daemon=True).start()
    print("serving", flush=True)
    one = estimator(
        settings["directory"],
        {"rate": 1e-6},
        save_checkpoints_steps=5,
        experimental_max_worker_delay_secs=0,
    )
    hooks = [Teller(settings.get("raise_at"))]
    tf.estimator.train_and_evaluate(
        one,
        tf.estimator.TrainSpec(rows(), settings.get("last_step"), hooks),
        tf.estimator.EvalSpec(
            rows(1), None, exporters=Evaluated(), start_delay_secs=0, throttle_secs=0
        ),
    )
    print("done", flush=True)


if __name__ == "__main__":
    main()
