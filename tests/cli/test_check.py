"""`pullback check`: one line a gradient, and an exit status that a script can use."""

import pytest
from typer.testing import CliRunner

from pullback.cli import app
from pullback.cli.check import load, max_status

HEAD = "import tensorflow as tf\nimport pullback as pb\n"
GOOD = "@tf.custom_gradient\ndef good(x):\n    return tf.sin(x), lambda dy: dy * tf.cos(x)\n"
BAD = "@pb.custom_gradient\ndef bad(x):\n    return tf.sin(x), lambda dy: 2 * dy * tf.cos(x)\n"
NEEDY = "@tf.custom_gradient\ndef needy(x):\n    return tf.reshape(x, (7, 11)), lambda dy: tf.reshape(dy, (77,))\n"
INPUTS = "pullback_inputs = {'needy': (tf.range(77, dtype=tf.float32) / 50,)}\n"
PARTIAL = "loss = pb.with_partials(lambda p, t: (p - t) ** 2, p=lambda p, t: 2 * (p - t))\n"
RULE = "def rule(dy, *, inputs):\n    return dy\nruled = pb.with_gradient(tf.sin, rule)\n"


def run(tmp_path, *parts, name="module.py", extra=()):
    path = tmp_path / name
    path.write_text(HEAD + "".join(parts), encoding="utf-8")
    return CliRunner().invoke(app, ["check", str(path), *extra])


TABLE = [
    ((GOOD,), 0, "✓ good"),
    (
        (GOOD, BAD),
        1,
        "✗ bad  the gradient for `x` is 2× too large: a factor 2 too many  (module.py:",
    ),
    ((GOOD, NEEDY), 2, "? needy  needs inputs: write pullback_inputs = {'needy': (...)}"),
    ((NEEDY, INPUTS), 0, "✓ needy"),
    ((PARTIAL,), 0, "✓ loss"),
    ((BAD, NEEDY), 1, "? needy"),
    (("def plain(x):\n    return x\n",), 2, "defines no custom gradient"),
    (("raise ImportError('not today')\n",), 2, "cannot be loaded: not today"),
]


@pytest.mark.parametrize("parts, status, line", TABLE)
def test_one_line_each_and_a_status(tmp_path, parts, status, line):
    result = run(tmp_path, *parts)
    assert result.exit_code == status, result.output
    assert line in result.output


def test_a_function_can_be_named(tmp_path, monkeypatch):
    (tmp_path / "some_module.py").write_text(HEAD + GOOD + BAD, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    result = CliRunner().invoke(app, ["check", "some_module:good"])
    assert result.exit_code == 0, result.output
    assert "bad" not in result.output


def test_the_full_report_can_be_asked_for(tmp_path):
    result = run(tmp_path, BAD, extra=["--report"])
    assert "reproduce:" in result.output


def test_a_file_that_is_not_there(tmp_path):
    result = CliRunner().invoke(app, ["check", str(tmp_path / "none.py")])
    assert result.exit_code == 2
    assert "there is no file" in result.output.replace("\n", " ")


def test_wrong_outweighs_unknown():
    assert max_status([0, 2, 1]) == 1
    assert max_status([0, 2]) == 2
    assert max_status([0]) == 0


def test_modules_are_loaded_by_name():
    module, name = load("math:sin")
    assert (module.__name__, name) == ("math", "sin")
