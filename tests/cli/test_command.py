"""The command itself: what it imports, what its help says, completion, and colours."""

import os
import subprocess
import sys
from importlib import import_module, metadata
from typing import Any

import pytest
from typer.testing import CliRunner

from pullback.cli import COMMANDS, app

HEAVY = ("tensorflow", "keras", "numpy", "optree", "rich.live", "matplotlib")
TELL = "lambda: print(*sys.modules, sep='\\n', file=sys.stderr)"
MODULES_IN_USE = f"import atexit, sys; atexit.register({TELL})"


def imported_by(*words: str, **environment: str) -> set[str]:
    """The modules that a run of the command has imported at its end."""
    program = f"{MODULES_IN_USE}; from pullback.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.split())


def python_m_pullback(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "pullback", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("words", [["--help"], *([name, "--help"] for name in COMMANDS)])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    seen = imported_by(*words)
    assert "typer" in seen
    assert seen & set(HEAVY) == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_is_there(name: str) -> None:
    assert callable(getattr(import_module(f"pullback.cli.{name}"), name))
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0
    assert f"pullback {name}" in " ".join(result.output.split())


def test_the_version_is_the_one_that_is_installed() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.output == f"pullback {metadata.version('pullback')}\n"


def test_help_lists_all_commands_in_order() -> None:
    words = CliRunner().invoke(app, ["--help"]).output.split()
    assert [word for word in words if word in COMMANDS] == list(COMMANDS)


def test_a_misspelt_command_is_answered_with_the_right_one() -> None:
    result = CliRunner().invoke(app, ["chek"])
    assert result.exit_code == 2
    assert "Did you mean 'check'?" in result.output


def test_the_module_is_the_command() -> None:
    done = python_m_pullback("--help")
    assert done.returncode == 0
    assert "Usage: pullback" in done.stdout


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        ("bash", "complete -o default -F _pullback_completion pullback"),
        ("zsh", "#compdef pullback"),
        ("fish", "complete --command pullback"),
    ],
)
def test_scripts_for_completion_are_there(shell: str, words: str) -> None:
    assert words in python_m_pullback(_PULLBACK_COMPLETE=f"source_{shell}").stdout


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("pullback ta", ["targets"]), ("pullback targets --ki", ["--kind"])],
)
def test_words_are_completed_without_a_framework(typed: str, offered: list[str]) -> None:
    count = len(typed.split()) - 1
    asked = {"COMP_WORDS": typed, "COMP_CWORD": str(count), "_PULLBACK_COMPLETE": "complete_bash"}
    assert python_m_pullback(**asked).stdout.split() == offered
    assert imported_by(**asked) & set(HEAVY) == set()


def test_what_is_piped_has_no_colours(tmp_path: Any) -> None:
    path = tmp_path / "to_explain.py"
    path.write_text(
        "import tensorflow as tf\ndef f(x):\n    return tf.round(x)\n", encoding="utf-8"
    )
    done = python_m_pullback("explain", f"{path}:f")
    assert done.returncode == 1
    assert "✗ f: no gradient" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
