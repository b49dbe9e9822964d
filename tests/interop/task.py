"""One TensorFlow task: `task.py CLUSTER JOB INDEX`, the cluster as `headrace serve` reads it; until stdin closes.

Runs in a Python that has TensorFlow, never in headrace's.
"""

import os
import sys

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.disable_resource_variables()

ADDRESS_IN_USE = 75


def main(cluster, job, index):
    spec = dict(part.split("=") for part in cluster.split(";"))
    jobs = {name: addresses.split(",") for name, addresses in spec.items()}
    try:
        server = tf.train.Server(jobs, job_name=job, task_index=int(index))
    except tf.errors.UnknownError as error:
        print(error, file=sys.stderr)
        os._exit(ADDRESS_IN_USE)
    print(f"serving /job:{job}/task:{index} at {server.target}", flush=True)
    sys.stdin.read()
    os._exit(0)  # a TensorFlow server cannot be stopped


main(*sys.argv[1:])
