"""Values to bytes and back, without I/O: tensors, protos, frames, records, checkpoints."""
