"""`pullback tour`, run as a user runs it."""

import re
import subprocess
import sys
from pathlib import Path

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


def test_stories_are_written_as_a_page_that_fetches_nothing(tmp_path: Path) -> None:
    page = tmp_path / "tour.html"
    done = run("tour", "7", "18", "--html", str(page))
    assert done.returncode == 0, done.stderr
    assert "Written to" in done.stdout
    text = page.read_text(encoding="utf-8")
    assert "pullback in 2 of 2 stories, stock TensorFlow in 0" in text
    assert '<section id="story7">' in text
    assert '<pre class="terminal picture">' in text
    assert re.findall(r"""(?:src|href)=["'](?!#)|https?://|@import|url\(""", text) == []


def test_a_page_in_no_folder_is_refused_before_anything_runs(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["tour", "--html", str(tmp_path / "none" / "tour.html")])
    assert result.exit_code == 2
    assert "cannot be written: there is no folder" in " ".join(
        result.output.replace("│", "").split()
    )


def test_an_unknown_story_is_refused() -> None:
    result = CliRunner().invoke(app, ["tour", "99"])
    assert result.exit_code == 2
    assert "there is no story 99" in result.output


def test_without_tensorflow_the_tour_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["tour"])
    assert result.exit_code == 2
    assert "pullback[tensorflow]" in result.output
