"""`tf.contrib.opt`: optimizers beside those of tf.train."""
