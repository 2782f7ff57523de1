"""What targets of `pullback check` come to."""

import pytest
from typer.testing import CliRunner

from pullback.cli import app
from pullback.cli.checking.places import files_in

GOOD = "import tensorflow as tf\n@tf.custom_gradient\ndef good(x):\n    return tf.sin(x), lambda dy: dy * tf.cos(x)\n"


def check(*words, status):
    done = CliRunner().invoke(app, ["check", "--no-isolate", "--quick", *map(str, words)])
    assert done.exit_code == status, done.output
    return done.output


@pytest.mark.parametrize(
    "target, said",
    [
        ("keras.nope", "there is no module keras.nope: a function in a module is written"),
        ("keras:nope", "keras has no 'nope'"),
        ("keras.activations:rela", "keras.activations has no 'rela'. Near names: relu"),
        ("keras.activations.relu", "there is no module keras.activations.relu: a function in"),
    ],
)
def test_what_a_module_does_not_have_is_an_error_and_no_custom_gradient(target, said):
    told = check(target, status=2)
    assert told.startswith(f"? {target}  {said}")
    assert "custom gradient" not in told


def test_what_a_file_does_not_have_is_an_error_where_the_whole_file_is_checked_too(tmp_path):
    file = tmp_path / "ops.py"
    file.write_text(GOOD, encoding="utf-8")
    told = check(tmp_path, f"{file}:good", f"{file}:nope", status=2)
    assert f"? {file}:nope  ops has no 'nope'" in told
    assert told.count("✓ good") == 1
    assert "1 custom gradient: ✓ 1 right" in told


def test_a_module_that_misses_another_is_there(tmp_path, monkeypatch):
    (tmp_path / "lacking.py").write_text("import not_there_at_all\n" + GOOD, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    told = check("lacking", status=2)
    assert "cannot be loaded: ModuleNotFoundError: No module named 'not_there_at_all'" in told


def test_links_are_followed_once(tmp_path):
    inner = tmp_path / "package" / "inner"
    inner.mkdir(parents=True)
    (inner / "ops.py").write_text(GOOD, encoding="utf-8")
    (inner / "around").symlink_to(tmp_path)
    (inner / "itself").symlink_to("itself")
    (inner / "gone.py").symlink_to("nowhere.py")
    (tmp_path / "z_again").symlink_to(inner)
    assert list(files_in(tmp_path)) == [inner / "ops.py"]


RUN = "from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\n" + GOOD
HELD = (
    RUN.partition("@")[0] + "t = {'go' + 'od': tf.custom_gradient(lambda x: (x, lambda dy: dy))}\n"
)


@pytest.mark.parametrize(
    "expression, ran",
    [
        ("good", {"first", "held"}),
        ("first.py:good", {"first", "held"}),
        ("Layer.best", {"second", "held"}),
        ("not good", {"first", "second", "held"}),
        ("second.py and not best", {"second", "held"}),
        ("nowhere or t['bad']", {"held"}),
    ],
)
def test_files_without_a_name_that_is_meant_are_not_run(tmp_path, expression, ran):
    start, _, rest = RUN.replace("def good", "def best").partition("@")
    body = "".join(f"    {line}\n" for line in f"@{rest}".splitlines())
    texts = {"first": RUN, "second": f"{start}class Layer:\n{body}", "held": HELD}
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    CliRunner().invoke(app, ["check", str(tmp_path), "--no-isolate", "--quick", "-k", expression])
    assert {path.stem for path in tmp_path.glob("*.ran")} == ran
