"""The other half of the pair: this one takes examples out of the queue, as loader.py says.

    python examples/trainer.py grpc://localhost:2222

One example with `dequeue`; four at once with `dequeue_many`, which waits until there are four; the
rest in batches of four with `dequeue_up_to`, whose last one is short; then the queue is closed and
empty, which is an OutOfRangeError.
"""

import sys

import headrace as tf

QUEUE = "examples"


def build():
    queue = tf.FIFOQueue(
        capacity=100, dtypes=[tf.float32, tf.int32], shapes=[[2], []], shared_name=QUEUE, name=QUEUE
    )
    return queue.dequeue(), queue.dequeue_many(4), queue.dequeue_up_to(4)


def main(target):
    one, four, rest = build()
    with tf.Session(target) as sess:
        features, label = sess.run(one)
        print("one:", features.tolist(), label)
        features, labels = sess.run(four)
        print("four:", features.tolist(), labels.tolist())
        try:
            while True:
                features, labels = sess.run(rest)
                print(f"up to four, got {len(labels)}:", features.tolist(), labels.tolist())
        except tf.errors.OutOfRangeError:
            print("the queue is closed and empty")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
