"""Queues, by columns."""
