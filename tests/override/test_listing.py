"""`pb.targets`: each expression that is listed matches and changes the gradient; nothing is left changed."""

import random
import re
import sys
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import TargetError
from tests.override import listed
from tests.override.helpers import times_seven

X = tf.constant([1.0, -2.0, 3.0])


def other(*dy: Any, inputs: Any, original: Any) -> Any:
    """Different from the ordinary gradient wherever there is one, and ones where there is none."""
    given = original(*dy) if original is not None else None
    if all(g is None for g in tf.nest.flatten(given)):
        return tf.ones_like(inputs[0])
    return tf.nest.map_structure(
        lambda g: None if g is None else 3.0 * tf.convert_to_tensor(g) + 1.0, given
    )


def gradients(function: Any, args: Any) -> list[np.ndarray]:
    sources = [x for x in args if x.dtype.is_floating]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        outputs = function(*args)
    found = tape.gradient(outputs, [*sources, *tape.watched_variables()])
    return [np.zeros(1) if g is None else tf.convert_to_tensor(g).numpy() for g in found]


def equal(some: list[np.ndarray], others: list[np.ndarray]) -> bool:
    return all(np.allclose(a, b, 1e-5, 1e-7) for a, b in zip(some, others, strict=True))


def meant(row: Any, **names: Any) -> Any:
    space = {
        "tf": tf,
        "keras": keras,
        "re": re,
        "tests": sys.modules["tests"],
        **vars(listed),
        **names,
    }
    return eval(row.expression, space)


@pytest.mark.parametrize("name", listed.CALLS)
def test_what_is_listed_matches_and_changes_the_gradient(name: str) -> None:
    model, args = listed.CALLS[name]()
    found = pb.targets(model, *args)
    plain = gradients(model, args)
    assert equal(plain, gradients(model, args))
    for row in found:
        assert meant(row, model=model) == row.target, row
        with pb.override({row.target: other}) as changed:
            assert not equal(plain, gradients(model, args)), row
        assert changed.audit.rows[0].reachable >= row.count, row


def test_of_a_large_model_too() -> None:
    model, args = listed.mobile()
    found = pb.targets(model, *args)
    assert len(str(found).splitlines()) <= 4 * 22 + 1
    plain = gradients(model, args)
    layers = found.of("layer")
    activation = [row for row in found if row.expression in ("tf.nn.relu6", '"Relu6"')]
    assert [row.count for row in activation] == [35, 35]
    for row in [*found.of("layer class"), *layers[:: len(layers) // 5], *activation]:
        assert meant(row, model=model) == row.target, row
        with pb.override({row.target: other}):
            assert not equal(plain, gradients(model, args)), row


def test_of_a_model_whose_activation_is_made_of_other_ops() -> None:
    model, args = listed.convnext()
    rows = {row.expression: row for row in pb.targets(model, *args)}
    names = ("keras.activations.gelu", "tf.nn.gelu", '"Erfc"')
    assert [rows[name].count for name in names] == [18, 18, 18]
    plain = gradients(model, args)
    with pb.override({"Erfc": other}):
        assert not equal(plain, gradients(model, args))


def test_nobody_has_to_know_what_an_activation_is_made_of() -> None:
    dense = keras.layers.Dense(3, activation="gelu", name="mixer")
    found = pb.targets(lambda x: dense(x[None]), X)
    rows = {row.expression: row for row in found}
    assert rows["keras.activations.gelu"].where == ("mixer",)
    assert rows['"Erfc"'].count == 1
    assert rows["dense"].target is dense
    assert rows["keras.layers.Dense"].kind == "layer class"


def expressions(function: Any, *args: Any) -> set[str]:
    return {row.expression for row in pb.targets(function, *args)}


def test_what_decides_nothing_is_left_out() -> None:
    found = expressions(listed.flowing, tf.constant([1.0, 2.0]))
    assert {"tf.round", "tf.nn.gelu", "tests.override.listed.helped"} <= found
    assert not {"tf.nn.softplus", "tf.exp", "tf.cast", '"Softplus"', '"Cast"', '"Exp"'} & found

    def stopped(x: Any) -> Any:
        return tf.stop_gradient(tf.sin(x)) + tf.cos(x) + tf.exp(tf.constant(1.0))

    assert not {'"Sin"', "tf.sin", '"Exp"'} & expressions(stopped, X)
    assert '"Cos"' in expressions(stopped, X)


def test_what_runs_in_a_custom_gradient_is_left_out() -> None:
    @tf.custom_gradient
    def hides(x: Any) -> Any:
        return tf.sinh(x), lambda dy: dy

    found = pb.targets(lambda x: hides(tf.cosh(x)), X)
    assert [row.expression for row in found] == ["tf.cosh", "hides", '"Cosh"']


def test_nested_models_and_names_of_the_caller() -> None:
    inner = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="d")], name="inner")
    net = keras.Sequential([keras.Input((3,)), inner, keras.layers.ReLU(name="r")])
    found = pb.targets(net, tf.ones([1, 3]))
    assert [row.expression for row in found.of("layer")] == [
        'net.get_layer("inner")',
        'net.get_layer("inner").get_layer("d")',
        'net.get_layer("r")',
    ]
    assert pb.targets(lambda x: net(x), tf.ones([1, 3])).of("layer")[0].expression == "net"


