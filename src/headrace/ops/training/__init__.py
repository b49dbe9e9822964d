"""Steps of optimizers, in place."""
