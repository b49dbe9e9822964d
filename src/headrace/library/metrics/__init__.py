"""Metrics: values over a stream of batches, kept in local variables."""
