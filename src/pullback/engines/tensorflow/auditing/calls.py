"""Calls that run: of a recipe or by trying, each with inputs of many kinds."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import re
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow.auditing import filling, listing, making
from pullback.engines.tensorflow.auditing.recipes import recipes, why_no_layer, why_not_alone
from pullback.engines.tensorflow.tf_private.auditing import all_operations
from pullback.extend import Array, Case, NotCallable

_FLOAT, _COMPLEX, _HALF = "float32", "complex64", "float16"
_MOST_VARIANTS = 4  # further arguments of one function: more of them are combinations of formats
_LAYER = "layer"
_MATRIX = ":definite}"
_PLAIN_OF = {_FLOAT: filling.between, _COMPLEX: filling.complex_numbers}
_SIGNED_FIRST = dict(reversed(filling.PLAIN.items()))
# What runs on functions that are audited themselves is called at fewer places.
_BUILT_ON_OTHERS = ("keras.",)
_SHAPES_GIVEN = re.compile(
    r"shape=\[|sizes=\[|size=\[|splits=\[|num_split|indices=|segment_ids=|ksize|block_|crops|seq_len"
)
_PLUMBING = frozenset({"Const", "Identity", "Placeholder", "NoOp", "Cast", "Shape", "Reshape"})
# Functions into which people put -inf: what it means is that an entry does not count.
_MASKS = re.compile(
    r"(?i)softmax|log.*exp|max|min|sort|top_?k|relu|sigmoid|softplus|cross_?entropy|elu|attention|where|select|clip"
)


class _Nothing(Exception):
    """The call runs, and there is nothing to differentiate."""


def cases(name: str, *, careful: bool = False) -> list[Case]:
    """Calls of what has this name, the plainest first; the careful ones are of ordinary sizes only."""
    with contextlib.redirect_stdout(io.StringIO()):
        return list(_unlike(_cases(name, careful)))


def namespace(setup: str) -> dict[str, Any]:
    """What the text of a call may name; layers are made with the same weights each time."""
    known: dict[str, Any] = {"tf": tf, "np": np, "keras": keras}
    keras.utils.set_random_seed(0)
    exec(setup, known)
    return known


def function_of(case: Case) -> Callable[..., Any]:
    """The call as a function of its inputs."""
    known = namespace(case.setup)
    if case.call == f"{_LAYER}({', '.join(case.inputs)})" and len(case.inputs) == 1:
        return known[_LAYER]
    return eval(f"lambda {', '.join(case.inputs)}: {case.call}", known)


def gradient_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The gradients of a function for upstreams that differ, as a function."""

    def gradient(*inputs: Any) -> list[Any]:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            results = floating(function(*inputs))
        upstreams = [tf.cast(weights(t), t.dtype) for t in results]
        found: Any = tape.gradient(results, inputs, output_gradients=upstreams)
        return [tf.convert_to_tensor(g) for g in found if g is not None]

    return gradient


def weights(tensor: Any) -> Array:
    """Numbers between -1 and 1, one for each of a tensor's, which no symmetry makes equal."""
    return np.cos(np.arange(int(tf.size(tensor)))).reshape(tensor.shape)


def floating(result: Any) -> list[Any]:
    """The tensors of floating-point numbers in what a call gives."""
    flat = [part for one in tf.nest.flatten(result) for part in _dense(one)]
    return [t for t in flat if t.dtype.is_floating or t.dtype.is_complex]


def _dense(one: Any) -> list[Any]:
    if isinstance(one, tf.Tensor):
        return [one]
    try:
        return [t for t in tf.nest.flatten(one, expand_composites=True) if tf.is_tensor(t)]
    except (TypeError, ValueError):
        return []


def _cases(name: str, careful: bool) -> Iterator[Case]:
    plan = _templates(name)
    setup, first = plan[0]
    dtype = _COMPLEX if _runs(setup, first, filling.between, _FLOAT) is None else _FLOAT
    one_op = _only_op(name, first, dtype)
    brief = bool(one_op) or name.startswith(_BUILT_ON_OTHERS)
    if one_op:
        yield from _as_op(name, first, one_op, careful)
    if not brief:
        yield from _thorough(first, dtype)
    for made, template in plan:
        found = _briefly(made, template, dtype, with_complex=not brief)
        yield from (replace(case, explain=not brief) for case in found)
    if not one_op:
        yield from _of_kinds(setup, first, {"all zeros": filling.zeros}, dtype)
    if not brief:
        yield from _further(name, first, dtype)
        if not careful:
            yield from _of_other_sizes(first, dtype)


