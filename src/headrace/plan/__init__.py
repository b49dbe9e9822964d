"""Deciding: (feeds, fetches, targets) to a step: prune, place, partition, compile, check."""
