"""Checkpoints of more than 2 GB, each way with TensorFlow: `make large`."""
