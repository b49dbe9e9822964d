"""Hooks: what a monitored session calls around its steps."""
