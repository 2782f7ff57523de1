"""What a name in a file stands for: what is registered or listed, and nothing else."""

import inspect
import sys
from typing import Any

import keras
import pytest
import tensorflow as tf

import pullback as pb
from pullback.engines.tensorflow import names_in_files as names
from pullback.errors import LoadError


def own(dy: Any) -> Any:
    return dy


@keras.saving.register_keras_serializable("tests.keras")
def registered(dy: Any) -> Any:
    return dy


REFUSED = [
    *(
        "os:system",
        "builtins:eval",
        "subprocess:getoutput",
        "pickle:loads",
        "numpy:load",
        "numpy:sin",
    ),
    *("tensorflow:io.read_file", "tensorflow:io.gfile.rmtree"),
    *(
        "tensorflow:raw_ops.__name__",
        "tensorflow:raw_ops.Relu.__closure__",
        "tensorflow:print",
    ),
    *("tensorflow:py_function", "tensorflow:load_library", "tensorflow:keras.utils.get_file"),
    *("tensorflow:saved_model.load", "tensorflow:map_fn", "tensorflow:Variable", "tensorflow:nn"),
    *("tensorflow:summary.write", "tensorflow:nn.fixed_unigram_candidate_sampler"),
    *(
        "tensorflow:nn.relu.__globals__",
        "tensorflow:nn.relu.__wrapped__",
        "tensorflow:__builtins__",
    ),
    *("tensorflow.python.ops.nn_ops:relu_grad", "tensorflow.python.ops.io_ops:read_file"),
    *("keras:utils.get_file", "keras:models.load_model", "keras:ops.map", "keras:ops.__class__"),
    *(
        "keras:activations.deserialize",
        "keras:losses.get",
        "keras:layers",
        "keras:src.ops",
    ),
    *("pullback:export", "pullback:functions.external", "pullback.extend:find_for_trusted_file"),
    *(
        "pullback.functions.outside.external:external",
        "pullback.functions.saving.checkpoint:checkpoint",
    ),
    *("pullback.functions.stable.lengths:norm.__globals__", "pullback.rules._ready:READY.get"),
    *(f"{__name__}:own", f"{__name__}:keras", f"{__name__}:registered.__globals__"),
    *("no_such_module_at_all:f", "this:s", "antigravity:x"),
]
NO_NAMES: list[Any] = ["os.system", "", ":system", "os:", None, 3, ["os:system"], {"module": "os"}]


@pytest.mark.parametrize("text", REFUSED)
@pytest.mark.parametrize("is_target", [False, True])
def test_what_a_file_may_not_name(text: str, is_target: bool) -> None:
    before = set(sys.modules)
    with pytest.raises(LoadError, match=r"the file names .*custom_objects=.*safe_mode=False"):
        names.named(text, is_target=is_target)
    assert set(sys.modules) == before


TARGETS = {
    "keras:layers.Dense": keras.layers.Dense,
    "keras:losses.MeanSquaredError": keras.losses.MeanSquaredError,
    "tensorflow:raw_ops.Relu": tf.raw_ops.Relu,
    "tensorflow:raw_ops.ReadFile": tf.raw_ops.ReadFile,
}


@pytest.mark.parametrize("text", TARGETS)
def test_what_is_compared_and_not_called_may_be_more(text: str) -> None:
    assert names.named(text, is_target=True) is TARGETS[text]
    assert names.written(TARGETS[text], "it", is_target=True) == text
    with pytest.raises(LoadError, match="the file names "):
        names.named(text)


@pytest.mark.parametrize("text", NO_NAMES, ids=repr)
def test_what_is_no_name_at_all(text: Any) -> None:
    with pytest.raises(LoadError, match="wanted 'module:name'"):
        names.named(text)


NAMED = {
    f"{__name__}:tests.keras>registered": registered,
    "tensorflow:nn.relu": tf.nn.relu,
    "tensorflow:math.tanh": tf.tanh,
    "tensorflow:stack": tf.stack,
    "tensorflow:image.resize": tf.image.resize,
    "keras:activations.gelu": keras.activations.gelu,
    "keras:ops.relu": keras.ops.relu,
    "keras:losses.mean_squared_error": keras.losses.mean_squared_error,
    "pullback.functions.stable.lengths:hypot": pb.functions.hypot,
}


@pytest.mark.parametrize("text", NAMED)
def test_what_a_file_may_name(text: str) -> None:
    assert names.named(text) is NAMED[text]


def test_what_is_passed_comes_first() -> None:
    with keras.saving.custom_object_scope({"own": own, "nn.relu": own}):
        assert names.named(f"{__name__}:own") is own
        assert names.named("no_such_module_at_all:own") is own
        assert names.named("tensorflow:nn.relu") is own


def test_every_operation_gets_a_name_that_leads_back() -> None:
    for value in names._operations().values():
        assert names.named(str(names.written(value, "it"))) is value


def test_no_operation_calls_what_it_is_given() -> None:
    """A file says what an operation is called with: also functions, of those that Keras lets a file name."""
    called: list[str] = []
    for reference, operation in names._operations().items():

        def given(*args: Any, name: Any = reference, **kwargs: Any) -> Any:
            called.append(name)

        for first in (given, tf.ones([2, 2])):
            parameters = list(inspect.signature(operation).parameters.values())
            by_place = [
                p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
            ]
            try:
                operation(first, *[given for _ in by_place[1:]])
            except Exception:  # of whatever it is made of: mostly that this is no number
                continue
    assert called == []