def test_data_and_text() -> None:
    found = pb.targets(lambda x: tf.nn.relu(tf.nn.relu(x)), X)
    assert [(row.kind, row.expression, row.count) for row in found] == [
        ("function", "tf.nn.relu", 2),
        ("op", '"Relu"', 2),
    ]
    assert len(found) == 2
    assert str(found) == repr(found)
    assert "1 function, 1 op type" in str(found)
    with pytest.raises(AttributeError, match="cannot assign"):
        found.rows[0].count = 3  # pyright: ignore[reportAttributeAccessIssue]


def test_layers_that_differ_by_numbers_are_one_line_which_is_a_target() -> None:
    layers = [keras.layers.Dense(3, activation="relu", name=f"dense_{i}_x") for i in range(30)]
    model = keras.Sequential([keras.Input((3,)), *layers])
    lines = str(pb.targets(model, tf.ones([1, 3]))).splitlines()
    (line,) = [line for line in lines if "re.compile" in line]
    assert "30 layers" in line
    pattern = eval(line.split()[0], {"re": re})
    with pb.override({pattern: times_seven}) as changed:
        gradients(model, (tf.ones([1, 3]),))
    assert changed.audit.rows[0].effective == 30


def test_nothing_is_left_changed() -> None:
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5, seed=3),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse")
    model.fit(np.ones([4, 3]), np.ones([4, 1]), verbose=0)
    steps = tf.Variable(0.0)

    def trained(x: Any) -> Any:
        steps.assign_add(1.0)
        noise = tf.random.normal([1]) + np.random.normal() + random.random()
        noise += tf.random.get_global_generator().normal([1])
        return model(x, training=True) + noise

    def state() -> list[Any]:
        held = [*model.variables, *model.optimizer.variables]
        return [steps.numpy(), *map(keras.ops.convert_to_numpy, held)]

    def drawn() -> list[float]:
        mine = float(tf.random.get_global_generator().normal([]))
        return [float(tf.random.normal([])), np.random.normal(), random.random(), mine]

    tf.random.set_global_generator(tf.random.Generator.from_seed(1))
    keras.utils.set_random_seed(5)
    before, wanted = state(), drawn()
    tf.random.set_global_generator(tf.random.Generator.from_seed(1))
    keras.utils.set_random_seed(5)
    assert pb.targets(trained, tf.ones([2, 3])).of("layer class")
    assert drawn() == wanted
    assert all(np.array_equal(a, b) for a, b in zip(before, state(), strict=True))
    assert sys.getprofile() is None
    assert float(tf.nn.relu(3.0)) == 3.0


def test_under_an_override_that_is_open() -> None:
    with pb.override({tf.nn.relu: times_seven}):
        assert "tf.nn.relu" in expressions(tf.nn.elu, X) | expressions(lambda x: tf.nn.relu(x), X)


def sevenfold_original(*dys: Any, original: Any) -> Any:
    return tf.nest.map_structure(lambda g: 7.0 * g, original(*dys))


@pytest.mark.parametrize("rule", [times_seven, sevenfold_original])
@pytest.mark.parametrize(
    ("target", "names"),
    [("Relu", {'"Relu"'}), (tf.nn.relu, {"tf.nn.relu", "keras.activations.relu"})],
)
def test_of_an_overridden_model(target: Any, names: set[str], rule: Any) -> None:
    layers = [keras.Input((3,)), keras.layers.Dense(2, "relu"), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    overridden = pb.override({target: rule})(model)
    plain, found = pb.targets(model, X[None]), pb.targets(overridden, X[None])
    assert [(row.kind, row.count) for row in found] == [(row.kind, row.count) for row in plain]
    assert {row.expression for row in found if row.overridden} == names
    assert not any(row.overridden for row in plain)


def test_of_an_overridden_layer() -> None:
    layers = [keras.Input((3,)), keras.layers.Dense(2, name="first"), keras.layers.ReLU()]
    model = keras.Sequential(layers)
    for target, kind in ((layers[1], "layer"), (keras.layers.Dense, "layer class")):
        overridden = pb.override({target: sevenfold_original})(model)
        (row,) = [row for row in pb.targets(overridden, X[None]) if row.overridden]
        assert (row.kind, row.count) == (kind, 1)


@pytest.mark.parametrize(
    ("function", "args", "words"),
    [
        (3, (), "takes a model or function .* got 3"),
        (tf.matmul, (tf.ones([2, 3]), tf.ones([2, 3])), "the call raised InvalidArgumentError"),
        (tf.nn.relu, (), "the call raised TypeError"),
        (tf.argmax, (X,), "nothing in this call of argmax.* can be overridden: no gradient flows"),
        (lambda x: 2.0, (X,), "no gradient flows from its outputs"),
        (tf.nn.relu, (tf.constant([1, 2]),), "Pass floating-point tensors"),
    ],
)
def test_calls_of_which_nothing_can_be_said(function: Any, args: Any, words: str) -> None:
    with pytest.raises(TargetError, match=words):
        pb.targets(function, *args)


def test_a_target_that_did_not_run_points_to_the_list() -> None:
    words = r"tf.nn.relu did not run here.*`pb.targets\(model_or_function, \*args\)` lists"
    with pytest.raises(pb.UnmatchedOverride, match=words), pb.override({tf.nn.relu: times_seven}):
        tf.nn.elu(X)
