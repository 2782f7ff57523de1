"""Files that would run code, delete a folder or import a module if what they name were done; run as a program, it loads
them in a process of its own and prints what came of each.

    python -m tests.keras.hostile_files FOLDER keras|safe|trusted

Each file has a folder of its own with a file in it, `kept`. Harm is done where anything else is in there afterwards.
"""

import contextlib
import functools
import io
import json
import os
import sys
import traceback
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

Config = dict[str, Any]
# What a refusal of pullback says to do about it.
ADVICE = ("custom_objects=", "safe_mode=False")


class File(NamedTuple):
    """A model with a layer in it that does harm, and how that can be told."""

    layer: Config
    args: Any = None  # what the layer is called with; else the model's input
    is_model: bool = False  # rather than a layer
    is_real: bool = True  # whether it does harm where it is trusted
    advises: bool = True  # whether the refusal says how to trust it
    as_h5: bool = False


# Parts of configurations


def described(name: str, config: Config, **more: Any) -> Config:
    """An object registered by pullback, in a configuration."""
    kind = name.partition(">")[2] or name
    return {"module": None, "class_name": kind, "config": config, "registered_name": name, **more}


def of_keras(name: str, config: Any, module: str = "keras.layers") -> Config:
    return {"module": module, "class_name": name, "config": config, "registered_name": None}


def function(config: Config) -> Config:
    return described("pullback>GradientFunction", config)


def by_name(text: Any) -> Config:
    return function({"by_name": text})


def recipe(*parts: Any, verb: str = "_remake_with") -> Config:
    return {"verb": verb, "parts": [*parts, None]}


def reference(text: str) -> Config:
    return {"pullback_function": text}


def ready(name: str, **options: Any) -> Config:
    return {"recipe": "_remake_ready", "name": name, "options": options}


def kept(value: Any) -> Config:
    return described("pullback>Kept", {"described": value})


def of_input(name: str, config: Config) -> Config:
    return described(name, {"name": "x", **config})


def overridden(rule: Any, target: Any = None, model: Any = None) -> Config:
    line = {"target": kept(target or {"op": "Relu"}), "rule": kept(rule)}
    config = {"model": kept(model or relu()), "lines": [line], "strict": False, "is_part": True}
    return of_input("pullback>Overridden", config)


def relu() -> Config:
    return of_keras("Activation", {"name": "x", "activation": "relu"})


def lambda_layer(config: Config) -> Config:
    return of_keras("Lambda", {"name": "x", "function": config})


def code_of(folder: Path) -> Config:
    """A Lambda layer with the code of a function in it, as Keras writes it."""
    from keras.src.utils import python_utils

    path = str(folder / "harm")
    harmful = eval(f"lambda x: (open({path!r}, 'w').close(), x)[1]")
    code, defaults, closure = python_utils.func_dump(harmful)
    inner = {"code": code, "defaults": defaults, "closure": closure}
    return lambda_layer({"class_name": "__lambda__", "config": inner})


def saved_by_keras(name: str, module: str = "keras.utils") -> Config:
    """A function of Keras that does more than compute."""
    return {"module": module, "class_name": "function", "config": name, "registered_name": name}


