"""`pullback explain`: a flow in the terminal, as data, as a page, and an exit status that a script can use."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pullback.cli import app

MODULE = """
import tensorflow as tf

def good(x):
    return tf.reduce_sum(tf.sin(x) * x)

def cut(x):
    return tf.reduce_sum(tf.round(x))

def needy(x):
    return tf.reshape(x, (7, 11))

def given(x):
    return tf.reduce_sum(tf.sqrt(x))

def leaves(x):
    raise SystemExit(3)

class Scaled:
    def call(self, x):
        return 2.0 * x

pullback_inputs = {"given": (tf.zeros([2]),)}
"""


def run(folder: Path, target: str, *options: str) -> Any:
    path = folder / "functions_to_explain.py"
    path.write_text(MODULE, encoding="utf-8")
    return CliRunner().invoke(app, ["explain", f"{path}{target}", *options])


@pytest.mark.parametrize(
    ("target", "status", "words"),
    [
        (":good", 0, ("✓ good: a gradient for 1 source", "Sin", "tried with float32[3, 4]")),
        (":cut", 1, ("✗ cut: no gradient", "tf.round")),
        (":given", 1, ("✗ given: NaN or Inf on the way", "starts here")),
        (":Scaled.call", 0, ("✓ ",)),
        (":needy", 2, ("needs inputs: write pullback_inputs = {'needy': (...)}",)),
        (":missing", 2, ("has no 'missing'",)),
        (":leaves", 2, ("leaves",)),
        ("", 2, ("names no function: write module:function",)),
    ],
)
def test_the_status_says_how_it_went(
    tmp_path: Path, target: str, status: int, words: tuple[str, ...]
) -> None:
    result = run(tmp_path, target)
    told = " ".join((result.stdout + result.stderr).split())
    assert result.exit_code == status, told
    assert [word for word in words if word not in told] == []


def test_json_is_all_that_is_printed(tmp_path: Path) -> None:
    result = run(tmp_path, ":given", "--json")
    data = json.loads(result.stdout)
    assert [node["type"] for node in data["nodes"]] == ["Sqrt", "Sum"]
    assert result.exit_code == 1


def test_a_page_is_written(tmp_path: Path) -> None:
    result = run(tmp_path, ":good", "--html", str(tmp_path / "flow.html"))
    assert result.exit_code == 0
    assert 'id="flow-data"' in (tmp_path / "flow.html").read_text(encoding="utf-8")
