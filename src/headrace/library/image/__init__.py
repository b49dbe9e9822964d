"""Images: what `tf.image` makes of other ops."""
