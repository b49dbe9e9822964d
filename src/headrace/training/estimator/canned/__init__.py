"""Canned estimators: linear models, networks, both together, and baselines.

`logits` has the functions of features that they are made of, `optimizers` how optimizers are named, `common` what their
model_fns share.
"""
