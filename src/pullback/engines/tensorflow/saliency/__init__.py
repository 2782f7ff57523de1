"""What `pb.saliency` asks of TensorFlow: a model run with its insides seen, and functions of tensors."""

from pullback.engines.tensorflow.saliency.layers import find_layer as find_layer
from pullback.engines.tensorflow.saliency.run import Subject as Subject
from pullback.engines.tensorflow.saliency.tensors import argmax as argmax
from pullback.engines.tensorflow.saliency.tensors import as_tensor as as_tensor
from pullback.engines.tensorflow.saliency.tensors import concat as concat
from pullback.engines.tensorflow.saliency.tensors import halves as halves
from pullback.engines.tensorflow.saliency.tensors import is_floating as is_floating
from pullback.engines.tensorflow.saliency.tensors import is_symbolic as is_symbolic
from pullback.engines.tensorflow.saliency.tensors import largest as largest
from pullback.engines.tensorflow.saliency.tensors import magnitude as magnitude
from pullback.engines.tensorflow.saliency.tensors import over_axis as over_axis
from pullback.engines.tensorflow.saliency.tensors import pick as pick
from pullback.engines.tensorflow.saliency.tensors import positive as positive
from pullback.engines.tensorflow.saliency.tensors import ratio as ratio
from pullback.engines.tensorflow.saliency.tensors import reshape as reshape
from pullback.engines.tensorflow.saliency.tensors import spread as spread
from pullback.engines.tensorflow.saliency.tensors import sum_by as sum_by
from pullback.engines.tensorflow.saliency.tensors import sum_over as sum_over
from pullback.engines.tensorflow.saliency.tensors import take as take
from pullback.engines.tensorflow.saliency.tensors import total as total
from pullback.engines.tensorflow.saliency.tensors import traced as traced
from pullback.engines.tensorflow.saliency.tensors import wide as wide
