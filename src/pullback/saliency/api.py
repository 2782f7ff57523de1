"""`pb.saliency`: options, the loop over examples, and what is to be said about the map."""

from __future__ import annotations

import dataclasses
import difflib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pullback._bind import name_of
from pullback._engine import Engine, engine_of_targets
from pullback._tree import flatten, unflatten
from pullback.errors import SaliencyError
from pullback.saliency import notes
from pullback.saliency.coverage import coverage_of
from pullback.saliency.methods import METHODS, Method
from pullback.saliency.part import Part
from pullback.saliency.progress import Tell, shown
from pullback.saliency.result import Saliency
from pullback.saliency.targets import target_of
from pullback.saliency.task import Task

OF = ("logit", "output")
_LIMITS: Mapping[str, tuple[type, float]] = {
    "steps": (int, 1),
    "max_steps": (int, 1),
    "samples": (int, 1),
    "noise": (float, 0.0),
    "tolerance": (float, 0.0),
    "seed": (int, 0),
}


def saliency(
    model: Callable[..., Any],
    x: Any,
    target: Any = None,
    method: str = "integrated",
    layer: Any = None,
    of: str = "logit",
    baseline: Any = None,
    **options: Any,
) -> Saliency:
    """How much each entry of `x` counts for a score of the model, which is left as it is.

    `x` is what `model(x)` takes, with the examples along the first axis. `target` is the number of a class, one for
    each example, an index (a tuple) or a function of the output; without it, the largest score. A softmax or sigmoid in
    the end is looked through, unless `of="output"`. `layer` is the layer whose features are meant, itself or by name.

    Methods, with their options: `"gradient"`, `"input_x_gradient"`, `"integrated"` (`baseline`, `steps`, `tolerance`,
    `max_steps`), `"smoothgrad"` (`samples`, `noise`, `seed`), `"guided"`, `"deconv"`, `"gradcam"`, `"gradcam++"`,
    `"guided_gradcam"`, `"deeplift"` (`baseline`, `rules`), `"lrp"` (`composite`, `low`, `high`, `rules`).

    >>> import numpy as np, pullback as pb, tensorflow as tf
    >>> def model(x):
    ...     return tf.nn.softmax(tf.stack([x[:, 0] * x[:, 1], x[:, 1]], axis=1))
    >>> found = pb.saliency(model, np.array([[2.0, 3.0]], "f"), target=0)
    >>> found.values.round(4).tolist()
    [[3.0, 3.0]]
    >>> bool(found.gap.max() < 1e-6)
    True
    """
    engine, leaves, structure = _inputs(model, x)
    way, options = _method(method, options, of)
    saliencies = engine.saliency
    inputs = [saliencies.as_tensor(leaf) for leaf in leaves]
    count = _count(inputs)
    if layer is not None:
        if not way.takes_layer:
            raise SaliencyError(f"method {method!r} is about the input, and takes no layer=.")
        layer = saliencies.find_layer(model, layer)
    task = Task(
        saliencies,
        saliencies.Subject(model, structure, of),
        inputs,
        target_of(saliencies, target, count),
        count,
        layer,
        _baselines(baseline, way, method, inputs, structure),
    )
    with task.subject.unchanged(), shown(f"saliency of {_name(model)}") as tell:
        first = task.subject.prepare(inputs)
        if first is not None:
            task.batches.learn(first, 1)
        parts = _in_parts(task, way, options, tell)
    return _joined(task, parts, way, method, of, structure, x)


