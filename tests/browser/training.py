"""A program that trains for ever, for pages to show: `python training.py TARGET NAME`; NAME is that of a queue."""

from __future__ import annotations

import contextlib
import sys
import threading

import headrace as tf


def main(target: str, hostile: str) -> None:
    with tf.device("/job:ps/task:0"):
        weights = tf.get_variable("weights", [100, 50], initializer=tf.zeros_initializer())
        tf.get_variable("biases", [50], initializer=tf.zeros_initializer())
        examples = tf.FIFOQueue(32, tf.float32, shapes=[[100]], shared_name="examples")
        put = examples.enqueue(tf.ones([100]))
        never = tf.FIFOQueue(4, tf.int32, shared_name=hostile).dequeue(name="never")
    with tf.device("/job:worker/task:0"):
        numbers = tf.data.Dataset.range(1 << 40).batch(4).prefetch(2)
        number = tf.data.make_one_shot_iterator(numbers).get_next()
        loss = tf.reduce_sum(tf.matmul(examples.dequeue_many(4), weights))
        train = tf.train.GradientDescentOptimizer(0.01).minimize(loss, name="train")
    stop = threading.Event()
    with tf.Session(target) as session:
        session.run(tf.global_variables_initializer())

        def again_and_again(fetch: object, pause_s: float) -> None:
            with contextlib.suppress(tf.errors.OpError):
                while not stop.wait(pause_s):
                    session.run(fetch)

        work = [(put, 0.002), (train, 0.01), (number, 0.05), (never, 0.0)]
        for each in work:
            threading.Thread(target=again_and_again, args=each, daemon=True).start()
        print("training", flush=True)
        sys.stdin.read()  # until who started it has ended


if __name__ == "__main__":
    main(*sys.argv[1:])
