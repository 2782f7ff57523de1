"""Forward mode over tf.py_function.

TensorFlow builds the gradient of a py_function in one place and runs it in another, later and in another thread, where
nothing is left of the purpose: what is built in order to be transposed is told so.
"""

from __future__ import annotations

from typing import Any

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach.transposing import ToBeTransposed, is_transposed
from pullback.engines.tensorflow.tf_private.transposing import wrap_py_function

_OP_TYPE = "EagerPyFunc"


def install() -> None:
    """Put our gradient of py_functions around TensorFlow's."""
    plain = private.registered_gradient(_OP_TYPE)
    if not isinstance(plain, _Gradient):
        private.remember_gradient(_OP_TYPE, _Gradient(plain))


class _Gradient:
    """TensorFlow's gradient of a py_function, which knows whether it will be transposed."""

    def __init__(self, plain: Any) -> None:
        self._plain = plain

    def __call__(self, operation: Any, *upstream: Any) -> Any:
        gradients = self._plain(operation, *upstream)
        # At once it has run by now, in this thread, and saw for itself.
        if not private.executing_eagerly() and is_transposed():
            wrap_py_function(gradients, ToBeTransposed)
        return gradients
