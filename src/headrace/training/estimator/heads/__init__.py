"""Heads: what a model's logits mean — the loss, the metrics, the predictions and what is exported.

`head` says what a head is and makes EstimatorSpecs; `checks` and `streams` are what heads share; `binary`,
`multi_class`, `regression`, `multi_label` and `multi_head` are the heads, `classic` those of tf.contrib.estimator and
of the canned estimators.
"""
