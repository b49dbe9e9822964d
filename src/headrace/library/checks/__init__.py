"""Checks of types, ranks, shapes and numbers: what is known while the graph is built is checked then."""
