"""The master service: sessions, whose steps become partitions on tasks."""
