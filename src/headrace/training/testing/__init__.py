"""Tests of programs: `tf.test`."""