def files(folder: Path, module: str) -> dict[str, File]:
    """Every file; `module` is one that does harm when it is imported."""
    command, rule, system = f"touch {folder / 'harm'}", f"{module}:rule", "os:system"
    touch = {"inputs": command}
    code = code_of(folder)
    loss = of_input("pullback>GradientLoss", {"recipe": kept(recipe(mse(), reference(rule)))})
    operation = functools.partial(of_input, "pullback>GradientOperation")
    through = functools.partial(of_input, "pullback>StraightThrough")
    tap = of_input("pullback>Tap", {"of": "norm", "callback": kept(rule)})
    quantizer = described("pullback>Quantize", {"bits": 10**12, "kind": "uniform"})
    dense = of_keras("Dense", {"name": "x", "units": 2})
    of_recipe = of_input(
        "pullback>GradientModel", {"recipe": kept(recipe(code, reference(system)))}
    )
    lambda_by_name = File(lambda_layer(by_name(system)), touch)
    return {
        "a Lambda of a function by name": lambda_by_name,
        "the same in HDF5": lambda_by_name._replace(as_h5=True),
        "a name in two parts": File(
            lambda_layer(by_name({"module": "os", "name": "system"})),
            touch,
            is_real=False,
            advises=False,
        ),
        "an activation": File(of_keras("Activation", {"name": "x", "activation": by_name(rule)})),
        "an activation of a layer": File(
            of_keras("Dense", {"name": "x", "units": 2, "activation": by_name(rule)})
        ),
        "a function with a rule": File(
            lambda_layer(
                function(
                    {"recipe": recipe(reference(system), {"pullback_rule": ready("passthrough")})}
                )
            ),
            touch,
        ),
        "a rule of a function": File(
            lambda_layer(function({"recipe": recipe(reference("keras:ops.relu"), reference(rule))}))
        ),
        "a partial derivative": File(
            lambda_layer(
                function(
                    {
                        "recipe": {
                            "verb": "_remake_partials",
                            "parts": [reference("keras:ops.relu"), {"x": reference(rule)}, None],
                        }
                    }
                )
            )
        ),
        "a function of Keras in a recipe": File(
            lambda_layer(function({"recipe": recipe(saved_by_keras("plot_model"), None)})),
            is_real=False,
        ),
        "a verb of its own": File(
            lambda_layer(function({"recipe": recipe(verb="system")})), is_real=False, advises=False
        ),
        "an operation by name": File(operation({"by_name": system}), [command]),
        "an operation that writes": File(
            operation({"by_name": "tensorflow:io.write_file"}), [str(folder / "harm"), "text"]
        ),
        "an operation that deletes": File(
            operation({"by_name": "tensorflow:io.gfile.rmtree"}), [str(folder)]
        ),
        "a raw operation that writes": File(
            operation({"by_name": "tensorflow:raw_ops.WriteFile"}),
            {"filename": str(folder / "harm"), "contents": "text"},
        ),
        "an operation that runs Python": File(
            operation({"by_name": "tensorflow:numpy_function"}), is_real=False
        ),
        "an operation that loads a library": File(
            operation({"by_name": "tensorflow:load_op_library"}), ["harm.so"], is_real=False
        ),
        "an operation of an operation": File(
            operation({"by_name": "keras:ops.switch"}),
            [0, [saved_by_keras("plot_model")], "harm"],
            is_real=False,
        ),
        "an operation that is a function of Keras": File(
            operation({"function": saved_by_keras("plot_model")}), is_real=False
        ),
        "an operation that exports": File(
            operation({"by_name": "pullback:export"}), [str(folder / "harm")], is_real=False
        ),
        "external code": File(
            operation({"by_name": "pullback.functions.outside.external:external"}), is_real=False
        ),
        "a function of straight-through": File(through({"function": kept(system)}), touch),
        "the same, in HDF5": File(through({"function": kept(rule)}), as_h5=True),
        "a surrogate": File(through({"function": "round", "surrogate": kept(rule)})),
        "a function of Keras, straight through": File(
            through({"function": saved_by_keras("plot_model")}), is_real=False
        ),
        "an attribute of Keras' operations": File(
            through({"function": "__class__"}), is_real=False, advises=False
        ),
        "a callback": File(tap),
        "a callback in HDF5": File(tap, as_h5=True),
        "a rule": File(overridden(rule)),
        "a rule in HDF5": File(overridden(rule), as_h5=True),
        "a rule of Python itself": File(overridden(system), is_real=False),
        "a list of rules": File(overridden([rule, "DEFAULT"])),
        "a callback of a ready-made rule": File(overridden(ready("tap", callback=reference(rule)))),
        "a surrogate of a ready-made rule": File(
            overridden(ready("straight_through", surrogate=reference(rule)))
        ),
        "a rule that is no ready-made one": File(
            overridden(ready("os:system")), is_real=False, advises=False
        ),
        "a recipe that makes no rule": File(
            overridden({**ready("scale"), "recipe": "exec"}), is_real=False, advises=False
        ),
        "a target": File(overridden(ready("guided"), {"function": rule})),
        "a place of a target": File(
            overridden(ready("guided"), {"inside": {"function": rule}, "target": {"op": "Relu"}})
        ),
        "a predicate": File(overridden(ready("guided"), {"where": rule})),
        "code in an overridden model": File(overridden(ready("guided"), model=code), advises=False),
        "a function of Keras under an override": File(
            overridden(ready("guided"), model=saved_by_keras("plot_model")), is_real=False
        ),
        "code in a quantised layer": File(
            of_input(
                "pullback>Quantized",
                {"quantized": code, "spec": {"weights": {}, "activation": None}},
            ),
            advises=False,
        ),
        "code in place of a quantiser": File(
            of_input(
                "pullback>Quantized",
                {"quantized": dense, "spec": {"weights": {"kernel": code}, "activation": None}},
            ),
            is_real=False,
            advises=False,
        ),
        "a quantiser of a size beyond memory": File(quantizer, is_real=False, advises=False),
        "code in a checkpoint": File(
            of_input("pullback>Checkpoint", {"layer": code}), advises=False
        ),
        "code in a layer with a gradient": File(of_recipe, is_real=False, advises=False),
        "a layer from elsewhere under an override": File(
            overridden(
                ready("guided"), model=of_keras("TFSMLayer", {"name": "x", "filepath": str(folder)})
            ),
            is_real=False,
            advises=False,
        ),
        "a loss": File(in_sequence(relu(), loss), is_model=True),
        "a loss by name": File(in_sequence(relu(), by_name(rule)), is_model=True),
        "a model inside a model": File(functional(lambda_by_name.layer, touch)),
    }


