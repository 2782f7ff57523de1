"""An overridden Keras model is a model: whatever is made out of it or of its layers carries the override."""

import copy
import pickle
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import ExportError, UnmatchedOverride
from tests.override.helpers import tenfold, times_seven
from tests.override.keras_models import KINDS, ONES, ROWS, functional, input_gradient, subclassed

SEVEN = pb.override({tf.nn.relu: times_seven})


def cut(model: Any) -> Any:
    """The model with an inner tensor as one more output, as Grad-CAM has it."""
    return keras.Model(model.inputs, [model.layers[-2].output, model.outputs[0]])


def through_file(model: Any, folder: Path) -> Any:
    model.save(folder / "model.keras")
    return keras.models.load_model(folder / "model.keras")


def in_functional(model: Any) -> Any:
    inputs = keras.Input((3,))
    return keras.Model(inputs, model(inputs) * 1.0)


class Holder(keras.Model):
    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def call(self, x: Any) -> Any:
        return self.inner(x)


def exported(model: Any, folder: Path) -> Any:
    model.export(str(folder / "saved"), verbose=False)
    loaded = tf.saved_model.load(str(folder / "saved"))
    return lambda x: (loaded, loaded.serve(x))[1]


def saved(model: Any, folder: Path) -> Any:
    tf.saved_model.save(model, str(folder / "saved"))
    loaded = tf.saved_model.load(str(folder / "saved"))
    return lambda x: next(iter(loaded.signatures["serving_default"](x).values()))


def exported_by_us(model: Any, folder: Path) -> Any:
    pb.export(model, folder / "saved", signature=[tf.TensorSpec([None, 3])])
    loaded = tf.saved_model.load(str(folder / "saved"))
    return lambda x: (loaded, loaded.serve(x))[1]


Use = Callable[[Any, Path], Any]
OF_ANY: dict[str, Use] = {
    "called": lambda m, _: m,
    "its call": lambda m, _: m.call,
    "in a graph": lambda m, _: tf.function(lambda x: m(x)),
    "its call in a graph": lambda m, _: tf.function(lambda x: m.call(x)),
    "in a functional model": lambda m, _: in_functional(m),
    "in a sequential model": lambda m, _: keras.Sequential([keras.Input((3,)), m]),
    "in a subclassed model": lambda m, _: Holder(m),
    "cloned": lambda m, _: keras.models.clone_model(m),
    "deepcopied": lambda m, _: copy.deepcopy(m),
    "pickled": lambda m, _: pickle.loads(pickle.dumps(m)),
    "through a file": through_file,
    "model.export": exported,
    "tf.saved_model.save": saved,
    "pb.export": exported_by_us,
}
OF_GRAPHS: dict[str, Use] = {
    "cut": lambda m, _: cut(m),
    "cut, in a graph": lambda m, _: tf.function(lambda x: cut(m)(x)),
    "cut, cloned": lambda m, _: keras.models.clone_model(cut(m)),
    "cut, deepcopied": lambda m, _: copy.deepcopy(cut(m)),
    "cut, through a file": lambda m, folder: through_file(cut(m), folder),
    "cut twice": lambda m, _: cut(cut(m)) if len(m.layers) > 3 else cut(m),
    "cloned, cut": lambda m, _: cut(keras.models.clone_model(m)),
    "through a file, cut": lambda m, folder: cut(through_file(m, folder)),
}
CASES = [
    (kind, use) for kind in KINDS for use in OF_ANY | (OF_GRAPHS if kind != "subclassed" else {})
]


@pytest.mark.filterwarnings("ignore:The structure of `inputs`")
@pytest.mark.parametrize(("kind", "use"), CASES)
def test_whatever_is_made_of_it(kind: str, use: str, tmp_path: Path) -> None:
    make, plain, wanted = KINDS[kind]
    model = make()
    made = (OF_ANY | OF_GRAPHS)[use](SEVEN(model), tmp_path)
    assert input_gradient(made) == wanted
    assert input_gradient(model) == plain


@pytest.mark.parametrize("kind", ["sequential", "nested", "subclassed"])
def test_layers_one_by_one(kind: str) -> None:
    model = KINDS[kind].make()
    twin = SEVEN(model)

    def by_hand(layers: list[Any], x: Any) -> Any:
        for layer in layers:
            x = x if isinstance(layer, keras.layers.InputLayer) else layer(x)
        return x

    assert input_gradient(lambda x: by_hand(twin.layers, x)) == -14.0
    assert input_gradient(lambda x: by_hand(model.layers, x)) == 2.0


def test_the_head_of_a_model() -> None:
    twin = SEVEN(functional())
    head = keras.Model(twin.get_layer("conv").output, twin.output)
    assert input_gradient(head, np.ones((4, 2), "f")) == 49.0


