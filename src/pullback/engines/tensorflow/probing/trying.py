"""Functions that are run before they are checked: with what they run, and which custom gradients they reach."""

import contextlib
import inspect
import re
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow.probing.callee import (
    REGISTERED_AS,
    RawOp,
    described,
    require_eager,
)
from pullback.engines.tensorflow.tf_private import (
    functions_run_eagerly,
    is_custom_gradient,
    registered_gradient,
)
from pullback.engines.tensorflow.tf_private.recording import custom_gradient, custom_gradients_seen
from pullback.extend import GradientFunction, Ran, Reached


@contextlib.contextmanager
def recorded() -> Generator[list[Reached]]:
    """The calls of functions under `tf.custom_gradient` inside the block; traced functions run op by op there."""
    found: list[Reached] = []

    def seen(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        codes = [function.__code__] if hasattr(function, "__code__") else []
        found.append(Reached(custom_gradient(function), args, kwargs, tuple(codes)))

    with functions_run_eagerly.kept(), custom_gradients_seen(seen):
        tf.config.run_functions_eagerly(True)
        yield found


def tensor(values: Any, dtype: str) -> Any:
    """An array as a tensor."""
    return tf.constant(np.asarray(values), tf.as_dtype(dtype))


def trial(fn: Callable[..., Any], args: Any, kwargs: Any) -> Ran:
    """Run a function once, forward and backward."""
    require_eager()
    sources = [v for v in tf.nest.flatten((args, kwargs)) if _carries_gradient(v)]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        try:
            result = fn(*args, **kwargs)
        except Exception as error:
            if isinstance(error, TypeError) and _lacks_variables(fn, args, kwargs):
                return Ran(None, fault=described(error), never_fits=True)
            return Ran(None, refused=described(error))
    if not sources and not tape.watched_variables():
        return Ran(result, refused="it was given no tensor of real or complex numbers")
    outputs = [v for v in _flat(result) if _carries_gradient(v)]
    if not outputs:
        return Ran(result, refused="it returns no tensor of real or complex numbers")
    if not all(_is_finite(v) for v in outputs):
        return Ran(result, refused="what it returns is not finite", not_finite=True)
    try:
        found: Any = tape.gradient(outputs, sources)
    except Exception as error:
        return Ran(result, fault=described(error), never_fits=_never_fits(fn, args, kwargs))
    pairs = zip(found, sources, strict=True)
    wrong = [f"{list(g.shape)} for {list(x.shape)}" for g, x in pairs if _is_misshapen(g, x)]
    fault = f"a gradient of shape {wrong[0]}" if wrong else ""
    shapes = tuple(None if g is None else tuple(tf.shape(g).numpy()) for g in found)
    return Ran(result, fault=fault, is_misshapen=bool(wrong), gradients=shapes)


def _lacks_variables(fn: Callable[..., Any], args: Any, kwargs: Any) -> bool:
    """Whether a function reads variables, and its rule has no `variables`, which TensorFlow asks for at every call."""
    if not is_custom_gradient(fn):
        return False
    try:
        with tf.GradientTape() as tape:
            _, rule = inspect.unwrap(fn)(*args, **kwargs)
        known = inspect.signature(rule).parameters
    except Exception:  # the function is to blame
        return False
    takes = any(p.name == "variables" or p.kind is p.VAR_KEYWORD for p in known.values())
    return bool(tape.watched_variables()) and not takes


def _never_fits(fn: Callable[..., Any], args: Any, kwargs: Any) -> bool:
    """Whether a rule takes another number of upstreams than there are, or gives another number of gradients."""
    if not isinstance(fn, GradientFunction) and not is_custom_gradient(fn):
        return False
    leaves = tf.nest.flatten(args)
    try:
        result, rule = inspect.unwrap(fn)(*args, **kwargs)
        upstreams = [tf.ones_like(one) for one in tf.nest.flatten(result)]
        if not _takes(rule, upstreams):
            return True
        returned = rule(*upstreams)
    except (
        Exception
    ):  # a rule that raises, or asks for more than upstreams, has not returned anything
        return False
    count = len(tf.nest.flatten(returned))
    least = len([x for x in leaves if _carries_gradient(x)])
    least = least if isinstance(fn, GradientFunction) else len(leaves)
    return not least <= count <= len(leaves)


def _takes(rule: Any, upstreams: list[Any]) -> bool:
    """Whether a rule can be called with so many, and whatever it takes by name."""
    try:
        signature = inspect.signature(rule)
    except (TypeError, ValueError):
        return True
    named = [p.name for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
    try:
        signature.bind(*upstreams, **dict.fromkeys(named))
    except TypeError:
        return False
    return True


def _is_misshapen(gradient: Any, source: Any) -> bool:
    return isinstance(gradient, tf.Tensor) and gradient.shape != source.shape


def _flat(result: Any) -> list[Any]:
    try:
        return tf.nest.flatten(result, expand_composites=True)
    except (TypeError, ValueError):
        return [result]


def _carries_gradient(value: Any) -> bool:
    return tf.is_tensor(value) and (value.dtype.is_floating or value.dtype.is_complex)


def _is_finite(value: Any) -> bool:
    try:
        return bool(np.isfinite(np.asarray(value, np.complex128)).all())
    except (TypeError, ValueError, NotImplementedError):
        return True


def op_with_gradient(op: str, label: str) -> Callable[..., Any]:
    """A type of op as a function whose gradient is the one that is registered as `label`."""
    raw = RawOp(op or _op_in(label))
    if registered_gradient(label) is None:
        raise LookupError(f"no gradient is registered as {label!r}")

    def under_label(*inputs: Any) -> Any:
        graph: Any = tf.compat.v1.get_default_graph()
        with graph.gradient_override_map({raw.op_type: label}):
            return raw(*inputs)

    under_label.__name__ = label
    setattr(under_label, REGISTERED_AS, label)
    kept = [p for p in raw.__signature__.parameters.values() if p.name in raw.order]
    under_label.__signature__ = inspect.Signature(kept)  # pyright: ignore[reportFunctionMemberAccess]
    return raw if raw.op_type == label else tf.function(under_label, autograph=False)


def _op_in(label: str) -> str:
    """The longest type of op that a name such as "GuidedRelu" contains."""
    known = [name for name in dir(tf.raw_ops) if re.search(rf"{name}(?![a-z])", label)]
    if not known:
        raise LookupError(f"which type of op {label!r} is for cannot be told from its name")
    return max(known, key=len)
