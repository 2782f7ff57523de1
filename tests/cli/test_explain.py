"""`pullback explain`: a flow in the terminal, as data, as a page, and an exit status that a script can use."""

import json
import os
from pathlib import Path
from typing import Any

import keras
import pytest
from typer.testing import CliRunner

from pullback.cli import app

MODULE = """
import os
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

def leaves_at_once(x):
    os._exit(0)

def turns_into_another(x):
    os.execvp("true", ["true"])

def forks(x):
    if (copy := os.fork()) == 0:
        os._exit(0)
    os.waitpid(copy, 0)
    return tf.sin(x)

def ends():
    raise GeneratorExit

class Scaled:
    def call(self, x):
        return 2.0 * x

async def later(x):
    return x

@tf.custom_gradient
def parts(x):
    yield x

pullback_inputs = {"given": (tf.zeros([2]),)}
"""


def run(folder: Path, target: str, *options: str) -> Any:
    path = folder / "functions_to_explain.py"
    path.write_text(MODULE, encoding="utf-8")
    return CliRunner().invoke(app, ["explain", f"{path}{target}", *options])


@pytest.mark.parametrize(
    ("target", "status", "words"),
    [
        (":good", 0, ("✓ good: a gradient for 1 source", "Sin", "tried with float32[")),
        (":cut", 1, ("✗ cut: no gradient", "tf.round")),
        (":given", 1, ("✗ given: NaN or Inf on the way", "starts here")),
        (":Scaled.call", 0, ("✓ ",)),
        (":needy", 2, ("needs inputs: write pullback_inputs = {'needy': (...)}",)),
        (":missing", 2, ("has no 'missing'",)),
        (":leaves", 2, ("leaves",)),
        (":leaves_at_once", 2, ("leaves_at_once ended the program with os._exit(0)",)),
        (":turns_into_another", 2, ("ended the program with os.execv(",)),
        (":forks", 0, ("✓ forks",)),
        (":ends", 2, ("ends raised GeneratorExit",)),
        (":later", 2, ("later a call of it gives a coroutine, which has no gradient",)),
        (":parts", 2, ("parts a call of it gives a generator",)),
        ("", 2, ("names no function or model: write module:name",)),
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


@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_the_data_are_written_to_a_file(tmp_path: Path, first: bool) -> None:
    source, out = tmp_path / "sines.py", tmp_path / "flow.json"
    source.write_text(MODULE, encoding="utf-8")
    option, target = ["--json", str(out)], [f"{source}:good"]
    words = [*option, *target] if first else [*target, *option]
    result = CliRunner().invoke(app, ["explain", *words])
    data = json.loads(out.read_text(encoding="utf-8"))
    assert [node["type"] for node in data["nodes"]] == ["Sin", "Mul", "Sum"]
    assert "✓ good" in result.stdout


@pytest.mark.parametrize("after", [[], ["-"], ["--wrt", "x"]], ids=["last", "dash", "option"])
def test_json_without_a_file_prints_the_data(tmp_path: Path, after: list[str]) -> None:
    result = run(tmp_path, ":good", "--json", *after)
    assert json.loads(result.stdout)["name"] == "good"


def test_data_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    result = run(tmp_path, ":good", "--json", str(tmp_path / "nowhere" / "flow.json"))
    assert result.exit_code == 2
    assert "there is no folder" in result.stderr


def test_lines_end_without_blanks_and_wrap_with_their_indent(tmp_path: Path) -> None:
    source = tmp_path / "many.py"
    names = ", ".join(f"argument_{k}: tf.Tensor" for k in range(8))
    total = " + ".join(f"tf.reduce_sum(argument_{k})" for k in range(8))
    source.write_text(f"import tensorflow as tf\n\ndef many({names}):\n    return {total}\n")
    result = CliRunner().invoke(app, ["explain", f"{source}:many"])
    lines = result.stdout.splitlines()
    tried = next(k for k, line in enumerate(lines) if line.startswith("  tried with"))
    assert [line for line in lines if line != line.rstrip()] == []
    assert len(lines) > tried + 1
    assert [line for line in lines[tried:] if not line.startswith("  ")] == []


def test_a_classifier_that_ends_in_a_softmax_is_well(tmp_path: Path) -> None:
    keras.utils.set_random_seed(3)
    layers = [keras.layers.Dense(4, "tanh"), keras.layers.Dense(3, "softmax")]
    keras.Sequential([keras.Input((5,)), *layers], name="kinds").save(tmp_path / "kinds.keras")
    result = CliRunner().invoke(app, ["explain", str(tmp_path / "kinds.keras")])
    assert result.exit_code == 0, result.output
    assert "✓ kinds: a gradient for all 5 sources" in result.output
    assert "no loss was given" in result.output


def test_a_page_is_written(tmp_path: Path) -> None:
    result = run(tmp_path, ":good", "--html", str(tmp_path / "flow.html"))
    assert result.exit_code == 0
    assert 'id="flow-data"' in (tmp_path / "flow.html").read_text(encoding="utf-8")


def test_a_model_is_explained_out_of_its_file(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="only")], name="small")
    model.save(tmp_path / "small.keras")
    result = CliRunner().invoke(app, ["explain", str(tmp_path / "small.keras")])
    assert result.exit_code == 0, result.output
    assert "✓ small: a gradient for all 3 sources" in result.output
    assert "tried with float32[2, 3]" in result.output


def test_a_source_that_is_not_there_is_told_without_talk_of_inputs(tmp_path: Path) -> None:
    result = run(tmp_path, ":good", "--wrt", "nosuch")
    assert result.exit_code == 2
    assert ":good wrt='nosuch' names no source of good. Those are: x." in " ".join(
        result.stderr.split()
    )


def test_a_page_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    result = run(tmp_path, ":good", "--html", str(tmp_path / "nowhere" / "flow.html"))
    assert result.exit_code == 2
    assert "there is no folder" in result.stderr


def test_inputs_and_sources_can_be_named(tmp_path: Path) -> None:
    result = run(tmp_path, ":needy", "--input", "float32[77]", "--wrt", "x")
    assert result.exit_code == 0, result.output
    assert "a gradient for 1 source" in result.output
    assert "tried with" not in result.output


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "import os\nos._exit(0)\n",
            "cannot be loaded: it ends its process when it is imported: os._exit(0)",
        ),
        ("raise GeneratorExit\n", "cannot be loaded: GeneratorExit"),
    ],
)
def test_a_file_that_ends_the_command_is_said_to(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "ending.py").write_text(text, encoding="utf-8")
    for command in ("explain", "targets"):
        result = CliRunner().invoke(app, [command, f"{tmp_path / 'ending.py'}:f"])
        assert result.exit_code == 2
        assert words in result.stderr


def test_a_command_leaves_the_way_out_as_it_was(tmp_path: Path) -> None:
    leave = os._exit
    run(tmp_path, ":leaves_at_once")
    assert os._exit is leave
