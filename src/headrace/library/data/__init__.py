"""Datasets and iterators as Python objects: `tf.data`."""
