"""What a file names is looked up among what is registered or listed, and nowhere else, unless the file is trusted."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import LoadError
from tests.keras.hostile_files import (
    ADVICE,
    described,
    files,
    fresh,
    function,
    kept,
    overridden,
    ready,
    recipe,
    write,
)

ROOT = Path(__file__).parents[2]
FILES = files(Path("folder"), "module")
REAL = [name for name, file in FILES.items() if file.is_real]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What came of every file, in three fresh processes: Keras alone, with pullback, and with pullback and trust."""
    modes = ("keras", "safe", "trusted")
    started = {
        mode: subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.keras.hostile_files",
                tmp_path_factory.mktemp(mode),
                mode,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for mode in modes
    }
    said = {mode: process.communicate() for mode, process in started.items()}
    assert all(process.returncode == 0 for process in started.values()), said
    return {mode: json.loads(out.splitlines()[-1]) for mode, (out, _) in said.items()}


def of_file(found: dict[str, Any], name: str) -> dict[str, Any]:
    """What came of one file, by the way in which it was read."""
    parts = {key.rpartition(": "): value for key, value in found.items()}
    return {way: value for (file, _, way), value in parts.items() if file == name}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("mode", ["keras", "safe"])
def test_a_hostile_file_is_refused(name: str, mode: str, outcomes: Any) -> None:
    found = of_file(outcomes[mode], name)
    assert "load_model" in found
    for way, outcome in found.items():
        assert outcome["error"], way
        assert not outcome["is_harmed"], (way, outcome["error"])


@pytest.mark.parametrize("name", [name for name, file in FILES.items() if file.advises])
def test_the_refusal_says_what_to_do(name: str, outcomes: Any) -> None:
    for way, outcome in of_file(outcomes["safe"], name).items():
        assert "LoadError" in outcome["kinds"], (way, outcome["error"])
        assert "ValueError" in outcome["kinds"]
        assert all(words in outcome["error"] for words in ADVICE), (way, outcome["error"])


@pytest.mark.parametrize("name", REAL)
def test_the_file_does_harm_where_it_is_trusted(name: str, outcomes: Any) -> None:
    assert of_file(outcomes["trusted"], name)["load_model"]["is_harmed"]


def test_there_are_files_of_every_kind() -> None:
    assert len(FILES) >= 40
    assert len(REAL) >= 25
    assert {file.as_h5 for file in FILES.values()} == {True, False}


ON_THE_COMMAND_LINE = [
    "a Lambda of a function by name",
    "the same in HDF5",
    "a rule",
    "a callback in HDF5",
]


def test_the_command_line_refuses_them(tmp_path: Path) -> None:
    lines: list[list[str]] = []
    for number, name in enumerate(ON_THE_COMMAND_LINE):
        folder = tmp_path / f"{number}"
        file = files(fresh(folder, f"harm_cli{number}"), f"harm_cli{number}")[name]
        path = tmp_path / f"{number}{'.h5' if file.as_h5 else '.keras'}"
        write(file, path)
        lines += [["targets", str(path)], ["explain", str(path)]]
    program = (
        "import json, sys\n"
        "from typer.testing import CliRunner\n"
        "from pullback.cli import app\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        f"ran = [CliRunner().invoke(app, line) for line in {lines!r}]\n"
        "print(json.dumps([[r.exit_code, r.output] for r in ran]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    for status, output in json.loads(ran.stdout.splitlines()[-1]):
        assert status == 2
        assert "LoadError: the file names" in output
    for number in range(len(ON_THE_COMMAND_LINE)):
        assert [p.name for p in (tmp_path / f"{number}").iterdir()] == ["kept"]


def test_a_pattern_in_a_file_does_not_print(capsys: pytest.CaptureFixture[str]) -> None:
    debugged = {"pattern": "some layer", "flags": int(re.DEBUG | re.IGNORECASE)}
    config = json.loads(json.dumps(overridden(ready("guided"), debugged)))
    loaded: Any = keras.saving.deserialize_keras_object(config)
    assert loaded.__pullback_override__.entries[0].target.flags & re.IGNORECASE
    assert capsys.readouterr().out == ""


# Files that users trust


def own(dy: Any) -> Any:
    return dy


def overridden_model() -> Any:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, activation="relu")])
    return pb.override({tf.nn.relu: own})(model)


