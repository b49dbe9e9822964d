"""What programs use of `tf.contrib` around many steps: training, evaluation, reading, restoring."""
