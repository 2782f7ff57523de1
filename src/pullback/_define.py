"""Define and replace: `custom_gradient`, `with_gradient`, `with_partials`.

One mechanism: the rule comes from the function itself, from the user, or from partial derivatives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, overload

import numpy as np

from pullback._engine import engine_of_class
from pullback._function import RECIPES, Definition, GradientFunction
from pullback._partials import make_partials_rule, split_reduced
from pullback._rule import FUNCTION_OFFERS, Rule
from pullback.errors import RuleSignatureError

F = TypeVar("F", bound=Callable[..., Any])


@overload
def custom_gradient(fn: F, *, jvp: Callable[..., Any] | None = None) -> F: ...
@overload
def custom_gradient(
    fn: None = None, *, jvp: Callable[..., Any] | None = None
) -> Callable[[F], F]: ...
def custom_gradient(fn: Any = None, *, jvp: Callable[..., Any] | None = None) -> Any:
    """Define a function together with its gradient.

    `fn` returns its outputs and a backward function: `(outputs, backward)` or, flat, `(z, w, backward)`. The
    backward function is a rule: it takes one upstream gradient per output and returns one gradient per input. It says
    all there is to say about them: a tensor that `fn` closes over and that was computed from an argument is constant.
    Other tensors that it closes over, and variables, have their ordinary gradient (docs/migration.md has the details).

    >>> import tensorflow as tf
    >>> import pullback as pb
    >>> @pb.custom_gradient
    ... def straight_through_round(x):
    ...     def backward(dy):
    ...         return dy
    ...     return tf.round(x), backward
    >>> x = tf.constant([0.4, 1.6])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = straight_through_round(x)
    >>> tape.gradient(y, x).numpy().tolist()
    [1.0, 1.0]
    """
    if fn is None:
        return functools.partial(custom_gradient, jvp=jvp)
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(custom_gradient(fn.__func__, jvp=jvp))
    if not callable(fn):
        raise RuleSignatureError(
            f"custom_gradient takes a function; got {fn!r}. Write it as a decorator of one."
        )
    if isinstance(fn, np.ufunc):
        raise RuleSignatureError(_about_ufunc(fn))
    make = (_remake_custom, (fn, jvp))
    return GradientFunction(Definition(fn, None, jvp), make)


def with_gradient(fn: F, rule: Callable[..., Any], *, jvp: Callable[..., Any] | None = None) -> F:
    """The same function with another gradient. `fn` may be a function, a layer, a model or a loss.

    >>> import tensorflow as tf
    >>> import pullback as pb
    >>> def half(dy, *, original):
    ...     return 0.5 * original(dy)
    >>> relu = pb.with_gradient(tf.nn.relu, half)
    >>> x = tf.constant([-1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = relu(x)
    >>> tape.gradient(y, x).numpy().tolist()
    [0.0, 0.5]
    """

    def define(function: Callable[..., Any]) -> Definition:
        return Definition(function, Rule(rule, FUNCTION_OFFERS), jvp)

    return _replace(fn, define, (_remake_with, (fn, rule, jvp)))


def with_partials(fn: F, /, **partials: Any) -> F:
    """The same function with analytic partial derivatives, by parameter name.

    Each partial takes the arguments of `fn` (and may ask for `outputs`) and returns ∂out/∂parameter; the upstream
    gradient is multiplied in. `None` stops the gradient; a parameter that is not named keeps its ordinary one.

    Where the function reduces axes, as a loss does, a partial has the shape from before. Which axes these are is seen
    from the shapes; where they do not tell (as many samples as classes), it is an error until `reduced` says it: an
    axis of the partial derivatives, a tuple of axes, or a dict of these by parameter. (For a function with a parameter
    of that name, `reduced=` is its partial derivative if it is a function or `None`.)

    >>> import tensorflow as tf
    >>> import pullback as pb
    >>> def softplus(x):
    ...     return tf.math.log(1.0 + tf.exp(x))
    >>> stable = pb.with_partials(softplus, x=tf.sigmoid)
    >>> x = tf.constant(100.0)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = stable(x)
    >>> float(tape.gradient(y, x))
    1.0
    """
    return _with_partials(fn, *split_reduced(partials))


def _with_partials(fn: Any, partials: dict[str, Any], reduced: Any) -> Any:
    def define(function: Callable[..., Any]) -> Definition:
        rule = make_partials_rule(function, partials, reduced)
        return Definition(function, Rule(rule, FUNCTION_OFFERS))

    return _replace(fn, define, (_remake_partials, (fn, partials, reduced)))


def _replace(fn: Any, define: Callable[[Any], Definition], make: tuple[Any, ...]) -> Any:
    """Put a definition around a function, or around the call of a layer or model."""
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(_replace(fn.__func__, define, make))
    if not callable(fn):
        raise RuleSignatureError(
            f"there is no gradient to replace on {fn!r}: it is not callable. Pass a function."
        )
    if isinstance(fn, np.ufunc):
        raise RuleSignatureError(_about_ufunc(fn))
    engine = engine_of_class(type(fn))
    wrapped = engine.wrap(fn, define, make) if engine else None
    return GradientFunction(define(fn), make) if wrapped is None else wrapped


def _about_ufunc(fn: np.ufunc) -> str:
    name, inputs = fn.__name__, ", ".join("xyzw"[: fn.nin])
    return (
        f"np.{name} is a NumPy ufunc, made for arrays, with options (`out`, `where`, `dtype`, ...) that are no inputs "
        f"to have a gradient. Wanted a function of tensors: pass the {name} of your framework, or write "
        f"`def {name}({inputs}): return np.{name}({inputs})` and pass that; NumPy's runs eagerly only."
    )


def _remake_custom(fn: Any, jvp: Any) -> Any:
    return custom_gradient(fn, jvp=jvp)


def _remake_with(fn: Any, rule: Any, jvp: Any) -> Any:
    return with_gradient(fn, rule, jvp=jvp)


def _remake_partials(fn: Any, partials: dict[str, Any], reduced: Any = None) -> Any:
    return _with_partials(fn, partials, reduced)


RECIPES.update({f.__name__: f for f in (_remake_custom, _remake_with, _remake_partials)})
