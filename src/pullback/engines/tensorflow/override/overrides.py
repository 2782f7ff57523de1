"""Overrides in TensorFlow: what the core asks of an engine."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from pullback._targets import Entry
from pullback.engines.tensorflow.keras_support import models as keras_models
from pullback.engines.tensorflow.override import hazards as override_hazards
from pullback.engines.tensorflow.override import hooks as override_hooks
from pullback.engines.tensorflow.override import intercept, scope
from pullback.engines.tensorflow.override.apply import apply as apply
from pullback.engines.tensorflow.override.op_names import op_types_of, public_name
from pullback.engines.tensorflow.override.targets import Resolved, trap_of
from pullback.engines.tensorflow.override.targets import resolve as _resolve

_PARTS = (
    intercept,
    override_hooks,
    override_hazards,
    keras_models,
)  # imported for what they put in place


def label(target: Any) -> str | None:
    """The public name of a function."""
    return public_name(target) if callable(target) else None


def resolve(entries: Sequence[Entry]) -> Resolved:
    """The lines in the form in which they are matched."""
    return _resolve(entries)


def enter(activation: Any) -> None:
    """Make the activation the innermost one of this context."""
    scope.enter(activation)


def leave(override: Any) -> Any:
    """Take the innermost activation off again."""
    return scope.leave(override)


def export(overridden: Any, path: str, **options: Any) -> None:
    """Write a SavedModel that keeps the gradient."""
    from pullback.engines.tensorflow.override.export import export as write

    write(overridden, path, **options)


def similar(activation: Any, entry: Entry) -> str:
    """What ran that looks like the target."""
    trap = trap_of(entry.target) if isinstance(entry.target, str) else None
    if trap:
        return trap
    seen = sorted(activation.seen)
    if not seen:
        return (
            "No op ran here at all (static values, such as a stack of Python floats, run nothing)."
        )
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


def unreachable(activation: Any, entry: Entry) -> str | None:
    """Why a target that did not match could not be reached."""
    del entry
    if "symbolic" in activation.notes:
        return (
            "a Keras model was built here, and building runs nothing that could be differentiated. "
            "Build it outside, and apply the override to it: `pb.override({...})(model)`."
        )
    return activation.notes.get("unreachable")
