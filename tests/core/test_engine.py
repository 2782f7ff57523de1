"""How the engine for a value is found."""

import subprocess
import sys

import pytest

from pullback import _engine
from pullback._engine import engine_of, engine_of_class
from pullback.errors import EngineError
from tests.core.fake_engine import FRAMEWORK, Array, Parameter


def test_by_the_class_of_a_value(engine):
    assert engine_of([1, Array([1.0])]) is engine
    assert engine_of_class(Array) is engine_of_class(Parameter) is engine


def test_a_plain_value_belongs_to_no_engine():
    assert engine_of_class(int) is None


def test_without_a_value_the_only_framework_serves(engine):
    assert engine_of([1, "a"]) is engine


def test_without_a_value_and_a_framework_there_is_none(monkeypatch):
    monkeypatch.delitem(sys.modules, FRAMEWORK)
    with pytest.raises(EngineError, match=rf"\({FRAMEWORK}\).*Write `import {FRAMEWORK}` before"):
        engine_of([1])


def test_without_a_value_two_frameworks_are_too_many(engine, monkeypatch):
    monkeypatch.setattr(_engine, "TABLE", {FRAMEWORK: "", "sys": ""})
    monkeypatch.setitem(_engine._loaded, "sys", engine)
    with pytest.raises(EngineError, match=f"more than one.*: {FRAMEWORK}, sys. Pass at least one"):
        engine_of([1])


CORE_ALONE = """
import sys
from tests.core import fake_engine as fake
import pytest
with pytest.MonkeyPatch.context() as patch:
    fake.install(patch)
    import pullback as pb
    double = pb.with_gradient(fake.sine, lambda dy: dy * 2.0)
    x = fake.Array([1.0, 2.0])
    assert fake.gradient(double(x), [x])[0].data.tolist() == [2.0, 2.0]
print(sorted({"tensor" + "flow", "keras", "jax", "torch"} & set(sys.modules)))
"""


def test_the_core_runs_without_any_framework():
    ran = subprocess.run(
        [sys.executable, "-c", CORE_ALONE], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout.strip()) == (0, "[]"), ran.stderr
