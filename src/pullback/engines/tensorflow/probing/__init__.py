"""What a gradient check asks of TensorFlow."""

from pullback.engines.tensorflow.probing.find import is_custom_gradient as is_custom_gradient
from pullback.engines.tensorflow.probing.find import sample as sample
from pullback.engines.tensorflow.probing.make import make_probe as make_probe
