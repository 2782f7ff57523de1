"""Custom gradients are found in the source, at whatever depth and under whatever name."""

import pytest

from pullback.cli.checking.sites import REGISTER, sites_in

DECORATED = "@tf.custom_gradient\ndef f(x): ..."
NESTED = """
def make(k):
    @tf.custom_gradient
    def inner(x): ...
    @tf.custom_gradient
    def other(x): ...
    return inner
class Layer:
    def call(self, x):
        if x:
            with y:
                @tf.custom_gradient
                def op(x): ...
        return op(x)
    @staticmethod
    @tf.custom_gradient
    def static(x): ...
"""
CASES = [
    (DECORATED, ["f"]),
    (NESTED, ["make.inner", "make.other", "Layer.call.op", "Layer.static"]),
    ("from tensorflow import custom_gradient as cg\n@cg\ndef f(x): ...", ["f"]),
    ("cg = tf.custom_gradient\n@cg\ndef f(x): ...", ["f"]),
    ("from tensorflow.python.ops import custom_gradient as m\n@m.custom_gradient\ndef f(x): ...", ["f"]),
    ("@functools.partial(tf.custom_gradient)\ndef f(x): ...", ["f"]),
    ("@keras.ops.custom_gradient\ndef f(x): ...", ["f"]),
    ("relu = tf.custom_gradient(lambda x: (x, None))", ["relu"]),
    ("def f(x): ...\ng = tf.custom_gradient(f)", ["g"]),
    ("def outer(x):\n    def f(x): ...\n    return tf.custom_gradient(f)(x)", ["outer.f"]),
    ("loss = pb.with_partials(mse, p=d)\nruled = pb.with_gradient(tf.sin, rule)", ["loss", "ruled"]),
    ("@tf.custom_gradient\ndef f(x):\n    @tf.custom_gradient\n    def g(dy): ...", ["f", "f.g"]),
    ("try:\n    pass\nexcept E:\n    @tf.custom_gradient\n    def f(x): ...", ["f"]),
    ("@other\ndef f(x): ...\ncustom = 1", []),
    ("def deco(f):\n    return tf.custom_gradient(f)\n@deco\ndef g(x): ...", ["g"]),
    ("def deco(f):\n    return tf.custom_gradient(f)", []),
    ("if a:\n    f = tf.custom_gradient(lambda x: 1)\nelse:\n    f = tf.custom_gradient(lambda x: 2)", ["f", "f"]),
    ("table = {1: tf.custom_gradient(lambda x: 1)}", ["table"]),
    ("table['a'] = tf.custom_gradient(f)", ["table"]),
]  # fmt: skip


@pytest.mark.parametrize("text, names", CASES)
def test_what_a_source_defines_is_found(text, names):
    assert [site.name for site in sites_in(text)] == names


def test_a_site_is_known_by_the_lines_at_which_its_function_may_begin():
    (site,) = sites_in("\n@first\n@tf.custom_gradient\ndef f(x): ...")
    assert site.lines == {2, 3, 4}


def test_a_registered_rule_knows_its_name_and_the_op_it_is_used_for():
    text = "@tf.RegisterGradient('Mine')\ndef rule(op, dy): ...\nwith g.gradient_override_map({'Relu': 'Mine'}): ..."
    (site,) = sites_in(text)
    assert (site.kind, site.label, site.op, site.name) == (REGISTER, "Mine", "Relu", "rule")
