"""Arithmetic that several ops share; registers no op."""
