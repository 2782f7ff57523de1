"""Overridden ops in a SavedModel: what TensorFlow's own ways of saving cannot keep is refused in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.engines.tensorflow.attach.registry import PREFIX
from pullback.engines.tensorflow.tf_private import saving
from pullback.errors import ExportError
from pullback.extend import Replacement

OURS = (f"{PREFIX}override_", f"{PREFIX}rewritten_")  # names of gradients that belong to ops


def install() -> None:
    """Look at what TensorFlow is about to save, from now on: it would end in an error about an op that is `None`."""
    Replacement(saving.save, "_trace_gradient_functions", _refusing).install()


def _refusing(original: Callable[..., Any]) -> Callable[..., Any]:
    def trace_gradient_functions(graph: Any, *args: Any, **kwargs: Any) -> Any:
        for name, operation in saving.custom_gradients(graph):
            if name.startswith(OURS):
                raise ExportError(
                    f"the op {operation.name!r} has an overridden gradient, which cannot be saved in this way. Write "
                    "it with `pb.export(model_or_function, path)`, or save the overridden model itself."
                )
        return original(graph, *args, **kwargs)

    return trace_gradient_functions
