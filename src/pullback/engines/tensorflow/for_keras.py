"""What `pullback.keras` has on TensorFlow."""

from pullback.engines.tensorflow.keras_support.checkpoint_layer import Checkpoint as Checkpoint
from pullback.engines.tensorflow.keras_support.gradient_callbacks import (
    GradientNorms as GradientNorms,
)
from pullback.engines.tensorflow.keras_support.gradient_callbacks import (
    GradientSchedule as GradientSchedule,
)
from pullback.engines.tensorflow.keras_support.gradient_layers import GradientClip as GradientClip
from pullback.engines.tensorflow.keras_support.gradient_layers import (
    GradientReversal as GradientReversal,
)
from pullback.engines.tensorflow.keras_support.gradient_layers import GradientScale as GradientScale
from pullback.engines.tensorflow.keras_support.gradient_layers import Spike as Spike
from pullback.engines.tensorflow.keras_support.gradient_layers import (
    StraightThrough as StraightThrough,
)
from pullback.engines.tensorflow.keras_support.gradient_layers import Tap as Tap
from pullback.engines.tensorflow.keras_support.quantize_layer import Quantize as Quantize
from pullback.engines.tensorflow.keras_support.quantized import quantize as quantize
from pullback.engines.tensorflow.watching import WatchGradients as WatchGradients
