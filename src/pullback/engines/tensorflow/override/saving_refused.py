"""Overridden ops in a SavedModel: what TensorFlow's own ways of saving cannot keep is refused in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.engines.tensorflow.attach.registry import PREFIX
from pullback.engines.tensorflow.override.graphs import NOT_IN_FILES
from pullback.engines.tensorflow.tf_private import saving
from pullback.errors import ExportError
from pullback.extend import Replacement

# Names of gradients that belong to ops: where they are traced, and in copies of graphs without source.
_OF_OPS, _OF_COPIES = f"{PREFIX}override_", f"{PREFIX}rewritten_"


def install() -> None:
    """Look at the gradients that TensorFlow is about to save, from now on: else its errors speak of other things."""
    Replacement(saving.save, "_trace_gradient_functions", _refusing).install()


def _refusing(original: Callable[..., Any]) -> Callable[..., Any]:
    def trace_gradient_functions(graph: Any, *args: Any, **kwargs: Any) -> Any:
        if saving.is_for_inference():
            return None  # gradients are left out there
        for name, operation in saving.custom_gradients(graph):
            if name.startswith(_OF_OPS):
                raise ExportError(
                    f"the op {operation.name!r} has an overridden gradient, which cannot be saved in this way. Write "
                    "it with `pb.export(model_or_function, path)`, or save the overridden model itself."
                )
            if name.startswith(_OF_COPIES):
                raise ExportError(
                    f"the op {operation.name!r} has an overridden gradient in a graph that has no Python source here. "
                    f"{NOT_IN_FILES}"
                )
        return original(graph, *args, **kwargs)

    return trace_gradient_functions
