"""Object-based checkpoints: tf.train.Checkpoint."""
