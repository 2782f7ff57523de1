"""Arguments, outputs and gradients that are structures: what is known as one is taken apart in every mode alike.

What is not known as one hides its tensors from the rule. Where that leaves a rule without anything to speak of, or
takes an upstream from it, the call is an error, in every mode as well.
"""

import collections
import dataclasses
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import optree
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import RuleResultError, UnsupportedError
from tests.modes import MODES, SECOND_ORDER, assert_in_mode

X = np.array([0.5, -1.5, 2.0], np.float32)
Y = np.array([3.0, 0.25, -2.0], np.float32)
SOME_MODES = [
    "eager",
    "tf.function, tape outside",
    "tf.gradients",
    "XLA",
    "tf.while_loop",
    "vectorized_map",
    "forward mode",
]


class Slots:
    """As attrs makes its classes with slots: what they hold is listed in `__attrs_attrs__`."""

    __slots__ = ("_b", "a", "name")
    __attrs_attrs__ = tuple(types.SimpleNamespace(name=name) for name in ("a", "_b", "name"))

    def __init__(self, a: Any, b: Any, name: Any = "slots") -> None:
        for field, value in (("a", a), ("_b", b), ("name", name)):
            object.__setattr__(self, field, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("frozen")

    @property
    def b(self) -> Any:
        return self._b


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: Any
    b: Any
    name: Any = "frozen"


@dataclasses.dataclass
class Unset:
    a: Any
    b: Any
    later: Any = dataclasses.field(init=False)


class Pair(collections.namedtuple("Pair", "a b")):
    def product(self) -> Any:
        return self.a * self.b


class View(collections.abc.Mapping[str, Any]):
    def __init__(self, content: Any) -> None:
        self._content = dict(content)

    def __getitem__(self, key: str) -> Any:
        return self._content[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)


class Registered:
    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


optree.register_pytree_node(
    Registered, lambda r: ((r.a, r.b), None), lambda _, ab: Registered(*ab), namespace="pullback"
)


def product(pair: Any) -> Any:
    return pair.a * pair.b


class Tenfold(list[Any]):
    """Shows another value than it stores."""

    def __getitem__(self, key: Any) -> Any:
        return 10.0 * list.__getitem__(self, key)


class ByAttribute(dict[str, Any]):
    __getattr__ = dict.__getitem__


def by_attribute(a: Any, b: Any) -> ByAttribute:
    return ByAttribute(a=a, b=b)


class Ordered(collections.OrderedDict[str, Any]):
    unit = "m"


class Default(collections.defaultdict[str, Any]):
    pass


def default(a: Any, b: Any) -> Default:
    made = Default(lambda: 1.0)
    made.update(a=a, b=b)
    return made


def product_of_items(pair: Any) -> Any:
    return pair["a"] * pair["b"]


def product_of_row(row: Any) -> Any:
    return row[0] * row[1]


# How a structure of two tensors is made, how it is multiplied, and gradients for it.
Form = Callable[[Any, Any], Any]
STRUCTURES: dict[str, tuple[Form, Callable[[Any], Any], Form]] = {
    "attrs": (Slots, product, lambda a, b: Slots(a, b, None)),
    "attrs, a dict as the gradient": (Slots, product, lambda a, b: {"a": a, "_b": b, "name": None}),
    "attrs in a list in attrs": (
        lambda a, b: Slots([Slots(a, None)], b),
        lambda pair: pair.a[0].a * pair.b,
        lambda a, b: Slots([Slots(a, None, None)], b, None),
    ),
    "dataclass": (Frozen, product, lambda a, b: Frozen(a, b, None)),
    "dataclass, a field not set": (Unset, product, Unset),
    "namedtuple": (Pair, Pair.product, Pair),
    "UserDict": (lambda a, b: collections.UserDict(a=a, b=b), product_of_items, dict.fromkeys),
    "Mapping": (lambda a, b: View({"a": a, "b": b}), product_of_items, dict.fromkeys),
    "a read-only dict": (
        lambda a, b: types.MappingProxyType({"a": a, "b": b}),
        product_of_items,
        dict.fromkeys,
    ),
    "a list of its own class": (
        lambda a, b: Tenfold([a, b]),
        lambda row: row[0] * row[1] / 100.0,
        lambda a, b: [a, b],
    ),
    "a dict of its own class": (by_attribute, lambda pair: pair.a * pair.b, by_attribute),
    "an OrderedDict of its own class": (
        lambda a, b: Ordered(a=a, b=b),
        product_of_items,
        dict.fromkeys,
    ),
    "a defaultdict of its own class": (
        default,
        lambda pair: pair["a"] * pair["b"] * pair["other"],
        lambda a, b: {"a": a, "b": b},
    ),
    "UserList": (lambda a, b: collections.UserList([a, b]), product_of_row, lambda a, b: [a, b]),
    "deque": (lambda a, b: collections.deque([a, b]), product_of_row, lambda a, b: (a, b)),
    "registered": (Registered, product, Registered),
}
for name, (make, multiply, _) in list(STRUCTURES.items()):
    if multiply is product_of_items:
        STRUCTURES[name] = make, multiply, lambda a, b: {"a": a, "b": b}
        STRUCTURES[f"{name} as the gradient"] = make, multiply, make


@pytest.mark.parametrize("mode", SOME_MODES)
@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_are_taken_apart(name: str, mode: str) -> None:
    make, multiply, gradient = STRUCTURES[name]

    def function(x, y):
        return pb.with_gradient(multiply, lambda dy: gradient(7.0 * dy, 9.0 * dy))(make(x, y))

    xs = [tf.constant(X), tf.constant(Y)]
    assert_in_mode(MODES[mode], function, xs, [7 + 0 * X, 9 + 0 * Y])


@pytest.mark.parametrize("mode", [*SOME_MODES, "second order, eager", "second order, tapes inside"])
def test_attrs_as_inputs_outputs_and_what_a_rule_asks_for(mode: str) -> None:
    """The outputs (2a, 3b) with the gradients (10a · da, b · db) for upstreams da and db of ones."""

    @pb.custom_gradient
    def function(pair):
        def backward(dpair, *, inputs, original):
            plain = original(dpair)
            assert (inputs["pair"].name, plain.name) == ("slots", None)
            return Slots(5.0 * plain.a * inputs[0].a, plain.b * inputs[0].b / 3.0, None)

        return Slots(2.0 * pair.a, 3.0 * pair.b), backward

    def summed(x, y):
        made = function(Slots(x, y))
        return [made.a, made.b]

    xs = [tf.constant(X), tf.constant(Y)]
    first = [10.0 * X, Y]
    wanted = first if mode in MODES else [200.0 * X, 2.0 * Y]
    assert_in_mode({**MODES, **SECOND_ORDER}[mode], summed, xs, wanted)


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_in_a_functional_model(name: str) -> None:
    """Keras does not see into most of these itself."""
    make, multiply, gradient = STRUCTURES[name]
    function = pb.with_gradient(multiply, lambda dy: gradient(7.0 * dy, 9.0 * dy))
    a, b = keras.Input((3,)), keras.Input((3,))
    model = keras.Model([a, b], function(make(a, b)))
    xs = [tf.constant([X]), tf.constant([Y])]
    with tf.GradientTape() as tape:
        tape.watch(xs)
        z = model(xs)
    np.testing.assert_allclose(z, [X * Y])
    found = [g.numpy().tolist() for g in tape.gradient(z, xs)]
    assert found == [[[7.0] * 3], [[9.0] * 3]]


@pytest.mark.parametrize("mode", SOME_MODES)
@pytest.mark.parametrize("overridden", [False, True])
def test_containers_without_tensors_are_passed_as_they_are(mode: str, overridden: bool) -> None:
    """They may be written into, and may be of a class with methods of its own."""

    def scaled(x, log, options):
        log.append(options.factor)
        return x * options.factor

    def rule(dy, *, inputs):
        return 7.0 * dy * inputs["options"].factor

    def function(x):
        log: list[float] = []
        call = scaled if overridden else pb.with_gradient(scaled, rule)
        y = call(x, log, ByAttribute(factor=3.0))
        assert set(log) == {3.0}
        return y

    wrapped = pb.override({scaled: rule})(function) if overridden else function
    assert_in_mode(MODES[mode], wrapped, [tf.constant(X)], [21 + 0 * X])


def test_what_a_function_returns_keeps_its_class() -> None:
    made = pb.with_gradient(lambda x: ByAttribute(a=2.0 * x), lambda dy: dy["a"])(tf.constant(X))
    assert type(made) is ByAttribute
    np.testing.assert_allclose(made.a, 2.0 * X)


def test_a_static_field_is_no_place_for_a_gradient() -> None:
    function = pb.with_gradient(product, lambda dy: Slots(dy, dy))
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(Slots(x, x))
    with pytest.raises(RuleResultError, match=r"'slots' for the static argument `pair\.name"):
        tape.gradient(y, x)


# Objects that nothing can take apart, and functions that hold tensors themselves.


class Own:
    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b

    def method(self) -> Any:
        return self.a * self.b

    def __call__(self) -> Any:
        return self.a * self.b

    @pb.custom_gradient
    def decorated(self) -> Any:
        return self.a * self.b, refuse


class InSlots:
    __slots__ = ("a", "b")

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


class ByProperty:
    def __init__(self, a: Any, b: Any) -> None:
        self._read = lambda: (a, b)

    a = property(lambda self: self._read()[0])
    b = property(lambda self: self._read()[1])


def array_of(*things: Any) -> Any:
    made = np.empty(len(things), object)
    for i, thing in enumerate(things):
        made[i] = thing
    return made


def refuse(dy: Any) -> Any:
    raise AssertionError("a rule without anything to speak of was asked")


def hiding(function: Any, *args: Any, **kwargs: Any) -> Any:
    return pb.with_gradient(function, refuse)(*args, **kwargs)


NO_SAY = "given no tensor that a gradient can flow into, but uses "
HIDDEN: dict[str, tuple[Form, str]] = {
    "a namespace": (
        lambda x, y: hiding(product, types.SimpleNamespace(a=x, b=y)),
        NO_SAY + "`pair.a`",
    ),
    "an object": (lambda x, y: hiding(product, Own(x, y)), NO_SAY + "`pair.a`"),
    "an object by keyword": (lambda x, y: hiding(product, pair=Own(x, y)), NO_SAY + "`pair.a`"),
    "an object beside whole numbers": (
        lambda x, y: hiding(lambda pair, n: product(pair), Own(x, y), tf.constant(3)),
        NO_SAY + "`pair.a`",
    ),
    "an object in a list": (
        lambda x, y: hiding(lambda pairs: product(pairs[0]), [Own(x, y)]),
        NO_SAY + r"`pairs\[0\]\.a`",
    ),
    "an object in an object": (
        lambda x, y: hiding(lambda pair: product(pair.a[0]), Own([Own(x, y)], 2.0)),
        NO_SAY + r"`pair\.a\[0\]\.a`",
    ),
    "slots": (lambda x, y: hiding(product, InSlots(x, y)), NO_SAY + "`pair.a`"),
    "properties": (lambda x, y: hiding(product, ByProperty(x, y)), NO_SAY),
    "a method": (lambda x, y: hiding(Own(x, y).method), NO_SAY + "`self.a`"),
    "a decorated method": (lambda x, y: Own(x, y).decorated(), NO_SAY + "`self.a`"),
    "a callable object": (lambda x, y: hiding(Own(x, y)), NO_SAY + "`self.a`"),
    "a traced method": (lambda x, y: hiding(tf.function(Own(x, y).method)), NO_SAY),
    "a partial": (
        lambda x, y: hiding(functools.partial(tf.multiply, x, y)),
        NO_SAY + r"`partial\[0\]`",
    ),
    "a closure": (lambda x, y: hiding(lambda: x * y), NO_SAY + "`x`"),
    "a generator": (lambda x, y: hiding(sum, (v for v in (x, y))), NO_SAY),
    "a set": (
        lambda x, y: hiding(lambda s: tf.add_n([r.deref() for r in s]), {x.ref(), y.ref()}),
        NO_SAY,
    ),
    "an array of objects": (
        lambda x, y: hiding(product_of_row, array_of(x, y)),
        NO_SAY + r"`row\[0\]`",
    ),
    "an object, with partial derivatives": (
        lambda x, y: pb.with_partials(product, pair=refuse)(Own(x, y)),
        NO_SAY + "`pair.a`",
    ),
    "an object, under custom_gradient": (
        lambda x, y: pb.custom_gradient(lambda pair: (product(pair), refuse))(Own(x, y)),
        NO_SAY + "`pair.a`",
    ),
    "an object, with a rule for variables if there are any": (
        lambda x, y: pb.with_gradient(product, lambda dy, variables=None: None)(Own(x, y)),
        NO_SAY + "`pair.a`",
    ),
    "an object as the output": (
        lambda x, y: product(pb.with_gradient(lambda a, b: Own(2 * a, b), refuse)(x, y)),
        r"returned Own .* which hides Own\.a, .* from its rule",
    ),
    "an object among outputs": (
        lambda x, y: pb.with_gradient(lambda a, b: (a * b, Own(2.0 * a, b)), refuse)(x, y)[1].a,
        r"returned Own .* which hides Own\.a, .* from its rule",
    ),
    "a generator among outputs": (
        lambda x, y: next(
            pb.with_gradient(lambda a, b: (a * b, (v * 2.0 for v in [a, b])), refuse)(x, y)[1]
        ),
        "returned generator .* which hides what it will give",
    ),
}


@pytest.mark.parametrize("mode", SOME_MODES)
@pytest.mark.parametrize("name", HIDDEN)
def test_what_hides_tensors_from_a_rule_is_an_error_at_the_call(name: str, mode: str) -> None:
    function, words = HIDDEN[name]
    with pytest.raises(UnsupportedError, match=words):
        MODES[mode](function, [tf.constant(X), tf.constant(Y)])


def test_the_error_says_how_to_pass_them() -> None:
    with pytest.raises(UnsupportedError, match=r"Pass tensors as arguments, .* dataclass or attrs"):
        MODES["eager"](HIDDEN["an object"][0], [tf.constant(X), tf.constant(Y)])


def test_an_object_with_symbolic_tensors_in_a_model_that_is_being_built() -> None:
    with pytest.raises(UnsupportedError, match=NO_SAY + "`pair.a`"):
        hiding(product, Own(keras.Input((3,)), keras.Input((3,))))


def test_a_class_may_be_registered_after_the_error() -> None:
    class Late:
        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

    def function(x, y):
        return pb.with_gradient(product, lambda dy: Late(7.0 * dy, 9.0 * dy))(Late(x, y))

    xs = [tf.constant(X), tf.constant(Y)]
    with pytest.raises(UnsupportedError, match=NO_SAY):
        MODES["eager"](function, xs)
    optree.register_pytree_node(
        Late, lambda r: ((r.a, r.b), None), lambda _, ab: Late(*ab), namespace="pullback"
    )
    assert_in_mode(MODES["eager"], function, xs, [7 + 0 * X, 9 + 0 * Y])


# Objects that hold tensors which are none of the rule's business.


class Config:
    """With a tensor that nobody differentiates, one that is not used, and a variable."""

    scale = tf.constant(3.0)
    weight = tf.Variable(2.0)

    def __init__(self, unused: Any = None) -> None:
        self.unused = unused

    @pb.custom_gradient
    def penalty(self) -> Any:
        return self.scale * self.weight, lambda dy: None


SCALE = tf.constant(3.0)
HARMLESS: dict[str, tuple[Form, list[float | None]]] = {
    "a constant in an object": (
        lambda x, y: hiding(lambda config: config.scale * 2.0, Config()) * x * y,
        [1.5 * 6, 0.5 * 6],
    ),
    "a tensor that is not used": (
        lambda x, y: hiding(lambda config: config.scale * 2.0, Config(x)) * x * y,
        [1.5 * 6, 0.5 * 6],
    ),
    "a constant around": (lambda x, y: hiding(lambda: SCALE * 2.0) * x * y, [1.5 * 6, 0.5 * 6]),
    "a variable and a constant": (lambda x, y: Config().penalty() * x * y, [1.5 * 6, 0.5 * 6]),
    "whole numbers made of an argument": (
        lambda x, y: hiding(lambda: tf.cast(tf.size(x), tf.float32)) * x * y,
        [1.5, 0.5],
    ),
    "a tensor in an object beside one that is passed": (
        lambda x, y: pb.with_gradient(lambda a, o: a * o.b, lambda dy: 7.0 * dy)(x, Own(None, y)),
        [7.0, 0.5],
    ),
    "an output that holds what was there before": (
        lambda x, y: pb.with_gradient(lambda a, o: (a * o.b, o), lambda dy, _: 7.0 * dy)(
            x, Own(None, y)
        )[0],
        [7.0, 0.5],
    ),
}


@pytest.mark.parametrize("mode", ["eager", "tf.gradients", "tf.function, tape outside"])
@pytest.mark.parametrize("name", HARMLESS)
def test_objects_with_other_tensors_are_no_error(name: str, mode: str) -> None:
    function, wanted = HARMLESS[name]
    assert_in_mode(MODES[mode], function, [tf.constant(0.5), tf.constant(1.5)], wanted)


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "traced"])
def test_a_gradient_for_a_call_without_tensors_is_refused(wrap: Any) -> None:
    variable = tf.Variable(2.0)
    function = pb.custom_gradient(lambda: (3.0 * variable, lambda dy: 5.0 * dy))
    refused = pytest.raises(RuleResultError, match=r"1 gradient .* for a call without tensors")
    with tf.GradientTape() as tape, refused:
        tape.gradient(wrap(function)(), variable)


@pytest.mark.parametrize("kind", [ValueError, TypeError], ids=lambda k: k.__name__)
def test_what_does_not_fit_is_the_usual_error_as_well(kind: type[Exception]) -> None:
    """As TensorFlow's own errors of wrong gradients are."""
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = pb.with_gradient(lambda x: x * x, lambda dy: (dy, dy))(x)
    with pytest.raises(kind, match="2 gradients") as caught:
        tape.gradient(y, x)
    assert isinstance(caught.value, RuleResultError)


@pytest.mark.parametrize(
    "mode", ["eager", "tf.function, tape outside", "tf.gradients", "tf.while_loop"]
)
def test_a_list_of_tensors_that_a_function_closes_over_keeps_its_gradient(mode: str) -> None:
    def function(x, y):
        written = tf.TensorArray(tf.float32, 1).write(0, y)
        return pb.with_gradient(lambda a: a * written.stack()[0], lambda dy: 7.0 * dy)(x)

    xs = [tf.constant(X), tf.constant(Y)]
    assert_in_mode(MODES[mode], function, xs, [7 + 0 * X, X])
