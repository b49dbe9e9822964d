"""headrace beside TensorFlow: `python -m benchmarks` (`make bench`); README.md says how to read and add rows.

Imported by both Pythons, the one that has headrace and the one that has TensorFlow: standard library and
NumPy only, except where a function imports what it measures.
"""
