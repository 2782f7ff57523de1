"""What `pullback check` says of a whole run, on the terminal and in every file."""

import json
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from pullback.cli import app

SINE = "import tensorflow as tf\n@tf.custom_gradient\ndef f(x):\n    return tf.sin(x), lambda dy: dy * tf.cos(x)"
STOPPED = "stopped at the first wrong one: 1 not checked"
UNUSED = """[tool.pullback.functions."nobody"] is about no custom gradient that was found"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "a.py").write_text(f"{SINE} * 2\n", encoding="utf-8")
    (tmp_path / "b.py").write_text(f"{SINE}\n", encoding="utf-8")
    settings = """[tool.pullback.functions."nobody"]\norder = 1\n"""
    (tmp_path / "pyproject.toml").write_text(settings, encoding="utf-8")
    return tmp_path


def check(*words):
    return CliRunner().invoke(app, ["check", "--no-isolate", "--quick", *map(str, words)])


def test_a_run_that_stops_early_says_so_in_every_file(files):
    names = {kind: files / f"out.{kind}" for kind in ("json", "junit", "html")}
    done = check(
        files, "-x", *(word for kind, path in names.items() for word in (f"--{kind}", path))
    )
    assert STOPPED in done.output
    texts = {kind: path.read_text(encoding="utf-8") for kind, path in names.items()}
    data = json.loads(texts["json"])
    assert data["stopped"] == STOPPED
    assert [note.endswith(UNUSED) for note in data["notes"]] == [True]
    said = ElementTree.fromstring(texts["junit"]).findtext("system-out") or ""
    assert STOPPED in said
    assert UNUSED in said
    assert texts["html"].count(STOPPED) == 2  # in the title and on the page
    assert "is about no custom gradient" in texts["html"]


def test_a_run_that_stops_early_says_so_in_an_annotation(files):
    lines = check(files, "-x", "--format", "github").output.splitlines()
    assert f"::notice title=pullback check::{STOPPED}" in lines
    assert [one for one in lines if one.startswith("::notice") and one.endswith(UNUSED)]


def test_a_run_to_the_end_has_not_stopped(files):
    data = json.loads(check(files, "--json", "-").stdout)
    assert data["stopped"] is None
