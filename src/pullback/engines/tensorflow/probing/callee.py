"""What a check is asked about: a callable or the registered gradient of an op, its name, and where it is written."""

import difflib
import inspect
import linecache
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow.attach.closed_over import inside, is_framework_code
from pullback.engines.tensorflow.tf_private import is_custom_gradient, registered_gradient
from pullback.errors import CheckError
from pullback.extend import GradientFunction, function_behind, location_of, require_function, walk

# Rules inside a function: how many of them are named, and how deep they are looked for.
_MOST_RULES = 3
_DEPTH = 8
REGISTERED_AS = (
    "__registered_as__"  # on a function of an op: the name of the gradient that it is run with
)


class RawOp:
    """An op as a function of its inputs in order: its gradient is the one that TensorFlow has registered."""

    def __init__(self, name: str) -> None:
        self.op_type = name
        self.op: Any = getattr(tf.raw_ops, name, None)
        if self.op is None:
            near = difflib.get_close_matches(name, dir(tf.raw_ops), 1)
            hint = (
                f"Did you mean {near[0]!r}?" if near else "Write the op's type, as in tf.raw_ops."
            )
            raise CheckError(f"TensorFlow has no op {name!r}. {hint}")
        self.__signature__ = inspect.signature(self.op)
        self.order = [p for p in self.__signature__.parameters if p != "name"]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the op, which itself takes keywords only."""
        if len(args) > len(self.order):
            expected = ", ".join(self.order)
            raise TypeError(f"{self.op_type} takes {len(self.order)} arguments ({expected})")
        return self.op(**dict(zip(self.order, args, strict=False)), **kwargs)


def function_of(fn: Any) -> tuple[Callable[..., Any], str]:
    """The function to run and what to call it."""
    return (RawOp(fn), fn) if isinstance(fn, str) else (fn, require_function(fn))


def require_eager() -> None:
    """A check runs its function with many numbers, which a graph under construction has none of."""
    if not tf.compat.v1.executing_eagerly_outside_functions():
        raise CheckError(
            "eager execution is switched off for the whole process (tf.compat.v1.disable_eager_execution), and check "
            "needs it: switch it off only where the file is run as a program, under if __name__ == '__main__'."
        )
    if not tf.executing_eagerly():
        raise CheckError(
            "check runs a function again and again with other numbers, so it cannot itself run "
            "inside a tf.function or a graph. Call it outside: pb.check(traced_function, x)."
        )


def plain_line(error: BaseException) -> str:
    """The first line of an error, without the marks that TensorFlow's runtime puts into it."""
    lines = re.sub(r"\{\{.*?\}\} ?", "", str(error)).strip().splitlines()
    return re.sub(r" \[Op:\w*\] name: ?$", "", lines[0])[:300] if lines else ""


def described(error: BaseException) -> str:
    """The class of an error and its first line."""
    return f"{type(error).__name__}: {plain_line(error)}"


def as_code(value: Any, numbers: str) -> tuple[str, str] | None:
    """How a user writes a tensor or variable like this one with other numbers."""
    make = "tf.Variable" if isinstance(value, tf.Variable) else "tf.constant"
    if not isinstance(value, tf.Variable | tf.Tensor):
        return None
    return "import tensorflow as tf", f"{make}({numbers}, dtype=tf.{value.dtype.name})"


# where a rule is written


def rule_location(probe: Any) -> str | None:
    """`file:line` of the rule of a probe's function, of rules inside it, or of the function itself."""
    return ", ".join(Path(place).name for place in _rule_places(probe)) or None


def rule_line(probe: Any) -> str:
    """The source line at which the rule begins; nothing where there are several, or where it cannot be read."""
    places = _rule_places(probe)
    path, _, line = places[0].rpartition(":") if len(places) == 1 else ("", "", "")
    return linecache.getline(path, int(line)).strip() if line.isdigit() else ""


def _rule_places(probe: Any) -> list[str]:
    fn = probe.source_of or probe.fn
    label = fn.op_type if isinstance(fn, RawOp) else getattr(_unwrapped(fn), REGISTERED_AS, "")
    if label:
        return _places([registered_gradient(label)])
    rule = (fn.rule if isinstance(fn, GradientFunction) else None) or _returned_rule(probe)
    rules = [rule] if rule is not None else _override_rules(fn) or _rules_inside(fn)
    return _places(rules) or ([] if is_framework_code(_unwrapped(fn)) else _places([fn]))


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
    """The backward function that the body of a custom gradient returns together with its result."""
    body = _unwrapped(probe.fn)
    if body is probe.fn:
        return None
    try:
        args, kwargs = probe.arguments.build(probe.tensors(probe.start()), probe.lift)
        probe.calls.spend()
        result = body(*args, **kwargs)
    except Exception:
        return None
    last = result[-1] if isinstance(result, tuple) and result else None
    last = last[0] if isinstance(last, tuple) and last else last
    return last if callable(last) else None


def _unwrapped(thing: Any) -> Any:
    return inspect.unwrap(thing) if callable(thing) else thing


def _places(things: list[Any]) -> list[str]:
    functions = [function_behind(_unwrapped(getattr(thing, "call", thing))) for thing in things]
    places = [location_of(function) for function in functions if function is not None]
    return list(dict.fromkeys(places))[:_MOST_RULES]
