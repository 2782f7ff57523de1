"""What a gradient check asks of TensorFlow."""

from pullback.engines.tensorflow.probing.callee import as_code as as_code
from pullback.engines.tensorflow.probing.layer_code import making as making
from pullback.engines.tensorflow.probing.make import make_probe as make_probe
from pullback.engines.tensorflow.probing.settings import changed_settings as changed_settings
from pullback.engines.tensorflow.probing.trying import op_with_gradient as op_with_gradient
from pullback.engines.tensorflow.probing.trying import recorded as recorded
from pullback.engines.tensorflow.probing.trying import tensor as tensor
from pullback.engines.tensorflow.probing.trying import trial as trial
from pullback.engines.tensorflow.tf_private import (
    is_custom_gradient as is_custom_gradient,
)
