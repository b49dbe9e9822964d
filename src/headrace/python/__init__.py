"""Names that TF 1.x programs import from `tensorflow.python`."""
