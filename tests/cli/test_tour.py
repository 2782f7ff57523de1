"""`pullback tour`, run as a user runs it."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from pullback.cli import app
from pullback.tour import find_stories


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    program = "from pullback.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
    )


def test_the_whole_tour_comes_true() -> None:
    done = run("tour")
    count = len(find_stories())
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"pullback {count} of {count} stories" in done.stdout
    assert done.stderr == ""


def test_one_story_can_be_told_alone() -> None:
    done = run("tour", "7")
    assert done.returncode == 0, done.stderr
    assert "How do I write a custom gradient?" in done.stdout


def test_an_unknown_story_is_refused() -> None:
    result = CliRunner().invoke(app, ["tour", "99"])
    assert result.exit_code == 2
    assert "there is no story 99" in result.output


@pytest.mark.parametrize("command", ["tour", "check"])
def test_help_lists_the_command(command: str) -> None:
    assert command in CliRunner().invoke(app, ["--help"]).output


def test_without_tensorflow_the_tour_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["tour"])
    assert result.exit_code == 2
    assert "pullback[tensorflow]" in result.output
