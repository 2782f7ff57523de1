"""Where a rule is written: found by asking the undecorated function for its backward function."""

import inspect
from pathlib import Path
from typing import Any

from pullback.engines.tensorflow.attach.closed_over import inside, is_framework_code
from pullback.engines.tensorflow.probing.callee import RawOp
from pullback.engines.tensorflow.tf_private import is_custom_gradient, registered_gradient
from pullback.extend import GradientFunction, function_behind, location_of, walk

_FEW = 3
_DEPTH = 8


def rule_location(probe: Any) -> str | None:
    """`file:line` of the rule of a probe's function, of rules inside it, or of the function itself."""
    fn = probe.source_of or probe.fn
    if isinstance(fn, RawOp):
        return _location(registered_gradient(fn.op_type))
    rule = (fn.rule if isinstance(fn, GradientFunction) else None) or _returned_rule(probe)
    rules = [rule] if rule is not None else _override_rules(fn) or _rules_inside(fn)
    found = list(dict.fromkeys(filter(None, map(_location, rules))))
    if found:
        return ", ".join(found[:_FEW])
    return None if is_framework_code(_unwrapped(fn)) else _location(fn)


def _rules_inside(fn: Any) -> list[Any]:
    """Custom gradients that a function or layer holds: where its gradient can be wrong."""
    reached = walk(fn, stop=_has_rule, depth=_DEPTH, inside=inside)
    # a line of TensorFlow or Keras tells a user nothing
    return [one for one in reached if _has_rule(one) and not is_framework_code(_unwrapped(one))]


def _has_rule(thing: Any) -> bool:
    return isinstance(thing, GradientFunction) or is_custom_gradient(thing)


def _override_rules(fn: Any) -> list[Any]:
    """The rules that an override brings to a function or model; which of them ran is its audit's."""
    override = getattr(fn, "__pullback_override__", None)
    return [] if override is None else [entry.rule.function for entry in override.entries]


def _returned_rule(probe: Any) -> Any:
    """The backward function that the body of a custom gradient returns beside its result."""
    body = _unwrapped(probe.fn)
    if body is probe.fn:
        return None
    try:
        args, kwargs = probe.call_arguments(probe.tensors(probe.start()))
        result = body(*args, **kwargs)
    except Exception:
        return None
    last = result[-1] if isinstance(result, tuple) and result else None
    last = last[0] if isinstance(last, tuple) and last else last
    return last if callable(last) else None


def _unwrapped(thing: Any) -> Any:
    return inspect.unwrap(thing) if callable(thing) else thing


def _location(thing: Any) -> str | None:
    function = function_behind(_unwrapped(getattr(thing, "call", thing)))
    return None if function is None else Path(location_of(function)).name
