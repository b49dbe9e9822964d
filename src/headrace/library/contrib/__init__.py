"""What programs use of `tf.contrib`: layers and what they are given."""
