"""Where a rule is written: found by asking the undecorated function for its backward function."""

import inspect
from pathlib import Path
from typing import Any


def rule_location(probe: Any) -> str | None:
    """`file:line` of the rule of a probe's function, or of the function itself."""
    fn = probe.source_of or probe.fn
    rule = _known_rule(fn) or _returned_rule(probe, fn)
    return _location(rule) or _location(fn)


def _known_rule(fn: Any) -> Any:
    for name in ("rule", "__pullback_rule__"):
        rule = getattr(fn, name, None)
        if rule is not None:
            return getattr(rule, "function", rule)
    return None


def _returned_rule(probe: Any, fn: Any) -> Any:
    """The backward function that the body of a custom gradient returns beside its result."""
    body = inspect.unwrap(fn) if callable(fn) else fn
    if body is fn or not callable(body):
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
    code = getattr(inspect.unwrap(thing) if callable(thing) else thing, "__code__", None)
    if code is None:
        call = getattr(thing, "call", None)
        return _location(call) if call is not None and call is not thing else None
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}"
