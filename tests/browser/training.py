"""A program that trains for ever, for pages to show: `python training.py TARGET NAME FOLDER [SECONDS]`.

NAME is that of a queue, FOLDER where checkpoints go, SECONDS how often.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable

import headrace as tf


def main(target: str, hostile: str, folder: str, saves_every_s: str = "0.5") -> None:
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
    saver = tf.train.Saver(max_to_keep=2)
    stop = threading.Event()
    with tf.Session(target) as session:
        session.run(tf.global_variables_initializer())

        def again_and_again(do: Callable[[], object], pause_s: float) -> None:
            with contextlib.suppress(tf.errors.OpError):
                while not stop.wait(pause_s):
                    do()

        def step(fetch: object) -> Callable[[], object]:
            return lambda: session.run(fetch)

        def save() -> None:
            nonlocal saved
            saved += 1
            path = os.path.join(folder, "model")
            saver.save(session, path, saved, write_meta_graph=False)

        saved = 0
        work = [(step(put), 0.002), (step(train), 0.01), (step(number), 0.05), (step(never), 0.0)]
        work.append((save, float(saves_every_s)))
        for each in work:
            threading.Thread(target=again_and_again, args=each, daemon=True).start()
        print("training", flush=True)
        sys.stdin.read()  # until who started it has ended


if __name__ == "__main__":
    main(*sys.argv[1:])
