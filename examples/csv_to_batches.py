"""From CSV files to batches, all of it in the graph.

    python examples/csv_to_batches.py [--target=grpc://localhost:2222] [--batch_size=2] [FILE ...]

File names -> a queue of names -> five readers -> decode_csv, with -1 for a missing field -> a shuffle
queue, kept full by the five threads of a QueueRunner under a Coordinator -> batches.  When the files
have been read once the queue is closed; the last batch is as short as it must be.
A file has a header line and the columns x, y and label, like examples/data/three-rows.csv.
"""

import os

import headrace as tf

tf.app.flags.DEFINE_string("target", "", "a server; without it, this process")
tf.app.flags.DEFINE_integer("batch_size", 2, "rows in a batch")
FLAGS = tf.app.flags.FLAGS

READERS = 5
THREE_ROWS = os.path.join(os.path.dirname(__file__), "data", "three-rows.csv")


def build(files, batch_size):
    """features float32 [n, 2] and labels int32 [n] of the next batch."""
    names = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    queue = tf.RandomShuffleQueue(
        capacity=100, min_after_dequeue=10, dtypes=[tf.float32, tf.int32], shapes=[[2], []]
    )
    enqueues = []
    for _ in range(READERS):
        reader = tf.TextLineReader(skip_header_lines=1)
        _, line = reader.read(names)
        x, y, label = tf.decode_csv(line, record_defaults=[[-1.0], [-1.0], [-1]])
        enqueues.append(queue.enqueue([tf.stack([x, y]), label]))
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, enqueues))
    return queue.dequeue_up_to(batch_size)


def main(argv):
    batch = build(argv[1:] or [THREE_ROWS], FLAGS.batch_size)
    with tf.Session(FLAGS.target) as sess:
        sess.run(tf.local_variables_initializer())  # the number of the epoch is a local variable
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess=sess, coord=coord)
        try:
            while not coord.should_stop():
                features, labels = sess.run(batch)
                print(f"batch of {len(labels)}:", features.tolist(), labels.tolist())
        except tf.errors.OutOfRangeError:
            print("that was all")
        finally:
            coord.request_stop()
        coord.join(threads)


if __name__ == "__main__":
    tf.app.run()