def test_a_part_of_a_nested_model() -> None:
    twin = SEVEN(KINDS["nested"].make())
    backbone = twin.get_layer("backbone")
    part = keras.Model(backbone.inputs, backbone.get_layer("conv").output)
    assert input_gradient(part) == -14.0


def test_attributes_and_methods_of_a_subclassed_model() -> None:
    model = subclassed()
    for owner, once, twice in ((model, 2.0, 2.0), (SEVEN(model), -14.0, 98.0), (model, 2.0, 2.0)):
        assert input_gradient(owner.encoder) == once
        assert input_gradient(owner.get_layer("conv")) == once
        assert input_gradient(lambda x, owner=owner: owner.parts[0](owner.encoder(x))) == once
        assert input_gradient(owner.encode) == twice
        assert input_gradient(owner.encode_in_graph) == twice


def test_a_layer_inside_a_layer() -> None:
    class Block(keras.Layer):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.by_name = {"first": keras.layers.Dense(2, activation="relu", **ONES)}
            self.nested = [[self.by_name["first"]]]

        def call(self, x: Any) -> Any:
            return tf.nn.relu(self.by_name["first"](x))

    inputs = keras.Input((3,))
    model = keras.Model(inputs, Block(name="block")(inputs))
    twin = SEVEN(model)
    assert input_gradient(twin.get_layer("block")) == 98.0
    assert input_gradient(twin.get_layer("block").call) == 98.0
    assert input_gradient(twin.get_layer("block").by_name["first"]) == -14.0
    assert input_gradient(twin.get_layer("block").nested[0][0]) == -14.0
    assert input_gradient(model.get_layer("block").by_name["first"]) == 2.0
    with pytest.raises(AttributeError, match="append"):
        twin.get_layer("block").nested.append(1)


@keras.saving.register_keras_serializable("tests")
def is_rectify(op: Any) -> bool:
    return op.type == "Relu" and op.layer == "rectify"


TARGETS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "layer": (lambda m: m.get_layer("conv"), 20.0),
    "class": (lambda m: keras.layers.Dense, 200.0),
    "name": (lambda m: re.compile("con.", re.IGNORECASE), 20.0),
    "keras operation": (lambda m: keras.ops.relu, 2000.0),
    "op": (lambda m: "Relu", 2000.0),
    "where": (lambda m: pb.where(is_rectify), 20.0),
    "inside a layer": (lambda m: pb.inside(m.get_layer("conv"), tf.nn.relu), 20.0),
    "inside the model": (lambda m: pb.inside(m, tf.nn.relu), 2000.0),
    "inside the model by name": (lambda m: pb.inside(re.compile("net"), tf.nn.relu), 2000.0),
    "inside a class": (lambda m: pb.inside(keras.layers.ReLU, "Relu"), 20.0),
}
AGAIN = ["cloned", "deepcopied", "through a file", "cut", "cut, cloned", "cut, through a file"]


@pytest.mark.parametrize("use", AGAIN)
@pytest.mark.parametrize("name", TARGETS)
def test_targets_go_on_matching(name: str, use: str, tmp_path: Path) -> None:
    target, wanted = TARGETS[name]
    model = functional()
    twin = pb.override({target(model): tenfold})(model)
    assert input_gradient((OF_ANY | OF_GRAPHS)[use](twin, tmp_path)) == wanted


@pytest.mark.parametrize("use", ["cloned", "deepcopied", "pickled", "through a file"])
def test_a_layer_of_a_nested_model_as_target(use: str, tmp_path: Path) -> None:
    model = KINDS["nested"].make()
    inner = model.get_layer("backbone").get_layer("conv")
    for target in (inner, pb.inside(model.get_layer("backbone"), "Relu")):
        twin = pb.override({target: tenfold})(model)
        assert input_gradient(OF_ANY[use](twin, tmp_path)) == 20.0


def test_a_list_of_rules_through_a_file(tmp_path: Path) -> None:
    model = KINDS["sequential"].make()
    twin = pb.override({"MatMul": [times_seven_of_first, pb.DEFAULT]})(model)
    assert input_gradient(through_file(twin, tmp_path)) == 98.0


@keras.saving.register_keras_serializable("tests")
def times_seven_of_first(dy: Any, *, original: Any) -> Any:
    return -7.0 * original(dy)[0]


def test_two_overrides(tmp_path: Path) -> None:
    once = SEVEN(functional())
    twice = pb.override({keras.layers.Dense: tenfold})(once)
    assert input_gradient(once) == -686.0
    assert input_gradient(twice) == -68600.0
    for use in ("cut", "cloned", "deepcopied", "through a file", "pb.export"):
        assert input_gradient((OF_ANY | OF_GRAPHS)[use](twice, tmp_path)) == -68600.0


