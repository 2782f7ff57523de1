"""Functions and layers as targets: one unit each, however many ops they run.

A call of a targeted function is handed to the engine as a call with a gradient of its own, exactly
as `pb.with_gradient` does, with the function as it was before as its body.
"""

from __future__ import annotations

import contextlib
import contextvars
import inspect
import re
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from pullback._audit import NOTHING_FLOATING
from pullback._engine import Kind, engine_of
from pullback._pullback import Job
from pullback._rule import Rule
from pullback._targets import RULE_OFFERS
from pullback._tree import flatten, unflatten
from pullback.engines.tensorflow.override import calls
from pullback.engines.tensorflow.override.carriers import attach_portably, exporting, in_function
from pullback.engines.tensorflow.override.graphs import note
from pullback.engines.tensorflow.override.intercept import (
    STOPPED,
    Expected,
    expected,
    guarded,
    hidden,
    postponed,
)
from pullback.engines.tensorflow.override.places import find_place
from pullback.engines.tensorflow.override.scope import (
    Bound,
    Stack,
    again,
    current,
    resume,
    set_for,
    suspend,
)
from pullback.engines.tensorflow.override.targets import (
    LAYER_CALL,
    functions_of,
    is_same,
    is_scope_inside,
    name_matches,
)
from pullback.engines.tensorflow.tf_private import overriding as private

# The layers and functions that are running here, outermost first.
_running: contextvars.ContextVar[tuple[Any, ...]] = contextvars.ContextVar(
    "pullback_running", default=()
)
# The layer whose `call` is to be a region, and the lines that say so.
_awaited: contextvars.ContextVar[tuple[Any, tuple[Bound, ...]] | None] = contextvars.ContextVar(
    "pullback_awaited", default=None
)


