"""Objects that know what they are made of, for object-based checkpoints."""
