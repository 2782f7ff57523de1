"""Under loss scaling, rules that are not linear in their upstream see gradients without the scale, in every mode."""

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import UnsupportedError

LIMIT = 1e-3
TO = tf.float16
DRAW = np.random.default_rng(0).normal
X, Y = DRAW(size=(8, 3)).astype("f"), DRAW(size=(8, 2)).astype("f")
WEIGHTS = [DRAW(size=shape).astype("f") for shape in ((3, 4), (4,), (4, 2), (2,))]
SCALE = 4096.0


@pb.rules.unscaled
def at_most(dy: Any, *, original: Any) -> Any:
    return tf.clip_by_value(original(dy), -LIMIT, LIMIT)


@pb.rules.unscaled
def weights_too(dy: Any, *, original: Any, variables: Any) -> Any:
    del variables
    dx, gradients = original(dy)
    return tf.clip_by_value(dx, -LIMIT, LIMIT), gradients


def of_value(g: Any) -> Any:
    return np.clip(g, -LIMIT, LIMIT)


def of_norm(g: Any) -> Any:
    return g * min(1.0, LIMIT / np.linalg.norm(g))


class Half(keras.Layer):
    """float16 in, float32 out: what comes back through it is in float16."""

    def __init__(self, rule: Any = None) -> None:
        super().__init__(dtype="mixed_float16")
        self.rule = rule

    def call(self, x: Any) -> Any:
        return x if self.rule is None else self.rule(x)


RULES: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "layer": (pb.keras.GradientClip(value=LIMIT, dtype="mixed_float16"), of_value),
    "norm": (Half(pb.rules.clip(norm=LIMIT)), of_norm),
    "global norm": (pb.rules.clip(global_norm=LIMIT), of_norm),
    "ready": (pb.rules.clip(value=LIMIT), of_value),
    "of the user": (at_most, of_value),
    "for weights": (weights_too, of_value),
    "for one input": ([at_most], of_value),
}


def model(name: str) -> tuple[Any, Any]:
    """A model, and it with the rule on what flows back into its first layer."""
    rule, _ = RULES[name]
    inside = rule if isinstance(rule, keras.Layer) else Half()
    last = keras.layers.Dense(2, dtype="mixed_float16")
    to_float = keras.layers.Activation("linear", dtype="float32")
    layers = [keras.layers.Dense(4, dtype="mixed_float16"), inside, last, to_float]
    made = keras.Sequential([keras.Input((3,)), *layers])
    made.set_weights(list(WEIGHTS))
    return made, made if inside is rule else pb.override({last: rule})(made)


def wanted(name: str) -> Any:
    a, b, c, d = (w.astype("d") for w in WEIGHTS)
    upstream = 2.0 * (((X @ a + b) @ c + d) - Y) / Y.size
    return X.T @ RULES[name][1](upstream @ c.T)


def close(found: Any, name: str) -> None:
    reference = wanted(name)
    assert np.abs(found - reference).max() < 5e-3 * np.abs(reference).max()


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "dynamic": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0), SCALE),
    "fixed": lambda: keras.optimizers.SGD(1.0, loss_scale_factor=1000.0),
    "none": lambda: keras.optimizers.SGD(1.0),
}
WAYS: dict[str, dict[str, Any]] = {
    "graph": {}, "eager": {"run_eagerly": True}, "xla": {"jit_compile": True},
}  # fmt: skip
FITS = [
    *itertools.product(RULES, ["dynamic"], WAYS),
    *itertools.product(["layer"], ["fixed", "none"], WAYS),
]


@pytest.mark.parametrize(("name", "optimizer", "way"), FITS)
def test_fit(name: str, optimizer: str, way: str) -> None:
    plain, changed = model(name)
    changed.compile(OPTIMIZERS[optimizer](), "mse", auto_scale_loss=False, **WAYS[way])
    changed.fit(X, Y, batch_size=8, verbose=0)
    close(WEIGHTS[0] - plain.get_weights()[0], name)


Loss = Callable[[Any], Any]


def loss_of(predict: Loss, x: Any) -> Any:
    return tf.reduce_mean(tf.square(predict(x) - Y))


def in_function(predict: Loss, **options: Any) -> Loss:
    return tf.function(predict, autograph=False, **options)


def in_loop(predict: Loss) -> Loss:
    def looped(x: Any) -> Any:
        start = (tf.constant(0), tf.zeros([8, 2]))
        return tf.while_loop(lambda i, _: i < 1, lambda i, _: (i + 1, predict(x)), start)[1]

    return looped


def in_branch(predict: Loss) -> Loss:
    return lambda x: tf.cond(tf.size(x) > 1, lambda: predict(x), lambda: 2.0 * predict(x))


MODELS: dict[str, Callable[[Loss], Loss]] = {
    "as it is": lambda predict: predict,
    "function": in_function,
    "xla": lambda predict: in_function(predict, jit_compile=True),
    "function in function": lambda predict: in_function(lambda x: 1.0 * in_function(predict)(x)),
    "loop": lambda predict: in_function(in_loop(predict)),
    "branch": lambda predict: in_function(in_branch(predict)),
}


def by_tape(scale: Loss, loss: Callable[[], Any], source: Any) -> Any:
    with tf.GradientTape() as tape:
        scaled = scale(loss())
    return tape.gradient(scaled, source)