def on_call(held: calls.Held, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function that is a target, or a part in which targets are looked for, is called."""
    stack = current()
    if stack is None:
        return held.run(*args, **kwargs)
    chain = stack.one_op.get(held.function)
    if chain is not None and not guarded.get():
        return _as_one_op(chain, chain[0].line, held, args, kwargs)
    if not stack.tracks:
        return _called(stack, held, args, kwargs)
    with set_for(_running, (*_running.get(), held.function)):
        return _called(stack, held, args, kwargs)


def _called(stack: Stack, held: calls.Held, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    owner = args[0] if args else None
    chain = _matching(stack.by_function.get(held.function, ()), owner, held.function.__name__)
    if not chain:
        return held.run(*args, **kwargs)
    line = chain[0].line
    if line.is_one_op:
        return _as_one_op(chain, line, held, args, kwargs)
    drop = line.drop_self
    return _Region(stack, chain, held, owner if drop else None)(args[1:] if drop else args, kwargs)


def _as_one_op(
    chain: tuple[Bound, ...],
    line: Any,
    held: calls.Held,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    token = expected.set(Expected(chain, line.op_types))
    try:
        return held.twin(*args, **kwargs)
    finally:
        expected.reset(token)


def on_layer_call(held: calls.Held, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Some Keras layer is called; if it is a target, its `call` will be a region."""
    stack = current()
    if stack is None:
        return held.run(*args, **kwargs)
    layer = args[0]
    with set_for(_running, (*_running.get(), layer)):
        chain = _matching(stack.by_function.get(LAYER_CALL, ()), layer, layer.name)
        if not chain or _symbolic(args[1:], kwargs):
            return held.run(*args, **kwargs)
        function = inspect.getattr_static(type(layer), "call", None)
        if "call" in vars(layer) or not isinstance(function, types.FunctionType):
            return _Region(stack, chain, held, layer)(args[1:], kwargs)
        with set_for(_awaited, (layer, chain)), _holding(function):
            return held.run(*args, **kwargs)


def _on_layer_body(held: calls.Held, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The `call` of a layer, which is where the region is: masks and casts belong to the layer."""
    awaited, stack = _awaited.get(), current()
    if stack is None or awaited is None or not args or args[0] is not awaited[0]:
        return held.run(*args, **kwargs)
    layer, chain = awaited
    with set_for(_awaited, None):
        return _Region(stack, chain, held, layer)(args[1:], kwargs)


@contextlib.contextmanager
def _holding(function: types.FunctionType) -> Iterator[None]:
    calls.hold(function, _on_layer_body)
    try:
        yield
    finally:
        calls.release(function)


def _symbolic(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    leaves, _ = flatten((list(args), kwargs))
    return any(isinstance(leaf, keras.KerasTensor) for leaf in leaves)


class _Where:
    """The place of a call, found out only when somebody asks."""

    def __init__(self, name: str) -> None:
        self.type = "function"
        self.own = name

    @property
    def name(self) -> str:
        scope = private.name_scope()
        return f"{scope}/{self.own}" if scope else self.own

    @property
    def place(self) -> Any:
        return find_place(self.type, self.own)


def _matching(bounds: Sequence[Bound], owner: Any, name: str) -> tuple[Bound, ...]:
    guard = guarded.get()
    if len(bounds) == 1 and bounds[0].line.is_plain and not guard:
        return tuple(bounds)
    where = _Where(name)
    chosen: dict[int, Bound] = {}
    for bound in bounds:
        if bound.depth in chosen or bound.mark in guard or not bound.line.is_for(owner):
            continue
        if all(is_inside(part, where) for part in bound.line.parts):
            chosen[bound.depth] = bound
    return tuple(chosen[depth] for depth in sorted(chosen, reverse=True))


def is_inside(part: Any, where: Any) -> bool:
    """Whether a part of the program is running here."""
    running = _running.get()
    if isinstance(part, re.Pattern):
        layers = [name for r in running if isinstance(r, keras.Layer) for name in (r.name, r.path)]
        return any(name_matches(part, name) for name in layers) or is_scope_inside(part, where.name)
    if isinstance(part, type):
        return any(isinstance(r, part) for r in running)
    if isinstance(part, keras.Layer):
        return any(is_same(r, part) for r in running)
    return any(r is function for function, _, _ in functions_of(part) for r in running)


class _Region:
    """One call of a targeted function or layer under the lines that match it, innermost first."""

    def __init__(
        self, stack: Stack, chain: tuple[Bound, ...], held: calls.Held, owner: Any
    ) -> None:
        self.stack = stack
        self.chain = chain
        self.held = held
        self.owner = owner

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if private.in_keras_symbolic_scope():
            for bound in self.chain:
                bound.activation.notes["symbolic"] = "yes"
            return self._body(*args, **kwargs)
        where = _Where(getattr(self.owner, "name", None) or self.held.twin.__name__)
        plan = self.held.binder(as_method=self.owner is not None).plan(args, kwargs)
        leaves, structure = flatten(tuple(plan.values(args, kwargs)))
        leaves = _apart(leaves)
        engine = engine_of(leaves)
        self._note(where, any(engine.kind(leaf) is Kind.DIFFERENTIABLE for leaf in leaves))
        job = Job(Definition(self.chain[0], self._below(0, where), where), engine, plan, structure)
        if exporting.get() and not private.context().executing_eagerly():
            return _carried_region(job, leaves)
        return engine.attach(job, leaves)

    def _body(self, *args: Any, **kwargs: Any) -> Any:
        if self.owner is not None:
            return self.held.run(self.owner, *args, **kwargs)
        return self.held.run(*args, **kwargs)

    def _below(self, position: int, where: _Where) -> Callable[..., Any]:
        """What a rule at this position finds as its function: the call under the rules further out."""
        bound = self.chain[position]
        if position + 1 == len(self.chain):
            return _Guarded(bound, self._body)
        inner = Definition(self.chain[position + 1], self._below(position + 1, where), where)

        def run(*args: Any, **kwargs: Any) -> Any:
            plan = self.held.binder(as_method=self.owner is not None).plan(args, kwargs)
            leaves, structure = flatten(tuple(plan.values(args, kwargs)))
            engine = engine_of(leaves)
            job = Job(inner, engine, plan, structure)
            return attach_portably(job, leaves) if exporting.get() else engine.attach(job, leaves)

        return _Guarded(bound, run)

    def _note(self, where: _Where, flows: bool) -> None:
        recorded, reason = True, hidden.get()
        eagerly = private.context().executing_eagerly()
        if eagerly and not postponed.get():
            recorded = private.could_possibly_record()
            if not recorded and reason is None and private.recording_is_stopped():
                reason = STOPPED
        if not flows and reason is None:
            reason = NOTHING_FLOATING
        note(
            self.stack,
            self.chain,
            where,
            "eager" if eagerly else "traced",
            recorded=recorded,
            hidden_by=reason,
        )


def _apart(leaves: list[Any]) -> list[Any]:
    """A tensor that is passed twice is two inputs: each has a gradient of its own."""
    tensors = [id(leaf) for leaf in leaves if isinstance(leaf, tf.Tensor)]
    if len(set(tensors)) == len(tensors):
        return leaves
    twice = {i for i in tensors if tensors.count(i) > 1}
    return [tf.identity(leaf) if id(leaf) in twice else leaf for leaf in leaves]


def _carried_region(job: Job, leaves: list[Any]) -> Any:
    """The region in a function of its own, in which a SavedModel keeps its gradient."""
    stack = current()
    moving = [i for i, leaf in enumerate(leaves) if isinstance(leaf, tf.Tensor)]
    structures: list[Any] = []

    def carrier(*tensors: Any) -> list[Any]:
        inner = list(leaves)
        for index, tensor in zip(moving, tensors, strict=True):
            inner[index] = tensor
        with again(stack):
            outputs, structure = flatten(attach_portably(job, inner))
        structures[:] = [structure]
        return outputs

    outputs = in_function(carrier, [leaves[i] for i in moving])
    return unflatten(structures[0], outputs)


class _Guarded:
    """The body of a region: lines that it belongs to do not match again inside."""

    __slots__ = ("_body", "_mark")

    def __init__(self, bound: Bound, body: Callable[..., Any]) -> None:
        self._mark = bound.mark
        self._body = body

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        token = guarded.set(guarded.get() | {self._mark})
        try:
            return self._body(*args, **kwargs)
        finally:
            guarded.reset(token)


class Definition:
    """What the engine asks of a function with a gradient of its own."""

    __slots__ = ("function", "keeps", "name", "rule", "wants")
    jvp = None
    owner = None

    def __init__(self, bound: Bound, function: Callable[..., Any], where: _Where) -> None:
        self.function = function
        self.rule = _rule_of(bound, where)
        self.name = where.own
        self.wants = bound.entry.wishes
        self.keeps = self.wants & {"original", "variables"}

    def split(self, result: Any) -> tuple[Any, Rule]:
        """The outputs and the rule."""
        return result, self.rule

    def original_of(self, names: Sequence[str]) -> set[str]:
        """All parameters: the ordinary gradient of each may be asked for."""
        return set(names)


def _rule_of(bound: Bound, where: _Where) -> _ScopedRule:
    if "op" in bound.entry.rule.wants:
        return _ScopedRule(bound, where.place)
    if bound.rule is None:
        bound.rule = _ScopedRule(bound, None)
    return bound.rule


class _ScopedRule(Rule):
    """A rule that runs with nothing overridden, and is counted."""

    __slots__ = ("_bound", "_place")

    def __init__(self, bound: Bound, place: Any) -> None:
        super().__init__(bound.entry.rule.function, RULE_OFFERS)
        self._bound = bound
        self._place = place

    def __call__(self, upstream: Any, offers: dict[str, Any]) -> Any:
        """Run the rule."""
        self._bound.activation.ledger.ran(self._bound.entry.index)
        offers = {"original": None, "attrs": {}, **offers, "op": self._place}
        token = suspend()
        try:
            return super().__call__(upstream, offers)
        finally:
            resume(token)
