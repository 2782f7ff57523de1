"""Tangents on their way forward through a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pullback.program.data import NodeKind
from pullback.program.run import Event, Run, run_whole
from pullback.program.words import Word


def push(made: Run, starts: Mapping[int, Any], *, stops: bool = True) -> dict[int, Any]:
    """The tangents of all values that move with some, by number; custom gradients are left out."""
    moving = dict(starts)
    for event in made.events:
        if any(number in moving for number in event.inputs):
            tangents = [moving.get(number) for number in event.inputs]
            found = _tangents(made, event, tangents, stops)
            pairs = zip(event.outputs, found, strict=True)
            moving.update((number, tangent) for number, tangent in pairs if tangent is not None)
    return moving


def _tangents(made: Run, event: Event, tangents: list[Any], stops: bool) -> list[Any]:
    node, engine = event.node, made.engine
    word = engine.words.get(node.op)
    if node.carries or word in (Word.COPY, Word.READ):
        return tangents[: len(event.outputs)]
    if word is Word.STOP:
        return [None] if stops else tangents
    inputs = [made.values[number] for number in event.inputs]
    if node.kind is NodeKind.OPERATION:
        outputs = [made.values[number] for number in event.outputs]
        return engine.jvp(node, inputs, outputs, tangents, made.dtype)
    whole = run_whole(engine, node, inputs, made.dtype, event.frame)
    moving = zip(whole.inputs, tangents, strict=True)
    found = push(whole, {n: t for n, t in moving if t is not None}, stops=stops)
    return [found.get(number) for number in whole.outputs]
