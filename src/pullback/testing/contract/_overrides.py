"""Overrides in the table of cases: in a block, applied, nested, audited, refused."""
# Subjects and rules are rows of a table: lambdas, which need not use what they are given.
# ruff: noqa: ARG005

from __future__ import annotations

from typing import Any, Final

import numpy as np

import pullback as pb
from pullback import errors
from pullback.testing.contract._table import ONE, SCALAR, MakeFunction, X, add, half, tripled
from pullback.testing.contract.adapter import Adapter, Function
from pullback.testing.contract.suite import Build, Case, Refusal, Trial, Wanted

# Overrides of `a.sin`


def _waves(a: Adapter) -> Function:
    return lambda x: a.sin(2.0 * x) + a.sin(x)


def _block(override: Any, function: Function) -> Function:
    def block(x: Any) -> Any:
        with override:
            return function(x)

    return block


def _in_block(rule: Any, body: MakeFunction = _waves) -> MakeFunction:
    return lambda a: _block(pb.override({a.sin: rule}), body(a))


def _override(name: str, wanted: Wanted, build: Build, needs: Any = (), **more: Any) -> None:
    needed = ["override", *needs]
    add(Case(f"override {name}", [X], wanted, build, needs=needed, **more))


def _applied(a: Adapter) -> Function:
    waves = _waves(a)
    overridden = pb.override({a.sin: tripled})(waves)
    return lambda x: (overridden(x), waves(x))


def _beside(target: Any, other: Any) -> Function:
    return pb.override({target: tripled})(lambda x: (target(x), other(x)))


def _offers(dy: Any, *, inputs: Any, outputs: Any, original: Any) -> Any:
    return dy * (inputs[0] + outputs) + original(dy)


def _audited(a: Adapter) -> Trial:
    override = pb.override({a.sin: tripled})

    def after() -> None:
        (row,) = override.audit.rows
        counts = (row.matched, row.effective, row.hidden)
        assert counts == (2, 2, 0), f"matched, effective, hidden are {counts}; wanted (2, 2, 0)"

    return Trial(override(_waves(a)), after=after)


def _listed(a: Adapter) -> Function:
    waves = _waves(a)
    found = {id(row.target): row.count for row in pb.targets(waves, a.array(X, "float32"))}
    assert found.get(id(a.sin)) == 2, f"pb.targets lists {found}; wanted {a.sin} twice"
    return waves


_COS: Final = np.cos(X)
_unmatched: Final = Refusal(errors.UnmatchedOverride, "did not run")
_scalar: Final = Refusal(errors.RuleResultError, rf"rule .*\.py:\d+.*{SCALAR}")
_override("in a block", [9 * ONE], _in_block(tripled))
_override("applied to a function, which stays", [9 + 2 * np.cos(2 * X) + _COS], _applied)
_override("in an override", [0.25 * _COS], _in_block(half, _in_block(half, lambda a: a.sin)))
_override("with offers", [X + np.sin(X) + _COS], _in_block(_offers, lambda a: a.sin))
_override("of a Python function", [3 + _COS], lambda a: _beside(_waves(a), a.sin))
_override("of a layer", [3 + _COS], lambda a: _beside(a.layer(), a.layer()), ["layers"])
_override("counted", [9 * ONE], _audited, eager_only=True)
_override("is offered", [2 * np.cos(2 * X) + _COS], _listed, eager_only=True)
_override("of what did not run", _unmatched, _in_block(tripled, lambda a: lambda x: 2.0 * x))
_override("of no target", Refusal(errors.TargetError, "3"), lambda a: pb.override({3: tripled}))
_override("with a scalar for a vector", _scalar, _in_block(lambda dy: dy[0]))
