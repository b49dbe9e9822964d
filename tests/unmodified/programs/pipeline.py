"""Writes TFRecords, reads them by queue runners for two epochs, and checks that nothing was lost."""

import collections
import os
import sys
import tempfile

import tensorflow as tf
from tensorflow.core.example.example_pb2 import Example
from tensorflow.core.example.feature_pb2 import Feature, Features, FloatList, Int64List
from tensorflow.python.lib.io.tf_record import TFRecordWriter
from tensorflow.python.platform import gfile
from tensorflow.python.platform import tf_logging as logging
from tensorflow.python.training import coordinator, queue_runner_impl

FILES, ROWS = 3, 8


def write(folder):
    for file in range(FILES):
        with TFRecordWriter(os.path.join(folder, "part-%d" % file)) as writer:
            for row in range(ROWS):
                number = ROWS * file + row
                feature = {
                    "number": Feature(int64_list=Int64List(value=[number])),
                    "halves": Feature(float_list=FloatList(value=[number / 2.0, -number / 2.0])),
                }
                writer.write(Example(features=Features(feature=feature)).SerializeToString())


def read(folder):
    names = tf.train.string_input_producer(
        sorted(gfile.Glob(os.path.join(folder, "part-*"))), num_epochs=2, shuffle=True
    )
    _, record = tf.TFRecordReader().read(names)
    row = tf.parse_single_example(
        record,
        features={
            "number": tf.FixedLenFeature([], tf.int64),
            "halves": tf.FixedLenFeature([2], tf.float32),
        },
    )
    return tf.train.shuffle_batch(
        [row["number"], row["halves"]],
        5,
        capacity=40,
        min_after_dequeue=10,
        allow_smaller_final_batch=True,
    )


def main(argv):
    with tempfile.TemporaryDirectory() as folder:
        write(folder)
        numbers, halves = read(folder)
        seen = collections.Counter()
        with tf.Session() as sess:
            sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            coord = coordinator.Coordinator()
            threads = queue_runner_impl.start_queue_runners(sess=sess, coord=coord)
            try:
                while not coord.should_stop():
                    found, parts = sess.run([numbers, halves])
                    assert (parts[:, 0] * 2 == found).all() and (parts.sum(1) == 0).all()
                    seen.update(found.tolist())
            except tf.errors.OutOfRangeError:
                logging.debug("all epochs are read")
            finally:
                coord.request_stop()
            coord.join(threads)
        print("rows", len(seen), "each", set(seen.values()), "of", sum(seen.values()))
        print("arguments", argv[1:])


if __name__ == "__main__":
    tf.app.run(main, argv=sys.argv)
