"""Devices of a task: where arrays are, and what computes with them."""
