"""`pullback check` on a folder in the form of released code: packages, scripts, tests, notebooks, broken files."""

import json

import pytest
from typer.testing import CliRunner

from pullback.cli import app

FILES = {
    "lib/waves/__init__.py": "from .table import SPIKES\n",
    "lib/waves/table.py": """
import tensorflow as tf
def spike(k):
    return lambda v: (tf.cast(v > 0, v.dtype), lambda dy: dy * tf.sigmoid(k * v))
SPIKES = {f"k{k}": tf.custom_gradient(spike(k)) for k in (1, 5)}
""",
    "lib/waves/speed.py": """
import tensorflow as tf
C = tf.constant(3.0, tf.float64)
@tf.custom_gradient
def speed(u):
    return C * tf.tanh(u), lambda dy: dy * C * (1 - tf.tanh(u) ** 2)
@tf.custom_gradient
def power(rho, gamma=1.4):
    p = tf.exp(gamma * rho)
    return p, lambda dp: (dp * gamma * p, tf.reduce_sum(dp * p * rho))
@tf.custom_gradient
def slower(rho, gamma=1.4):
    p = tf.exp(gamma * rho)
    return p, lambda dp: (dp * p, tf.reduce_sum(dp * p * rho))
@tf.custom_gradient
def reverse(x, alpha=1.0):
    return tf.identity(x), lambda dy: (-alpha * dy, None)
""",
    "lib/waves/old.py": """
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
@tf.custom_gradient
def graph(x):
    return tf.sin(x), lambda dy: dy * tf.cos(x)
""",
    "examples/heat.py": """
import tensorflow as tf
from waves.speed import speed
@tf.custom_gradient
def heat(x):
    return tf.sin(x), lambda dy: dy * tf.cos(x)
""",
    "src/nested/__init__.py": "",
    "scripts/run.py": """
import tensorflow as tf
import nested
@tf.custom_gradient
def run(x):
    return tf.sin(x), lambda dy: dy * tf.cos(x)
""",
    "notes.ipynb": "{}",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("released")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def check(*words):
    return CliRunner().invoke(app, ["check", "--quick", "-j", "1", *map(str, words)])


@pytest.fixture(scope="module")
def told(folder):
    data = json.loads(check(folder, "--json", "-").stdout)
    return {one["name"]: (one["status"], one["text"], one["inputs"]) for one in data["results"]}


LEFT_OUT = "`gamma` left out, ValueError: custom_gradient function expected to return 1 gradients"
EXPECTED = {
    "speed": ("right", "calls", "u float64[3, 4] (name)"),
    "power": ("undecided", f"right at these inputs; with {LEFT_OUT}", "gamma float32[] (default)"),
    "slower": ("wrong", "the gradient for `rho`", "gamma float32[] (default)"),
    "reverse": ("undecided", "-1 times `alpha` times the upstream", "alpha float32[] (default)"),
    "SPIKES['k1']": ("undecided", "a surrogate", ""),
    "SPIKES['k5']": ("undecided", "a surrogate", ""),
    "graph": ("undecided", "eager execution is switched off for the whole process", ""),
    "heat": ("undecided", "No module named 'waves'", ""),
    "run": ("undecided", "No module named 'nested'. It is in ", ""),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_each_has_its_line(told, name):
    status, text, inputs = EXPECTED[name]
    assert told[name][0] == status, told[name]
    assert text in told[name][1]
    assert inputs in told[name][2]


def test_nothing_else_has_a_line(told):
    assert {name for name in told if not name.endswith("notes.ipynb")} == set(EXPECTED)


def test_what_cannot_be_loaded_and_is_not_meant_has_no_line(folder):
    told = check(folder / "examples", folder / "lib", "-k", "heat.py:speed or spikes").output
    assert "heat" not in told
    assert "SPIKES['k1']" in told


def test_a_notebook_that_is_none_has_a_line(folder, told):
    assert [status for name, (status, *_) in told.items() if name.endswith("notes.ipynb")] == [
        "undecided"
    ]
    assert "is no notebook of format 4" in check(folder / "notes.ipynb").output
