"""Distributions of tf.contrib.distributions beside those of tf.distributions, and what transforms draws."""
