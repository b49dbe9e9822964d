"""tf.distributions: distributions of probability as objects that build graphs."""
