"""`pullback check` over files that change settings of the whole process."""

from types import ModuleType

import keras
import pytest
import tensorflow as tf
from typer.testing import CliRunner

from pullback.cli import app
from pullback.cli.checking.process import shut
from pullback.engines.tensorflow.probing import changed_settings

SINE = "import tensorflow as tf\n@tf.custom_gradient\ndef {0}(x):\n    return tf.sin(x), lambda dy: dy * tf.cos(x)\n"
LOUD = """
import os, sys, warnings, logging
import keras, numpy as np, tensorflow as tf
keras.mixed_precision.set_global_policy("mixed_float16")
keras.backend.set_floatx("float64")
tf.config.run_functions_eagerly(True)
tf.random.set_seed(0)
logging.disable()
sys.argv = ["train.py", "--epochs"]
warnings.simplefilter("error")
np.seterr(all="raise")
os.chdir("/")
tf.nn.relu = lambda x: x
"""
SENSITIVE = """
import argparse, os, warnings
import keras, numpy as np, tensorflow as tf
argparse.ArgumentParser().parse_args()
warnings.warn("careful")
np.float32(1) / np.float32(0)
assert os.getcwd() != "/" and keras.config.floatx() == "float32" and tf.nn.relu(-1.0) == 0
"""


def folder_of(tmp_path, **files):
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    return tmp_path


def test_what_a_file_changes_for_the_whole_process_is_not_changed_for_others(tmp_path, monkeypatch):
    eager = "import tensorflow as tf\ntf.compat.v1.disable_eager_execution()\n"
    monkeypatch.chdir(
        folder_of(
            tmp_path,
            a_graph=eager + SINE.format("a"),
            b_loud=LOUD + SINE.format("b"),
            c_after=SENSITIVE + SINE.format("c"),
        )
    )
    told = CliRunner().invoke(app, ["check", ".", "--quick", "-j", "1"]).output
    assert "? a_graph.py:a  eager execution is switched off for the whole process" in told
    assert "✓ b_loud.py:b  " in told
    assert "✓ c_after.py:c  " in told


def test_without_another_process_it_is_said_who_changed_what(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder_of(tmp_path, a="import os\nos.chdir('/')\n" + SINE.format("a"), b=SINE.format("b"))
    told = CliRunner().invoke(app, ["check", ".", "--quick", "--no-isolate"]).output
    assert "✓ a.py:a  " in told
    assert "? b.py:b  cannot be checked here: a.py has changed the working folder for the" in told


REPLACED = {
    "tf.sin": (tf, tf.cos),
    "tf.math.sin": (tf.math, tf.cos),
    "tf.nn.relu": (tf.nn, tf.nn.elu),
    "tf.linalg.matmul": (tf.linalg, tf.linalg.matvec),
    "tf.raw_ops.Sin": (tf.raw_ops, tf.raw_ops.Cos),
    "keras.activations.relu": (keras.activations, keras.activations.elu),
    "keras.ops.sin": (keras.ops, keras.ops.cos),
}


@pytest.mark.parametrize("name", REPLACED)
def test_a_function_in_place_of_another_of_the_framework_is_a_change(name, monkeypatch):
    before = changed_settings()
    place, other = REPLACED[name]
    monkeypatch.setattr(place, name.rpartition(".")[2], other)
    assert set(changed_settings()) - set(before) == {name}


def test_nothing_of_the_framework_is_changed_by_importing_it():
    assert changed_settings() == []


ATTRIBUTES = {
    "": False,
    "def __getattr__(name): raise AttributeError(name)": False,
    "def __getattr__(name): return 3": False,
    "def __dir__(): return ['a']": False,
    "def __getattr__(name): raise SystemExit(0)": True,
    "def __getattr__(name): raise RuntimeError(name)": True,
    "def __dir__(): raise KeyboardInterrupt": True,
}


@pytest.mark.parametrize("text", ATTRIBUTES)
def test_a_module_that_ends_whoever_looks_at_it_is_a_change(text):
    module = ModuleType("shop")
    exec(text, vars(module))
    assert shut([module]) == ["what module shop says of itself"] * ATTRIBUTES[text]


def test_what_a_function_changes_while_it_runs_is_not_changed_for_others(tmp_path, monkeypatch):
    trick = SINE.format("a").replace("    return", "    tf.cos = tf.sin\n    return")
    wrong = SINE.format("b").replace("tf.cos", "tf.sin")
    monkeypatch.chdir(folder_of(tmp_path, a=trick, b=SINE.format("b"), c=wrong))
    monkeypatch.setattr(tf, "cos", tf.cos)  # so that it is put back
    done = CliRunner().invoke(app, ["check", ".", "--quick", "--no-isolate"])
    for name in ("b.py:b", "c.py:b"):
        assert f"? {name}  cannot be checked here: a.py has changed tf.cos for the" in done.output
    assert "✓" not in done.output  # its own rule is judged with what it changed
