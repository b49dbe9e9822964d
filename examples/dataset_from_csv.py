"""The batches of csv_to_batches.py, by tf.data.

    python examples/dataset_from_csv.py [--target=grpc://localhost:2222] [--batch_size=2] [FILE ...]

What readers, queues and a QueueRunner do there is one chain here: file names -> the lines of each file but its header
-> decode_csv, with -1 for a missing field -> a shuffle buffer -> batches, the last as short as it must be.  No threads
to start, no coordinator, and the end is an OutOfRangeError of the step that finds nothing more.
A file has a header line and the columns x, y and label, like examples/data/three-rows.csv.
"""

import os

import headrace as tf

tf.app.flags.DEFINE_string("target", "", "a server; without it, this process")
tf.app.flags.DEFINE_integer("batch_size", 2, "rows in a batch")
FLAGS = tf.app.flags.FLAGS

THREE_ROWS = os.path.join(os.path.dirname(__file__), "data", "three-rows.csv")


def parsed(line):
    """features float32 [2] and label int32 [] of a line."""
    x, y, label = tf.decode_csv(line, record_defaults=[[-1.0], [-1.0], [-1]])
    return tf.stack([x, y]), label


def build(files, batch_size):
    """An iterator over batches: features float32 [n, 2] and labels int32 [n]."""
    lines = tf.data.Dataset.from_tensor_slices(files).flat_map(
        lambda file: tf.data.TextLineDataset(file).skip(1)
    )
    batches = lines.map(parsed).shuffle(buffer_size=100).batch(batch_size)
    return tf.data.make_initializable_iterator(batches)


def main(argv):
    iterator = build(argv[1:] or [THREE_ROWS], FLAGS.batch_size)
    batch = iterator.get_next()
    with tf.Session(FLAGS.target) as sess:
        sess.run(iterator.initializer)
        try:
            while True:
                features, labels = sess.run(batch)
                print(f"batch of {len(labels)}:", features.tolist(), labels.tolist())
        except tf.errors.OutOfRangeError:
            print("that was all")


if __name__ == "__main__":
    tf.app.run()
