"""Arithmetic, functions of numbers, comparisons, reductions, conversions."""
