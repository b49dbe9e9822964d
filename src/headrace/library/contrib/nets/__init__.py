"""Networks for images, as `tf.contrib.slim.nets` has them."""
