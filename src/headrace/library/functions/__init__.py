"""Functions of graphs, made of Python functions."""
