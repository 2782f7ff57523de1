"""What is wrong, in words: wrong rules of many kinds, and what must be said of each."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.check.diagnosis import diagnose
from pullback.check.subject import Subject

RNG = np.random.default_rng(3)


def normal(*shape):
    return tf.constant(RNG.normal(size=shape))


def positive(*shape):
    return tf.constant(RNG.uniform(0.5, 2.0, size=shape))


X, Y, M, S = normal(7), normal(7), normal(4, 5), normal(4, 4)


def with_rule(fn, rule):
    """The function with a gradient that is wrong on purpose."""

    @tf.custom_gradient
    @functools.wraps(fn)
    def ruled(*xs):
        y = fn(*xs)
        return y, lambda *dy: rule(*xs, y, *dy)

    return functools.wraps(fn)(ruled)


def sine(x):
    return tf.sin(x)


def product(x, y):
    return x * y


def relu(x):
    return tf.maximum(x, 0.0)


def leaky(x):
    return tf.where(x > 0, x, 0.1 * x)


def clipped(x):
    return tf.clip_by_value(x, -1.0, 1.0)


def sigmoid(x):
    return tf.sigmoid(x)


def softmax(x):
    return tf.nn.softmax(x)


def derivative(fn, x, dy):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = fn(x)
    return tape.gradient(y, x, dy)


def layer_norm(x, axis=(-1,)):
    mean = tf.reduce_mean(x, axis, keepdims=True)
    centred = x - mean
    var = tf.reduce_mean(centred * centred, axis, keepdims=True)
    return centred * tf.math.rsqrt(var + 1e-3)


def layer_norm_back(x, y, dy, mean=1.0, var=1.0):
    def average(a):
        return tf.reduce_mean(a, -1, keepdims=True)

    r = tf.math.rsqrt(average((x - average(x)) ** 2) + 1e-3)
    return r * (dy - mean * average(dy) - var * y * average(dy * y))


def gelu(x, c=0.04):
    inner = 0.8 * (x + c * x**3)
    return 0.5 * x * (1.0 + tf.tanh(inner))


def gelu_back(x, _, dy, power=3.0):
    t = tf.tanh(0.8 * (x + 0.04 * x**3))
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.8 * (1 + power * 0.04 * x * x))


def cumulative(x):
    return tf.cumsum(x * x)


def looked_up(table):
    return tf.gather(table, [0, 2, 2, 1]) ** 2


def dense(x, w):
    return tf.tanh(x @ w)


def dense_back(x, w, y, dy):
    back = dy * (1 - y * y)
    return back @ tf.transpose(w), tf.transpose(x) @ back


def powers(a, x):
    h = x[0]
    for t in range(1, 5):
        h = a * h + x[t]
    return h


def recurrent(x, u):
    h = tf.zeros_like(x[0])
    for t in range(3):
        h = tf.tanh(x[t] + h @ u)
    return h


def recurrent_back(x, u, _, dy):
    """Without the derivative of tanh."""
    hs = [tf.zeros_like(x[0])]
    for t in range(3):
        hs.append(tf.tanh(x[t] + hs[-1] @ u))
    dx, du, dh = [], tf.zeros_like(u), dy
    for t in (2, 1, 0):
        dx.append(dh)
        du += tf.transpose(hs[t]) @ dh
        dh = dh @ tf.transpose(u)
    return tf.stack(dx[::-1]), du


def scan(a, x):
    found = [x[0]]
    for t in range(1, 4):
        found.append(a[t] * found[-1] + x[t])
    return tf.stack(found)


def scan_back(a, x, h, dy, carry=1.0, own=False):
    """Backwards in time; without the carry, or with the state after each step."""
    back = [dy[3]]
    for t in (2, 1, 0):
        back.insert(0, dy[t] + carry * a[t + 1] * back[0])
    before = h[1:] if own else h[:-1]
    da = tf.concat([tf.zeros_like(a[:1]), tf.stack(back[1:]) * before], 0)
    return da, tf.stack(back)


def unit(v):
    length = tf.norm(v, axis=1, keepdims=True)
    return v / length


def weighed(x):
    return 0.3 * tf.exp(x) + 0.7 * tf.cos(x)


def margin(a, b):
    own = tf.reduce_sum(a * a, 1)
    return own + tf.reduce_sum(b * b - 2 * a * b, 1)


def solved(a, b):
    return tf.linalg.solve(a, b)


def best(x):
    return tf.math.top_k(x, 2)[0]


def windows(x):
    return tf.gather(x, [0, 1, 1, 2], axis=1) ** 2


def polar(r, t):
    return r * tf.cos(t), r * tf.sin(t)


def squared(z):
    return tf.math.real(z) ** 2 + tf.math.imag(z) ** 2


def spread(x):
    return tf.reduce_max(x, -1) - tf.reduce_min(x, -1)


def total(x, w):
    return tf.reduce_sum(x * w, 1)


def in_half(x):
    return tf.cast(tf.cast(x, tf.float16), x.dtype)


def ones_but(size, k, value):
    return tf.constant([value if i == k else 1.0 for i in range(size)], tf.float64)


def triangular(n):
    return tf.constant(np.tril(np.ones((n, n))))


ROWS, COLUMNS = [0, 1, 1, 3], [2, 0, 3, 1]


def sparse(v, x):
    return tf.math.unsorted_segment_sum(v * tf.gather(x, COLUMNS), ROWS, 4)


def masked(x):
    return tf.nn.softmax(tf.where([True, False, True, True, False], x, -9.0))


CASES = {
    # the function computed anew with something else in it
    "another mask": (
        masked,
        lambda x, y, dy: derivative(softmax, x, dy),
        [M],
        "with the condition of Select taken as true everywhere in `tf.nn.softmax(tf.where(",
    ),
    "other axes": (
        layer_norm,
        lambda x, y, dy: derivative(lambda x: layer_norm(x, [0, 1]), x, dy),
        [M],
        "is that of the function with Mean along axes [0, 1]",
    ),
    "other indices": (
        sparse,
        lambda v, x, y, dy: [
            tf.gather(dy, ROWS) * tf.gather(x, COLUMNS),
            tf.math.unsorted_segment_sum(v * tf.gather(dy, COLUMNS), ROWS, 4),
        ],
        [normal(4), normal(4)],
        "the indices of Gather and the indices of UnsortedSegmentSum in each other's place",
    ),
    # another upstream
    "upstreams swapped": (
        polar,
        lambda r, t, _, dx, dy: [
            dy * tf.cos(t) + dx * tf.sin(t),
            r * (dx * tf.cos(t) - dy * tf.sin(t)),
        ],
        [positive(5), normal(5)],
        "takes the upstreams of `out[0]` and `out[1]` in each other's place",
    ),
    "upstream in part": (
        total,
        lambda x, w, y, dy: [
            dy[:, None] * w,
            tf.reduce_sum(dy[:-1, None] * x[:-1], 0),
        ],
        [M, normal(5)],
        "`w` takes its upstream as if it were zero in its last entry along axis 0",
    ),
    # the whole gradient
    "factor": (
        sine,
        lambda x, y, dy: 2 * dy * tf.cos(x),
        [X],
        "`x` is 2× too large: a factor 2 too many",
    ),
    "count": (
        total,
        lambda x, w, y, dy: [dy[:, None] * w / float(x.shape[1]), dy[:, None] * x],
        [M, M + 1],
        "5 is the size of axis 1",
    ),
    "small": (sine, lambda x, y, dy: 1.0001 * dy * tf.cos(x), [X], "too large by a factor 1.0001"),
    "sign": (sine, lambda x, y, dy: -dy * tf.cos(x), [X], "has the wrong sign"),
    "zero": (product, lambda x, y, _, dy: [dy * y, 0 * dy], [X, Y], "the gradient for `y` is zero"),
    "none": (
        product,
        lambda x, y, _, dy: [dy * y, None],
        [X, Y],
        "`y` is missing (the rule gives None)",
    ),
    "swapped": (
        product,
        lambda x, y, _, dy: [dy * x, dy * y],
        [X, Y],
        "the gradients for `x` and `y` are swapped",
    ),
    "together": (
        product,
        lambda x, y, _, dy: [2 * dy * y, 2 * dy * x],
        [X, Y],
        "for `x` and `y` is 2× too large",
    ),
    "reversed": (
        sine,
        lambda x, y, dy: (dy * tf.cos(x))[::-1],
        [X],
        "is right but reversed along axis 0",
    ),
    "shifted": (
        sine,
        lambda x, y, dy: tf.roll(dy * tf.cos(x), 1, 0),
        [X],
        "shifted by 1 along axis 0",
    ),
    "conjugate": (
        squared,
        lambda z, y, dy: tf.complex(2 * dy, 0 * dy) * tf.math.conj(z),
        [tf.complex(X, Y)],
        "the complex conjugate",
    ),
    "float16": (
        sine,
        lambda x, y, dy: dy * in_half(tf.cos(in_half(x))),
        [X],
        "computed or rounded in float16",
    ),
    "weight decay": (
        sine,
        lambda x, y, dy: dy * tf.cos(x) + 0.01 * x,
        [X],
        "+ 0.01 × `x`: weight decay?",
    ),
    "missing term": (
        lambda x: tf.exp(x) - x,
        lambda x, y, dy: dy * tf.exp(x),
        [X],
        "is off by + the upstream: added by mistake, or a term with the other sign is missing",
    ),
    "passed through": (sine, lambda x, y, dy: dy, [X], "is the upstream as it came"),
    "factor missing": (sigmoid, lambda x, y, dy: dy * y, [X], "has a factor (1 − `out`) missing"),
    "instead": (
        sine,
        lambda x, y, dy: -dy * tf.sin(x),
        [X],
        "is minus the upstream times `out`",
    ),
    "not symmetrised": (
        lambda x: tf.sin(x + tf.transpose(x)),
        lambda x, y, dy: 2 * dy * tf.cos(x + tf.transpose(x)),
        [S],
        "the derivative of Transpose in",
    ),
    # the upstream
    "unused": (sine, lambda x, y, dy: tf.cos(x), [X], "the same for every upstream"),
    "added": (
        sine,
        lambda x, y, dy: dy * tf.cos(x) + tf.exp(x) + x * x,
        [X],
        "does not depend on the upstream",
    ),
    "squared upstream": (
        sine,
        lambda x, y, dy: dy * dy * tf.cos(x),
        [X],
        "has a factor the upstream of `out` too many",
    ),
    "output lost": (
        polar,
        lambda r, t, _, a, b: [a * tf.cos(t), -a * r * tf.sin(t)],
        [X, Y],
        "`r` and `t` leaves out what `out[1]` contributes",
    ),
    # by index
    "element": (
        sine,
        lambda x, y, dy: dy * tf.cos(x) * ones_but(7, 4, 1.5),
        [X],
        "is 1.5× what it should be in element [4]",
    ),
    "triangle": (
        lambda x: x * x,
        lambda x, y, dy: 2 * dy * x * triangular(4),
        [S],
        "is zero in the upper triangle",
    ),
    "leak": (
        lambda x: x * x * ones_but(7, 2, 0.0),
        lambda x, y, dy: 2 * dy * x,
        [X],
        "is not zero in element [2], and should be zero there",
    ),
    # by value
    "mask": (
        relu,
        lambda x, y, dy: dy,
        [positive(6)],
        "is the upstream as it came where x < 0, and should be zero there",
    ),
    "half a mask": (
        clipped,
        lambda x, y, dy: dy * tf.cast(abs(x) < 2, dy.dtype),
        [X],
        "where 1 < |x| < 2, and should be zero",
    ),
    "threshold": (
        sine,
        lambda x, y, dy: dy * tf.cos(x) * tf.where(x > 0.25, tf.constant(3.0, x.dtype), 1.0),
        [X],
        "is 3× what it should be where x > 0.25, and is right elsewhere",
    ),
    "other input": (
        lambda x, y: x * x + y,
        lambda x, y, _, dy: [2 * dy * x * tf.where(x < y, tf.constant(3.0, x.dtype), 1.0), dy],
        [X, Y],
        "is 3× what it should be where x < y",
    ),
    "fades": (
        lambda x: tf.sin(x) + x**3,
        lambda x, y, dy: dy * (tf.cos(x) + x * x),
        [X],
        "through Pow of",  # and not "where |x| > 0.0001"
    ),
    # slips in the program
    "constant": (
        layer_norm,
        functools.partial(layer_norm_back, mean=0.0),
        [M],
        "treats `x` as a constant in Mean of `mean =",
    ),
    "operation": (
        layer_norm,
        functools.partial(layer_norm_back, var=0.0),
        [M],
        "treats `var` as a constant in",
    ),
    "two constants": (
        layer_norm,
        functools.partial(layer_norm_back, mean=0.0, var=0.0),
        [M],
        "treats `x` as a constant in Mean of `mean = tf.reduce_mean(x, axis, keepdims=True)`, and `var` as a constant",
    ),
    "inner factor": (
        gelu,
        functools.partial(gelu_back, power=1.0),
        [X],
        "through Pow of `inner = 0.8 * (x + c * x**3)`, which is 3×",
    ),
    "no sum": (
        lambda x: tf.sin(softmax(x)),
        lambda x, y, dy: dy * tf.cos(softmax(x)) * softmax(x),
        [M],
        "the derivative of Softmax in",
    ),
    "sum along": (
        softmax,
        lambda x, y, dy: y * (dy - tf.reduce_sum(dy * y, 0, keepdims=True)),
        [M],
        "with its sum along axis 0 of its operand, not the last",
    ),
    "direction": (
        cumulative,
        lambda x, y, dy: 2 * x * tf.cumsum(dy),
        [X],
        "accumulated in the wrong direction",
    ),
    "overwritten": (
        looked_up,
        lambda t, y, dy: tf.tensor_scatter_nd_update(
            tf.zeros_like(t), [[0], [2], [2], [1]], 2 * dy * tf.gather(t, [0, 2, 2, 1])
        ),
        [normal(3, 2)],
        "with the last in place of the sum where an index occurs several times",
    ),
    "operand transposed": (
        dense,
        lambda x, w, y, dy: [(dy * (1 - y * y)) @ w, dense_back(x, w, y, dy)[1]],
        [S, S + 1],
        "the derivative of MatMul in `tf.tanh(x @ w)` by `x` as if its second operand were transposed",
    ),
    "every run": (
        recurrent,
        recurrent_back,
        [normal(3, 2, 2), normal(2, 2)],
        "for `x` and `u` has the derivative of Tanh in `h = tf.tanh(x[t] + h @ u)` taken as 1",
    ),
    "tensor of the program": (
        unit,
        lambda v, y, dy: dy - y * tf.reduce_sum(dy * y, 1, keepdims=True),
        [M],
        "`v` has a factor `length` too many",
    ),
    "scalar factor": (
        lambda x: 2 * x / tf.norm(x) ** 0,
        lambda x, y, dy: 2 * dy * tf.norm(x),
        [X],
        "has a factor √q too many, where q is the result of Sum",
    ),
    "a factor each": (
        weighed,
        lambda x, y, dy: dy * (0.6 * tf.exp(x) - 0.35 * tf.sin(x)),
        [X],
        "which is 2× too large: a factor 2 too many, and what flows back to `x` through Cos",
    ),
    "not transposed": (
        solved,
        lambda a, b, y, dy: [
            -tf.linalg.solve(a, dy) @ tf.transpose(y),
            tf.linalg.solve(a, dy),
        ],
        [S + 3 * tf.eye(4, dtype=S.dtype), normal(4, 2)],
        "for `a` and `b` has the derivative of MatrixSolve in `tf.linalg.solve(a, b)` with its matrix in place",
    ),
    "smallest": (
        best,
        lambda x, y, dy: derivative(lambda x: -best(-x), x, dy),
        [M],
        "TopK in `tf.math.top_k(x, 2)[0]` with the smallest in place of the largest",
    ),
    "overwritten along an axis": (
        windows,
        lambda x, y, dy: tf.transpose(
            tf.tensor_scatter_nd_update(
                tf.zeros([5, 4], x.dtype), [[0], [1], [1], [2]], tf.transpose(2 * y**0.5 * dy)
            )
        ),
        [tf.abs(M) + 0.1],
        "with the last in place of the sum where an index occurs several times",
    ),
    "no carry": (
        scan,
        functools.partial(scan_back, carry=0.0),
        [normal(4, 2), normal(4, 2)],
        "for `a` and `x` treats its second operand as a constant in Mul of `found.append(",
    ),
    "state of another run": (
        scan,
        functools.partial(scan_back, own=True),
        [normal(4, 2), normal(4, 2)],
        "with the result of Add, 2 operations later, in place of its second operand",
    ),
    "one run": (
        powers,
        lambda a, x, y, dy: [dy * a**3 * x[0], tf.stack([dy * a**k for k in (4, 3, 2, 1, 0)])],
        [positive(3), normal(5, 3)],
        "to `a` through Mul of `h = a * h + x[t]`, which is zero but in the first run",
    ),
    "extreme": (
        spread,
        lambda x, y, dy: dy[:, None] * tf.cast(x == tf.reduce_max(x, -1, keepdims=True), x.dtype),
        [M],
        "treats `x` as a constant in Min",
    ),
}

# What a look into the rule says.
IN_THE_RULE = {
    "factor on the way": (
        margin,
        lambda a, b, y, dy: [
            2 * dy[:, None] * (a / tf.norm(a, axis=1, keepdims=True) - b),
            2 * dy[:, None] * (b - a),
        ],
        [M, M[::-1]],
        "the result of Sqrt left out of Div",
    ),
    "dead zone": (
        sine,
        lambda x, y, dy: tf.where(abs(dy) < 1e-3, 0 * dy, dy) * tf.cos(x),
        [X],
        "the result of Less taken as false everywhere",
    ),
    "another constant": (
        gelu,
        lambda x, y, dy: derivative(lambda x: gelu(x, 0.044), x, dy),
        [X],
        "0.04 in place of 0.044 in `inner = 0.8 * (x + c * x**3)`",
    ),
    "per index": (
        sine,
        lambda x, y, dy: dy * tf.cos(x) * tf.range(1.0, 8.0, dtype=x.dtype),
        [X],
        "1. alone in place of Range",
    ),
    "along an axis": (
        lambda x: tf.sin(x),
        lambda x, y, dy: dy * tf.cos(x) * tf.math.cosh(x[:, :1]),
        [M],
        "the result of Cosh left out of Mul",
    ),
    "two factors": (
        leaky,
        lambda x, y, dy: tf.where(x > 0, 0.1 * dy, dy),
        [X],
        "Less in place of Greater",
    ),
    "wrong tensor": (
        dense,
        lambda x, w, y, dy: [dense_back(x, w, y, dy)[0], tf.transpose(y) @ (dy * (1 - y * y))],
        [S, S + 1],
        "the result of Transpose of `x`",
    ),
}


def findings(fn, rule, args):
    return pb.check(with_rule(fn, rule), *args, modes="none").findings


@pytest.mark.parametrize("name", CASES)
def test_the_mistake_is_named(name, monkeypatch):
    """Without a look into the rule, whose lines may tell more."""
    monkeypatch.setattr(Subject, "rule_program", lambda *_: None)
    fn, rule, args, said = CASES[name]
    (finding,) = findings(fn, rule, args)
    assert said in finding.diagnosis


@pytest.mark.parametrize("name", IN_THE_RULE)
def test_what_to_write_in_the_rule_is_said(name):
    fn, rule, args, said = IN_THE_RULE[name]
    (finding,) = findings(fn, rule, args)
    assert "would be right with" in finding.diagnosis
    assert said in finding.diagnosis


def test_what_is_said_was_confirmed_elsewhere():
    (finding,) = findings(sine, lambda x, y, dy: 2 * dy * tf.cos(x), [X])
    assert finding.confirmed == 3


def test_a_factor_that_stays_where_sizes_change_is_none_of_them():
    def rule(x, w, y, dy):
        return [dy[:, None] * w / 5, dy[:, None] * x]

    (finding,) = findings(total, rule, [M, M + 1])
    assert finding.diagnosis.endswith("5× too small: a factor 5 is missing")

    def pairs(x):
        return tf.reduce_sum(tf.reshape(x, [-1, 2]), 1)

    (finding,) = findings(pairs, lambda x, y, dy: 4 * tf.repeat(dy, 2), [normal(8)])
    assert finding.diagnosis.endswith("4× too large: a factor 4 too many")


def test_one_entry_in_numbers():
    (finding,) = findings(sine, lambda x, y, dy: 2 * dy * tf.cos(x), [X])
    assert finding.got == pytest.approx(2 * finding.wanted)
    assert finding.entry.startswith("[")


def strange(x, _, dy):
    return dy * tf.cos(x) * (1 + 0.3 * tf.sin(5 * x + tf.reduce_sum(x) ** 2))


def test_what_nothing_predicts_is_said_to_be_so(monkeypatch):
    monkeypatch.setattr(Subject, "rule_program", lambda *_: None)
    (finding,) = findings(sine, strange, [X])
    assert "is off by" in finding.diagnosis
    assert "explanations tried predicts it" in finding.diagnosis


def test_a_mistake_in_a_hypothesis_costs_its_line_only(monkeypatch):
    def broken(case):
        raise ZeroDivisionError
        yield

    monkeypatch.setattr(diagnose, "PLAIN", (broken, *diagnose.PLAIN))
    (finding,) = findings(sine, lambda x, y, dy: -dy * tf.cos(x), [X])
    assert "wrong sign" in finding.diagnosis


def test_without_a_look_into_the_program_the_rest_is_said(monkeypatch):
    monkeypatch.setattr(Subject, "steps", lambda self: None)
    monkeypatch.setattr(Subject, "rule_program", lambda *_: None)
    (finding,) = findings(layer_norm, functools.partial(layer_norm_back, mean=0.0), [M])
    assert "explanations tried predicts it" in finding.diagnosis


def test_a_place_is_told_from_a_value():
    """One element only has the value, and it is not its place that matters."""
    x = tf.constant([0.1, -0.2, 2.5, 0.3, -0.4, 0.2])

    def rule(x, _, dy):
        return dy * tf.cos(x) * tf.where(x > 2, tf.constant(3.0, x.dtype), 1.0)

    (finding,) = findings(sine, rule, [x])
    assert "element" not in finding.diagnosis
    assert "x > 2" in finding.diagnosis


def test_not_finite_says_where():
    def rule(x, _, dy):
        return dy * (tf.cos(x) / x - tf.sin(x) / x**2)

    def sinc(x):
        safe = tf.where(x == 0, tf.ones_like(x), x)
        return tf.where(x == 0, tf.ones_like(x), tf.sin(safe) / safe)

    (finding,) = findings(sinc, rule, [X])
    assert "is not finite where x = 0" in finding.diagnosis


def test_not_finite_where_two_inputs_are_equal():
    """All of them are 1, but that is not the reason."""

    def apart(a, b):
        return tf.reduce_sum((a - b) ** 2, 1)

    def rule(a, b, y, dy):
        back = 2 * dy[:, None] * (a - b) / y[:, None] * y[:, None]
        return back, -back

    ones = tf.ones([2, 3], tf.float64)
    finding = findings(apart, rule, [ones, ones])[0]
    assert "is not finite where a = b" in finding.diagnosis


def test_a_smooth_error_is_no_rounding():
    (finding,) = findings(sine, lambda x, y, dy: dy * tf.cos(x) * (1 + 0.003 * tf.sin(x)), [X])
    assert "bits" not in finding.diagnosis


def test_what_holds_only_in_this_order_is_not_said(monkeypatch):
    """Another order of the values has the same extremes near the point, and only there."""
    monkeypatch.setattr(Subject, "rule_program", lambda *_: None)
    ids = [0, 0, 1, 1, 1, 2, 2, 2]

    def largest(x):
        return tf.math.segment_max(x, ids)

    def rule(x, y, dy):
        return derivative(lambda x: -tf.math.segment_max(-x, ids), x, dy)

    (finding,) = findings(largest, rule, [normal(8)])
    assert "with the smallest in place of the largest" in finding.diagnosis


def test_second_order_says_which_input():
    def rule(x, y, _, dy):
        return dy * y, dy * tf.stop_gradient(x)

    (finding,) = findings(product, rule, [X, Y])
    assert "right to first order, wrong to second" in finding.diagnosis


def test_a_shape_that_does_not_fit_says_what_to_sum():
    def add(x, b):
        return x + b

    (finding,) = findings(add, lambda x, b, y, dy: [dy, dy], [M, normal(5)])
    assert "sum over the broadcast axes [0]" in finding.diagnosis