def by_graph(scale: Loss, loss: Callable[[], Any], source: Any) -> Any:
    return tf.gradients(scale(loss()), source)[0]


STEPS: dict[str, tuple[Any, dict[str, Any] | None]] = {
    "eager": (by_tape, None),
    "traced": (by_tape, {}),
    "compiled": (by_tape, {"jit_compile": True}),
    "tf.gradients": (by_graph, {}),
}
# XLA compiles the gradient of a loop only where the number of rounds is known.
LOOPS = [pair for pair in itertools.product(MODELS, STEPS) if pair != ("loop", "compiled")]


def optimizer_for(plain: Any, scale: float = SCALE) -> Any:
    made = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0), initial_scale=scale)
    made.build(plain.trainable_variables)
    return made


@pytest.mark.parametrize(("inner", "step"), LOOPS)
def test_loops_of_the_users_own_with_a_scale_that_changes(inner: str, step: str) -> None:
    plain, changed = model("ready")
    optimizer, predict = optimizer_for(plain), MODELS[inner](changed)
    differentiate, options = STEPS[step]

    def gradient(x: Any) -> Any:
        source = plain.trainable_variables[0].value
        return differentiate(optimizer.scale_loss, lambda: loss_of(predict, x), source)

    run = gradient if options is None else tf.function(gradient, autograph=False, **options)
    for scale in (SCALE, 64.0):
        optimizer.dynamic_scale.assign(scale)
        close(run(tf.constant(X)) / scale, "ready")


@pytest.mark.parametrize("inner", MODELS)
def test_a_function_serves_scaled_losses_and_others(inner: str) -> None:
    plain, changed = model("layer")
    optimizer, predict = optimizer_for(plain), MODELS[inner](changed)
    source = plain.trainable_variables[0].value
    for scale, factor in [(lambda x: x, 1.0), (optimizer.scale_loss, SCALE), (lambda x: x, 1.0)]:
        found = by_tape(scale, lambda: loss_of(predict, tf.constant(X)), source)
        close(found / factor, "layer")


def test_a_loss_that_is_scaled_in_a_function_of_its_own() -> None:
    plain, changed = model("ready")
    scale = tf.function(optimizer_for(plain).scale_loss)
    source = plain.trainable_variables[0].value
    for _ in range(2):
        found = by_tape(scale, lambda: loss_of(changed, tf.constant(X)), source)
        close(found / SCALE, "ready")


def test_scales_of_two_optimizers_in_one_pass_are_refused() -> None:
    plain, changed = model("ready")
    one, other = optimizer_for(plain), optimizer_for(plain, 2.0)
    with pytest.raises(
        UnsupportedError, match="scaled by two optimizers meet in one backward pass"
    ):
        by_tape(
            lambda loss: one.scale_loss(loss) + other.scale_loss(loss),
            lambda: loss_of(changed, tf.constant(X)),
            plain.trainable_variables[0].value,
        )


@pytest.mark.parametrize("traced", [False, True])
def test_what_a_tap_shows_is_without_the_scale(traced: bool) -> None:
    tap, x = pb.keras.Tap(dtype="mixed_float16"), tf.Variable([3.0, 4.0], dtype=TO)
    optimizer = optimizer_for(keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]))
    tap(x)

    def step() -> Any:
        weights = tf.constant([3.0, 4.0], TO)
        return by_tape(optimizer.scale_loss, lambda: tf.reduce_sum(tap(x) * weights), x)

    (tf.function(step) if traced else step)()
    assert float(tap.norm) == 5.0


def test_gradients_too_small_for_sixteen_bits_are_not_lost() -> None:
    clip, x, tiny = pb.rules.clip(value=1.0), tf.Variable([1.0], dtype=TO), 1e-8
    assert np.float16(tiny) == 0
    optimizer = keras.optimizers.SGD(1.0, loss_scale_factor=2.0**15)
    scaled = by_tape(
        optimizer.scale_loss, lambda: tiny * tf.reduce_sum(tf.cast(clip(x), tf.float32)), x
    )
    assert scaled.dtype == TO
    assert float(scaled[0]) == pytest.approx(tiny * 2.0**15, rel=1e-3)


@pytest.mark.parametrize("rule", [pb.rules.nan_to_zero, pb.rules.raise_on_nan])
def test_rules_that_hide_what_an_optimizer_adapts_to_say_so(rule: Any) -> None:
    x = tf.Variable([1.0])
    adapting = optimizer_for(keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]))
    with pytest.warns(UserWarning, match="while a LossScaleOptimizer scales the loss"):
        by_tape(adapting.scale_loss, lambda: tf.reduce_sum(rule(x)), x)
    fixed = keras.optimizers.SGD(1.0, loss_scale_factor=2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert by_tape(fixed.scale_loss, lambda: tf.reduce_sum(rule(x)), x).numpy() == [2.0]


def test_what_cannot_be_marked_is_refused() -> None:
    with pytest.raises(pb.errors.RuleSignatureError, match="takes a rule, which is a function"):
        pb.rules.unscaled(3)  # type: ignore[type-var]  # wrong on purpose
    with pytest.raises(pb.errors.RuleSignatureError, match="Write a function that calls it"):
        pb.rules.unscaled(abs)
