"""One half of a pair of programs that share a queue: this one puts examples in.

    headrace serve --cluster local=localhost:2222 --job local
    python examples/trainer.py grpc://localhost:2222 &
    python examples/loader.py grpc://localhost:2222 0 4
    python examples/loader.py grpc://localhost:2222 4 6 close

It enqueues the examples FIRST to LAST - 1: the first of them alone, the others together.  With the
word `close` it then closes the queue: what is in it can still be taken, nothing can be added.
An example is a pair of tensors of different type and shape: features float32 [2], label int32 [].
"""

import sys

import headrace as tf

QUEUE = "examples"


def build():
    """The queue, which the trainer finds under the same shared name, and what puts examples in."""
    queue = tf.FIFOQueue(
        capacity=100, dtypes=[tf.float32, tf.int32], shapes=[[2], []], shared_name=QUEUE, name=QUEUE
    )
    features = tf.placeholder(tf.float32, [None, 2], name="features")
    labels = tf.placeholder(tf.int32, [None], name="labels")
    enqueue = queue.enqueue([features[0], labels[0]])
    enqueue_many = queue.enqueue_many([features, labels])
    return features, labels, enqueue, enqueue_many, queue.close()


def main(target, first, last, *words):
    features, labels, enqueue, enqueue_many, close = build()
    numbers = range(int(first), int(last))

    def examples(some):
        return {features: [[n, n + 0.5] for n in some], labels: list(some)}

    with tf.Session(target) as sess:
        sess.run(enqueue, examples(numbers[:1]))
        sess.run(enqueue_many, examples(numbers[1:]))
        print("enqueued", *numbers)
        if "close" in words:
            sess.run(close)
            print("closed the queue")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
