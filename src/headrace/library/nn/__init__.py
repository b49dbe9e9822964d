"""tf.nn and tf.losses beyond single ops."""
