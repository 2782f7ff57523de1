"""Verdicts on TensorFlow functions: ✓ where it would be a lie, ✗ where nothing is wrong, and neither by chance.

What is due in each case is mathematics: the derivative of the function, or that there is none.
"""

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import CheckError

RNG = np.random.default_rng(0)


def numbers(*values):
    return tf.constant(values, tf.float64)


X = tf.constant(RNG.normal(size=6), tf.float64)
POSITIVE = tf.abs(X) + 0.1
STEEP = tf.constant(np.append(np.abs(RNG.normal(size=200)) + 0.1, 1e-30))
LABELS = tf.constant([1.0, 0.0, 1.0, 0.0], tf.float64)
SMALL = numbers(0.3, 0.5, 0.4, 0.7)
SINGLE = tf.constant([0.62, -1.31, 0.83, 1.94, -0.45])
NINE = tf.constant(RNG.uniform(-2, 2, 9))
TWICE = tf.constant([[0], [2], [2], [3]])


def ruled(fn, rule):
    """A function with a rule of its own: from the input and the upstream to the gradient."""

    @tf.custom_gradient
    def with_rule(x):
        return fn(x), lambda dy: rule(x, dy)

    return with_rule


def of_sine(change):
    return ruled(tf.sin, lambda x, dy: change(x, dy, dy * tf.cos(x)))


def sinc(x):
    return tf.where(x == 0, tf.ones_like(x), tf.sin(x) / x)


def cross_entropy(p):
    zero = tf.zeros_like(p)
    one = tf.where(LABELS == 1, tf.math.log(p), zero)
    return -one - tf.where(LABELS == 0, tf.math.log(1 - p), zero)


def raises_beyond_three(x, dy, g):
    with tf.control_dependencies([tf.debugging.assert_less(x, tf.constant(3.0, x.dtype))]):
        return tf.identity(g)


def settled(x):
    """z = cos(x·z), by an iteration that settles for small x only."""
    z = tf.ones_like(x)
    for _ in range(80):
        z = tf.cos(x * z)
    return z


def slope_when_settled(x, dy):
    z = settled(x)
    return -dy * z * tf.sin(x * z) / (1 + x * tf.sin(x * z))


def rounded_inside(x):
    """Three times x, a third of it in sixteenths as float32 has no more digits for so large a sum."""
    x = tf.cast(x, tf.float32)
    return (1e6 + x) - 1e6 + 2 * x


def edges_cut(x):
    ranked = tf.sort(x)
    return tf.clip_by_value(x, ranked[1], ranked[-2])


def by_rank(x, dy):
    """Of equal entries the first is cut and the next is the edge: the limit of derivatives beside ties."""
    order = tf.argsort(x, stable=True)
    dy = tf.gather(dy, order)
    zero = tf.zeros_like(dy[:1])
    low, high = dy[:1] + dy[1:2], dy[-2:-1] + dy[-1:]
    return tf.gather(tf.concat([zero, low, dy[2:-2], high, zero], 0), tf.argsort(order))


def by_value(x, dy):
    """As above, but every entry that equals the edge is taken for it."""
    ranked, zero = tf.sort(x), tf.zeros_like(x)
    below, above = x < ranked[1], x > ranked[-2]
    low, high = (tf.reduce_sum(tf.where(cut, dy, zero)) for cut in (below, above))
    ends = tf.where(x == ranked[1], low, zero) + tf.where(x == ranked[-2], high, zero)
    return tf.where(below | above, zero, dy) + ends


def by_py_function(x, dy, g):
    found = tf.py_function(lambda a, b: tf.cos(a) * b, [x, dy], x.dtype)
    return tf.ensure_shape(found, x.shape)


def whole_numbers(x):
    if bool(tf.reduce_any(x != tf.round(x))):
        raise ValueError("whole numbers, please")
    return 2.0 * x


def singular_values(a):
    return tf.linalg.svd(a, compute_uv=False)


def clip(x):
    return tf.clip_by_value(x, -1.0, 1.0)


def norm_or_zero(x):
    return x / tf.maximum(tf.abs(x), 1e-12)