def _thorough(template: str, dtype: str) -> Iterator[Case]:
    """The check's own points start from numbers of both signs, where the function takes them."""
    plain = list(_of_kinds("", template, _SIGNED_FIRST, dtype))
    for k, case in enumerate(plain):
        yield replace(case, thorough=k == 0, second=k == 0)
    for case in _of_kinds("", template, filling.AT_ORDER_TWO, dtype):
        yield replace(case, second=True)
    if dtype == _FLOAT:
        yield from _of_kinds("", template, filling.COMPLEX, _COMPLEX)


def _briefly(setup: str, template: str, dtype: str, with_complex: bool) -> Iterator[Case]:
    """Plain numbers, zeros among them, and complex ones."""
    plain = (_of_kinds(setup, template, {w: k}, dtype) for w, k in _SIGNED_FIRST.items())
    yield from next(filter(None, map(list, plain)), [])
    yield from _of_kinds(setup, template, {"zeros among the numbers": filling.with_zeros}, dtype)
    if _MATRIX in template:  # a multiple of the identity, whose eigenvalues are equal
        yield from _of_kinds(setup, template, {"the identity": filling.ones}, dtype)
    if dtype == _FLOAT and with_complex and not setup:
        yield from _of_kinds("", template, {"complex numbers": filling.complex_numbers}, _COMPLEX)


def _only_op(name: str, template: str, dtype: str) -> str:
    """The op that a function is another name of, and which is audited by itself; nothing where it runs several."""
    case = None if _op(name) else _runs("", template, filling.between, dtype)
    types = {f"tf.raw_ops.{op}" for op in operations(case) if op not in _PLUMBING} if case else ()
    known = [op for op in types if op in listing.catalogue()]
    return known[0] if len(types) == len(known) == 1 else ""


def _as_op(name: str, template: str, op: str, careful: bool) -> Iterator[Case]:
    """The calls of the op with the same inputs, where op and function take tensors and nothing else.

    A fault of the op is one of the function, and is explained there.
    """
    call, inputs = filling.parsed(template)
    own = _only_tensors(call, {one for one, _, _ in inputs})
    order = list(inspect.signature(listing.catalogue()[op]).parameters)
    for case in _cases(op, careful) if own else ():
        given = _only_tensors(case.call, case.inputs)
        if given and len(given) == len(own):
            args = ", ".join(given[parameter] for parameter in sorted(given, key=order.index))
            same = replace(case, call=f"{name}({args})", explain=False)
            with contextlib.suppress(Exception):
                function_of(same)(*arguments(same.inputs))
                yield same


def _only_tensors(call: str, inputs: Container[str]) -> dict[str, str]:
    """The input by parameter, or by place, where a call is given inputs and nothing else."""
    node = ast.parse(call, mode="eval").body
    if not isinstance(node, ast.Call):
        return {}
    pairs = [*enumerate(node.args), *((k.arg, k.value) for k in node.keywords)]
    given = {str(key): value.id for key, value in pairs if isinstance(value, ast.Name)}
    return given if len(given) == len(pairs) and all(v in inputs for v in given.values()) else {}


def operations(case: Case) -> list[str]:
    """The types of op that a call runs."""
    try:
        traced = tf.function(function_of(case)).get_concrete_function(*arguments(case.inputs))
    except Exception:  # what cannot be traced has no list, and is audited by itself
        return []
    return list(dict.fromkeys(op.type for op in all_operations(traced.graph)))


def _further(name: str, first: str, dtype: str) -> Iterator[Case]:
    """Places, formats, sizes and arguments that are tried with ops and with functions of TensorFlow's own."""
    yield from _of_kinds("", first, filling.SPECIAL, dtype)
    if _MASKS.search(name):
        yield from _of_kinds("", first, filling.MASKED, dtype)
    yield from _of_kinds("", first, {"float16": filling.signed}, _HALF)
    yield from _variants(name, first, dtype)


def _of_other_sizes(first: str, dtype: str) -> Iterator[Case]:
    for size, words in ((1, "axes of size 1"), (0, "empty axes")):
        if not _SHAPES_GIVEN.search(first):
            yield from _of_kinds("", filling.resized(first, size), {words: filling.signed}, dtype)


def _variants(name: str, template: str, dtype: str) -> Iterator[Case]:
    function, op = listing.catalogue()[name], _op(name)
    found = 0
    for other, what in making.variants(function, template, op):
        made = list(_of_kinds("", other, {what: filling.signed}, dtype))
        made = made or list(_of_kinds("", other, {what: filling.between}, dtype))
        yield from made
        found += len(made)
        if found >= _MOST_VARIANTS:
            return


