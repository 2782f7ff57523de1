"""`pullback audit tensorflow`: the command itself, in processes of its own."""

import json
import re
from pathlib import Path

import pytest
from click.testing import Result as Ended
from typer.testing import CliRunner

from pullback.cli import app

# A wrong one, a right one, one by design, one that needs GPUs, and one that aborts the process at an empty axis.
NAMES = r"^tf\.(raw_ops\.(Cumprod|Sin|StopGradient|NcclReduce)|signal\.irfft)$"


def run(*arguments: str) -> Ended:
    return CliRunner().invoke(app, ["audit", "tensorflow", *arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit")


@pytest.fixture(scope="module")
def first(folder: Path) -> Ended:
    page = str(folder / "page.md")
    return run("--only", NAMES, "--state", str(folder / "state.jsonl"), "--markdown", page)


def test_each_function_has_a_line_and_faults_end_in_status_1(first: Ended) -> None:
    assert first.exit_code == 1
    assert "✗ tf.raw_ops.Cumprod  wrong; " in first.output
    assert "✓ tf.raw_ops.Sin  right; " in first.output
    assert "· tf.raw_ops.NcclReduce  not called; it needs several GPUs" in first.output
    assert (
        "· tf.raw_ops.StopGradient  by design; to stop the gradient is what it is for"
        in first.output
    )
    assert "4 of 5 functions called" in first.output


def test_a_crash_costs_only_the_inputs_that_brought_it_about(first: Ended, folder: Path) -> None:
    lines = (folder / "state.jsonl").read_text(encoding="utf-8").splitlines()
    results = {entry["name"]: entry for entry in map(json.loads, lines[1:])}
    irfft = results["tf.signal.irfft"]
    assert irfft["crash"] == "its process was ended by SIGABRT"
    assert (irfft["status"], irfft["cases"] > 3) == ("none", True)
    assert "| `tf.signal.irfft` | its process was ended by SIGABRT |" in (
        folder / "page.md"
    ).read_text("utf-8")


def test_a_run_goes_on_from_its_file(first: Ended, folder: Path) -> None:
    again = run(
        "--only", NAMES.replace("Sin", "Sin|Tan"), "--state", str(folder / "state.jsonl"), "--json"
    )
    assert "Sin  " not in again.output
    assert "✓ tf.raw_ops.Tan" in again.stderr
    found = {one["name"]: one["status"] for one in json.loads(again.stdout)["results"]}
    assert found["tf.raw_ops.Sin"] == "right"
    assert len(found) == 6


def test_results_of_another_version_are_refused(folder: Path) -> None:
    path = folder / "old.jsonl"
    path.write_text('{"version": "TensorFlow 1.0", "date": "2016-01-01"}\n', encoding="utf-8")
    ended = run("--only", "raw_ops.Sin$", "--state", str(path))
    assert ended.exit_code == 2
    assert "holds results of TensorFlow 1.0, and this is TensorFlow 2" in ended.output


@pytest.mark.parametrize("option", ["--state", "--markdown", "--html"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(
    option: str, folder: Path
) -> None:
    ended = run("--only", "raw_ops.Sin$", option, str(folder / "nowhere" / "file"))
    assert ended.exit_code == 2
    assert f"there is no folder {folder / 'nowhere'}" in ended.output


def test_what_is_no_pattern_and_what_means_nothing_is_refused() -> None:
    ended = run("--only", "(")
    assert ended.exit_code == 2
    assert "? tensorflow  --only '(' is no regular expression: missing )" in ended.output
    ended = run("--only", "nosuch")
    assert ended.exit_code == 2
    assert "? tensorflow  --only 'nosuch' is in none of " in ended.output


@pytest.mark.parametrize(
    ("asked", "listed"),
    [
        ("tf.math.atan2", "tf.atan2"),
        ("tf.keras.layers.AvgPool1D", "keras.layers.AveragePooling1D"),
    ],
)
def test_another_name_means_the_function_under_the_name_that_it_is_listed_by(
    asked: str, listed: str
) -> None:
    ended = run("--only", asked)
    assert ended.exit_code == 0
    assert f" {listed} ({asked})  " in ended.output
    assert "1 of 1 functions called" in ended.output


def test_a_name_that_means_nothing_is_told_those_near_it() -> None:
    ended = run("--only", "tf.math.atan3")
    assert ended.exit_code == 2
    assert re.search(r"Near names: .*tf\.atan2, ", ended.output)


def test_a_run_goes_on_only_from_a_file_that_is_there(folder: Path) -> None:
    ended = run("--only", "raw_ops.Sin$", "--resume", str(folder / "none.jsonl"))
    assert (ended.exit_code, "does not exist" in ended.output) == (2, True)


def test_a_framework_without_an_engine_is_refused() -> None:
    ended = CliRunner().invoke(app, ["audit", "numpy"])
    assert (ended.exit_code, "There are: tensorflow." in ended.output) == (2, True)
