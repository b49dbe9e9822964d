"""SavedModels: graphs with their variables, assets and signatures, as directories that TensorFlow loads too."""