# ✓ would be a lie: function, argument, options.
WRONG = {
    "0/0 under where, as given": (sinc, numbers(0, 1, 2), {}),
    "0/0 under where, in float32": (sinc, tf.constant([0.0, 1.0, 2.0]), {}),
    "0/0 under where, made up": (sinc, numbers(0.5, 1, 2), {}),
    "log 0 under where": (cross_entropy, numbers(1, 0, 0.3, 0.6), {}),
    "the norm of zeros": (tf.norm, numbers(0, 0, 0), {}),
    "NaN at zero": (ruled(lambda x: x * x, lambda x, dy: dy * 2 * x * x / x), X, {}),
    "NaN at a kink, as given": (ruled(tf.abs, lambda x, dy: dy * x / tf.abs(x)), numbers(0, 1), {}),
    "NaN at a kink, made up": (ruled(tf.abs, lambda x, dy: dy * x / tf.abs(x)), X, {}),
    "x/x of a product": (
        ruled(tf.reduce_prod, lambda x, dy: dy * tf.reduce_prod(x) / x),
        POSITIVE,
        {},
    ),
    "added beyond three": (
        of_sine(lambda x, dy, g: g + tf.where(x > 3, numbers(0.5), numbers(0.0))),
        X,
        {},
    ),
    "added beyond three, first order": (
        of_sine(lambda x, dy, g: g + tf.where(x > 3, numbers(0.5), numbers(0.0))),
        X,
        {"order": 1},
    ),
    "a scatter that overwrites": (
        ruled(
            lambda x: tf.gather(x, tf.reshape(TWICE, [-1])),
            lambda x, dy: tf.tensor_scatter_nd_update(tf.zeros_like(x), TWICE, dy),
        ),
        X,
        {},
    ),
    "doubled at the edge of the domain": (
        ruled(tf.acos, lambda x, dy: -2 * dy / tf.sqrt(1 - x * x)),
        numbers(1, 1, -1),
        {},
    ),
    "upstream clipped at 1.6": (
        of_sine(lambda x, dy, g: clip(dy / 1.6) * 1.6 * tf.cos(x)),
        X,
        {},
    ),
    "upstream clipped at 1,000": (
        of_sine(lambda x, dy, g: clip(dy / 1e3) * 1e3 * tf.cos(x)),
        X,
        {},
    ),
    "upstream with a dead zone": (
        of_sine(lambda x, dy, g: tf.where(tf.abs(dy) > 1e-3, g, tf.zeros_like(g))),
        X,
        {},
    ),
    "straight through against a clip": (
        ruled(tf.round, lambda x, dy: dy),
        numbers(0.1, -0.2, 0.3),
        {"against": clip},
    ),
    "second order beyond three": (
        of_sine(lambda x, dy, g: tf.where(x > 3, tf.stop_gradient(g), g)),
        X,
        {},
    ),
    "second derivative not a number": (
        lambda x: tf.where(x > 0, tf.sqrt(x), tf.zeros_like(x)),
        numbers(1, -2, 3),
        {"order": 2},
    ),
    "raises beyond three": (of_sine(raises_beyond_three), X, {}),
    "one steep entry": (ruled(tf.math.log, lambda x, dy: 2 * dy / x), STEEP, {"quick": True}),
    "wrong at zero": (
        ruled(lambda x: x * x + x, lambda x, dy: dy * tf.where(x == 0, 0.0, 2 * x + 1)),
        X,
        {},
    ),
    "every tied maximum": (
        ruled(tf.reduce_max, lambda x, dy: dy * tf.cast(x == tf.reduce_max(x), x.dtype)),
        X,
        {},
    ),
    "a forgotten mask, at positive arguments": (
        ruled(tf.nn.relu, lambda x, dy: dy),
        POSITIVE,
        {},
    ),
    "a pool that credits every tie": (
        lambda x: tf.nn.max_pool3d(x, 2, 2, "VALID"),
        tf.ones([1, 2, 2, 2, 1]),
        {},
    ),
    "every value at the edge": (ruled(edges_cut, by_value), NINE, {}),
    "below zero, where the iteration settles": (
        ruled(settled, lambda x, dy: slope_when_settled(x, dy) * tf.where(x < 0, numbers(2), 1)),
        SMALL,
        {},
    ),
    "another slope than that of the stairs": (
        ruled(rounded_inside, lambda x, dy: 4 * dy),
        SINGLE,
        {},
    ),
    "straight through stairs that are meant": (
        ruled(lambda x: tf.round(16 * tf.cast(x, tf.float32)) / 16 + 2 * x, lambda x, dy: 3 * dy),
        SINGLE,
        {},
    ),
}


def share_below(d):
    return 0.5 * (1 + tf.math.erf(d / 2**0.5))


def option(x):
    """The price of a call, of which nothing is left but rounding far from where rates are small."""
    spot, strike, spread, time, rate = tf.unstack(x)
    spread = spread * tf.sqrt(time)
    far = tf.math.log(spot / strike) / spread + rate * time / spread + spread / 2
    return spot * share_below(far) - strike * tf.exp(-rate * time) * share_below(far - spread)


