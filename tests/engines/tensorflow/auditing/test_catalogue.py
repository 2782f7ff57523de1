"""What is audited of TensorFlow and Keras, and the lists that calls are made from."""

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

from pullback.engines.tensorflow import auditing
from pullback.engines.tensorflow.auditing import filling, making
from pullback.engines.tensorflow.auditing.listing import aliases, catalogue
from pullback.engines.tensorflow.auditing.recipes import recipes, why_no_layer, why_not_alone


def test_there_are_many_of_every_sort() -> None:
    names = auditing.names()
    assert sum(name.startswith("tf.raw_ops.") for name in names) > 350
    for place in (
        "tf.math.",
        "tf.nn.",
        "tf.linalg.",
        "keras.layers.",
        "keras.losses.",
        "keras.ops.",
    ):
        assert sum(name.startswith(place) for name in names) >= 30


def test_a_function_is_listed_once_with_its_other_names() -> None:
    assert "tf.math.sin" in aliases()["tf.sin"]
    assert "tf.math.sin" not in catalogue()


@pytest.mark.parametrize("kind", ["ops", "functions", "layers", "losses"])
def test_recipes_are_for_what_there_is(kind: str) -> None:
    places = {"ops": tf.raw_ops, "layers": keras.layers, "losses": keras.losses}
    names = recipes(kind)
    missing = [n for n in names if kind in places and not hasattr(places[kind], n)]
    assert missing + [n for n in names if kind == "functions" and n not in catalogue()] == []


@pytest.mark.parametrize(
    ("name", "least"),
    [("tf.raw_ops.Conv2D", 10), ("tf.sparse.softmax", 2), ("keras.layers.GRU", 6), ("tf.sin", 2)],
)
def test_calls_run_and_differ(name: str, least: int) -> None:
    cases = auditing.cases(name)
    assert len(cases) >= least
    for case in cases:
        function, args = auditing.function(case)
        function(*args)


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("tf.math.xlogy", "tf.raw_ops.Xlogy"),
        ("keras.ops.arctan2", "tf.raw_ops.Atan2"),
        ("tf.sin", "tf.raw_ops.Sin"),
    ],
)
def test_a_function_gets_the_inputs_of_the_op_that_it_is(name: str, op: str) -> None:
    def inputs_of(name: str) -> set[tuple[str, ...]]:
        return {
            (case.what, *(f"{v.shape}{v.dtype}{v.tolist()}" for v in case.inputs.values()))
            for case in auditing.cases(name)
        }

    assert inputs_of(op) <= inputs_of(name)


def test_a_name_is_listed_as_what_it_means() -> None:
    assert auditing.listed_as("tf.keras.layers.AvgPool1D") == "keras.layers.AveragePooling1D"
    assert auditing.listed_as("tf.math.atan2") == "tf.atan2"
    assert auditing.listed_as("tf.nowhere.atan2") == auditing.listed_as("numpy.sin") == ""


def test_inputs_of_a_call_are_named_shaped_and_of_a_kind() -> None:
    call, inputs = filling.parsed("f({x:2,3}, {a:3,3:definite}, {s:})")
    assert call == "f(x, a, s)"
    assert inputs == [("x", (2, 3), ""), ("a", (3, 3), "definite"), ("s", (), "")]
    made = filling.filled(inputs, filling.signed, "float32", "seed")
    assert np.linalg.eigvalsh(made["a"]).min() > 0
    assert [v.shape for v in made.values()] == [(2, 3), (3, 3), ()]


def test_a_call_is_made_from_the_names_of_parameters() -> None:
    def smooth(x: object, axis: int, y: object, keepdims: bool = False) -> None: ...

    first = next(making.templates(smooth, "smooth"))
    assert first == "smooth(x={x:4}, axis=0, y={y:4})"
    assert list(making.variants(smooth, first)) == [
        (f"{first[:-1]}, keepdims=True)", "keepdims=True")
    ]


def test_other_sizes() -> None:
    assert filling.resized("f({x:2,3}, {y:4:positive})", 1) == "f({x:1,1}, {y:1:positive})"
    assert filling.resized("f({x:2,3}, {y:4})", 0) == "f({x:0,3}, {y:0})"


def test_what_cannot_be_called_has_a_reason() -> None:
    assert why_not_alone("NcclReduce") == "needs several GPUs"
    assert why_not_alone("Conv2D") == ""
    assert why_no_layer("JaxLayer") == "runs what is not Keras"
    assert why_no_layer("Dense") == ""


def test_what_is_said_to_mend_a_function_is_there() -> None:
    import pullback as pb

    mends = {auditing.mended_by(name) for name in auditing.names()} - {""}
    assert mends
    for name in mends:
        assert inspect.isroutine(getattr(pb.functions, name.removeprefix("pb.functions."))) or name
