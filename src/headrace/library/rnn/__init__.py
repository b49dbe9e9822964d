"""Recurrent networks: cells, and what runs them along time."""
