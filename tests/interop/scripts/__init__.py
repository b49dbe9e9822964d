"""Client scripts, one per area: each case runs unchanged under `import headrace as tf` and under TensorFlow.

No script imports either: a case gets `tf`, and where the cluster is.  Only the standard library and NumPy are
imported here, for these modules are loaded by both Pythons and by the tests, which read what to expect.
"""
