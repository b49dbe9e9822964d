"""TensorFlow's own server for one task, in a process of its own: what `headrace serve` is on the other side.

Says `serving ...` when it listens, and ends with its stdin.
Exit code 75 if the address is taken.
"""

from __future__ import annotations

import argparse
import importlib
import sys

from benchmarks.lifeline import end_with_stdin

ADDRESS_IN_USE = 75


def main() -> int:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--job", required=True)
    parser.add_argument("--task", type=int, required=True)
    args = parser.parse_args()
    end_with_stdin()
    tf = importlib.import_module("tensorflow.compat.v1")
    jobs = {}
    for part in args.cluster.split(";"):
        job, _, addresses = part.partition("=")
        jobs[job] = addresses.split(",")
    try:
        server = tf.train.Server(
            tf.train.ClusterSpec(jobs), job_name=args.job, task_index=args.task
        )
    except tf.errors.UnknownError as error:  # what it raises for a port that is taken
        print(error, file=sys.stderr)
        return ADDRESS_IN_USE
    print(f"serving /job:{args.job}/task:{args.task} at {server.target}", flush=True)
    server.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
