"""The report of a training run: one self-contained HTML page.

record   what there is to say about a run, as data
page     the page: prose, tables and the figures in their order
svg      elements, scales and axes, by hand
curves   loss per worker, queue depth over time
placing  the cluster and what was placed where
step     the traced step, a row per device
digits   the confusion matrix and the digits that were misread
"""
