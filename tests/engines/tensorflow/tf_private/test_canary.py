"""What is private to TensorFlow may change: where a part is not as it was, the engine names it and refuses to work."""

import contextlib

import pytest
import tensorflow as tf

import pullback as pb
from pullback.engines.tensorflow import loading, tf_private
from pullback.engines.tensorflow.tf_private import (
    canary,
    keras_models,
    overriding,
    saving,
    transposing,
)
from pullback.engines.tensorflow.versions import SUPPORTED
from pullback.errors import EngineError


@pytest.fixture(autouse=True, scope="module")
def loaded() -> None:
    """The engine, which asks AutoGraph to leave its code alone."""
    pb.with_gradient(tf.identity, tf.identity)(tf.constant(1.0))


def build(self, outputs, inference_args, tangents):
    """A method of TensorFlow whose parameter has another name."""


def construct(self, count):
    """A method of TensorFlow that keeps nothing."""


def missing(*args):
    raise AttributeError("gone")


def nothing(*args):
    return None


def renamed():
    """What is found in a frame of TensorFlow whose variable has another name."""
    raise KeyError("sources")


def through(operation, upstream):
    return upstream


CHANGES = {
    "input_tangents": (transposing, "USED_NAMES", {build.__code__: ("input_tangents",)}),
    "_cached_function_pairs": (
        transposing,
        "USED_NAMES",
        {construct.__code__: ("_cached_function_pairs",)},
    ),
    "sources in imperative_grad": (tf_private, "numbers_asked_for", renamed),
    "_SymGrad in _GradientsHelper": (overriding.gradients_util, "_SymGrad", through),
    "TFE_Py_PackJVPs": (transposing, "have_tangents", bool),
    "recording of operations": (tf_private, "detached", missing),
    "Context.call_function": (tf_private, "types_in_function", nothing),
    "TFE_Py_TapeSetRestartOnThread": (tf_private, "recording_again", contextlib.nullcontext),
    "captures and inputs of a graph's ops": (tf_private, "set_input", nothing),
    "the functions of a graph": (saving, "graphs_in", lambda graph: []),
    "XlaDynamicUpdateSlice": (tf_private, "xla_dynamic_update_slice", missing),
    "op callbacks": (tf_private, "set_op_callbacks", nothing),
    "AutoGraph's list": (canary.conversion, "is_allowlisted", nothing),
    "the mark of tf.custom_gradient": (tf_private, "is_custom_gradient", nothing),
    "Keras' list of the layers": (keras_models, "layers_inside", lambda layer: [layer]),
}


def test_nothing_has_changed() -> None:
    assert canary.changed_parts() == []


def test_our_decorator_in_the_place_of_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf, "custom_gradient", pb.custom_gradient)
    assert canary.changed_parts() == []


def test_nothing_of_the_caller_disturbs() -> None:
    with (
        tf.autodiff.ForwardAccumulator(tf.constant(1.0), tf.constant(1.0)),
        tf.Graph().as_default(),
    ):
        assert canary.changed_parts() == []


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_part_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*CHANGES[name])
    canary.prove.cache_clear()
    with pytest.raises(EngineError, match=rf"works with {SUPPORTED}.*{name}.*Install a TensorFlow"):
        loading.prove()
    with pytest.raises(EngineError, match=rf"works with {SUPPORTED}.*{name}"):
        pb.override({"Relu": tf.negative})(tf.nn.relu)(tf.constant(1.0))
