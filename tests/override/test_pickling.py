"""Overrides, and functions that run under one, in pickles and copies."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

ROOT = Path(__file__).parents[2]
X = np.array([0.5, 2.0], np.float32)


def triple(dy):
    return 3.0 * dy


def is_relu(op):
    return op.type == "Relu"


def rectified(x):
    return tf.nn.relu(x)


traced = tf.function(lambda x: tf.nn.relu(x))
tripled = pb.override({tf.nn.relu: triple})


@tripled
def decorated(x):
    return tf.nn.relu(x)


@pb.functions.checkpoint
def checkpointed(x):
    return 1.5 * x * x


class Holder:
    @tripled
    def method(self, x):
        return tf.nn.relu(x)


def gradient(function: Any) -> list[float]:
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x).numpy().tolist()


def gradient_under(override: pb.Override) -> list[float]:
    with override:
        return gradient(tf.nn.relu)


WAYS = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
OVERRIDES = {
    "a function": tripled,
    "an op": pb.override({"Relu": triple}),
    "a rule per input": pb.override({tf.nn.relu: [triple]}),
    "a ready-made rule": pb.override({tf.nn.relu: pb.rules.scale(3.0)}),
    "a predicate": pb.override([(pb.where(is_relu), triple)]),
    "never run, not strict": pb.override({tf.nn.relu: triple, tf.nn.elu: triple}, strict=False),
}
FUNCTIONS = {
    "applied": (tripled(rectified), [3.0, 3.0]),
    "decorated": (decorated, [3.0, 3.0]),
    "twice": (pb.override({tf.nn.relu: triple})(tripled(rectified)), [3.0, 3.0]),
    "method": (Holder().method, [3.0, 3.0]),
    "checkpointed": (checkpointed, [1.5, 6.0]),
}


@pytest.mark.filterwarnings("ignore:tf.nn.elu did not run")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", OVERRIDES)
def test_a_copy_of_an_override_changes_the_same(name: str, way: str) -> None:
    again = WAYS[way](OVERRIDES[name])
    assert again is not OVERRIDES[name]
    assert gradient_under(again) == [3.0, 3.0]
    assert again.audit.effective == 1


@pytest.mark.filterwarnings("ignore:.* did not run here")
@pytest.mark.filterwarnings("ignore:.*has no effect")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_copy_of_a_function_under_an_override_has_the_gradient(name: str, way: str) -> None:
    function, wanted = FUNCTIONS[name]
    assert gradient(WAYS[way](function)) == wanted


@pytest.mark.parametrize("way", ["copy", "deepcopy"])
def test_a_copy_of_a_traced_function_has_the_gradient(way: str) -> None:
    assert gradient(WAYS[way](tripled(traced))) == [3.0, 3.0]


def test_what_a_name_leads_to_is_itself_after_pickling() -> None:
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    assert pickle.loads(pickle.dumps(checkpointed)) is checkpointed


def test_a_copy_has_an_audit_of_its_own() -> None:
    first = pb.override({tf.nn.relu: triple})
    gradient_under(first)
    again = copy.deepcopy(first)
    assert (first.audit.effective, again.audit.effective) == (1, 0)


def test_a_copy_of_an_override_is_about_the_same_layer() -> None:
    layer = keras.layers.Dense(2, use_bias=False)
    layer(X[None])
    again = copy.deepcopy(pb.override({layer: triple}))
    with again:
        found = gradient(lambda x: layer(x[None]))
    assert found == [3.0, 3.0]


def test_a_layer_pickled_with_an_override_of_it_stays_its_target() -> None:
    layer = keras.layers.Dense(2, use_bias=False)
    layer(X[None])
    layer, again = pickle.loads(pickle.dumps((layer, pb.override({layer: triple}))))
    with again:
        found = gradient(lambda x: layer(x[None]))
    assert found == [3.0, 3.0]


def test_a_rule_with_a_state_has_another_one_in_a_deep_copy() -> None:
    class Counting:
        def __init__(self) -> None:
            self.seen: list[float] = []

        def __call__(self, dy: Any) -> Any:
            self.seen.append(1.0)
            return 3.0 * dy

    rule = Counting()
    gradient_under(copy.deepcopy(pb.override({tf.nn.relu: rule})))
    assert rule.seen == []


def test_another_process_reads_them_before_it_knows_of_a_framework(tmp_path: Path) -> None:
    written = [pb.override({"Relu": pb.rules.scale(3.0)}), tripled(rectified)]
    for i, value in enumerate(written):
        (tmp_path / str(i)).write_bytes(pickle.dumps(value))
    code = (
        "import pickle\n"
        f"override, function = (pickle.load(open(r'{tmp_path}/' + name, 'rb')) for name in '01')\n"
        "from tests.override.test_pickling import gradient, gradient_under\n"
        "print([gradient_under(override), gradient(function)])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert eval(ran.stdout.splitlines()[-1]) == [[3.0, 3.0], [3.0, 3.0]]


@pytest.mark.parametrize("pickler", ["cloudpickle.cloudpickle", "dill._dill", "pickle"])
def test_a_pickler_that_takes_programs_along_gets_what_a_function_is_made_of(
    pickler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where functions of the main program are not to be found by name, in the process that reads it."""
    main = sys.modules["__main__"]
    for function, name in ((tripled(rectified), "applied"), (checkpointed, "kept")):
        again = copy.copy(function)
        again.__module__, again.__qualname__ = "__main__", name
        monkeypatch.setattr(main, name, again, raising=False)
        scope: dict[str, Any] = {"__name__": pickler}
        exec("def reduce(value): return value.__reduce__()", scope)
        assert isinstance(scope["reduce"](again), str) is (pickler == "pickle")


def test_what_has_no_name_is_refused_by_pickle_itself() -> None:
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(pb.override({tf.nn.relu: lambda dy: dy}))
