"""The trainable variables that a body reads and did not make itself, for rules that ask for them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private


class Variables:
    """Open it around a body; afterwards it knows the variables."""

    def __init__(self) -> None:
        self._watcher = private.VariableWatcher()
        self.made: list[Any] = []
        self._scope = tf.variable_creator_scope(self._note)

    def __enter__(self) -> Variables:
        self._scope.__enter__()
        self._watcher.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._watcher.__exit__(*error)
        self._scope.__exit__(*error)

    def found(self) -> list[Any]:
        """The variables, in the order of their making."""
        read = [v for v in self._watcher.watched_variables() if not any(v is m for m in self.made)]
        for variable in read:
            private.variable_accessed(variable)
        return sorted(read, key=lambda v: (v.name, v.ref()._id if hasattr(v.ref(), "_id") else 0))

    def _note(self, make: Any, **options: Any) -> Any:
        variable = make(**options)
        self.made.append(variable)
        return variable
