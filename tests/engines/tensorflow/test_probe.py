"""The check on TensorFlow: what it runs, at which precision, and what it leaves as it was."""

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.check import check
from pullback.errors import CheckError, CheckFailed

X = tf.constant(np.random.default_rng(0).normal(size=12), tf.float32)
M = tf.constant(np.random.default_rng(1).normal(size=(4, 5)), tf.float32)


def kinds(report):
    return [finding.kind for finding in report.findings]


@tf.custom_gradient
def wrong_sine(x):
    return tf.sin(x), lambda dy: 2 * dy * tf.cos(x)


RIGHT = {
    "plain": (tf.sin, X),
    "op type": ("Softplus", X),
    "traced": (tf.function(lambda x: tf.sin(x) * x), X),
    "compiled": (tf.function(lambda x: tf.exp(-x * x), jit_compile=True), X),
    "loop": (lambda x: tf.scan(lambda a, b: a / 2 + tf.sin(b), x), X[:4]),
    "layer": (tf.keras.layers.Dense(3, activation="tanh"), M),
    "loss object": (tf.keras.losses.MeanSquaredError(), X, X + 1),
    "integers held": (lambda x, i: tf.gather(x, i), X, tf.constant([0, 3, 3])),
    "nested": (lambda p, k: p["w"] * tf.exp(p["b"][0]) * k, {"w": X, "b": [X[0]]}, 2.0),
    "several outputs": (lambda x: {"s": tf.sin(x), "n": tf.size(x), "c": (tf.cos(x), x * x)}, X),
    "complex": (lambda z: tf.signal.fft(z * z), tf.complex(X, X[::-1])),
    "complex to real": (tf.abs, tf.complex(X, X[::-1])),
    "float32 inside": (lambda x: tf.sin(tf.cast(x, tf.float32)) * tf.constant(2.0), X),
    "float32 kernel": (
        tf.nn.local_response_normalization,
        tf.reshape(X, (1, 1, 3, 4)),
    ),
    "domain found": (tf.math.log, tf.abs(X) + 0.1),
    "symmetric": (tf.linalg.cholesky, tf.matmul(M, M, transpose_b=True) + 5 * tf.eye(4)),
    "variable as argument": (lambda v: v * v, tf.Variable([1.0, 2.0])),
    "ragged": (lambda r: tf.reduce_sum(r * r, axis=1), tf.ragged.constant([[1.0, 2.0], [3.0]])),
    "custom": (pb.custom_gradient(lambda x: (x * x, lambda dy: 2 * dy * x)), X),
    "with_gradient": (pb.with_gradient(tf.sin, lambda dy, *, inputs: dy * tf.cos(inputs[0])), X),
    "with_partials": (
        pb.with_partials(lambda p, t: (p - t) ** 2, p=lambda p, t: 2 * (p - t)),
        X,
        X + 1,
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_gradients_pass(name):
    report = check(*RIGHT[name])
    assert report.ok, str(report)


@pytest.mark.parametrize(("factor", "verdict"), [(3.0, "right"), (-3.0, "wrong"), (6.0, "wrong")])
def test_two_digits_tell_a_sign(factor, verdict):
    """Differences in bfloat16 are off by a tenth, which is enough for gross mistakes."""

    @pb.custom_gradient
    def thrice(x):
        return tf.cast(x, tf.bfloat16) * 3, lambda dy: tf.cast(factor * dy, x.dtype)

    report = check(thrice, tf.cast(X, tf.bfloat16))
    assert report.verdict == verdict
    assert any(note.startswith("runs in bfloat16 only") for note in report.coverage.notes)


def test_a_wrong_rule_is_named_with_its_line():
    report = check(wrong_sine, X)
    assert report.diagnosis.startswith("the gradient for `x` is 2× too large: a factor 2 too many")
    assert report.findings[0].source.startswith("test_probe.py:")
    with pytest.raises(CheckFailed, match="2× too large"):
        report.raise_if_failed()


def test_wrong_rules_of_float32_only_functions_are_found():
    @tf.custom_gradient
    def single(x):
        x = tf.cast(x, tf.float32)
        return tf.sin(x), lambda dy: tf.cast(-dy * tf.cos(x), tf.float32)

    assert kinds(check(single, X)) == ["sign"]


def test_arguments_are_left_alone():
    array = np.array([0.3, 0.7], np.float32)
    variable = tf.Variable([1.0, 2.0])
    check(lambda a, v: a * v, array, variable)
    np.testing.assert_array_equal(array, np.array([0.3, 0.7], np.float32))
    np.testing.assert_array_equal(variable.numpy(), [1.0, 2.0])


def test_captured_variables_are_checked_and_put_back():
    scale = tf.Variable([2.0, 3.0], name="scale")

    @tf.custom_gradient
    def scaled(x):
        def rule(dy, variables=None):
            return dy * scale, [2 * dy * x for _ in variables]

        return x * scale, rule

    report = check(scaled, tf.constant([0.5, 0.7]))
    assert report.findings[0].path.startswith('variables["scale"]')
    np.testing.assert_array_equal(scale.numpy(), [2.0, 3.0])


def test_written_state_is_restored():
    count = tf.Variable(0.0, trainable=False)

    def counting(x):
        count.assign_add(1.0)
        return x * x

    assert check(counting, X).ok
    assert float(count) == 0.0


def test_batch_statistics_are_restored():
    layer = tf.keras.layers.BatchNormalization()
    layer.build(M.shape)
    before = [np.array(w) for w in layer.get_weights()]
    check(layer, M, kwargs={"training": True}, order=1).raise_if_failed()
    for old, new in zip(before, layer.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_random_functions_are_held_fixed():
    report = check(tf.keras.layers.Dropout(0.5), M, kwargs={"training": True})
    assert report.ok, str(report)
    report = check(lambda x: x * tf.random.uniform(x.shape, dtype=x.dtype), X)
    assert report.ok, str(report)
    assert any("held fixed" in note for note in report.coverage.notes)


def test_what_stays_random_is_refused_with_the_remedy():
    rng = np.random.default_rng()
    with pytest.raises(CheckError, match="Make its randomness an argument"):
        check(lambda x: x * rng.normal(), X)


def rounded(x):
    return tf.round(x) + 0 * x


def test_against_takes_the_function_the_rule_is_meant_for():
    @tf.custom_gradient
    def straight_through(x):
        return tf.round(x), lambda dy: dy

    assert check(straight_through, X, against=tf.identity).ok
    assert not check(straight_through, X).ok


def test_against_must_fit():
    with pytest.raises(CheckError, match="differ in their outputs"):
        check(tf.sin, X, against=tf.reduce_sum)


def test_wrt_limits_the_check():
    @tf.custom_gradient
    def product(x, y):
        return x * y, lambda dz: (dz * y, None)

    assert kinds(check(product, X, X + 1)) == ["none"]
    assert check(product, X, X + 1, wrt="x").ok
    with pytest.raises(CheckError, match="names no input"):
        check(product, X, X + 1, wrt="q")


@pytest.mark.parametrize("domain", ["positive", (0.0, None), {"x": "positive"}])
def test_domain_keeps_to_where_a_rule_is_meant(domain):
    @tf.custom_gradient
    def length(x):
        return tf.abs(x), lambda dy: dy

    assert check(length, tf.abs(X) + 0.1, domain=domain).ok
    assert not check(length, tf.abs(X) + 0.1).ok


def test_modes_are_compared():
    @tf.custom_gradient
    def differs(x):
        factor = 1.0 if tf.executing_eagerly() else 2.0
        return tf.sin(x), lambda dy: factor * dy * tf.cos(x)

    report = check(differs, X)
    assert kinds(report) == ["mode"]
    assert "tf.function" in report.diagnosis
    assert "same in:" not in str(report)


def test_all_modes_run_on_a_plain_function():
    report = check(tf.sin, X, modes="all")
    assert set(report.coverage.modes) == {
        "tf.function, tape outside",
        "tf.function, tape inside",
        "XLA",
        "vectorized_map",
        "forward mode",
    }


def test_thresholds_are_mined_from_the_rule():
    @tf.custom_gradient
    def clipped(x):
        return tf.sin(x), lambda dy: tf.where(tf.abs(x) > 7.5, 0.0 * dy, dy * tf.cos(x))

    report = check(clipped, X)
    assert "is zero where |x| > 7.5, and is right elsewhere" in report.diagnosis
    assert 7.5 in report.coverage.constants


NOTHING_TO_CHECK = {
    "raises": (lambda x: tf.reshape(x, (5, 7)), (X,), "raised InvalidArgumentError when called"),
    "no float": (lambda x: tf.cast(x, tf.int32), (X,), "returns no floating-point tensor"),
    "nothing differentiable": (tf.abs, (tf.constant([1, 2]),), "takes nothing differentiable"),
    "NaN everywhere": (tf.math.log, (-tf.abs(X) - 0.1,), "no finite value at the given arguments"),
    "not a function": (tf.constant(1.0), (X,), "the first argument of check is the function"),
    "unknown op": ("Sofplus", (X,), "has no op"),
}


@pytest.mark.parametrize("name", NOTHING_TO_CHECK)
def test_what_cannot_be_checked_says_why(name):
    fn, args, text = NOTHING_TO_CHECK[name]
    with pytest.raises(CheckError, match=text):
        check(fn, *args)


def test_a_function_without_any_gradient_gets_a_verdict():
    report = check(lambda x: tf.stop_gradient(tf.sin(x)), X)
    assert kinds(report) == ["none"]


@pytest.mark.parametrize(
    "option, text", [({"order": 3}, "order is 1 or 2"), ({"modes": "warp"}, "no mode 'warp'")]
)
def test_bad_options_are_named(option, text):
    with pytest.raises(CheckError, match=text):
        check(tf.sin, X, **option)


FAULTS = {
    "shape": (lambda b: (X + b, lambda dz: dz), (tf.constant(0.5),), "shape"),
    "raises": (lambda x: (tf.sin(x), lambda dy: tf.reshape(dy, (5, 7))), (X,), "raises"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_rules_that_break_their_contract(name):
    fn, args, kind = FAULTS[name]
    assert kinds(check(tf.custom_gradient(fn), *args)) == [kind]


def test_a_function_that_raises_elsewhere_is_checked_where_it_does_not():
    def strict(x):
        if float(tf.reduce_min(x)) <= 0:
            raise ValueError("x must be positive")
        return tf.sqrt(x)

    report = pb.check(strict, tf.constant([0.5, 2.0]))
    assert report.ok
    assert "values part of the way to negative values" in report.coverage.points
    assert "negative values" not in report.coverage.points


def test_the_values_of_a_ragged_output_are_named_as_such():
    ragged = tf.ragged.constant([[1.0, 2.0], [3.0]])
    report = pb.check(lambda x: tf.ragged.map_flat_values(tf.sin, x), ragged)
    assert [line.leaf.path for line in report.outputs] == ["out.flat_values"]
