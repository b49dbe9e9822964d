"""Queues and what else steps share: barriers, accumulators, staging areas."""