def mse() -> Config:
    return of_keras("MeanSquaredError", {"name": "mse"}, "keras.losses")


# Models and files


def functional(layer: Config, args: Any = None) -> Config:
    """A functional model of one layer, which is called with these arguments."""
    tensor = {"shape": [None, 3], "dtype": "float32", "keras_history": ["i", 0, 0]}
    called: Config = {"args": [{"class_name": "__keras_tensor__", "config": tensor}], "kwargs": {}}
    if isinstance(args, dict):
        called = {"args": [], "kwargs": args}
    elif args is not None:
        called = {"args": args, "kwargs": {}}
    inputs = of_keras("InputLayer", {"batch_shape": [None, 3], "dtype": "float32", "name": "i"})
    config = {
        "name": "model",
        "trainable": True,
        "layers": [
            {**inputs, "name": "i", "inbound_nodes": []},
            {**layer, "name": "x", "inbound_nodes": [called]},
        ],
        "input_layers": [["i", 0, 0]],
        "output_layers": [["x", 0, 0]],
    }
    return {**of_keras("Functional", config, "keras.src.models.functional"), "name": "x"}


def in_sequence(layer: Config, loss: Any) -> Config:
    """A compiled model."""
    inputs = of_keras("InputLayer", {"batch_shape": [None, 3], "dtype": "float32", "name": "i"})
    model = of_keras("Sequential", {"name": "model", "layers": [inputs, layer]}, "keras")
    return {**model, "compile_config": {"optimizer": "sgd", "loss": loss}}


def model_of(file: File) -> Config:
    return file.layer if file.is_model else functional(file.layer, file.args)


def write(file: File, path: Path) -> None:
    import h5py

    config = json.dumps(model_of(file))
    if file.as_h5:
        with h5py.File(path, "w") as f:
            f.attrs["model_config"], f.attrs["keras_version"] = config, "3.0.0"
            f.create_group("model_weights").attrs["layer_names"] = []
        return
    weights = io.BytesIO()
    h5py.File(weights, "w").close()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": "3.0.0"}))
        archive.writestr("config.json", config)
        archive.writestr("model.weights.h5", weights.getvalue())


# The program


def ways(file: File, path: Path, options: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The ways to read it: as a file, as text, as a configuration, and by the class itself."""
    import keras

    yield "load_model", lambda: keras.models.load_model(path, **options)
    if file.as_h5 or options:
        return
    text = json.dumps(model_of(file))
    layer = json.loads(json.dumps(file.layer))
    yield "model_from_json", lambda: keras.models.model_from_json(text)
    yield (
        "deserialize_keras_object",
        lambda: keras.saving.deserialize_keras_object(json.loads(text)),
    )
    kind = keras.saving.get_registered_object(file.layer["registered_name"] or "")
    if kind is not None and file.args is None:
        yield "from_config", lambda: kind.from_config(layer["config"])


def outcome(read: Callable[[], Any], folder: Path) -> Config:
    """What came of reading it and of calling what was read."""
    error = ""
    kinds: list[str] = []
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            read()(__import__("numpy").zeros([2, 3], "f"))
    except Exception as raised:
        error = "".join(traceback.format_exception(raised))
        kinds = [kind.__name__ for each in _chain(raised) for kind in type(each).__mro__]
    there = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
    return {"error": error, "kinds": kinds, "is_harmed": there != ["kept"]}


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def fresh(folder: Path, module: str) -> Path:
    """A folder with one file in it, and a module beside it that does harm."""
    folder.mkdir(parents=True)
    (folder / "kept").touch()
    code = f"open({str(folder / 'harm')!r}, 'w').close()\ndef rule(*dy): return dy[0]\n"
    (folder.parent / f"{module}.py").write_text(code, encoding="utf-8")
    return folder


def main(where: Path, mode: str) -> None:
    """Read every file, and print what came of it."""
    os.environ["PATH"] = f"{os.environ['PATH']}:/bin:/usr/bin"
    import keras

    if mode != "keras":
        import pullback

        assert pullback.keras.Tap  # its engine is loaded
    sys.path.insert(0, str(where))
    found: dict[str, Config] = {}
    for number, name in enumerate(files(where, "none")):
        folder, module = where / f"{mode}{number}", f"harm_{mode}{number}"
        file = files(folder, module)[name]
        path = where / f"{mode}{number}{'.h5' if file.as_h5 else '.keras'}"
        options = {"safe_mode": False} if mode == "trusted" else {}
        fresh(folder, module)
        write(file, path)
        for way, read in ways(file, path, options):
            found[f"{name}: {way}"] = outcome(read, folder)
    print(json.dumps(found))
    del keras


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
