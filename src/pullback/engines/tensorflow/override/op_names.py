"""Which op a function runs, and under which public name a function is known."""

from __future__ import annotations

import dis
import functools
import types
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow.tf_private import overriding
from pullback.extend import original_code, package_of


def is_library(function: Any) -> bool:
    """Whether a function is TensorFlow's or Keras' own."""
    return package_of(function) in ("tensorflow", "keras")


def innermost(function: Any) -> Any:
    """The function under the library's own wrappers, through which all of its aliases go."""
    while is_library(function) and isinstance(
        getattr(function, "__wrapped__", None), types.FunctionType
    ):
        function = function.__wrapped__
    return function


def op_types_of(function: Any) -> tuple[str, ...]:
    """The op types that stand for a function which runs exactly one op; nothing for a composite one."""
    function = innermost(function)
    if not isinstance(function, types.FunctionType):
        return ()
    code = original_code(function)
    generated = _generated()
    if code in generated:
        return (generated[code],)
    found = {generated[f.__code__] for f in _generated_called(code, function.__globals__)}
    return tuple(sorted(found)) if len(found) == 1 else ()


def is_one_op(function: Any) -> bool:
    """Whether a call of the function is one op and nothing else, so that the op can stand for it everywhere."""
    return original_code(function) in _generated() or function is innermost(tf.stack)


def names_inside(function: types.FunctionType) -> frozenset[str]:
    """By which names TensorFlow calls a function of its own; none for those it generates, which it does not call."""
    if package_of(function) != "tensorflow" or original_code(function) in _generated():
        return frozenset()
    return frozenset({function.__name__, (public_name(function) or "").rpartition(".")[2]})


def public_name(function: Any) -> str | None:
    """The name by which users call a function of TensorFlow or Keras, such as `tf.nn.relu`."""
    for each in (function, getattr(function, "__wrapped__", None), innermost(function)):
        names = overriding.exported_names(each)
        if names:
            return min(names, key=lambda n: (n.count("."), len(n)))
    return None


def label(target: Any) -> str | None:
    """How a function or class of TensorFlow or Keras reads in messages; `None` for anything else."""
    return public_name(target) if callable(target) else None


@functools.cache
def _generated() -> dict[types.CodeType, str]:
    """The code of each generated op function, and the op type it runs."""
    table: dict[types.CodeType, str] = {}
    for name in dir(tf.raw_ops):
        wrapper = getattr(tf.raw_ops, name)
        for cell in getattr(wrapper, "__closure__", None) or ():
            if isinstance(cell.cell_contents, types.FunctionType):
                table[cell.cell_contents.__code__] = name
    return table


def _generated_called(code: types.CodeType, space: dict[str, Any]) -> list[Any]:
    """The generated op functions that a function names, as `gen_array_ops.pack`."""
    found: list[Any] = []
    module: Any = None
    generated = _generated()
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL":
            module = space.get(instruction.argval)
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(
            module, types.ModuleType
        ):
            if module.__name__.rpartition(".")[2].startswith("gen_"):
                function = getattr(module, instruction.argval, None)
                if getattr(function, "__code__", None) in generated:
                    found.append(function)
            module = None
    return found
