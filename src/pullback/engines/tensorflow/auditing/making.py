"""Calls for a function that nothing is known of but its signature: by names of parameters, until one runs."""

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow.auditing.recipes import recipes
from pullback.engines.tensorflow.tf_private import auditing as private

Shape = tuple[int, ...]
_MOST = 12  # calls to try for one shape: an op that none of them suits is given a recipe instead

SHAPES: tuple[Shape, ...] = (
    (4,),
    (3, 4),
    (3, 3),
    (2, 3, 3),
    (1, 4, 4, 3),
    (2, 3, 4),
    (1, 3, 3, 3, 2),
    (),
)

_DULL = frozenset(recipes("dull"))


def templates(function: Callable[..., Any], name: str, op: str = "") -> Iterator[str]:
    """Calls to try, most promising first. `op` is the type where the function is an op."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return
    wanted = [p for p in parameters if p.default is p.empty and p.kind not in _STARS]
    if not wanted:
        wanted = parameters[:1]
    for shape in SHAPES:
        choices = [_choices(p.name, shape, op) for p in wanted]
        for texts in itertools.islice(itertools.product(*choices), _MOST):
            yield f"{name}({_arguments(wanted, texts)})"


def variants(
    function: Callable[..., Any], template: str, op: str = ""
) -> Iterator[tuple[str, str]]:
    """The call with one further argument each, and what that is."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return
    for p in parameters.values():
        if p.default is p.empty or p.name in _DULL or f"{p.name}=" in template:
            continue
        for text in _other_values(p, op):
            yield f"{template[:-1]}, {p.name}={text})", f"{p.name}={text}"


_STARS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _arguments(wanted: list[inspect.Parameter], texts: tuple[str, ...]) -> str:
    keyword = [p.kind is not inspect.Parameter.POSITIONAL_ONLY for p in wanted]
    return ", ".join(
        f"{p.name}={text}" if named else text
        for p, text, named in zip(wanted, texts, keyword, strict=True)
    )


def _choices(name: str, shape: Shape, op: str) -> list[str]:
    """Texts for one parameter."""
    tensor = [f"{{{name}:{','.join(map(str, shape))}}}"]
    if op:
        return _choices_of_op(name, shape, op, tensor)
    if name in ("values", "xs", "arrays", "tensors", "inputs", "value_list"):
        return [*tensor, _pair(name, shape)]
    return [_about(text, shape) for text in recipes("parameters").get(name, ())] or tensor


def _pair(name: str, shape: Shape) -> str:
    sizes = ",".join(map(str, shape))
    return f"[{{{name}0:{sizes}}}, {{{name}1:{sizes}}}]"


def _choices_of_op(name: str, shape: Shape, op: str, tensor: list[str]) -> list[str]:
    """An op says which of its inputs are tensors of numbers."""
    definition = private.op_definition(op)
    arg = next((a for a in definition.input_arg if a.name == name), None)
    if arg is not None and private.is_floating(arg, definition) and name != "axis":
        if arg.number_attr or arg.type_list_attr:
            return [_pair(name, shape)]
        smaller = [f"{{{name}:{shape[-1]}}}", f"{{{name}:}}"] if shape else []
        return tensor if arg == definition.input_arg[0] else [*tensor, *smaller]
    attr = next((a for a in definition.attr if a.name == name), None)
    allowed = [v.decode() for v in attr.allowed_values.list.s] if attr else []
    known = [_about(text, shape) for text in recipes("parameters").get(name, ())]
    return [*(repr(v) for v in allowed), *known] or ["[1, 0]", "1", "[0]", "True"]


def _about(text: str, shape: Shape) -> str:
    """What depends on the shape, written out."""
    rank, first = len(shape), shape[0] if shape else 1
    written = {
        "{segments}": [k // 2 for k in range(first)],
        "{same}": list(shape),
        "{twos}": [2] * rank,
        "{ones}": [1] * rank,
        "{zeros}": [0] * rank,
        "{pairs}": [[1, 1]] * rank,
        "{backwards}": list(range(rank))[::-1],
        "{alternating}": f"np.arange({int(tf.reduce_prod(shape)) if shape else 1}).reshape({list(shape)}) % 2 == 0",
        "{lengths}": [2] * first,
    }
    return str(written.get(text, text))


def _other_values(parameter: inspect.Parameter, op: str) -> list[str]:
    default = parameter.default
    if isinstance(default, bool):
        return [repr(not default)]
    if op:
        definition = private.op_definition(op)
        attr = next((a for a in definition.attr if a.name == parameter.name), None)
        allowed = [v.decode() for v in attr.allowed_values.list.s] if attr else []
        if allowed:
            return [repr(v) for v in allowed if v != default]
    return [text for text in recipes("variants").get(parameter.name, ()) if text != repr(default)]
