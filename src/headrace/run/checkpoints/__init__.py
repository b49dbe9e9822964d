"""Checkpoints on disk: written so that a crash leaves the last one whole, and read."""
