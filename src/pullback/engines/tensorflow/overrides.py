"""What the TensorFlow engine does for overrides, as the core asks for it."""

from __future__ import annotations

import difflib
from typing import Any

from pullback.engines.tensorflow.keras_support import models
from pullback.engines.tensorflow.override import hooks, runs_after_block, scope
from pullback.engines.tensorflow.override.apply import overridden
from pullback.engines.tensorflow.override.op_names import label, op_types_of
from pullback.engines.tensorflow.override.targets import misnaming_hint, resolve
from pullback.extend import Activation, Engine, Entry, Override

_IN_PLACE = (hooks, runs_after_block, models)  # imported for what they replace and register

_STATIC = "static values, such as a stack of Python floats, run nothing"
# Op types that only graphs have.
_RUNS_NOTHING: dict[Any, str] = dict.fromkeys(
    ("PyFunc", "PyFuncStateless"),
    "in eager code tf.numpy_function just calls its Python function; target the function of yours that calls it",
)
_PIPELINE = (
    "The functions of a tf.data pipeline run by themselves, and no block reaches them. If it is one of those, apply "
    "the override to that function: `dataset.map(pb.override({...})(fn))`."
)


class Overrides:
    """Scopes, targets, application and export of overrides."""

    label = staticmethod(label)
    resolve = staticmethod(resolve)
    current = staticmethod(scope.current)
    intercept = staticmethod(scope.intercept)
    is_tracing = staticmethod(scope.is_tracing)

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def apply(self, override: Override, target: Any) -> Any:
        """The function or model under the override."""
        return overridden(target, override)

    def export(self, overridden: Any, path: str, **options: Any) -> None:
        """Write a SavedModel that keeps the gradient."""
        from pullback.engines.tensorflow.override.export import export

        export(overridden, path, **options)

    def similar(self, activation: Activation, entry: Entry) -> str:
        """What ran that looks like the target."""
        hint = misnaming_hint(entry.target) if isinstance(entry.target, str) else None
        if hint:
            return hint
        seen = sorted(activation.seen)
        if not seen:
            return f"No op ran here at all ({_RUNS_NOTHING.get(entry.target, _STATIC)})."
        pipeline = f" {_PIPELINE}" if "IteratorGetNext" in seen else ""
        return f"{_looks_like(entry, seen)}{pipeline}"


def _looks_like(entry: Entry, seen: list[str]) -> str:
    wanted = entry.target if isinstance(entry.target, str) else entry.label.rpartition(".")[2]
    runs = op_types_of(entry.target) if callable(entry.target) else ()
    met = [t for t in runs if t in seen]
    if met:
        return f"The op that it stands for, {met[0]!r}, did run, but not through it: target {met[0]!r}."
    lowered = {name.lower(): name for name in seen}
    close = [lowered[n] for n in difflib.get_close_matches(wanted.lower(), list(lowered), 5, 0.5)]
    close += [n for n in seen if wanted.lower() in n.lower() and n not in close]
    if close:
        return f"What did run and looks similar: {', '.join(map(repr, close))}."
    return f"What did run: {', '.join(map(repr, seen[:20]))}{', …' if len(seen) > 20 else ''}."