def _in_parts(task: Task, way: Method, options: Mapping[str, Any], tell: Tell) -> list[Part]:
    """The map of all examples, of so many at once as fit into memory."""
    if task.count is None or any(map(task.engine.is_symbolic, task.inputs)):
        return [way.run(task, slice(0, None), **options)]
    parts: list[Part] = []
    begin = 0
    while begin < task.count:
        size = max(1, task.batches.size // way.points(options))
        end = min(begin + size, task.count)
        whole = begin == 0 and end == task.count
        task.tell = _within(tell, begin, end, task.count)
        parts.append(way.run(task, slice(0, None) if whole else slice(begin, end), **options))
        begin = end
        tell(begin / task.count)
    return parts


def _within(tell: Tell, begin: int, end: int, count: int) -> Tell:
    return lambda share: tell((begin + share * (end - begin)) / count)


def _joined(
    task: Task, parts: Sequence[Part], way: Method, method: str, of: str, structure: Any, x: Any
) -> Saliency:
    first = dataclasses.replace(parts[0], is_stuck=any(part.is_stuck for part in parts))
    columns = list(zip(*(part.values for part in parts), strict=True))
    arrays = [None if each[0] is None else task.engine.concat(each) for each in columns]
    is_layer = task.layer is not None and not way.uses_features
    gaps = [part.gap for part in parts if part.gap is not None]
    chosen = [part.chosen for part in parts if part.chosen is not None]
    found = Saliency(
        method=method,
        tensor=arrays[0] if is_layer else unflatten(structure, arrays),
        x=x,
        target=_plain(task.engine.concat(chosen)) if chosen else None,
        score=_plain(task.engine.concat([part.run.scores for part in parts])),
        layer=getattr(task.layer, "name", None) or first.layer,
        of=of,
        gap=np.concatenate(gaps)
        if gaps and isinstance(gaps[0], np.ndarray)
        else next(iter(gaps), None),
        steps=max((part.steps for part in parts if part.steps), default=None),
        leaks=_leaks(task, parts),
        audit=coverage_of(first.run),
    )
    loud, quiet = notes.about(task, found, first, arrays)
    for text in loud:
        warnings.warn(text, stacklevel=3)
    object.__setattr__(found, "note", "\n".join([*loud, *quiet]))
    return found


def _leaks(task: Task, parts: Sequence[Part]) -> dict[str, Any]:
    """What each layer took of the relevance of every example, the most first."""
    found = {
        name: _plain(task.engine.concat([part.leaks[name] for part in parts]))
        for name in parts[0].leaks
        if all(name in part.leaks for part in parts)
    }
    known = all(isinstance(each, np.ndarray) for each in found.values())
    order = sorted(found, key=lambda name: -np.abs(found[name]).sum()) if known else list(found)
    return {name: found[name] for name in order}


def _inputs(model: Any, x: Any) -> tuple[Engine, list[Any], Any]:
    if not callable(model):
        raise SaliencyError(
            f"pb.saliency takes a model and its input; {model!r} cannot be called. Write `pb.saliency(model, x)`."
        )
    leaves, structure = flatten(x)
    for leaf in leaves:
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            raise SaliencyError(
                f"x holds {leaf!r}; wanted an array or tensor, or a list or dict of them for a model with several "
                "inputs. Write np.array(x) for a list of numbers."
            )
        if not len(leaf.shape):
            raise SaliencyError(
                "x is a single number; wanted an array with examples along its first axis."
            )
        if (
            leaf.dtype in (np.dtype("O"), np.dtype("bool"))
            or getattr(leaf.dtype, "kind", "f") in "USc"
        ):
            raise SaliencyError(f"x holds {leaf.dtype}; wanted floating-point or whole numbers.")
    if not leaves:
        raise SaliencyError("x holds no array.")
    return engine_of_targets([model, *leaves]), leaves, structure


def _count(inputs: Sequence[Any]) -> int | None:
    counts = {tensor.shape[0] for tensor in inputs}
    if len(counts) > 1:
        raise SaliencyError(
            f"the inputs have {', '.join(map(str, sorted(counts, key=str)))} examples; wanted as many in each."
        )
    (count,) = counts
    if count == 0:
        raise SaliencyError("x holds no examples: its first axis is of length 0.")
    return count


def _method(name: str, options: Mapping[str, Any], of: str) -> tuple[Method, dict[str, Any]]:
    if name not in METHODS:
        close = difflib.get_close_matches(str(name), METHODS, 1, 0.5)
        hint = f' Did you mean "{close[0]}"?' if close else ""
        raise SaliencyError(f"method={name!r} is not known.{hint} There are {', '.join(METHODS)}.")
    if of not in OF:
        raise SaliencyError(f'of={of!r} is neither "logit" nor "output".')
    way = METHODS[name]
    for option, value in options.items():
        if option not in way.options:
            known = ", ".join(way.options) or "none"
            raise SaliencyError(
                f"method {name!r} has no option {option!r}; its options are: {known}."
            )
        if option in _LIMITS:
            _require(option, value)
        if option == "rules" and not isinstance(value, Mapping | None):
            raise SaliencyError(
                f"rules={value!r}; wanted a dict of op types and their rules, such as "
                '{"Prod": my_rule}.'
            )
    return way, {**way.options, **options}


def _require(option: str, value: Any) -> None:
    kind, least = _LIMITS[option]
    kinds = (int, np.integer) if kind is int else (int, float, np.integer, np.floating)
    if isinstance(value, bool) or not isinstance(value, kinds) or not value >= least:
        wanted = "a whole number" if kind is int else "a number"
        raise SaliencyError(f"{option}={value!r}; wanted {wanted} of at least {least}.")


def _baselines(
    baseline: Any, way: Method, method: str, inputs: Sequence[Any], structure: Any
) -> list[Any]:
    """One for each input: nothing, a number, or an array."""
    if baseline is None:
        return [None] * len(inputs)
    if not way.takes_baseline:
        raise SaliencyError(f"method {method!r} takes no baseline=.")
    leaves, given = flatten(baseline)
    if len(leaves) == 1 and len(inputs) > 1:
        leaves = leaves * len(inputs)
    elif given != structure:
        raise SaliencyError(
            f"baseline holds {len(leaves)} arrays, and x {len(inputs)}: wanted the structure of x, or one number."
        )
    for x, each in zip(inputs, leaves, strict=True):
        _require_fits(x, each)
    return leaves


def _require_fits(x: Any, baseline: Any) -> None:
    if baseline is None:
        return
    dtype: Any = getattr(baseline, "dtype", None) or np.asarray(baseline).dtype
    if getattr(dtype, "kind", "f") in "OUSc":  # the dtypes of tensors have no kind
        raise SaliencyError(
            f"baseline={baseline!r}; wanted a number, such as 0.0 for black, or an array that goes with x."
        )
    shape = tuple(np.shape(baseline))
    wanted = tuple(x.shape)
    padded = (1,) * (len(wanted) - len(shape)) + shape
    if len(shape) > len(wanted) or any(
        n not in (1, m) for n, m in zip(padded, wanted, strict=True)
    ):
        raise SaliencyError(
            f"baseline has shape {shape}, which does not go with x, of shape {wanted}."
        )


def _plain(chosen: Any) -> Any:
    return (
        np.asarray(chosen) if isinstance(chosen, np.ndarray) or hasattr(chosen, "numpy") else chosen
    )


def _name(model: Any) -> str:
    name = getattr(model, "name", None)
    return name if isinstance(name, str) else name_of(model)
