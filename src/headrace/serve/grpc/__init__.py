"""gRPC, as TensorFlow speaks it."""
