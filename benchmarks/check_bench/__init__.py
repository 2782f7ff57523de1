"""Right and wrong rules to measure gradient checkers with, in TensorFlow, PyTorch and JAX alike."""
