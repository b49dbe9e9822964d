"""Datasets at run time: what a dataset is, the stages that its elements come out of, iterators over them."""
