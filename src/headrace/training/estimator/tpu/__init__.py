"""TPUEstimator and what belongs to it, without TPUs: an Estimator whose functions are told their batch size."""
