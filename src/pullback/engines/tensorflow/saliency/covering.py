"""Rules for everything of a kind that runs in a block: all activations, or all that is not linear.

Activations that are made of several operations are one unit, and layers may be: what runs inside of a unit belongs to
it. Which operations a model has is not known before, so that nothing need match; what is met is in the audit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow.override.listing.flow import is_op_type
from pullback.engines.tensorflow.saliency.kinds import (
    ACTIVATIONS,
    KINDS,
    LINEAR,
    LINEAR_KINDS,
    MAYBE_ACTIVATIONS,
    units,
)
from pullback.errors import UnsupportedError
from pullback.extend import (
    HARMLESS,
    Activation,
    Audit,
    Line,
    Override,
    Resolved,
    RulesByKind,
    Where,
    enter,
    guarded,
    leave,
    stack_here,
)


class Covering:
    """A block in which operations have the rules of their kinds; without any, nothing is overridden.

    `targets` are rules that come before those of kinds, and `layers` those of layers, which are one unit each.
    """

    def __init__(
        self,
        rules: RulesByKind | None,
        targets: Mapping[Any, Any] | None = None,
        layers: Mapping[Any, Any] | None = None,
    ) -> None:
        self.rules = rules
        self.override: Override | None = None
        self.op_types: frozenset[str] = frozenset()
        self.counted: frozenset[str] = frozenset()  # operations of which each must have a rule
        self._depth = -1  # of this block among those that are open
        if rules is None:
            return
        more = {**(targets or {}), **rules.by_target}
        whole = {unit: rules.by_kind.get(kind) for unit, kind in units().items()}
        lines = {
            **{unit: rule for unit, rule in whole.items() if rule is not None},
            **(layers or {}),
        }
        self._whole = frozenset(range(len(lines)))
        usual = {op: rules.by_kind.get(kind) for op, kind in KINDS.items() if _exists(op)}
        found = {**usual, **more}
        if "unknown" in rules.by_kind:
            found[Where(self._is_unknown)] = rules.by_kind["unknown"]
        lines |= {target: rule for target, rule in found.items() if rule is not None}
        self.op_types = frozenset(each for each in lines if isinstance(each, str))
        self.counted = frozenset(ACTIVATIONS).union(
            () if "unknown" in rules.by_kind else MAYBE_ACTIVATIONS
        )
        self._known = LINEAR.union(KINDS, (each for each in more if isinstance(each, str)))
        self.override = Override(lines, strict=False)
        self.override.resolved = self._outside_units(self.override.resolved)

    def _outside_units(self, resolved: Resolved) -> Resolved:
        for handle, lines in resolved.by_handle.items():
            resolved.by_handle[handle] = [(e, _with(line, self.is_outside)) for e, line in lines]
        # By type, and not by place, which takes time to find out.
        resolved.anywhere = [
            (entry, Line((self._is_unknown, self.is_outside))) for entry, _ in resolved.anywhere
        ]
        return resolved

    def is_outside(self, where: Any = None) -> bool:
        """Whether what runs here is no part of a unit."""
        del where
        return not any(
            depth == self._depth and index in self._whole for depth, index in guarded.get()
        )

    def _is_unknown(self, where: Any) -> bool:
        return where.type not in self._known and is_op_type(where.type)

    @property
    def audit(self) -> Audit | None:
        """Of each target that was met and is not linear, where."""
        if self.override is None:
            return None
        rows = zip(self.override.audit.rows, self.override.entries, strict=True)
        return Audit(tuple(row for row, entry in rows if row.matches and not _is_linear(entry)))

    def __enter__(self) -> Covering:
        if self.override is not None:
            enter(Activation(self.override))
            stack = stack_here.get()
            self._depth = len(stack.activations) - 1 if stack else -1
        return self

    def __exit__(self, kind: Any, *error: Any) -> None:
        if self.override is None:
            return
        leave(self.override)
        if kind is None and self.rules is not None and self.rules.must_reach:
            self._require_reach(self.override)

    def _require_reach(self, override: Override) -> None:
        """Refuse what has a gradient of its own, which hides what is in it."""
        for row in override.audit.rows:
            for match in row.matches:
                if match.hidden_by and match.hidden_by not in HARMLESS:
                    where = match.place.layer or match.place.source
                    raise UnsupportedError(
                        f"what {match.place.name} ({match.place.type}) in {where} counts for cannot be shared out: "
                        f"{match.hidden_by}"
                    )


def _with(line: Line, condition: Any) -> Line:
    return dataclasses.replace(line, conditions=(*line.conditions, condition))


def _is_linear(entry: Any) -> bool:
    return isinstance(entry.target, str) and KINDS.get(entry.target) in LINEAR_KINDS


def _exists(op_type: str) -> bool:
    return hasattr(tf.raw_ops, op_type)
