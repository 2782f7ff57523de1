"""What tells that a gradient will be transposed is private to TensorFlow: where it is missing, the engine says so."""

import pytest
import tensorflow as tf

import pullback as pb
from pullback.engines.tensorflow import loading
from pullback.engines.tensorflow.tf_private import overriding, transposing
from pullback.engines.tensorflow.versions import SUPPORTED
from pullback.errors import EngineError


def build(self, outputs, inference_args, tangents):
    """A method of TensorFlow whose parameter has another name."""


def construct(self, count):
    """A method of TensorFlow that keeps nothing."""


CHANGES = {
    "input_tangents": ("_PARAMETERS", {build.__code__: ("inference_args", "input_tangents")}),
    "_cached_function_pairs": ("_USED", {construct.__code__: ("_cached_function_pairs",)}),
    "TFE_Py_PackJVPs": ("have_tangents", bool),
}


def test_nothing_has_changed() -> None:
    assert transposing.changed() == []


def test_nothing_of_the_caller_disturbs() -> None:
    with (
        tf.autodiff.ForwardAccumulator(tf.constant(1.0), tf.constant(1.0)),
        tf.Graph().as_default(),
    ):
        assert transposing.changed() == []


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_part_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transposing, *CHANGES[name])
    with pytest.raises(EngineError, match=rf"works with {SUPPORTED}.*{name}"):
        loading.prove()


@pytest.mark.parametrize("name", CHANGES)
def test_overriding_is_refused_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transposing, *CHANGES[name])
    overriding.check_override.cache_clear()
    with pytest.raises(EngineError, match=f"works with TensorFlow {SUPPORTED}"):
        pb.override({"Relu": tf.negative})(tf.nn.relu)(tf.constant(1.0))
