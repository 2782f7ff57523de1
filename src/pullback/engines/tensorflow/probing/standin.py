"""A function again, with float64 stand-ins for the variables, tensors and layers that it holds.

Cells, globals and attributes are not written to: functions, containers and objects on the way to
what is replaced are made anew, everything else is shared.
"""

import copy
import dis
import functools
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow.probing.find import is_custom_gradient
from pullback.engines.tensorflow.probing.lift import built_copy
from pullback.engines.tensorflow.probing.state import DEAD_ENDS, code_names, raw_variable

_DEPTH = 6
_MANY = 1000


class Impossible(Exception):
    """The function keeps something that cannot be stood in for."""


class StandIns:
    """What was made in place of what, by identity; the originals are kept alive."""

    def __init__(self) -> None:
        self.variables: dict[int, Any] = {}
        self._made: dict[int, tuple[Any, Any]] = {}

    def of(self, thing: Any, depth: int = _DEPTH) -> Any:
        """The thing in float64: another one if anything in it had to change, else the same."""
        if id(thing) in self._made:
            return self._made[id(thing)][1]
        if depth == 0 or thing is None:
            return thing
        self._made[id(thing)] = (thing, thing)
        made = self._new(thing, depth - 1)
        self._made[id(thing)] = (thing, made)
        return made

    def _new(self, thing: Any, depth: int) -> Any:
        if isinstance(thing, tf.Variable):
            return self._variable(thing)
        if isinstance(thing, tf.Tensor):
            return _cast(thing)
        if isinstance(thing, DEAD_ENDS):
            return thing
        if hasattr(thing, "get_config") and hasattr(thing, "dtype"):
            return self._layer(thing)
        return self._composed(thing, depth)

    def _variable(self, variable: Any) -> Any:
        if _kind(variable.dtype) is variable.dtype:
            return variable
        made = tf.Variable(_cast(tf.convert_to_tensor(variable)), trainable=variable.trainable)
        self.variables[id(variable)] = made
        return made

    def _layer(self, layer: Any) -> Any:
        made = built_copy(layer)
        if made is None:
            raise Impossible
        pairs = zip(getattr(layer, "variables", ()), getattr(made, "variables", ()), strict=True)
        for old, new in pairs:
            self.variables[id(raw_variable(old))] = raw_variable(new)
        return made

    def _composed(self, thing: Any, depth: int) -> Any:
        if isinstance(thing, FunctionType):
            return self._wrapped(thing, depth) or self._function(thing, depth)
        if isinstance(thing, MethodType):
            parts = [self.of(thing.__func__, depth), self.of(thing.__self__, depth)]
            same = parts[0] is thing.__func__ and parts[1] is thing.__self__
            return thing if same else MethodType(*parts)
        if isinstance(thing, list | tuple | dict):
            return self._container(thing, depth)
        return self._wrapped(thing, depth) or self._object(thing, depth)

    def _wrapped(self, thing: Any, depth: int) -> Any:
        """What a custom gradient or a partial function is made of, put together again."""
        if is_custom_gradient(thing):
            inner = self.of(thing.__wrapped__, depth)
            return thing if inner is thing.__wrapped__ else tf.custom_gradient(inner)
        if type(thing).__name__ == "GradientFunction":
            make, parts = thing._make
            new = self.of(parts, depth + 1)
            return thing if new is parts else make(*new)
        if isinstance(thing, functools.partial):
            held = (thing.func, thing.args, thing.keywords)
            new = self.of(held, depth + 1)
            return thing if new is held else functools.partial(new[0], *new[1], **new[2])
        return None

    def _container(self, thing: Any, depth: int) -> Any:
        items = list(thing.values()) if isinstance(thing, dict) else list(thing)
        new = [self.of(item, depth) for item in items[:_MANY]] + items[_MANY:]
        if all(a is b for a, b in zip(items, new, strict=True)):
            return thing
        if isinstance(thing, dict):
            return dict(zip(thing, new, strict=True))
        return type(thing)(*new) if hasattr(thing, "_fields") else type(thing)(new)

    def _object(self, thing: Any, depth: int) -> Any:
        held = getattr(thing, "__dict__", None)
        if not isinstance(held, dict) or type(thing).__module__.startswith("tensorflow"):
            return thing
        new = self.of(held, depth + 1)
        if new is held:
            return thing
        made = copy.copy(thing)
        made.__dict__.update(new)
        return made

    def _function(self, function: FunctionType, depth: int) -> Any:
        if function.__module__.partition(".")[0] in ("tensorflow", "keras", "numpy"):
            return function
        cells = function.__closure__ or ()
        new_cells = tuple(self._cell(cell, depth) for cell in cells)
        known = function.__globals__
        names = set(code_names(function.__code__)) & known.keys()
        changed = {n: self.of(known[n], depth) for n in sorted(names)}
        changed = {n: v for n, v in changed.items() if v is not known[n]}
        if not changed and all(a is b for a, b in zip(cells, new_cells, strict=True)):
            return function
        if _writes_outside(function.__code__):
            raise Impossible
        made = FunctionType(
            function.__code__,
            {**known, **changed} if changed else known,
            function.__name__,
            function.__defaults__,
            new_cells or None,
        )
        made.__kwdefaults__ = function.__kwdefaults__
        made.__dict__.update({k: v for k, v in vars(function).items() if k != "__wrapped__"})
        return made

    def _cell(self, cell: CellType, depth: int) -> CellType:
        try:
            content = cell.cell_contents
        except ValueError:
            return cell
        if id(cell) not in self._made:
            new = self.of(content, depth)
            self._made[id(cell)] = (cell, cell if new is content else CellType(new))
        return self._made[id(cell)][1]


def _kind(dtype: tf.DType) -> tf.DType:
    if dtype.is_complex:
        return tf.complex128
    return tf.float64 if dtype.is_floating else dtype


def _cast(tensor: Any) -> Any:
    return tensor if _kind(tensor.dtype) is tensor.dtype else tf.cast(tensor, _kind(tensor.dtype))


def _writes_outside(code: CodeType) -> bool:
    """Whether a function, or one inside it, assigns to names that others may read."""
    for step in dis.get_instructions(code):
        if step.opname == "STORE_GLOBAL":
            return True
        if step.opname == "STORE_DEREF" and step.argval in code.co_freevars:
            return True
    return any(_writes_outside(inner) for inner in code.co_consts if isinstance(inner, CodeType))


def with_stand_ins(fn: Any) -> tuple[Any, dict[int, Any]] | None:
    """The function in float64 and its new variables by the identity of the old, if it can be had."""
    made = StandIns()
    try:
        new = made.of(fn)
    except Exception:
        return None
    return None if new is fn else (new, made.variables)
