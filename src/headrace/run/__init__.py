"""Executing a partition: waiting, rendezvous, resources, queues, steps."""