def greeks(x, dy):
    spot, strike, wide, time, rate = tf.unstack(x)
    spread = wide * tf.sqrt(time)
    far = tf.math.log(spot / strike) / spread + rate * time / spread + spread / 2
    paid = tf.exp(-rate * time) * share_below(far - spread)
    bell = spot * tf.exp(-far * far / 2) / (2 * np.pi) ** 0.5
    to_time = bell * wide / 2 / tf.sqrt(time) + rate * strike * paid
    return dy * tf.stack(
        [share_below(far), -paid, bell * tf.sqrt(time), to_time, strike * time * paid]
    )


RIGHT = {
    "a price whose terms cancel": (
        ruled(option, greeks),
        tf.constant([0.66, 0.73, 0.3, 0.56, -0.51], tf.float64),
        {},
    ),
    "a rule by py_function": (of_sine(by_py_function), X, {}),
    "a scatter that adds": (
        ruled(
            lambda x: tf.gather(x, tf.reshape(TWICE, [-1])),
            lambda x, dy: tf.tensor_scatter_nd_add(tf.zeros_like(x), TWICE, dy),
        ),
        X,
        {},
    ),
    "clipped as meant": (
        ruled(tf.round, lambda x, dy: tf.where(tf.abs(x) <= 1, dy, 0.0)),
        numbers(0.1, -0.2, 0.3),
        {"against": clip},
    ),
    "first order only": (
        of_sine(lambda x, dy, g: tf.where(x > 3, tf.stop_gradient(g), g)),
        X,
        {"order": 1},
    ),
    "the norm of other numbers": (tf.norm, X, {}),
    "an infinite slope at zero": (lambda x: tf.sqrt(tf.abs(x)), X, {}),
    "a jump": (lambda z: tf.atan2(z[0], z[1]), tf.reshape(X, [2, 3]), {}),
    "a length that may vanish": (tf.math.l2_normalize, X, {}),
    "steep inside": (norm_or_zero, X, {"order": 1}),
    "log beside a clip": (
        lambda p: tf.math.log(tf.clip_by_value(p, 1e-7, 1.0)),
        numbers(0.3, 0.5, 1e-3),
        {},
    ),
    "zero as given": (lambda x: tf.reduce_sum(x * x), numbers(0, 0, 0), {}),
    "one entry": (tf.exp, numbers(0.5), {}),
    "the limit of an iteration": (ruled(settled, slope_when_settled), SMALL, {}),
    "a sum that rounds coarsely": (rounded_inside, SINGLE, {}),
    "cut by rank among equal values": (ruled(edges_cut, by_rank), NINE, {"seed": 1}),
}

UNDECIDED = {
    "an infinite slope": (tf.sqrt, numbers(0, 1, 2), "nor is a slope to be found"),
    "a cusp": (lambda x: tf.sqrt(tf.abs(x)), numbers(0, 1, 2), "nor is a slope to be found"),
    "whole numbers only": (whole_numbers, numbers(1, 2, 3), "differences resolve no derivative"),
    "whole numbers, else NaN": (
        lambda x: tf.where(x == tf.round(x), x * x, np.nan),
        numbers(1, 2, 3),
        "differences resolve no derivative",
    ),
    "the order of a polygamma": (
        lambda n: tf.math.polygamma(n, 2.5 * tf.ones_like(n)),
        numbers(1, 2, 3),
        "differences resolve no derivative",
    ),
}


def guarded(guard, wrong=lambda x, dy: 0 * dy):
    """A rule of x² that is wrong where a guard holds."""
    return ruled(tf.square, lambda x, dy: tf.where(guard(x), wrong(x, dy), 2 * x * dy))


GUARDS = {
    "next to one": lambda x: tf.abs(x - 1) < 1e-6,
    "at whole numbers": lambda x: tf.math.floormod(x, 1) == 0,
    "at small lengths": lambda x: tf.norm(x) < 1e-3,
    "beyond a product": lambda x: x * x[::-1] > 3,
    "at a sum of zero": lambda x: tf.reduce_sum(x) == 0,
    "where one is twice another": lambda x: x[0] == 2 * x[1],
    "in a narrow gap": lambda x: (x > 1.5) & (x < 1.5001),
}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", GUARDS)
def test_guards_on_what_is_computed_are_gone_to(name, seed):
    report = pb.check(guarded(GUARDS[name]), SMALL, seed=seed, explain=False, modes="none")
    assert report.verdict == "wrong", str(report)


