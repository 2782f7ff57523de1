"""Every remedy that `explain` gives is applied as it says, in its own case and in each format, and must help."""

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

FORMATS = ("float16", "bfloat16", "float32", "float64")
WIDE = ("float32", "float64")
INF = float("inf")


def same(value: Any, *_: Any) -> Any:
    return value


def into(op: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """The code of the advice stands for the input of this operation."""
    return lambda value, _: op(value)


class Case(NamedTuple):
    """A function, the numbers that it is called with, and what the code in the advice is put into."""

    before: Callable[[Any], Any]
    numbers: Any
    after: Callable[[Any, Any], Any] = same  # of what the code gives, and of the numbers
    names: Mapping[str, Callable[[Any], Any]] = {}  # that the code uses beside `x`
    code: int = 0  # which of the pieces of code in the advice
    formats: tuple[str, ...] = FORMATS


MASK = np.array([[True, False], [False, False]])


def masked_by_product(x):
    keep = tf.cast(MASK, x.dtype)
    return tf.nn.softmax(x + (1 - keep) * tf.constant(-INF, x.dtype))


def masked_by_choice(x):
    return tf.nn.softmax(tf.where(MASK, x, tf.constant(-INF, x.dtype)))


def logsumexp_of_nothing(x):
    return tf.reduce_logsumexp(tf.where(MASK, x, tf.constant(-INF, x.dtype)), -1)


def infinite(x):
    """Constants of which one is infinite."""
    return tf.constant([INF, 1.0], x.dtype)


ROWS = [[1.0, 2.0], [3.0, 4.0]]
NOT_FINITE: dict[str, Case] = {
    "sqrt": Case(tf.sqrt, [0.0, 4.0]),
    "rsqrt": Case(tf.math.rsqrt, [0.0, 4.0]),
    "euclidean norm": Case(
        lambda x: tf.math.reduce_euclidean_norm(x, -1),
        [[0.0, 0.0], [3.0, 4.0]],
        names={"axis": lambda x: -1},
    ),
    "norm": Case(
        lambda x: tf.norm(x, axis=-1), [[0.0, 0.0], [3.0, 4.0]], names={"axis": lambda x: -1}
    ),
    "deviation": Case(
        lambda x: tf.math.reduce_std(x, -1), [[2.0, 2.0], [3.0, 4.0]], names={"axis": lambda x: -1}
    ),
    "root mean square": Case(lambda x: tf.sqrt(tf.reduce_mean(x * x)), [0.0, 0.0]),
    "log": Case(tf.math.log, [0.0, 4.0]),
    "log1p": Case(tf.math.log1p, [-1.0, 4.0]),
    "xlogy": Case(lambda x: tf.math.xlogy(x + 1, x), [0.0, 4.0], names={"y": same}),
    "lgamma": Case(tf.math.lgamma, [0.0, 4.0], into(tf.math.lgamma), formats=("float16", *WIDE)),
    "digamma": Case(tf.math.digamma, [0.0, 4.0], into(tf.math.digamma), formats=WIDE),
    "exp": Case(tf.exp, [1000.0, 1.0]),
    "exp, the second way": Case(tf.exp, [1000.0, 1.0], code=1),
    "expm1": Case(tf.math.expm1, [1000.0, 1.0]),
    "sinh": Case(tf.sinh, [-1000.0, 1.0]),
    "cosh": Case(tf.cosh, [-1000.0, 1.0]),
    "divide": Case(lambda x: x / x[::-1], [0.0, 4.0], names={"y": lambda x: x[::-1]}),
    "reciprocal": Case(
        tf.math.reciprocal, [0.0, 4.0], names={"y": same, "x": lambda x: tf.ones_like(x)}
    ),
    "xdivy": Case(lambda x: tf.math.xdivy(x + 1, x), [0.0, 4.0], names={"y": same}),
    "remainder": Case(lambda x: (x + 1) % x, [0.0, 4.0], names={"y": same, "x": lambda x: x + 1}),
    "mean": Case(
        lambda x: tf.reduce_mean(x[x > 10.0]) * x,
        [1.0, 2.0],
        lambda value, x: value * x,
        {"x": lambda x: x[x > 10.0], "n": lambda x: tf.cast(tf.size(x[x > 10.0]), x.dtype)},
    ),
    "power": Case(lambda x: x**0.5, [0.0, 4.0], names={"p": lambda x: 0.5}),
    "arc cosine": Case(tf.acos, [1.0, 0.5], into(tf.acos)),
    "arc sine": Case(tf.asin, [-1.0, 0.5], into(tf.asin)),
    "atanh": Case(tf.atanh, [1.0, 0.5], into(tf.atanh)),
    "acosh": Case(tf.acosh, [1.0, 2.5], into(tf.acosh)),
    "erfinv": Case(tf.math.erfinv, [1.0, 0.5], into(tf.math.erfinv), formats=WIDE),
    "quantile": Case(tf.math.ndtri, [1.0, 0.5], into(tf.math.ndtri), formats=WIDE),
    "angle": Case(lambda x: tf.atan2(x, 2 * x), [0.0, 4.0], names={"y": same, "x": lambda x: 2 * x}),
    "where": Case(
        lambda x: tf.where(x > 0, tf.math.log(x), 0.0),
        [0.0, 4.0],
        names={"ok": lambda x: x > 0, "f": lambda x: tf.math.log},
    ),
    "softmax of masked rows": Case(
        masked_by_choice, ROWS, into(tf.nn.softmax), {"mask": lambda x: MASK}
    ),
    "logsumexp of masked rows": Case(
        logsumexp_of_nothing, ROWS, into(functools.partial(tf.reduce_logsumexp, axis=-1)), {"mask": lambda x: MASK}
    ),
    "a mask by a product": Case(
        masked_by_product, ROWS, into(tf.nn.softmax), {"mask": lambda x: tf.cast(MASK, tf.float32)}
    ),
    "a product with Inf": Case(
        lambda x: x * infinite(x), [0.0, 2.0], lambda value, x: value * x, {"x": infinite}
    ),
    "a difference of Inf": Case(
        lambda x: x + infinite(x) - infinite(x), [1.0, 2.0], lambda v, x: x + v - v, {"x": infinite}
    ),
    "bad numbers that come in": Case(lambda x: x * x, [np.nan, 2.0]),
}  # fmt: skip


def code_in(text: str) -> list[str]:
    """The pieces of code in an advice: names alone say only what could be used."""
    return [code for code in re.findall(r"`([^`]+)`", text) if "(" in code]


def applied(case: Case, code: str) -> Callable[[Any], Any]:
    """What one has after the advice was taken."""

    def fn(x):
        names = {"tf": tf, "pb": pb, "x": x, **{k: make(x) for k, make in case.names.items()}}
        value = eval(code.removeprefix("ok = ...; "), names)
        return case.after(value, x)

    return fn


@pytest.mark.parametrize(
    ("name", "dtype"), [(name, d) for name, case in NOT_FINITE.items() for d in case.formats]
)
def test_nothing_is_nan_after_what_to_write(name: str, dtype: str) -> None:
    case = NOT_FINITE[name]
    x = tf.constant(case.numbers, dtype)
    found = pb.explain(case.before, x).first_nonfinite()
    assert found is not None
    assert "{" not in found.rewrite
    codes = code_in(found.rewrite)
    assert codes, found
    after = pb.explain(applied(case, codes[case.code]), x)
    bad = after.first_nonfinite()
    assert bad is None or name == "bad numbers that come in", bad
    (source,) = after.sources
    assert source.gradient is not None
    assert source.gradient.is_finite, (codes, source)


LARGE = {"float16": 300.0, "bfloat16": 1e20, "float32": 1e20, "float64": 1e160}
TOO_LARGE = {
    "multiply": lambda x: x * x * x[::-1],
    "matmul": lambda x: tf.matmul(x[None], x[:, None]),
    "power": lambda x: x**3,
    "add": lambda x: x * (x[0] / x[0]) * x + x * x,
    "cumulative product": tf.math.cumprod,
}


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", TOO_LARGE)
def test_what_overflows_is_scaled_down(name: str, dtype: str) -> None:
    x = tf.constant([1.0, 1.0, 1.0], dtype) * tf.constant(LARGE[dtype], dtype)
    found = pb.explain(TOO_LARGE[name], x).first_nonfinite()
    assert found is not None
    assert "too large" in found.cause
    words = "float32" if dtype == "float16" else "Scale its input down"
    assert words in found.rewrite
    scaled = pb.explain(lambda x: TOO_LARGE[name](tf.cast(x, "float32") / LARGE[dtype]), x)
    if dtype != "float64":
        assert scaled.first_nonfinite() is None


# Gradients that are missing or zero


MISSING: dict[str, Case] = {
    "round": Case(tf.round, [0.3, 1.7], lambda f, x: f(x)),
    "floor": Case(tf.floor, [0.3, 1.7], lambda f, x: f(x)),
    "sign": Case(tf.sign, [0.3, 1.7], lambda f, x: f(x)),
    "floor division": Case(lambda x: x // 0.5, [0.3, 1.7], lambda f, x: f(x, tf.constant(0.5, x.dtype))),
    "truncated division": Case(
        lambda x: tf.truncatediv(x, tf.constant(0.5, x.dtype)),
        [0.3, 1.7],
        lambda f, x: f(x, tf.constant(0.5, x.dtype)),
        formats=WIDE,
    ),
    "argmax": Case(lambda x: tf.cast(tf.argmax(x), x.dtype), [0.3, 1.7], lambda w, x: tf.reduce_sum(w * x)),
    "comparison": Case(
        lambda x: tf.cast(x > 1.0, x.dtype), [0.3, 1.7], names={"y": lambda x: tf.ones_like(x)}
    ),
    "cast": Case(
        lambda x: tf.cast(tf.cast(x, tf.int32), x.dtype), [0.3, 1.7], lambda f, x: f(x)
    ),
    "histogram": Case(
        lambda x: tf.cast(tf.histogram_fixed_width(x, [x[0] * 0, x[0] * 0 + 2], 2), x.dtype),
        [0.3, 1.7],
        lambda counts, x: counts * [1.0, 2.0],
        {"centres": lambda x: tf.constant([0.5, 1.5], x.dtype)},
        formats=WIDE,
    ),
    "clip": Case(lambda x: tf.clip_by_value(x, 5.0, 6.0), [0.3, 1.7], lambda f, x: f(x, 5.0, 6.0)),
    "softmax of one": Case(tf.nn.softmax, [[0.3], [1.7]]),
    "dead": Case(tf.nn.relu, [-0.3, -1.7], code=-1),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "dtype"), [(name, d) for name, case in MISSING.items() for d in case.formats]
)
def test_there_is_a_gradient_after_what_to_write(name: str, dtype: str) -> None:
    case = MISSING[name]
    x = tf.constant(case.numbers, dtype)
    before = pb.explain(case.before, x)
    assert before.sources[0].gradient is None or before.sources[0].gradient.is_zero
    said = before.why("x" if "x" in {s.name for s in before.sources} else before.sources[0].name)
    if name == "dead":
        assert "`tf.nn.leaky_relu`" in said
        after = pb.explain(tf.nn.leaky_relu, x)
    else:
        code = next(c for c in code_in(said) if c.startswith(("pb.", "tf.")))
        after = pb.explain(applied(case, code), x)
    gradient = after.sources[0].gradient
    assert gradient is not None
    assert gradient.is_finite
    assert not gradient.is_zero, said


def test_one_unit_with_a_softmax_is_not_advised_another_loss_over_it() -> None:
    def loss(y, p):
        return -tf.reduce_mean(y * tf.math.log(p))

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, "softmax")])
    flow = pb.explain(model, tf.ones((2, 3)), tf.ones((2, 1)), loss=loss)
    said = flow.why(model.layers[0].kernel)
    assert "a single entry" in said
    assert "tf.sigmoid(x)" in said


def test_underflow_at_a_cast_is_no_rounding() -> None:
    x = tf.constant([1.0, 2.0], tf.float16)
    said = pb.explain(lambda x: tf.cast(x, tf.float32) * 1e-12, x).why("x")
    assert "underflows" in said
    assert "float32" in said