def test_a_model_that_contains_an_overridden_one() -> None:
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Dense(1, **ONES)(SEVEN(functional())(inputs)))
    twin = pb.override({keras.layers.Dense: tenfold})(model)
    assert input_gradient(model) == -686.0
    assert input_gradient(twin) == -686000.0
    assert input_gradient(keras.Model(twin.input, twin.output)) == -686000.0


# What it is.


def test_it_looks_like_the_model() -> None:
    model = functional()
    twin = SEVEN(model)
    lines: list[str] = []
    twin.summary(print_fn=lambda text, **_: lines.append(text))
    assert "conv (Dense)" in "\n".join(lines)
    assert isinstance(twin.get_layer("conv"), keras.layers.Dense)
    assert [layer.name for layer in twin.layers] == [layer.name for layer in model.layers]
    assert [w.path for w in twin.weights] == [w.path for w in model.weights]
    assert all(a is b for a, b in zip(twin.weights, model.weights, strict=True))
    assert twin.get_config()["name"] == "net"
    assert twin.output.shape == model.output.shape


def test_layers_are_one_with_those_of_the_model() -> None:
    model = functional()
    twin = SEVEN(model)
    twin.get_layer("conv").set_weights([np.full((3, 2), 3.0, "f")])
    assert input_gradient(model) == 6.0
    model.get_layer("conv").trainable = False
    assert len(twin.trainable_weights) == len(model.trainable_weights) == 3
    keras.Model(twin.inputs, twin.output)
    assert len(model.get_layer("conv")._outbound_nodes) == 1


def test_layers_added_to_a_sequential_model_are_its_own() -> None:
    model = KINDS["sequential"].make()
    twin = SEVEN(model)
    twin.add(keras.layers.Dense(1, activation="relu", name="more", **ONES))
    assert input_gradient(twin) == 98.0
    assert len(model.layers) == 2
    twin.pop()
    assert input_gradient(cut(twin)) == -14.0


def test_a_cut_trains() -> None:
    model = KINDS["sequential"].make()
    part = cut(SEVEN(model))
    part.compile(keras.optimizers.SGD(1e-3), [None, "mse"])
    before = model.get_layer("conv").kernel.numpy()
    part.fit(ROWS, [np.zeros((4, 2), "f"), np.zeros((4, 1), "f")], batch_size=4, verbose=0)
    # The loss is 6², its gradient 12 for each weight, and −7 times that under the override.
    np.testing.assert_allclose(model.get_layer("conv").kernel - before, 0.084, rtol=1e-3)


# What is said.


def test_a_target_that_is_nowhere_is_an_error_once_all_has_run() -> None:
    never = pb.override({tf.nn.gelu: tenfold})
    with pytest.raises(UnmatchedOverride, match="gelu did not run here"):
        cut(never(functional()))(ROWS)
    twin = never(KINDS["sequential"].make())
    hidden = twin.layers[0](ROWS)
    with pytest.raises(UnmatchedOverride, match="gelu did not run here"):
        twin.layers[1](hidden)


def test_a_target_that_is_not_in_a_part_is_a_warning() -> None:
    twin = pb.override({tf.nn.gelu: tenfold})(functional())
    part = keras.Model(twin.input, twin.get_layer("conv").output)
    with pytest.warns(UserWarning, match="in a part of what was overridden: .*gelu did not run"):
        part(ROWS)
    twin = SEVEN(functional())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        keras.Model(twin.input, twin.get_layer("conv").output)(ROWS)


def test_keras_cannot_export_a_part_and_we_say_what_can(tmp_path: Path) -> None:
    part = cut(SEVEN(functional()))
    with pytest.raises(ExportError, match=r"Write it with `pb.export"):
        part.export(str(tmp_path / "theirs"), verbose=False)
    pb.export(part, tmp_path / "ours")
    loaded = tf.saved_model.load(str(tmp_path / "ours"))
    assert input_gradient(lambda x: loaded.serve([x])) == -686.0


def test_the_old_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"Save an overridden model as `\.keras`"):
        SEVEN(functional()).save(tmp_path / "model.h5")


def test_rules_without_a_name_can_be_copied_but_not_written(tmp_path: Path) -> None:
    twin = pb.override({tf.nn.relu: lambda dy: -7.0 * dy})(functional())
    assert input_gradient(keras.models.clone_model(twin)) == -686.0
    assert input_gradient(copy.deepcopy(twin)) == -686.0
    with pytest.raises(ExportError, match=r"the rule .*lambda.* cannot be written to a file"):
        twin.save(tmp_path / "model.keras")


def test_the_audit_names_the_layers_of_the_user() -> None:
    changed = pb.override({"Relu": times_seven})
    cut(changed(functional()))(ROWS)
    assert {m.place.layer for m in changed.audit.rows[0].matches} >= {"conv", "rectify"}
