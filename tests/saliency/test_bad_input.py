"""What cannot be done is refused, with what came and what to write."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import RuleError, SaliencyError
from tests.saliency.models import images, network

MODEL = network()
X = images(2)
FLAT = pb.rules.lrp_flat


def flat(x: Any) -> Any:
    return tf.stack([tf.round(x[:, 0]), tf.stop_gradient(x[:, 1])], 1)


CASES: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "no model": ((3, X), {}, "3 cannot be called"),
    "a list of numbers": ((MODEL, [1.0, 2.0]), {}, "x holds 1.0; wanted an array"),
    "a single number": ((MODEL, np.float32(1)), {}, "x is a single number"),
    "nothing": ((MODEL, []), {}, "x holds no array"),
    "no examples": ((MODEL, X[:0]), {}, "no examples"),
    "truths": ((MODEL, X > 0), {}, "x holds bool"),
    "texts": ((MODEL, np.array(["a"])), {}, "x holds <U1"),
    "ragged": ((MODEL, tf.ragged.constant([[1.0, 2.0], [3.0]])), {}, r"a RaggedTensor.*Write x\.to_tensor"),
    "sparse": ((MODEL, tf.sparse.from_dense(tf.eye(2))), {}, r"a SparseTensor.*Write tf\.sparse\.to_dense"),
    "a name as baseline": ((MODEL, X), {"baseline": "black"}, "baseline='black'; wanted a number"),
    "a target in NumPy": ((MODEL, X, lambda y: np.asarray(y)[:, 0]), {}, "returned a NumPy array"),
    "no batch axis": ((MODEL, X[0]), {}, r"write x\[None\] for a single one"),
    "wrong shape": ((MODEL, X[:, :, :, :2]), {}, "the model cannot be called with this x"),
    "unequal inputs": ((MODEL, [X, X[:1]]), {}, "the inputs have 1, 2 examples"),
    "unknown method": ((MODEL, X), {"method": "guidd"}, 'Did you mean "guided"'),
    "unknown option": ((MODEL, X), {"stepps": 3}, "has no option 'stepps'; its options are: steps, tol"),
    "option of another": ((MODEL, X), {"method": "guided", "samples": 3}, "its options are: none"),
    "no steps": ((MODEL, X), {"steps": 0}, "steps=0; wanted a whole number of at least 1"),
    "half a step": ((MODEL, X), {"steps": 1.5}, "wanted a whole number"),
    "noise": ((MODEL, X), {"method": "smoothgrad", "noise": -1}, "noise=-1; wanted a number of at least 0"),
    "noise, no number": ((MODEL, X), {"method": "smoothgrad", "noise": "big"}, "noise='big'; wanted"),
    "of": ((MODEL, X), {"of": "prob"}, 'neither "logit" nor "output"'),
    "class too large": ((MODEL, X, 4), {}, "target 4 is none of the 4 classes"),
    "class too small": ((MODEL, X, -1), {}, "target -1 is none of the 4 classes"),
    "too few targets": ((MODEL, X, [1]), {}, "target has 1 numbers, and x has 2 examples"),
    "a target of text": ((MODEL, X, "cat"), {}, "target='cat' is no target"),
    "a target of fractions": ((MODEL, X, 1.5), {}, "target=1.5 is no target"),
    "a truth as target": ((MODEL, X, True), {}, "target=True is no target"),
    "index too long": ((MODEL, X, (1, 2)), {}, "has 2 numbers, and behind the examples"),
    "index outside": ((MODEL, X, (7,)), {}, "lies outside of the output"),
    "index of fractions": ((MODEL, X, (0.5,)), {}, "is no index"),
    "one score for all": ((MODEL, X, lambda y: tf.reduce_sum(y)), {}, "wanted one number for each example"),
    "no scores": ((MODEL, X, lambda y: 3.0), {}, "returned no tensor"),
    "maps as output": ((lambda x: x, X), {}, r"write|such as target=\(0, 0, 0\)"),
    "several outputs": ((lambda x: [x, x], X), {}, "the model gives 2 outputs"),
    "one number": ((lambda x: tf.reduce_sum(x), X), {}, "the model gives a single number"),
    "no layer": ((MODEL, X), {"method": "gradient", "layer": "secnd"}, "for instance: second"),
    "layer of a kind": ((MODEL, X), {"method": "gradient", "layer": 3}, "layer=3 is no layer"),
    "layer of a function": ((flat, X[:, 0, 0]), {"method": "gradient", "layer": "a"}, "no Keras model"),
    "layer of integrated": ((MODEL, X), {"layer": "second"}, "takes no layer="),
    "baseline of guided": ((MODEL, X), {"method": "guided", "baseline": 0}, "takes no baseline="),
    "baseline shape": ((MODEL, X), {"baseline": np.ones(4)}, r"baseline has shape \(4,\)"),
    "baseline structure": ((MODEL, X), {"baseline": [1, 2]}, "wanted the structure of x"),
    "no features": ((lambda x: x, X[:, 0, 0]), {"method": "gradcam"}, "no features of this model have places"),
    "flat features": ((MODEL, X), {"method": "gradcam", "layer": "scores"}, "which is no map of an input"),
    "composite": ((MODEL, X), {"method": "lrp", "composite": "epsilon_pluss"}, "There are epsilon_plus, "),
    "no bounds": ((MODEL, X), {"method": "lrp", "composite": "epsilon_gamma_box"}, "needs low= and high="),
    "bounds": ((MODEL, X), {"method": "lrp", "low": 0.0}, "low= and high= are for composite="),
    "no rule of LRP": ((MODEL, X), {"method": "lrp", "composite": {"first": pb.rules.guided}}, "wanted one of LRP"),
    "no linear layer": ((MODEL, X), {"method": "lrp", "composite": {"norm": pb.rules.lrp_gamma()}}, "for dense layers"),
    "composite's layer": ((MODEL, X), {"method": "lrp", "composite": {"frst": FLAT}}, "for instance: first"),
    "flat in the middle": ((MODEL, X), {"method": "lrp", "composite": {"second": FLAT}}, "reads something else"),
    "rules": ((MODEL, X), {"method": "deeplift", "rules": pb.rules.guided}, "rules=.* wanted a dict"),
    "baseline of lrp": ((MODEL, X), {"method": "lrp", "baseline": 0}, "takes no baseline="),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str) -> None:
    args, options, words = CASES[name]
    with pytest.raises(SaliencyError, match=words):
        pb.saliency(*args, **options)


@pytest.mark.parametrize("method", ["lrp", "deeplift"])
def test_an_operation_of_no_known_kind_is_named(method: str) -> None:
    def product(x: Any) -> Any:
        return tf.reduce_prod(x, 1)

    with pytest.raises(RuleError, match=r"Prod.*test_bad_input\.py:\d+.*not known to be linear"):
        pb.saliency(product, np.ones((2, 2), "f"), method=method)


@pytest.mark.parametrize("method", ["gradient", "integrated", "guided", "smoothgrad"])
def test_a_model_without_gradient(method: str) -> None:
    with pytest.raises(SaliencyError, match="no gradient of the target reaches x"):
        pb.saliency(flat, np.ones((2, 2), "f"), 0, method)


def test_whole_numbers_of_which_nothing_is_looked_up() -> None:
    def counts(x: Any) -> Any:
        return tf.cast(tf.reduce_sum(x, 1, keepdims=True), "float32")

    with pytest.raises(SaliencyError, match="x holds int32, into which no gradient flows"):
        pb.saliency(counts, np.ones((2, 3), "int32"), 0, "gradient")


def test_a_layer_that_does_not_run() -> None:
    other = keras.layers.Dense(3, name="other")
    with pytest.raises(SaliencyError, match="no gradient of the target reaches layer 'other'"):
        pb.saliency(MODEL, X, 1, "gradient", other)


def test_a_layer_with_two_names() -> None:
    parts = [keras.Sequential([keras.layers.Dense(2, name="same")], name=name) for name in "ab"]
    model = keras.Sequential([keras.Input((2,)), *parts])
    with pytest.raises(SaliencyError, match='names 2 layers: "a/same", "b/same"'):
        pb.saliency(model, np.ones((1, 2), "f"), 1, "gradient", "same")


def test_an_error_of_the_target_is_the_users_own() -> None:
    def broken(y: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        pb.saliency(MODEL, X, broken, "gradient")