def _of_kinds(
    setup: str,
    template: str,
    kinds: Mapping[str, filling.Kind],
    dtype: str,
) -> Iterator[Case]:
    for what, kind in kinds.items():
        case = _runs(setup, template, kind, dtype)
        if case is not None:
            yield replace(case, what=what)


def _unlike(found: Iterator[Case]) -> Iterator[Case]:
    """Each call with the same inputs once."""
    seen: set[tuple[str, ...]] = set()
    for case in found:
        key = (
            case.setup,
            case.call,
            *(f"{v.dtype}{v.shape}{v.tobytes()!r}" for v in case.inputs.values()),
        )
        if key not in seen:
            seen.add(key)
            yield case


def _templates(name: str) -> list[tuple[str, str]]:
    """What is made first, and calls that run."""
    short, function, op = name.rpartition(".")[2], listing.catalogue()[name], _op(name)
    if op and why_not_alone(op):
        raise NotCallable(f"it {why_not_alone(op)}")
    if isinstance(function, type):
        return _objects(name, short)
    known = recipes("ops" if op else "functions").get(op or name)
    if known:
        return _that_run([("", _written(name, arguments)) for arguments in known])
    return _first_that_runs(making.templates(function, name, op))


def _written(name: str, arguments: str) -> str:
    """The call; what begins with "=" is an expression that has it inside."""
    return arguments[1:].strip() if arguments.startswith("=") else f"{name}({arguments})"


def _objects(name: str, short: str) -> list[tuple[str, str]]:
    """A layer or loss: how it is made, and how it is called."""
    is_layer = name.startswith(listing.LAYERS)
    if is_layer and why_no_layer(short):
        raise NotCallable(f"it {why_no_layer(short)}")
    known = recipes("layers" if is_layer else "losses")[short]
    parts = [line.partition("->") for line in known]
    return _that_run(
        [(f"{_LAYER} = {name}({a.strip()})", f"{_LAYER}({b.strip()})") for a, _, b in parts]
    )


def _that_run(plan: list[tuple[str, str]]) -> list[tuple[str, str]]:
    running, reasons = [], []
    for setup, template in plan:
        try:
            _run_any(setup, template)
            running.append((setup, template))
        except Exception as error:
            reasons.append(error)
    if not running:
        raise NotCallable(_words(reasons[0]))
    return running


def _first_that_runs(templates: Iterator[str]) -> list[tuple[str, str]]:
    """Real numbers first: complex ones are tried only where none of the calls takes real ones."""
    tried, reason = list(templates), None
    for dtype, kind in _PLAIN_OF.items():
        for template in tried:
            try:
                _run("", template, kind, dtype)
            except Exception as error:
                reason = error if reason is None or isinstance(error, _Nothing) else reason
            else:
                return [("", template)]
        if isinstance(reason, _Nothing):
            break
    raise NotCallable("it has no signature" if reason is None else _words(reason))


def _words(error: Exception) -> str:
    if isinstance(error, _Nothing):
        return str(error)
    first = str(error).strip().splitlines()
    return f"{type(error).__name__}: {first[0][:160] if first else ''}"


def _run_any(setup: str, template: str) -> None:
    """Run a call with real or complex numbers; the first error if neither will do."""
    first: Exception | None = None
    for dtype, kind in _PLAIN_OF.items():
        try:
            _run(setup, template, kind, dtype)
        except Exception as error:
            first = first or error
        else:
            return
    raise first or _Nothing


def _run(setup: str, template: str, kind: filling.Kind, dtype: str) -> tuple[Case, list[Any]]:
    call, inputs = filling.parsed(template)
    if not inputs and not setup:
        raise _Nothing("it takes no floating-point numbers")
    case = Case(call, filling.filled(inputs, kind, dtype, template), "", setup)
    results = floating(function_of(case)(*arguments(case.inputs)))
    if not results:
        raise _Nothing("what it gives are no floating-point numbers")
    return case, results


def _runs(setup: str, template: str, kind: filling.Kind, dtype: str) -> Case | None:
    """The call, if it runs and gives something finite."""
    try:
        case, results = _run(setup, template, kind, dtype)
    except Exception:
        return None
    enough = np.any if kind is filling.masked else np.all
    flat = [np.isfinite(t.numpy().astype("complex128")).ravel() for t in results]
    return case if enough(np.concatenate(flat)) else None


def arguments(inputs: Mapping[str, Array]) -> list[Any]:
    """Inputs as tensors."""
    return [tf.constant(value) for value in inputs.values()]


def _op(name: str) -> str:
    return name.removeprefix("tf.raw_ops.") if name.startswith("tf.raw_ops.") else ""
