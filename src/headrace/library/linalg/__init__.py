"""Linear operators: matrices by what they do, of which `tf.linalg` has the names."""