@pytest.mark.parametrize("name", GUARDS)
def test_a_guard_alone_is_nothing_wrong(name):
    right = guarded(GUARDS[name], wrong=lambda x, dy: (x + x) * dy)
    report = pb.check(right, SMALL, modes="none")
    assert report.verdict == "right", str(report)


def with_branch_at(value, slope):
    """A rule of x² + x whose value is right everywhere, and whose derivative is not at one place."""
    return ruled(
        lambda x: x * x + x,
        lambda x, dy: dy * tf.where(x == value, tf.constant(slope, x.dtype), 2 * x + 1),
    )


@pytest.mark.parametrize(("value", "slope"), [(0.0, 1.0), (1.0, 3.0)])
def test_second_derivatives_are_judged_where_the_arguments_are(value, slope):
    fn = with_branch_at(value, slope)
    given = pb.check(fn, numbers(value, 0.4), explain=False)
    assert [finding.kind for finding in given.findings] == ["second"]
    assert pb.check(fn, numbers(value, 0.4), order=1)


def test_second_derivatives_at_made_up_zeros_are_a_finding_if_they_are_asked_for():
    fn = with_branch_at(0.0, 1.0)
    noted = pb.check(fn, numbers(0.3, 0.4))
    assert noted
    assert any("order=2 makes this a finding" in note for note in noted.coverage.notes)
    assert pb.check(fn, numbers(0.3, 0.4), order=2, explain=False).verdict == "wrong"


@pytest.mark.parametrize("seed", range(3, 7))
def test_inputs_of_quite_other_sizes_keep_their_scale(seed):
    def radiance(frequency, temperature):
        ratio = 6.6e-34 * frequency / (1.38e-23 * temperature)
        return 1e-45 * frequency**3 / (tf.exp(ratio) - 1)

    report = pb.check(radiance, numbers(1e14, 3e14), numbers(5000.0)[0], seed=seed, modes="none")
    assert report.verdict == "right", str(report)


MASK = tf.constant([0.0, -np.inf, 0.0, -np.inf], tf.float64)


def test_infinite_entries_stay_as_they_are():
    seen = []

    def attention(x, mask):
        seen.append(mask.numpy())
        return tf.nn.softmax(x + mask)

    report = pb.check(attention, SMALL, MASK, modes="none", order=1)
    assert report, str(report)
    (note,) = [note for note in report.coverage.notes if note.startswith("mask: 2 of 4")]
    assert "their gradient is zero" in note
    assert all(np.array_equal(np.isneginf(mask), np.isneginf(MASK)) for mask in seen)


def test_entries_beside_infinite_ones_are_tested():
    @tf.custom_gradient
    def softmax(x):
        p = tf.nn.softmax(x)
        return p, lambda dy: 1.1 * p * (dy - tf.reduce_sum(p * dy))

    report = pb.check(softmax, SMALL + MASK)
    assert "1.1" in report.diagnosis


def test_what_flows_to_infinite_entries_is_told():
    fn = ruled(tf.tanh, lambda x, dy: dy * tf.where(x < 9, 1 - tf.tanh(x) ** 2, 3.0))
    report = pb.check(fn, numbers(0.3, np.inf), quick=True)
    assert any("which is not zero, is not tested" in note for note in report.coverage.notes)


@pytest.mark.parametrize("bounds", [(0.7, 2.0), (0.1, 0.3), (0.2, 0.7)])
def test_a_bound_is_a_number_of_the_arguments_format(bounds):
    x = tf.constant(bounds)
    assert pb.check(tf.math.log, x, domain=bounds), str(pb.check(tf.math.log, x, domain=bounds))
    wrong = ruled(tf.math.log, lambda x, dy: tf.where(x < bounds[0] * 1.01, 0.0, dy / x))
    assert pb.check(wrong, x, domain=bounds, explain=False).verdict == "wrong"


@pytest.mark.parametrize("name", WRONG)
def test_what_would_be_a_lie_is_not_said(name):
    fn, x, options = WRONG[name]
    report = pb.check(fn, x, explain=False, **options)
    assert report.verdict == "wrong", str(report)
    assert not report


@pytest.mark.parametrize("name", RIGHT)
def test_right_gradients_pass(name):
    fn, x, options = RIGHT[name]
    report = pb.check(fn, x, **options)
    assert report.verdict == "right", str(report)


@pytest.mark.parametrize("name", UNDECIDED)
def test_what_was_not_decided_is_neither_and_says_why(name):
    fn, x, reason = UNDECIDED[name]
    report = pb.check(fn, x)
    assert report.verdict == "undecided", str(report)
    assert any(reason in text for text in report.coverage.reasons)
    assert not report


