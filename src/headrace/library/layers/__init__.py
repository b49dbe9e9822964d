"""tf.layers."""
