"""Every way in which TensorFlow runs and differentiates a function: one table for tests, `pb.check` and the docs.

A mode gives the gradient of the sum of all floating-point outputs of a function. The result must be the same in all
of them. `MODES` holds those of first order, `SECOND_ORDER` those that differentiate the squared gradient again.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from pullback.errors import PullbackError

Function = Callable[..., Any]
Array = npt.NDArray[np.float64]
Differentiate = Callable[[Function, Sequence[Any], Sequence[Any]], list[Any]]


@dataclass(frozen=True)
class Mode:
    """How a function is run, and how what then runs is differentiated."""

    name: str
    run: Callable[[Function], Function]
    differentiate: Differentiate
    # Whether TensorFlow gives `None` wherever nothing flows; the other modes give zeros there.
    gives_none: bool = True
    # Whether gradients of variables that the function reads can be asked for.
    takes_variables: bool = True
    # Whether `pb.check` compares this mode with eager execution.
    check: Literal["by default", "on request", "never"] = "never"

    def gradients(
        self, function: Function, xs: Sequence[Any], variables: Sequence[Any] = ()
    ) -> list[Any]:
        """The gradients for arguments and variables as tensors."""
        return self.differentiate(self.run(function), xs, variables)

    def __call__(self, function: Function, xs: Sequence[Any]) -> list[Array | None]:
        """The gradients for the arguments as float64 arrays."""
        found = _dense(self.gradients(function, xs))
        if not self.gives_none:
            found = [tf.zeros_like(x) if g is None else g for x, g in zip(xs, found, strict=True)]
        return [None if g is None else np.asarray(g, np.float64) for g in found]

    @property
    def is_forward(self) -> bool:
        """Whether tangents are pushed forward instead of gradients pulled back."""
        return self.differentiate is in_forward_mode


def total(outputs: Any) -> Any:
    """The sum of all floating-point outputs."""
    leaves = tf.nest.flatten(outputs, expand_composites=True)
    floats = [leaf for leaf in leaves if tf.as_dtype(leaf.dtype).is_floating]
    return tf.add_n([tf.reduce_sum(tf.cast(leaf, tf.float64)) for leaf in floats])


def _dense(gradients: Iterable[Any]) -> list[Any]:
    return [None if g is None else tf.convert_to_tensor(g) for g in gradients]


def directly(function: Function) -> Function:
    """Run a function as it is."""
    return function


def traced(body: Function) -> Callable[[Function], Function]:
    """Run in a tf.function, in the way of a body that is given the function and its arguments."""
    # TensorFlow warns of functions with the same code that are traced again; a partial has no code.
    return lambda function: tf.function(functools.partial(body, function))


def with_unknown_shapes(function: Function) -> Function:
    """Run in a tf.function that knows only the ranks of its arguments."""

    def run(*args: Any) -> Any:
        signature = [tf.TensorSpec([None] * len(x.shape), x.dtype) for x in args]
        return tf.function(function, input_signature=signature)(*args)

    return run


def in_function(function: Function, *args: Any) -> Any:
    """Call through a tf.function."""
    return tf.function(function)(*args)


def in_cond(function: Function, *args: Any) -> Any:
    """Call in a branch of tf.cond that is chosen at run time."""
    always = tf.reduce_sum(tf.ones([2])) > 0.0
    return tf.cond(always, lambda: total(function(*args)), lambda: tf.constant(0.0, tf.float64))


def in_while_loop(function: Function, *args: Any) -> Any:
    """Call in the body of a tf.while_loop."""

    def body(i: Any, found: Any) -> Any:
        return i + 1, found + total(function(*args))

    return tf.while_loop(lambda i, _: i < 1, body, (0, tf.constant(0.0, tf.float64)))[1]


def with_tape(function: Function, xs: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
    """Differentiate with a tape around the call."""
    with tf.GradientTape() as tape:
        tape.watch(xs)
        loss = total(function(*xs))
    return tape.gradient(loss, [*xs, *variables])


def with_tf_gradients(function: Function, xs: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
    """Differentiate with tf.gradients, which works only in a graph."""
    return tf.gradients(total(function(*xs)), [*xs, *variables])


def with_jacobian(function: Function, xs: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
    """Differentiate with `tape.jacobian`; the gradient is its first row."""
    with tf.GradientTape() as tape:
        tape.watch(xs)
        losses = tf.stack([total(function(*xs))] * 2)
    try:
        rows = tape.jacobian(losses, [*xs, *variables])
    except ValueError as error:  # TensorFlow puts one of its own around every ValueError
        raise error.__cause__ if isinstance(error.__cause__, PullbackError) else error from None
    return [None if g is None else g[0] for g in rows]


def inside(differentiate: Differentiate, **options: Any) -> Differentiate:
    """Call and differentiate in one tf.function."""

    def run(function: Function, xs: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        def step(*args: Any) -> list[Any]:
            return _dense(differentiate(function, args, variables))

        return tf.function(functools.partial(step), **options)(*xs)

    return run


def on_replicas(function: Function, xs: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
    """Differentiate in each replica, on two logical CPUs where the process has set them up."""
    strategy = tf.distribute.MirroredStrategy(tf.config.list_logical_devices("CPU")[:2])

    def replica(*args: Any) -> list[Any]:
        return _dense(with_tape(function, args, variables))

    found = tf.function(lambda *args: strategy.run(replica, args))(*xs)
    return [strategy.experimental_local_results(g)[-1] for g in found]


def over_rows(mapper: Function) -> Differentiate:
    """Map over a batch of two equal rows, and take the gradient of the first."""

    def mapped(function: Function, xs: Sequence[Any], _: Sequence[Any]) -> list[Any]:
        def batched(*args: Any) -> Any:
            return mapper(lambda row: total(function(*row)), args)

        found = with_tape(batched, [tf.stack([x, x]) for x in xs], ())
        return [None if g is None else g[0] for g in _dense(found)]

    return mapped


def push_forward(function: Function, xs: Sequence[Any], sources: Any, tangents: Any) -> Any:
    """The tangents of all outputs for tangents of some sources; zeros where nothing flows."""
    with tf.autodiff.ForwardAccumulator(sources, tangents) as accumulator:
        outputs = function(*xs)
    return accumulator.jvp(outputs, unconnected_gradients=tf.UnconnectedGradients.ZERO)


def in_forward_mode(function: Function, xs: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
    """Push a unit tangent forward for each entry of each source."""
    found: list[Any] = []
    for source in [*xs, *variables]:
        units = np.eye(int(np.prod(source.shape)))
        tangents = [tf.reshape(tf.constant(unit, source.dtype), source.shape) for unit in units]
        entries = [total(push_forward(function, xs, source, tangent)) for tangent in tangents]
        found.append(tf.reshape(tf.stack(entries) if entries else source, source.shape))
    return found


class WeightsModel(keras.Model):
    """A model whose weights are the arguments and whose loss is the function."""

    def __init__(self, function: Function, xs: Sequence[Any]) -> None:
        super().__init__()
        self.function = function
        self.ws = [self.add_weight(shape=x.shape, initializer="zeros", dtype=x.dtype) for x in xs]
        for weight, x in zip(self.ws, xs, strict=True):
            weight.assign(x)

    def call(self, rows: Any) -> Any:
        self.add_loss(total(self.function(*[weight.value for weight in self.ws])))
        return rows


def with_fit(**options: Any) -> Differentiate:
    """Take one step of `Model.fit`."""

    def fitted(function: Function, xs: Sequence[Any], _: Sequence[Any]) -> list[Any]:
        model = WeightsModel(function, xs)
        # At rate zero no weight moves, and without decay the momentum is the gradient itself.
        optimizer = keras.optimizers.Adam(learning_rate=0.0, beta_1=0.0)
        model.compile(optimizer, **options)
        quiet: Any = 0  # Keras takes a number here, and says a text
        model.fit(np.zeros([2, 1], "f"), batch_size=2, epochs=1, verbose=quiet)
        return [v.value for v in optimizer.variables if v.path.endswith("momentum")]

    return fitted


def _table(*modes: Mode) -> dict[str, Mode]:
    return {mode.name: mode for mode in modes}


_jit = functools.partial(tf.function, jit_compile=True)
_traced_map = functools.partial(in_function, tf.vectorized_map)
_map_fn = functools.partial(tf.map_fn, fn_output_signature=tf.float64)
_in_rows = functools.partial(Mode, run=directly, takes_variables=False)
_in_fit = functools.partial(Mode, run=directly, takes_variables=False, gives_none=False)

MODES = _table(
    Mode("eager", directly, with_tape),
    Mode("tf.function, tape outside", tf.function, with_tape, check="by default"),
    Mode("tf.function, tape outside, unknown shapes", with_unknown_shapes, with_tape),
    Mode("tf.function, tape inside", directly, inside(with_tape), check="by default"),
    Mode("tf.gradients", directly, inside(with_tf_gradients)),
    Mode("nested tf.function, tape outside", traced(in_function), with_tape),
    Mode("nested tf.function, tape inside", tf.function, inside(with_tape)),
    Mode("XLA", _jit, with_tape, check="on request"),
    Mode("XLA, tape inside", directly, inside(with_tape, jit_compile=True)),
    Mode("tf.cond", traced(in_cond), with_tape),
    Mode("tf.while_loop", traced(in_while_loop), with_tape, gives_none=False),
    _in_rows("tf.map_fn", differentiate=over_rows(_map_fn)),
    _in_rows("vectorized_map", differentiate=over_rows(tf.vectorized_map), check="on request"),
    _in_rows("vectorized_map in tf.function", differentiate=over_rows(_traced_map)),
    Mode("jacobian", directly, with_jacobian),
    Mode("forward mode", directly, in_forward_mode, gives_none=False, check="on request"),
    Mode("forward mode through tf.function", tf.function, in_forward_mode, gives_none=False),
    _in_fit("fit", differentiate=with_fit()),
    _in_fit("fit, XLA", differentiate=with_fit(jit_compile=True)),
    _in_fit("fit, run eagerly", differentiate=with_fit(run_eagerly=True)),
    Mode("MirroredStrategy", directly, on_replicas),
)


def _second_order(name: str, first: str, second: str, *, gives_none: bool = True) -> Mode:
    """The gradient, by the second mode, of the squared gradient, by the first."""

    def run(function: Function) -> Function:
        def squares(*args: Any) -> list[Any]:
            found = _dense(MODES[first].gradients(function, args))
            return [tf.square(g) for g in found if g is not None]

        return MODES[second].run(squares)

    return Mode(name, run, MODES[second].differentiate, gives_none)


SECOND_ORDER = _table(
    _second_order("second order, eager", "eager", "eager"),
    _second_order(
        "second order, tapes outside", "tf.function, tape outside", "eager", gives_none=False
    ),
    _second_order("second order, first tape inside", "eager", "tf.function, tape outside"),
    _second_order("second order, tapes inside", "eager", "tf.function, tape inside"),
    _second_order("second order, tapes inside, XLA", "eager", "XLA, tape inside"),
    _second_order(
        "second order, forward mode over a tape", "eager", "forward mode", gives_none=False
    ),
    _second_order(
        "second order, tape over forward mode, inside", "forward mode", "tf.function, tape inside"
    ),
)