@pytest.mark.parametrize("seed", range(1, 5))
def test_the_verdict_does_not_depend_on_the_seed(seed):
    def verdicts(table, names):
        picked = [table[name] for name in names]
        return {pb.check(fn, x, seed=seed, explain=False).verdict for fn, x, _ in picked}

    wrong = [
        "0/0 under where, made up",
        "added beyond three",
        "wrong at zero",
        "raises beyond three",
    ]
    right = [
        "the norm of other numbers",
        "an infinite slope at zero",
        "log beside a clip",
        "a jump",
    ]
    assert verdicts(WRONG, wrong) == {"wrong"}
    assert verdicts(RIGHT, right) == {"right"}
    assert verdicts(UNDECIDED, ["an infinite slope", "whole numbers only"]) == {"undecided"}


@pytest.mark.parametrize("after", [3, 10, 30, 60])
def test_a_function_that_begins_to_raise_has_no_verdict(after):
    calls = []

    def tired(x):
        calls.append(1)
        if len(calls) > after:
            raise RuntimeError("no more")
        return tf.sin(x)

    try:
        said = " ".join(pb.check(tired, X, explain=False).coverage.reasons)
    except CheckError as error:
        said = str(error)
    assert "no more" in said


def test_inputs_in_order_stay_in_order():
    low, high = numbers(0.2, 0.2, 0.2, 0.3), numbers(0.7, 0.7, 0.8, 0.9)
    report = pb.check(tf.clip_by_value, numbers(0.1, 0.9, 0.5, 0.2), low, high)
    assert report.verdict == "right", str(report)


def test_what_runs_in_the_format_of_the_arguments_is_judged():
    @pb.custom_gradient
    def softplus(x):
        e = tf.exp(x)
        return tf.nn.softplus(x), lambda dy: dy * e / (1 + e)

    report = pb.check(softplus, tf.constant([12.0, 1.0], tf.float16))
    assert report.verdict == "wrong"
    assert "as it runs in float16" in report.diagnosis


def test_outputs_that_nobody_uses_have_an_upstream_of_zero():
    @pb.custom_gradient
    def both(x):
        def back(d, e):
            used = tf.reduce_sum(tf.abs(e)) > 0
            return tf.where(used, d * tf.cos(x) - e * tf.sin(x), 0.0)

        return (tf.sin(x), tf.cos(x)), back

    @pb.custom_gradient
    def divided(x):
        return tf.sin(x), lambda dy: dy * dy / dy * tf.cos(x)

    x = tf.constant([1.0, 2.0])
    assert "not used changes it" in pb.check(both, x).diagnosis
    assert "upstream of zero" in pb.check(divided, x).diagnosis


@tf.custom_gradient
def logdet_of_lower(a):
    """Reads the lower triangle, as does its right rule; the gradient of Cholesky holds for symmetric moves only."""
    factor = tf.linalg.cholesky(a)

    def logdet_pullback(dy):
        lower = tf.linalg.band_part(
            tf.linalg.cholesky_solve(factor, tf.eye(3, dtype=a.dtype)), -1, 0
        )
        return dy * (2 * lower - tf.linalg.diag(tf.linalg.diag_part(lower)))

    return 2 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor))), logdet_pullback


@tf.custom_gradient
def half_of_squares(x):
    return tf.reduce_sum(x * x) / 2, lambda dy: dy * x


def beside_crossentropy(x):
    return half_of_squares(x) + tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(x[::-1]), x)


DEFINITE = tf.constant([[4.0, 1, 0], [1, 3, 1], [0, 1, 5]], tf.float64)


@pytest.mark.parametrize(
    "fn, x, op",
    [
        (logdet_of_lower, DEFINITE, "Cholesky"),
        (beside_crossentropy, numbers(0.3, -1, 2), "SoftmaxCrossEntropyWithLogits"),
    ],
)
def test_an_op_that_spoils_the_second_derivative_of_a_right_rule_is_named(fn, x, op):
    report = pb.check(fn, x)
    assert report.findings[0].kind == "second"
    assert f"the engine's own gradient of {op} is wrong there" in report.findings[0].diagnosis
    assert pb.check(fn, x, order=1)


def test_nobody_is_blamed_for_what_a_rule_detaches():
    @tf.custom_gradient
    def detached(x):
        y = tf.stop_gradient(tf.exp(x) * x * x)
        return y, lambda dy: dy * tf.stop_gradient(tf.exp(x) * (x * x + 2 * x))

    finding = pb.check(detached, numbers(0.3, -1, 2)).findings[0]
    assert "detached" in finding.diagnosis
    assert "engine" not in finding.diagnosis
