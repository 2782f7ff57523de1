"""Several definitions under one name, helpers that decorate, and custom gradients without a name of their own."""

import json
import textwrap

import pytest
from typer.testing import CliRunner

from pullback.cli import app
from pullback.cli.checking.bindings import bindings_in

RIGHT = "return tf.sin(x), lambda dy: dy * tf.cos(x)"
WRONG = "return tf.sin(x), lambda dy: 2 * dy * tf.cos(x)"
FILE = f"""
import functools
import tensorflow as tf

if len("ab") == 2:
    @tf.custom_gradient
    def branch(x):
        {RIGHT}
else:
    @tf.custom_gradient
    def branch(x):
        {WRONG}

try:
    import not_there_at_all
    @tf.custom_gradient
    def fallback(x):
        {WRONG}
except ImportError:
    @tf.custom_gradient
    def fallback(x):
        {RIGHT}

@tf.custom_gradient
def again(x):
    {WRONG}

@tf.custom_gradient
def again(x):
    {RIGHT}

class Holder:
    @staticmethod
    @tf.custom_gradient
    def static(x):
        {RIGHT}
    @staticmethod
    @tf.custom_gradient
    def static(x):
        {WRONG}

@tf.custom_gradient
def overwritten(x):
    {RIGHT}

def overwritten(x):
    return tf.sin(x)

if len("ab") == 1:
    @tf.custom_gradient
    def missing(x):
        {RIGHT}

def outer():
    @tf.custom_gradient
    def inner(x):
        {RIGHT}
    return inner

def outer():
    @tf.custom_gradient
    def inner(x):
        {WRONG}
    return inner

class Private:
    def __hidden(self, x):
        @tf.custom_gradient
        def inner(x):
            {WRONG}
        return inner(x)
    def call(self, x):
        return self.__hidden(x)

@tf.custom_gradient
def deleted(x):
    {RIGHT}
del deleted

REGISTRY = {{}}

def register(name):
    def wrap(f):
        REGISTRY[name] = tf.custom_gradient(f)
        return f
    return wrap

@register("one")
def registered(x):
    {WRONG}

def logged(f):
    def run(*args):
        return f(*args)
    return run

if len("ab") == 2:
    @logged
    @tf.custom_gradient
    def under(x):
        {WRONG}
else:
    under = tf.sin

class Held:
    def __init__(self):
        self.op = tf.custom_gradient(self.body)
    def body(self, x):
        {WRONG}
    def call(self, x):
        return self.op(x)

@tf.custom_gradient
def wrapped(x):
    {WRONG}
wrapped = tf.function(wrapped)

def helper(f):
    return tf.custom_gradient(f)

def hidden(factor):
    def wrap(f):
        @functools.wraps(f)
        def run(x):
            return tf.custom_gradient(f)(x)
        return run
    return wrap

@helper
def helped(x):
    {RIGHT}

@hidden(2)
def deeper(x):
    {WRONG}

def sine(x): return tf.sin(x), lambda dy: dy * tf.cos(x)
def cosine(x): return tf.cos(x), lambda dy: dy * tf.sin(x)
TABLE = {{"sin": tf.custom_gradient(sine), "cos": tf.custom_gradient(cosine)}}
cg = tf.custom_gradient
CUBES = {{"a": cg(lambda x: (x**3, lambda dy: 3 * dy * x**2)), 7: cg(lambda x: (x**3, lambda dy: dy * x))}}
NESTED = {{"a": {{"b": [cg(lambda x: (x, lambda dy: dy)), cg(lambda x: (x**3, lambda dy: dy * x))]}}}}
POWERS = [tf.custom_gradient(lambda x, k=k: (x**k, lambda dy: dy * 3 * x**2)) for k in (2, 3)]
NAMED = {{"again": again}}

def pair(x):
    {WRONG}

LATER = []
LATER.append(tf.custom_gradient(pair))

def make_power(order):
    @tf.custom_gradient
    def power(x):
        return x ** float(order.removesuffix("!")), lambda dy: dy * 3 * x**2
    return power

class Switch:
    def method(self, x, word):
        @tf.custom_gradient
        def inner(x):
            {RIGHT}
        return inner(x) if word == "go" * 2 else x

pullback_inputs = {{"make_power": ("3!",), "Switch.method": (tf.constant([0.3, 1.2]), "gogo")}}
"""
NEVER = "never defined in this run"
EXPECTED = {
    "branch": "right", "branch@11": NEVER, "fallback@17": NEVER, "fallback": "right",
    "again@25": "replaced by line 29", "again": "right",
    "Holder.static@35": "replaced by line 39", "Holder.static": "wrong",
    "overwritten": "replaced by line 46", "missing": NEVER, "wrapped": "wrong", "registered": "wrong",
    "outer.inner@56": "replaced by line 60", "outer.inner": "wrong", "Private.__hidden.inner": "wrong",
    "deleted": "never defined in this run, or deleted",
    "under": "wrong", "Held.__init__.op": "wrong",
    "helped": "right", "deeper": "wrong",
    "make_power.power": "right", "Switch.method.inner": "right",
    "TABLE['sin']": "right", "TABLE['cos']": "wrong", "POWERS[0]": "wrong", "POWERS[1]": "right",
    "LATER[0]": "wrong", "CUBES['a']": "right", "CUBES[7]": "wrong",
    "NESTED['a']['b'][0]": "right", "NESTED['a']['b'][1]": "wrong",
}  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("definitions")
    path, out = folder / "definitions.py", folder / "out.json"
    path.write_text(textwrap.dedent(FILE), encoding="utf-8")
    words = ["check", str(path), "--no-isolate", "--quick", "--json", str(out)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1, done.output
    return {one["name"]: one for one in json.loads(out.read_text(encoding="utf-8"))["results"]}


@pytest.mark.parametrize("name", EXPECTED)
def test_what_exists_is_judged_and_what_does_not_is_said_to_be_gone(results, name):
    wanted, found = EXPECTED[name], results[name]
    if wanted in ("right", "wrong"):
        assert found["status"] == wanted, found
    else:
        assert found["text"].startswith(wanted), found
        assert found["status"] not in ("right", "wrong")


def test_each_has_one_line(results):
    assert set(results) == set(EXPECTED)


@pytest.mark.parametrize(
    "name, status", [("table['b']", 1), ("table['a']", 0), ("make.f@11", 1), ("make.f", 0)]
)
def test_a_name_is_a_target_as_it_is_written(tmp_path, name, status):
    text = f"""
    import tensorflow as tf
    cg = tf.custom_gradient
    table = {{"a": cg(lambda x: (x**3, lambda dy: 3 * dy * x**2)), "b": cg(lambda x: (x**3, lambda dy: dy * x))}}
    def make(kind="one"):
        if kind == "one":
            @tf.custom_gradient
            def f(x):
                {RIGHT}
        else:
            @tf.custom_gradient
            def f(x):
                {WRONG}
        return f
    """
    (tmp_path / "names.py").write_text(textwrap.dedent(text).lstrip(), encoding="utf-8")
    done = CliRunner().invoke(
        app, ["check", f"{tmp_path}/names.py:{name}", "--no-isolate", "--quick"]
    )
    assert done.exit_code == status, done.output
    assert f" {name}  " in done.output
    assert "1 custom gradient: " in done.output


def test_inputs_for_a_factory_are_no_function_to_check(tmp_path):
    text = """
    import tensorflow as tf
    def make(order):
        @tf.custom_gradient
        def power(x):
            return x**order, lambda dy: dy * order * x ** (order - 1)
        return power
    pullback_inputs = {"make": (3,)}
    """
    (tmp_path / "factory.py").write_text(textwrap.dedent(text), encoding="utf-8")
    done = CliRunner().invoke(app, ["check", str(tmp_path), "--no-isolate", "--quick"])
    assert done.exit_code == 0, done.output
    assert "1 custom gradient: ✓ 1 right" in done.output


def test_what_a_name_is_made_of_is_no_other_meaning_of_it():
    several = bindings_in("def f(): ...\nf = jit(f)\nfor i in x:\n    g = 1\nelse:\n    g = 2")
    assert [[one.lines.start for one in several["f",]], len(several["g",])] == [[1], 2]
    first, second = several["g",]
    assert not first.is_apart_from(second)
