"""Neural networks: convolutions, pooling, normalization, activations, softmax."""
