"""Executing one partition: kernels, programs, the general executor, rendezvous, traces."""
