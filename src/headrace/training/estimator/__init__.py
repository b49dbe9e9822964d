"""Estimators: a model_fn trained, evaluated, asked for predictions and exported, in one process or on a cluster."""
