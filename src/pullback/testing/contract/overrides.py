"""Cases: rules for functions that somebody else calls. `a.sin` is the target, the framework's own function."""

from __future__ import annotations

from typing import Any

import numpy as np

import pullback as pb
from pullback.errors import RuleResultError, TargetError, UnmatchedOverride
from pullback.testing.contract.adapter import Adapter, Function
from pullback.testing.contract.case import Refusal, Trial, case
from pullback.testing.contract.results import ONE, X, triple


def _waves(a: Adapter) -> Function:
    """Code that somebody else wrote, and that calls the target twice."""

    def waves(x: Any) -> Any:
        return a.sin(2.0 * x) + a.sin(x)

    return waves


def _in_block(override: Any, fn: Function) -> Function:
    def block(x: Any) -> Any:
        with override:
            return fn(x)

    return block


@case("an override in a block", [X], [9 * ONE], needs=["override"])
def _block(a: Adapter) -> Function:
    return _in_block(pb.override({a.sin: triple}), _waves(a))


@case(
    "an override applied to a function, which is left as it is",
    [X],
    [9 + 2 * np.cos(2 * X) + np.cos(X)],
    needs=["override"],
)
def _applied(a: Adapter) -> Function:
    waves = _waves(a)
    overridden = pb.override({a.sin: triple})(waves)

    def both(x: Any) -> Any:
        return overridden(x), waves(x)

    return both


@case("the original of an inner override is the outer rule", [X], [10 * np.cos(X)], needs=["override"])
def _nested(a: Adapter) -> Function:
    outer = pb.override({a.sin: lambda dy, *, original: 5.0 * original(dy)})
    inner = pb.override({a.sin: lambda dy, *, original: 2.0 * original(dy)})
    return _in_block(outer, _in_block(inner, lambda x: a.sin(x)))


@case("an override with inputs and outputs", [X], [X + np.sin(X)], needs=["override"])
def _offers(a: Adapter) -> Function:
    def rule(dy: Any, *, inputs: Any, outputs: Any) -> Any:
        return dy * (inputs[0] + outputs)

    return _in_block(pb.override({a.sin: rule}), lambda x: a.sin(x))


@case("an override of a Python function", [X], [3 * ONE], needs=["override"])
def _user_function(a: Adapter) -> Function:
    waves = _waves(a)
    return pb.override({waves: triple})(lambda x: waves(x))


@case("an override of a layer", [X], [3 + np.cos(X)], needs=["override", "layers"])
def _layer(a: Adapter) -> Function:
    layer, other = a.layer(), a.layer()
    return pb.override({layer: triple})(lambda x: (layer(x), other(x)))


@case("the audit counts", [X], [9 * ONE], forward=None, needs=["override"], eager_only=True)
def _audit(a: Adapter) -> Trial:
    override = pb.override({a.sin: triple})

    def after() -> None:
        (row,) = override.audit.rows
        counts = (row.matched, row.effective, row.hidden)
        assert counts == (2, 2, 0), f"matched, effective, hidden: {counts}; wanted (2, 2, 0)"

    return Trial(override(_waves(a)), after=after)


@case("a target that did not run", [X], Refusal(UnmatchedOverride, "did not run"), needs=["override"])
def _unmatched(a: Adapter) -> Function:
    return _in_block(pb.override({a.sin: triple}), lambda x: 2.0 * x)


@case("what cannot be a target", [X], Refusal(TargetError, "3"), needs=["override"])
def _no_target(a: Adapter) -> Function:
    return _in_block(pb.override({3: triple}), _waves(a))


@case(
    "a scalar for a vector, in an override",
    [X],
    Refusal(RuleResultError, r"rule .*\.py:\d+.*float32\[\]; wanted a gradient float32\[3\]"),
    needs=["override"],
)
def _wrong_result(a: Adapter) -> Function:
    return _in_block(pb.override({a.sin: lambda dy: a.array(1.0)}), _waves(a))