def quantized_model() -> Any:
    function = pb.with_gradient(tf.nn.relu, own)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, activation=function)])
    return pb.keras.quantize(model, bits=4)


def inside_another() -> Any:
    return keras.Sequential([keras.Input((3,)), overridden_model()])


def with_a_callback() -> Any:
    return keras.Sequential([keras.Input((3,)), pb.keras.Tap(own)])


TRUST: dict[str, Any] = {
    "passed": {"custom_objects": {"own": own}},
    "trusted": {"safe_mode": False},
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("trust", TRUST)
@pytest.mark.parametrize(
    "make", [overridden_model, quantized_model, inside_another, with_a_callback]
)
def test_a_function_of_the_users_loads_where_it_is_passed_or_trusted(
    make: Any, trust: str, tmp_path: Path
) -> None:
    with pytest.warns(UserWarning, match=r"own.*is not registered with Keras"):
        make().save(tmp_path / "model.keras")
    assert keras.models.load_model(tmp_path / "model.keras", **TRUST[trust])
    said = r"(?s)custom_objects=\{'own': \.\.\.\}.*safe_mode=False"
    with pytest.raises(
        (LoadError, TypeError), match=said
    ):  # Keras makes TypeErrors for some layers
        keras.models.load_model(tmp_path / "model.keras")


def test_deserialization_may_be_unsafe_for_a_whole_process(tmp_path: Path) -> None:
    with keras.saving.custom_object_scope({"own": own}):
        overridden_model().save(tmp_path / "model.keras")
    program = (
        "import keras, pullback\n"
        "keras.config.enable_unsafe_deserialization()\n"
        f"print(keras.models.load_model({str(tmp_path / 'model.keras')!r}).name)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert ran.stdout.startswith("sequential"), ran.stderr[-2000:]


RELU = {"module": "keras.layers", "class_name": "ReLU", "config": {}, "registered_name": None}
# What is no description of anything of pullback's own, and which of its parts is not there.
MALFORMED: dict[str, tuple[Any, str]] = {
    "a function of nothing": (function({}), "without recipe"),
    "an empty recipe": (function({"recipe": {}}), "without verb, parts"),
    "a recipe without parts": (function({"recipe": {"verb": "_remake_with"}}), "without parts"),
    "a recipe that is a list": (function({"recipe": []}), "without verb, parts"),
    "a rule without options": (function({"recipe": recipe({"pullback_rule": {}})}), "options"),
    "an option that is a table": (overridden(ready("scale", factor={"a": 1})), "pullback_function"),
    "a rule as Keras writes it": (overridden(RELU), "without name, recipe, options"),
    "a target of nothing": (overridden(ready("scale", factor=2.0), target={"a": 1}), "function"),
    "a layer without a place": (overridden(None, target={"layer": "x"}), "without place"),
    "a pattern without flags": (overridden(None, target={"pattern": "x"}), "without flags"),
    "a model of nothing": (
        described("pullback>Overridden", {"lines": []}),
        "without model, strict",
    ),
    "a line of nothing": (
        described(
            "pullback>Overridden",
            {"model": kept(RELU), "lines": [{}], "strict": False, "is_part": True},
        ),
        "without target, rule",
    ),
    "a part that is none": (
        described(
            "pullback>Overridden",
            {"model": {}, "lines": [], "strict": False, "is_part": True},
        ),
        "without config",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_describes_nothing_is_said_to(name: str) -> None:
    config, said = MALFORMED[name]
    with pytest.raises(LoadError, match=f"the file describes .*{said}"):
        keras.saving.deserialize_keras_object(config)
