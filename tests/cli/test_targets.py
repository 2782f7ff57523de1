"""`pullback targets`: what an override can name, out of modules and out of files of models."""

import json
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf
from typer.testing import CliRunner

from pullback.cli import app

MODULE = """
import keras
import tensorflow as tf

words = keras.Sequential(
    [keras.Input((6,), dtype="int32"), keras.layers.Embedding(9, 4), keras.layers.Flatten()],
    name="words",
)
pair = [keras.Input((3,), name="a"), keras.Input((3,), name="b")]
both = keras.Model(dict(a=pair[0], b=pair[1]), keras.layers.Add()(pair), name="both")

def loss(y_true, y_pred):
    return tf.reduce_mean(tf.nn.softplus(y_pred - y_true))

def needy(x):
    return tf.tanh(tf.reshape(x, (7, 11)))

def given(x):
    return tf.exp(tf.reshape(x, (7, 11)))

pullback_inputs = {"given": (tf.zeros([77]),)}
"""


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["targets", *words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A module, and models of unknown image size as files."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "nets_to_list.py").write_text(MODULE, encoding="utf-8")
    image = keras.Input((None, None, 3))
    features = keras.layers.Conv2D(2, 12, activation="relu", name="first")(image)
    model = keras.Model(image, keras.layers.GlobalMaxPooling2D(name="last")(features), name="tiny")
    model.save(folder / "tiny.keras")
    model.export(folder / "exported", verbose=False)
    large = keras.Sequential([keras.Input((10**10,)), keras.layers.Activation("relu")])
    large.save(folder / "large.keras")

    class Doubled(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32)])
        def __call__(self, x: Any) -> Any:
            return tf.tanh(x) * 2.0

    tf.saved_model.save(Doubled(), str(folder / "doubled"))
    return folder


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nets_to_list.py:loss", ("in loss: 3 functions, 3 op types", "tf.nn.softplus", '"Mean"')),
        (
            "nets_to_list.py:words",
            ("in words: ", 'words.get_layer("flatten', "run with int32[2,"),
        ),
        ("nets_to_list.py:both", ("keras.layers.Add", "run with {'a': float32[2, 3], 'b': ")),
        ("nets_to_list.py:given", ("tf.exp",)),
        (
            "tiny.keras",
            ("in tiny.keras: ", 'model.get_layer("first")', "run with float32[2, 32, 32"),
        ),
        ("exported", ("in exported: ", '"Conv2D"', '"Max"')),
        ("doubled", ("in doubled: 2 op types", '"Tanh"', "run with float32[2, 4]")),
    ],
)
def test_functions_and_models_are_listed(folder: Path, target: str, words: tuple[str, ...]) -> None:
    result = run(str(folder / target))
    assert result.exit_code == 0, result.output
    assert [word for word in words if word not in result.output] == []


def test_a_list_that_is_cut_short_names_the_option_for_the_rest(tmp_path: Path) -> None:
    layers = [
        keras.layers.Activation("tanh", name=letter * 3) for letter in "abcdefghijklmnopqrstuvw"
    ]
    keras.Sequential([keras.Input((2,)), *layers]).save(tmp_path / "long.keras")
    assert "  … and 3 more: `--all`" in run(str(tmp_path / "long.keras")).output.splitlines()
    every = run(str(tmp_path / "long.keras"), "--all").output
    assert [letter for letter in "uvw" if f'"{letter * 3}"' not in every] == []


def test_the_inputs_of_the_command_line_are_used(folder: Path) -> None:
    target = f"{folder / 'nets_to_list.py'}:needy"
    assert '"Tanh"' in run(target, "--input", "float32[7, 11]").output
    wrong = run(target, "--input", "7x11")
    assert wrong.exit_code == 2
    assert "--input '7x11' is no shape: write it like 'float32[2, 3]'" in wrong.stderr


def test_rows_are_chosen_by_kind_and_by_name(folder: Path) -> None:
    target = str(folder / "tiny.keras")
    listed = run(target, "--all").output.splitlines()
    assert len(listed) > 8
    assert {line.split("\t")[0] for line in listed} == {"function", "op", "layer class", "layer"}
    classes = run(target, "--all", "--kind", "class", "--kind", "layer").output.splitlines()
    assert classes == [line for line in listed if line.startswith("layer")]
    last = run(target, "--all", "-k", "LAST").output.splitlines()
    assert last == [line for line in listed if "last" in line]


def test_the_data_are_printed_for_programs(folder: Path) -> None:
    data = json.loads(run(f"{folder / 'doubled'}", "--json").stdout)
    assert data["name"] == "doubled"
    assert [(row["kind"], row["expression"], row["count"]) for row in data["targets"]] == [
        ("op", '"Mul"', 1),
        ("op", '"Tanh"', 1),
    ]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (
            "nets_to_list.py:needy",
            "write pullback_inputs = {'needy': (...)} beside it, or write --in",
        ),
        ("nets_to_list.py", "names no function or model"),
        ("nets_to_list.py:lost", "has no 'lost'"),
        ("missing.keras", "there is no file"),
        ("large.keras", "takes a tensor of 20,000,000,000 numbers"),
        ("", "there is no model in"),
    ],
)
def test_what_cannot_be_listed_says_what_to_write(folder: Path, target: str, words: str) -> None:
    result = run(str(folder / target) if target else str(folder))
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""


def test_a_choice_that_leaves_nothing_is_refused(folder: Path) -> None:
    result = run(str(folder / "doubled"), "--kind", "layer")
    assert result.exit_code == 2
    assert "has nothing of kind layer among 2 targets" in result.stderr
