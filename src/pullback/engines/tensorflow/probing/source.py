"""Where a rule is written: found by asking the undecorated function for its backward function."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pullback.engines.tensorflow.probing.find import is_custom_gradient
from pullback.engines.tensorflow.probing.state import DEAD_ENDS, parts
from pullback.engines.tensorflow.tf_private import registered_gradient

_FEW = 3
_DEPTH = 8


def rule_location(probe: Any) -> str | None:
    """`file:line` of the rule of a probe's function, of rules inside it, or of the function itself."""
    fn = probe.source_of or probe.fn
    own = _known_rule(fn) or _returned_rule(probe)
    rules = [own] if own is not None else _override_rules(fn) or _rules_inside(fn)
    found = list(dict.fromkeys(filter(None, map(_location, rules))))
    if found:
        return ", ".join(found[:_FEW])
    return None if _is_the_frameworks(fn) else _location(fn)


def _rules_inside(fn: Any) -> list[Any]:
    """Custom gradients that a function or layer holds: where its gradient can be wrong."""
    seen: set[int] = set()

    def walk(thing: Any, depth: int) -> Iterator[Any]:
        if id(thing) in seen or not depth or isinstance(thing, DEAD_ENDS):
            return
        seen.add(id(thing))
        if type(thing).__name__ == "GradientFunction" or is_custom_gradient(thing):
            yield thing
            return
        for part in parts(thing):
            yield from walk(part, depth - 1)

    return [thing for thing in walk(fn, _DEPTH) if not _is_the_frameworks(thing)]


def _is_the_frameworks(thing: Any) -> bool:
    """Whether TensorFlow or Keras wrote it: a line in there tells a user nothing."""
    inner = inspect.unwrap(thing) if callable(thing) else thing
    module = getattr(inner, "__module__", None) or type(inner).__module__
    return module.partition(".")[0] in ("tensorflow", "keras", "tf_keras")


def _override_rules(fn: Any) -> list[Any]:
    """The rules that an override brings to a function or model; which of them ran is its audit's."""
    override = getattr(fn, "__pullback_override__", None)
    return [] if override is None else [entry.rule.function for entry in override.entries]


def _known_rule(fn: Any) -> Any:
    op_type = getattr(fn, "__pullback_op__", None)
    if op_type is not None:
        return registered_gradient(op_type)
    for name in ("rule", "__pullback_rule__"):
        rule = getattr(fn, name, None)
        if rule is not None:
            return getattr(rule, "function", rule)
    return None


def _returned_rule(probe: Any) -> Any:
    """The backward function that the body of a custom gradient returns beside its result."""
    body = inspect.unwrap(probe.fn)
    if body is probe.fn or not callable(body):
        return None
    try:
        tensors = probe.tensors(probe.start())
        args, kwargs = probe.arguments.build(tensors[: len(probe.arguments.slots)], probe.lift)
        result = body(*args, **kwargs)
    except Exception:
        return None
    last = result[-1] if isinstance(result, tuple) and result else None
    last = last[0] if isinstance(last, tuple) and last else last
    return last if callable(last) else None


def _location(thing: Any) -> str | None:
    if getattr(thing, "__pullback_op__", None) is not None:
        return None
    code = getattr(inspect.unwrap(thing) if callable(thing) else thing, "__code__", None)
    if code is None:
        call = getattr(thing, "call", None)
        return _location(call) if call is not None and call is not thing else None
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}"
