"""Rules for activations: what of a gradient is let through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pullback.errors import RuleError
from pullback.rules._ready import each, engine_for, ordinary, ready, ready_as_is, require_number

Rule = Callable[..., Any]


@ready_as_is
def guided(dy: Any, *, original: Any) -> Any:
    """Guided backpropagation: only what raises the output, and only through what raised it.

    For ReLU that is the gradient where both the input and the upstream are positive. For others, such as GELU or SiLU,
    whose slope may be negative, the same: the gradient of the positive part of the upstream, where it is positive.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.Variable([-1.0, 1.0, 1.0])
    >>> with pb.override({tf.nn.relu: pb.rules.guided}), tf.GradientTape() as tape:
    ...     y = tf.nn.relu(x) * [1.0, 1.0, -1.0]
    >>> tape.gradient(y, x).numpy().tolist()
    [0.0, 1.0, 0.0]
    """
    arrays = engine_for(dy).arrays
    return each(arrays.positive, ordinary(original, (arrays.positive(dy),), "guided"))


@ready_as_is
def deconv(dy: Any, *, inputs: Any) -> Any:
    """Deconvolution: the positive part of the upstream, whatever came in.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.Variable([-1.0, 1.0, 1.0])
    >>> with pb.override({tf.nn.relu: pb.rules.deconv}), tf.GradientTape() as tape:
    ...     y = tf.nn.relu(x) * [1.0, 1.0, -1.0]
    >>> tape.gradient(y, x).numpy().tolist()
    [1.0, 1.0, 0.0]
    """
    return _of_first(inputs, engine_for(dy).arrays.positive(dy))


@ready
def straight_through(surrogate: Callable[..., Any] | None = None) -> Rule:
    """The upstream as it is, or as the gradient of a `surrogate` passes it on, where a function's own is of no use.

    >>> import pullback as pb, tensorflow as tf
    >>> quantize = pb.with_gradient(tf.round, pb.rules.straight_through(surrogate=tf.tanh))
    >>> x = tf.Variable([0.0, 1e9])
    >>> with tf.GradientTape() as tape:
    ...     y = quantize(x)
    >>> tape.gradient(y, x).numpy().tolist()
    [1.0, 0.0]
    """
    if surrogate is not None and not callable(surrogate):
        raise RuleError(
            f"pb.rules.straight_through got surrogate={surrogate!r}; wanted a function of the same inputs whose "
            "gradient stands in, such as tf.tanh, or nothing for the identity."
        )

    def passed(dy: Any, *, inputs: Any) -> Any:
        if surrogate is None:
            return _of_first(inputs, dy)
        first = inputs[0]
        return _of_first(inputs, engine_for(dy).arrays.vjp(surrogate, first, dy))

    return passed


# Derivatives that stand for that of a step at zero: f(x, slope), each 1 or its slope at 0 and finite everywhere.
_SURROGATES: Final[Mapping[str, tuple[Callable[[Any, Any, Any], Any], float]]] = {
    "atan": (lambda n, x, s: 0.5 * s / (1.0 + n.square(n.pi / 2 * s * x)), 2.0),
    "fast_sigmoid": (lambda n, x, s: 1.0 / n.square(1.0 + s * n.magnitude(x)), 25.0),
    "sigmoid": (lambda n, x, s: s * n.sigmoid(s * x) * n.sigmoid(-s * x), 25.0),
    "triangular": (lambda n, x, s: n.maximum(1.0 - s * n.magnitude(x), 0.0), 1.0),
    "gaussian": (lambda n, x, s: s / (2 * n.pi) ** 0.5 * n.exp(-0.5 * n.square(s * x)), 2.0),
}


@ready
def surrogate(name: str, slope: float | None = None) -> Rule:
    """The derivative of a smooth step in place of that of a spike, `tf.where(x > 0, 1, 0)`, by the name people know.

    `"atan"` (slope 2), `"fast_sigmoid"` (25), `"sigmoid"` (25), `"triangular"` (1), `"gaussian"` (2).

    >>> import pullback as pb, tensorflow as tf
    >>> def spike(x):
    ...     return tf.cast(x > 0, x.dtype)
    >>> x = tf.Variable([-0.5, 0.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     y = pb.with_gradient(spike, pb.rules.surrogate("triangular"))(x)
    >>> tape.gradient(y, x).numpy().tolist()
    [0.5, 1.0, 0.0]
    """
    if name not in _SURROGATES:
        known = ", ".join(f"{each!r} (slope {usual:g})" for each, (_, usual) in _SURROGATES.items())
        raise RuleError(f"pb.rules.surrogate got {name!r}; there are {known}.")
    derivative, usual = _SURROGATES[name]
    slope = usual if slope is None else slope
    require_number("surrogate", "slope", slope, above=0.0)

    def smooth(dy: Any, *, inputs: Any) -> Any:
        arrays = engine_for(dy).arrays
        first = inputs[0]
        return _of_first(inputs, dy * derivative(arrays, arrays.like(dy, first), slope))

    return smooth


def _of_first(inputs: Any, gradient: Any) -> Any:
    """The gradient of the first input; what else there is, such as an option, gets none."""
    return {inputs.names[0]: gradient}
