"""An existing model with quantised weights and activations: a copy, whose layers are of classes derived from their own.

Such a layer runs as it did, with its kernels read rounded; what rounds them are `Quantize` layers inside it. It is
saved as the layer that it was and what is quantised of it, and so is a model that makes its layers itself.
"""

from __future__ import annotations

import math
import re
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import keras
import numpy as np

from pullback.engines.tensorflow.keras_support.quantize_layer import Quantize
from pullback.engines.tensorflow.keras_support.saving import copy_of
from pullback.engines.tensorflow.names_in_files import keras_object, passed
from pullback.engines.tensorflow.tf_private import keras_models, overriding

Spec = Mapping[str, Any]  # "weights": a Quantize for each by name; "activation": one, or None
# Of which no output is negative, so that a sign would waste half of the levels.
_NEVER_NEGATIVE: Final = frozenset(
    {"relu", "relu6", "sigmoid", "hard_sigmoid", "softplus", "softmax", "exponential"}
)


def quantize(
    model: Any,
    bits: int = 8,
    *,
    weights: str | None = "lsq",
    activations: str | None = None,
    activation_bits: int | None = None,
    layers: Iterable[Any] | None = None,
    keep: Iterable[Any] = (),
    examples: Any = None,
) -> Any:
    """A copy of a model that is trained with quantised weights, activations, or both; the model is left as it is.

    `weights` and `activations` are kinds of `pb.keras.Quantize`, or `None`. Weights are the kernels of layers,
    activations the outputs of layers with an activation function, before the last layer with a kernel. `layers` are
    those to quantise: layers, names, classes or compiled regular expressions; else all. `keep` are those to leave
    alone, in the same words, or `"first"` and `"last"`. Learned steps of weights start from the weights, those of
    activations from `examples`, or from the first batch of training. Compile the copy, and train it.

    >>> import keras, pullback as pb
    >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, "relu"), keras.layers.Dense(2)])
    >>> small = pb.keras.quantize(model, bits=2, keep=["last"])
    >>> [type(layer).__name__ for layer in small.layers]
    ['QuantizedDense', 'Dense']
    """
    _require_model(model)
    kinds = {"weights": weights, "activation": activations}
    sizes = {"weights": bits, "activation": activation_bits or bits}
    chosen = _chosen(model, layers, keep, kinds)
    if activations == "uniform" and examples is None:
        raise ValueError(
            'quantize got activations="uniform" and no examples; their range is that of examples=…. '
            'Pass some, or write activations="lsq", which learns it.'
        )
    inside = _layers_of(model)
    last = _ends(inside).get("last", inside[-1])
    before = inside[: _place(last, inside)]
    specs = [
        (_place(layer, inside), _spec_of(layer, kinds, sizes, _is_among(layer, before)))
        for layer in chosen
    ]
    places = [(place, spec) for place, spec in specs if spec["weights"] or spec["activation"]]
    made = _with_specs(_copy_with_weights(model), places)
    if examples is not None:
        _start(made, examples)
    return made


def _require_model(model: Any) -> None:
    if not isinstance(model, keras.Model):
        raise TypeError(f"quantize got {model!r}; wanted a Keras model.")
    if not model.built:
        raise ValueError(
            f"the model {model.name!r} has no weights yet. Call it with data, or `model.build(shape)`, before."
        )


def _copy_with_weights(model: Any) -> Any:
    # By a clone where that can be: it makes each layer from its own class, which then need not be registered.
    has_graph = isinstance(model, (keras_models.Functional, keras.Sequential))
    copied = keras.models.clone_model(model) if has_graph else copy_of(model)
    if not copied.built:
        copied.build_from_config(model.get_build_config())
    copied.set_weights(model.get_weights())
    return copied


# Which layers


def _layers_of(model: Any) -> list[Any]:
    """The layers of a model, without those that quantise others: the same ones before and after."""
    inside = keras_models.layers_inside(model)
    own = [
        each for layer in inside if isinstance(layer, QuantizedLayer) for each in layer.quantizers
    ]
    return [layer for layer in inside if not _is_among(layer, own)]


def _place(layer: Any, layers: Sequence[Any]) -> int:
    return next(i for i, each in enumerate(layers) if each is layer)


def _chosen(model: Any, layers: Any, keep: Any, kinds: Mapping[str, str | None]) -> list[Any]:
    """The layers to quantise, in the order of the model."""
    inside = _layers_of(model)
    able = [layer for layer in inside if _has_any(layer, kinds)]
    kept = _named(keep, inside, _ends(able))
    wanted = able if layers is None else _named(layers, inside, {})
    unable = [layer.name for layer in wanted if not _has_any(layer, kinds)]
    if unable:
        raise ValueError(
            f"quantize got layers without anything to quantise: {', '.join(unable)}. "
            f"There are {', '.join(layer.name for layer in able) or 'none in this model'}."
        )
    chosen = [e for e in able if _is_among(e, wanted) and not _is_among(e, kept)]
    if not chosen:
        raise ValueError(
            f"there is nothing to quantise in the model {model.name!r}: no layer that is left has a kernel, or an "
            "activation where that is wanted."
        )
    return chosen


