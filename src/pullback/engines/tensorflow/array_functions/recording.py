"""What tapes know: what a function reads of it, pullbacks by tapes, and computations that they do not see."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.array_functions.for_functions import is_array
from pullback.engines.tensorflow.attach import closed_over
from pullback.engines.tensorflow.attach.splice import captures
from pullback.engines.tensorflow.tf_private import transposing
from pullback.extend import rehearsing, set_for

Pull = Callable[[Sequence[Any]], list[Any]]
_LARGE = 2**15  # entries
accumulator_is_open = transposing.accumulator_is_open


def untracked(
    compute: Callable[[Sequence[Any]], Sequence[Any]],
    given: Sequence[Any],
    others: Sequence[Any] = (),
) -> list[Any]:
    """The arrays that a function of arrays computes, as constants, of whose making nothing is kept.

    Code that runs at once and reads what tapes know, which may be among others, runs as a graph of its own: to stop the
    tapes around it would stop those in it as well. So do large arrays, for which it takes less time.
    """
    if not tf.executing_eagerly():
        with private.stop_recording():
            return [tf.stop_gradient(a) for a in compute(given)]
    if not _is_watched([*given, *others]) and not _are_large(given):
        return [private.detached(tf.convert_to_tensor(a)) for a in compute(given)]
    with private.stop_recording():
        # As arguments: what a graph closes over lives as long as it, which is until Python collects cycles.
        xs = [tf.convert_to_tensor(a) for a in given]
        run = tf.function(lambda *args: compute(args), autograph=False)
        return list(map(private.detached, run.get_concrete_function(*xs)(*xs)))


def _are_large(arrays: Sequence[Any]) -> bool:
    return private.could_possibly_record() and any(
        (a.shape.num_elements() or 0) >= _LARGE for a in arrays
    )


def unrecorded(compute: Callable[[], Sequence[Any]]) -> list[Any]:
    """The same for what opens no tape."""
    with private.stop_recording():
        found = [tf.convert_to_tensor(a) for a in compute()]
    return found if tf.executing_eagerly() else [tf.stop_gradient(a) for a in found]


def noted_values(sources: Sequence[Any]) -> Callable[[], Any]:
    """Note what variables hold; what is returned tells later whether they still hold it.

    A value that was read takes no memory of its own. A loop would keep it once for each round: there it is not noted.
    """
    looped = not tf.executing_eagerly() and private.is_in_control_flow(
        tf.compat.v1.get_default_graph()
    )
    variables = [] if looped else [s for s in sources if isinstance(s, tf.Variable)]
    then = unrecorded(lambda: variables)

    def are_the_same() -> Any:
        now = unrecorded(lambda: variables)
        same = [tf.reduce_all(tf.equal(a, b)) for a, b in zip(then, now, strict=True)]
        return tf.reduce_all(same) if same else True

    return are_the_same


def _is_watched(things: Sequence[Any]) -> bool:
    """Whether some tape knows one of these; it will know a variable as soon as that is read."""
    if not private.could_possibly_record():
        return False
    tensors = [t for t in things if isinstance(t, private.EagerTensor)]
    return len(tensors) < len(things) or private.possible_gradient_types(tensors) > 0


def sources_of(function: Callable[..., Any], xs: Sequence[Any], *, run: bool = True) -> list[Any]:
    """What a function reads beside its arguments and what a gradient may be asked for: tensors and variables.

    Where code runs at once, the function is run; tapes then hold what it computes as long as they live. Without `run`
    it is traced instead, which takes longer.
    """
    if tf.executing_eagerly() and not private.could_possibly_record():
        return []
    if tf.executing_eagerly() and run:
        return _sources_now(function, xs)
    specs = [tf.TensorSpec(x.shape, x.dtype) for x in xs]
    with set_for(rehearsing, True):
        rehearsal = tf.function(lambda *args: function(args), autograph=False)
        traced = rehearsal.get_concrete_function(*specs)
    read = [t for t, used in captures(traced) if used and t.dtype != tf.resource]
    return [*(t for t in read if values.flows(t)), *traced.graph.trainable_variables]


def _sources_now(function: Callable[..., Any], xs: Sequence[Any]) -> list[Any]:
    inner = [private.detached(tf.convert_to_tensor(x)) for x in xs]
    # An argument that the function also closes over is a source only if it is read there.
    arguments = {id(x) for x in xs}
    known = [t for t in closed_over.watched_tensors(function, ()) if id(t) not in arguments]
    with tf.GradientTape() as tape, closed_over.unexpected_reads([*inner, *known]) as found:
        function(inner)
    tensors = [t for t in (*known, *found) if values.flows(t)]
    return [*{id(t): t for t in tensors}.values(), *tape.watched_variables()]


def gradient_order(arrays: Sequence[Any]) -> int:
    """Whether tapes know one of these now: 0, or 1 for a gradient, 2 for gradients of gradients and for tangents."""
    if not private.could_possibly_record():
        return 0
    tensors = [tf.convert_to_tensor(a) for a in arrays]
    if transposing.have_tangents(tensors):
        return 2
    return private.possible_gradient_types(tensors)


def may_be_watched(value: Any) -> bool:
    """Whether a gradient of this value may be asked for: of code that runs at once it is often known that none will."""
    if not tf.executing_eagerly():
        return True
    leaves = tf.nest.flatten(value)
    tensors = [leaf for leaf in leaves if isinstance(leaf, private.EagerTensor)]
    others = [
        leaf for leaf in leaves if is_array(leaf) and not isinstance(leaf, private.EagerTensor)
    ]
    return bool(others) or gradient_order(tensors) > 0


def forward_order(sources: Sequence[Any]) -> int:
    """How many accumulators push tangents of these forward at once; a tape or a graph around several counts as one."""
    handles = [s.handle if isinstance(s, tf.Variable) else s for s in sources]
    order = transposing.order_of_tangents(handles)
    # TensorFlow makes tangents of tangents in functions of its own: tapes lose them there, and graphs fail.
    around = not tf.executing_eagerly() or transposing.should_record_backprop(handles)
    return order + int(order > 1 and around)


def pullback_of(
    function: Callable[[Sequence[Any]], Sequence[Any]],
    xs: Sequence[Any],
    others: Sequence[Any] = (),
    fixed: Sequence[Any] = (),
) -> tuple[list[Any], Pull]:
    """The results of a function of arrays, and its pullback towards them and towards others that it reads.

    The pullback may be called many times, also in a loop: the function itself runs once. What else it reads and was
    computed from others is to be named as fixed: a graph remembers how it was made.
    """
    xs = [tf.identity(x) for x in xs]
    if tf.executing_eagerly():
        return _pullback_now(function, xs, others)
    graph = tf.compat.v1.get_default_graph()
    inside = [*xs, *(_in_graph(graph, o) for o in others)]
    ys = [tf.convert_to_tensor(y) for y in function(xs)]
    stops = [_in_graph(graph, a) for a in fixed]
    across = functools.partial(private.gradients_across, ys, inside, stops, graph)
    like = [*xs, *others]
    return ys, lambda upstream: _or_zeros(across(list(upstream)), like)


def _pullback_now(
    function: Callable[..., Any], xs: Sequence[Any], others: Sequence[Any]
) -> tuple[list[Any], Pull]:
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        sources = [*xs, *others]
        tape.watch(sources)
        ys = [tf.convert_to_tensor(y) for y in function(xs)]

    def pull(upstream: Sequence[Any]) -> list[Any]:
        return _or_zeros(tape.gradient(ys, sources, list(upstream)), sources)

    return ys, pull


def _or_zeros(gradients: Sequence[Any], sources: Sequence[Any]) -> list[Any]:
    both = zip(gradients, sources, strict=True)
    return [tf.zeros_like(s) if g is None else tf.convert_to_tensor(g) for g, s in both]


def _in_graph(graph: Any, source: Any) -> Any:
    """A source of a gradient as this graph reads it; of a variable, its handle."""
    outside = source.handle if isinstance(source, tf.Variable) else source
    here = not isinstance(outside, private.EagerTensor) and outside.graph is graph
    return outside if here or not isinstance(graph, private.FuncGraph) else graph.capture(outside)


def after(arrays: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """The arrays, but not before others are computed, so that what these need is not held meanwhile."""
    if tf.executing_eagerly():
        return list(arrays)
    with tf.control_dependencies(list(others)):
        return [tf.identity(a) for a in arrays]


def in_scope(sources: Sequence[Any]) -> bool:
    """Whether all of these can be read here: they are values, variables, or of this graph or of one around it."""
    graph, around = tf.compat.v1.get_default_graph(), []
    while graph is not None:
        around.append(graph)
        graph = getattr(graph, "outer_graph", None)
    return all(
        isinstance(s, (private.EagerTensor, tf.Variable)) or any(s.graph is g for g in around)
        for s in sources
    )
