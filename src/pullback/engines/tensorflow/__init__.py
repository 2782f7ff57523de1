"""TensorFlow and Keras as an engine of pullback. To import this imports neither of them."""

from pullback.engines.tensorflow.loading import load

engine = load