def _ends(able: Sequence[Any]) -> dict[str, Any]:
    """The first and last layer that have kernels."""
    found = [layer for layer in able if _kernels_of(layer)]
    return {"first": found[0], "last": found[-1]} if found else {}


def _named(words: Iterable[Any], layers: Sequence[Any], ends: Mapping[str, Any]) -> list[Any]:
    """The layers that are meant by these words: each of them must mean one."""
    found: list[Any] = []
    if isinstance(words, (str, re.Pattern, type, keras.Layer)):
        words = [words]
    for word in words:
        is_end = isinstance(word, str) and word in ends
        meant = [ends[word]] if is_end else [e for e in layers if _is_meant(word, e)]
        if not meant:
            names = ", ".join(
                e.name for e in layers[1:] if not isinstance(e, keras.layers.InputLayer)
            )
            raise ValueError(f"quantize got {word!r}, which no layer is; there are {names}.")
        found += meant
    return found


def _is_meant(word: Any, layer: Any) -> bool:
    if isinstance(word, str):
        return word in (layer.name, layer.path)
    if isinstance(word, re.Pattern):
        return any(map(word.fullmatch, (layer.name, layer.path or "")))
    return isinstance(layer, word) if isinstance(word, type) else layer is word


def _is_among(layer: Any, layers: Iterable[Any]) -> bool:
    return any(layer is each for each in layers)


# What of a layer


def _has_any(layer: Any, kinds: Mapping[str, str | None]) -> bool:
    has_kernels = kinds["weights"] is not None and bool(_kernels_of(layer))
    return has_kernels or (kinds["activation"] is not None and _activation_of(layer) is not None)


def _kernels_of(layer: Any) -> list[Any]:
    """The weights of a layer of its own that make up matrices; biases and scales are few, and stay as they are."""
    if keras_models.direct_layers(layer):
        return []
    own = [w for w in layer.variables if w.trainable or not layer.trainable]
    return [w for w in own if len(w.shape) > 1 and w.name != "bias"]


def _activation_of(layer: Any) -> str | None:
    """The name of the activation function of a layer; `None` if it has none."""
    is_cell = hasattr(layer, "state_size")  # whose outputs the next step reads
    if keras_models.direct_layers(layer) or is_cell:
        return None
    if isinstance(layer, keras.layers.ReLU):
        return "relu" if not layer.negative_slope else "leaky_relu"
    name = getattr(getattr(layer, "activation", None), "__name__", None)
    return None if name == "linear" else name


def _spec_of(
    layer: Any, kinds: Mapping[str, str | None], bits: Mapping[str, int], is_inner: bool
) -> Spec:
    """What is quantised of a layer, as `Quantize` layers; the outputs of the model itself are not."""
    found: dict[str, Any] = {"weights": {}, "activation": None}
    if kinds["weights"] is not None:
        for weight in _kernels_of(layer):
            options = _range_of(kinds["weights"], np.max(np.abs(weight)))
            found["weights"][weight.name] = Quantize(
                bits["weights"], kinds["weights"], dtype="float32", **options
            )
    activation = _activation_of(layer)
    if is_inner and kinds["activation"] is not None and activation is not None:
        signed = activation not in _NEVER_NEGATIVE
        found["activation"] = Quantize(bits["activation"], kinds["activation"], signed)
    return found


def _range_of(kind: str, largest: float) -> dict[str, Any]:
    """The options of a quantiser for numbers up to a largest one."""
    largest = float(largest) or 1.0
    if kind == "uniform":
        return {"low": -largest, "high": largest}
    return {"largest": math.ceil(math.log2(largest))} if kind == "power_of_two" else {}


# The layers and models that come of it


