"""`pullback check` over files that change settings of the whole process."""

import asyncio
import builtins
import json
import os
import sys
import threading
import warnings
from types import ModuleType

import keras
import numpy as np
import pytest
import tensorflow as tf
from typer.testing import CliRunner

from pullback.cli import app
from pullback.cli.checking.outcome import Item, Outcome
from pullback.cli.checking.places import Place, places
from pullback.cli.checking.process import Settings, shut
from pullback.cli.checking.server import Here
from pullback.cli.checking.workers import Crew
from pullback.cli.settings import Project
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


def other(*_, **__):
    return True


PYTHON = {
    "numpy.abs": (np, "abs", np.negative),
    "numpy.allclose": (np, "allclose", other),
    "numpy.linalg.norm": (np.linalg, "norm", other),
    "numpy.pi": (np, "pi", 3.0),
    "builtins.max": (builtins, "max", min),
    "json.dumps": (json, "dumps", other),
    "pickle": (sys.modules, "pickle", ModuleType("pickle")),
    "sys.path": (sys, "path", ["nowhere"]),
    "os.environ": (os, "environ", {}),
    "sys.argv": (sys, "argv", []),
}


@pytest.mark.parametrize("name", PYTHON)
def test_what_is_put_in_place_of_python_s_own_is_a_change(name, monkeypatch):
    settings = Settings()
    assert settings.changed() == changed_settings()
    place, key, value = PYTHON[name]
    put = monkeypatch.setitem if place is sys.modules else monkeypatch.setattr
    put(place, key, value)
    changed = settings.changed()
    monkeypatch.undo()  # pytest needs them as they were
    assert name in changed


def test_what_many_files_set_is_no_change(monkeypatch, tmp_path):
    settings = Settings()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "1")
    monkeypatch.setenv("OF_ITS_OWN", "1")
    monkeypatch.setattr(warnings, "showwarning", other)
    assert settings.changed() == changed_settings()


def test_what_cannot_be_looked_at_is_a_change(monkeypatch):
    settings = Settings()
    monkeypatch.setattr(sys, "path", None)
    changed = settings.changed()
    monkeypatch.undo()
    assert changed == ["what Python has of its own"]


def test_a_file_with_a_numpy_of_its_own_does_not_hide_what_is_wrong_elsewhere(
    tmp_path, monkeypatch
):
    wrong = SINE.format("b").replace("tf.cos", "2 * tf.cos")
    trick = "import numpy as np\nnp.allclose = lambda *_, **__: True\n" + SINE.format("a")
    monkeypatch.chdir(folder_of(tmp_path, a=trick, b=wrong))
    monkeypatch.setattr(np, "allclose", np.allclose)  # so that it is put back
    done = CliRunner().invoke(app, ["check", ".", "--quick", "--no-isolate"])
    assert "? b.py:b  cannot be checked here: a.py has changed numpy.allclose for" in done.output


RAISED = {
    "GeneratorExit": GeneratorExit,
    "KeyboardInterrupt": KeyboardInterrupt,
    "__import__('asyncio').CancelledError": asyncio.CancelledError,
    "__import__('pytest').skip.Exception('no GPU')": pytest.skip.Exception,
    "type('Own', (BaseException,), {})": None,
}


@pytest.mark.parametrize("raised", RAISED)
def test_what_is_no_exception_is_a_line(tmp_path, monkeypatch, raised):
    """Of a function, a rule and a file, each in a process apart."""
    function = SINE.format("a").replace("    return", f"    raise {raised}\n    return")
    rule = f"import tensorflow as tf\ndef rule(dy):\n    raise {raised}\n"
    rule += "@tf.custom_gradient\ndef a(x):\n    return tf.sin(x), rule\n"
    kind = "Own" if RAISED[raised] is None else RAISED[raised].__name__
    monkeypatch.chdir(
        folder_of(tmp_path, function=function, rule=rule, file=f"raise {raised}\n{function}")
    )
    here = Here(Project(), apart=True)
    for place in places(["function.py", "rule.py"]):
        (listing, _) = here.outcome((place,), {})
        (outcome, _) = here.outcome((place, "a"), {})
        assert [item.name for item in listing.items] == ["a"]
        assert outcome.status == "undecided"
        assert kind in outcome.text
    (unloaded, _) = here.outcome((places(["file.py"])[0],), {})
    assert f"cannot be loaded: {kind}" in unloaded.text


def test_an_interrupt_of_this_process_is_no_answer(tmp_path, monkeypatch):
    monkeypatch.chdir(folder_of(tmp_path, a="raise KeyboardInterrupt('by hand')\n"))
    with pytest.raises(KeyboardInterrupt, match="by hand"):
        Here(Project()).outcome((places(["a.py"])[0],), {})


def test_a_file_that_removes_its_working_folder_has_a_line(tmp_path, monkeypatch):
    gone = "import os, shutil, tempfile\nd = tempfile.mkdtemp()\nos.chdir(d)\nshutil.rmtree(d)\n"
    monkeypatch.chdir(folder_of(tmp_path, a=gone + SINE.format("a")))
    here = Here(Project(), apart=True)
    place = places([str(tmp_path / "a.py")])[0]
    assert here.outcome((place,), {})[1] == ["the working folder"]
    assert here.outcome((place, "a"), {"quick": True})[0].status == "right"


def test_nobody_is_made_to_check_nothing():
    made = []

    class Asked:
        def outcome(self, task, options):
            return Outcome(task[1], "right", "")

        def close(self):
            pass

    def make():
        made.append(threading.get_ident())
        return Asked()

    tasks = [(Place("a", "a"), Item(str(k))) for k in range(3)]
    outcomes = list(Crew(make, 10**12).outcomes(tasks, {}, lambda: None))
    assert [outcome.item.name for outcome in outcomes] == ["0", "1", "2"]
    assert len(made) <= 2 * len(tasks)
