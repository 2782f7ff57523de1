"""Private parts of TensorFlow and Keras between a scaled loss and its gradients, each with the reason."""
# Private symbols are what this folder is for.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import inspect
from typing import Any

import keras
from keras.src.optimizers.base_optimizer import BaseOptimizer as _BaseOptimizer
from tensorflow.core.function.capture import capture_container as _capture_container
from tensorflow.python.eager import imperative_grad as _imperative_grad
from tensorflow.python.eager.polymorphic_function import concrete_function as _concrete_function
from tensorflow.python.ops import gradients_util as _gradients_util

# Where the loss is multiplied: by a number of the optimizer, or by one that changes as training goes on.
SCALING = (_BaseOptimizer.scale_loss, keras.optimizers.LossScaleOptimizer.scale_loss)
# Where a backward pass begins and ends: of tapes, and of tf.gradients and the functions that tapes go through.
PASSES = tuple(
    map(inspect.unwrap, (_imperative_grad.imperative_grad, _gradients_util._GradientsHelper))
)
# Where a function of TensorFlow's is called with what it has captured.
call_function = _concrete_function.ConcreteFunction._call_flat
# Captured tensors of no more numbers than this become constants.
LARGEST_CONSTANT = _capture_container._EAGER_CONST_THRESHOLD


def is_backward(graph: Any) -> bool:
    """Whether a graph is the backward pass of a function, which may be traced before any loss is there."""
    return graph.name.startswith(_concrete_function._BACKWARD_PREFIX)