class _Described:
    """What stands before a class of Keras' in one that is made here: how files describe it."""

    __pullback_class__: type

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The layer or model that a file describes."""
        if "quantized" not in config:  # of the layer's own class, for which Keras takes this one
            return vars(cls)["__pullback_class__"].from_config(config)
        with passed(custom_objects):
            layer = keras_object(config["quantized"])
            if "spec" in config:
                return _quantized(layer, _read(config["spec"]))
            places = [(place, _read(spec)) for place, spec in config["places"]]
        return _with_specs(layer, places)


class QuantizedLayer(_Described):
    """A layer of which weights are read, or outputs given, rounded."""

    weight_quantizers: dict[str, Any]
    activation_quantizer: Any

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """The layer's own call, with weights and outputs rounded."""
        own: Any = super()
        layer: Any = self
        known = self.weight_quantizers
        rounded = [(w, known[w.name](w)) for w in layer.variables if w.name in known]
        with keras_models.reading(layer, rounded):
            outputs = overriding.converted(own.call)(*args, **kwargs)
        quantizer = self.activation_quantizer
        return outputs if quantizer is None else quantizer(outputs)

    @property
    def quantizers(self) -> list[Any]:
        """What rounds its weights and outputs."""
        return [*self.weight_quantizers.values(), self.activation_quantizer]

    def get_config(self) -> dict[str, Any]:
        """The layer that it was, and what is quantised of it."""
        layer: Any = self
        return {"name": layer.name, "quantized": _as_it_was(self), "spec": _written(self)}


class QuantizedModel(_Described):
    """A model with quantised layers inside, of which its own configuration does not tell."""

    def get_config(self) -> dict[str, Any]:
        """The model that it was, and what is quantised of which layer."""
        model: Any = self
        inside = enumerate(_layers_of(self))
        places = [(i, _written(each)) for i, each in inside if isinstance(each, QuantizedLayer)]
        return {"name": model.name, "quantized": _as_it_was(self), "places": places}


def _with_specs(model: Any, places: Iterable[tuple[int, Spec]]) -> Any:
    """A model of which these layers are quantised, in place."""
    inside = _layers_of(model)
    for place, spec in places:
        if not isinstance(inside[place], QuantizedLayer):
            _quantized(inside[place], spec)
    if any(map(_makes_its_layers, keras_models.layers_inside(model))):
        model.__class__ = _class_for(type(model), QuantizedModel)
    return model


def _makes_its_layers(layer: Any) -> bool:
    """Whether layers inside are not told by the configuration of a layer or model."""
    tells = (keras_models.Functional, keras.Sequential, QuantizedLayer, _Described)
    return bool(keras_models.direct_layers(layer)) and not isinstance(layer, tells)


def _quantized(layer: Any, spec: Spec) -> Any:
    with keras_models.unlocked(layer):
        layer.weight_quantizers = dict(spec["weights"])
        layer.activation_quantizer = spec["activation"]
    layer.__class__ = _class_for(type(layer), QuantizedLayer)
    for weight in layer.variables:
        quantizer = layer.weight_quantizers.get(weight.name)
        if quantizer is not None and quantizer.kind == "lsq":
            quantizer.start(weight)
    return layer


def _start(model: Any, examples: Any) -> None:
    """Start the quantisers of activations from what the model makes of examples."""
    inside = [e for e in keras_models.layers_inside(model) if isinstance(e, QuantizedLayer)]
    quantizers = [e.activation_quantizer for e in inside if e.activation_quantizer is not None]
    for quantizer in quantizers:
        quantizer.is_starting = True
    try:
        model(examples, training=False)
    finally:
        for quantizer in quantizers:
            quantizer.is_starting = False


def _written(layer: Any) -> dict[str, Any]:
    """What is quantised of a layer, for a file."""
    write = keras.saving.serialize_keras_object
    quantizer = layer.activation_quantizer
    weights = {name: write(each) for name, each in layer.weight_quantizers.items()}
    return {"weights": weights, "activation": None if quantizer is None else write(quantizer)}


def _read(spec: Any) -> Spec:
    weights = {name: _live(each) for name, each in spec["weights"].items()}
    return {"weights": weights, "activation": spec["activation"] and _live(spec["activation"])}


def _live(part: Any) -> Any:
    """A layer out of a file, or one that Keras has read already."""
    return part if isinstance(part, keras.Layer) else keras_object(part)


def _as_it_was(layer: Any) -> Any:
    """The configuration of a layer or model of its own class."""
    made = type(layer)
    layer.__class__ = made.__pullback_class__
    try:
        return keras.saving.serialize_keras_object(layer)
    finally:
        layer.__class__ = made


_classes: weakref.WeakKeyDictionary[type, type] = weakref.WeakKeyDictionary()
_register = keras.saving.register_keras_serializable("pullback", "Quantized")


def _class_for(base: type, kind: type) -> type:
    if base not in _classes:
        names = {"__module__": base.__module__, "__doc__": base.__doc__, "__pullback_class__": base}
        _classes[base] = type(f"Quantized{base.__name__}", (kind, base), names)
        # Keras writes the name under which a class is registered; any of these classes can read it.
        _register(_classes[base])
    return _classes[base]


def install() -> None:
    """Let Keras read what is quantised; the other layers of `pullback.keras` are known by now, too."""
    # Any of these classes can read any file: see `_Described.from_config`.
    keras.saving.get_custom_objects()["pullback>Quantized"] = _Described
