"""The worker service: runs partitions and keeps their state."""
