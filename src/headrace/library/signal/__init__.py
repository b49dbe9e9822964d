"""tf.signal: what is made of Fourier transforms."""
