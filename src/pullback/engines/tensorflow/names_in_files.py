"""What a file may name. Every name in a file becomes an object here, and every object gets its name for a file here.

A file is data, and its author may be a stranger. In Keras' safe mode, which is the default, a name is only looked up:
among what is registered with Keras or passed as `custom_objects`, and in a table of operations. No module is imported
because a file says so, and no attribute is read by a name from a file. In a file that somebody trusts, by
`safe_mode=False`, a name is that of anything in any module.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

import keras
import tensorflow as tf

from pullback.engines.tensorflow.tf_private import saving
from pullback.errors import ExportError, LoadError
from pullback.extend import Reference, find_for_trusted_file, functions, is_found, reference_to


class Named(str):
    """A name for a file, which still has its object in the process that wrote it: copies need no look-up."""

    __slots__ = ("value",)
    value: Any

    def __new__(cls, text: str, value: Any) -> Named:
        """The name of a value."""
        made = super().__new__(cls, text)
        made.value = value
        return made

    def __deepcopy__(self, memo: Any) -> Named:
        return self

    def __reduce__(self) -> Any:
        return str, (str(self),)


# Out of files


def named(text: Any, *, is_target: bool = False) -> Any:
    """The function that a file names as `module:name`; a target of an override, which is not called, may be more."""
    if isinstance(text, Named):
        return text.value
    module, _, name = text.partition(":") if isinstance(text, str) else ("", "", "")
    if not (module and name):
        raise LoadError(f"the file names {text!r} as a function; wanted 'module:name'.")
    reference = Reference(module, name)
    found = _registered(name)
    if found is None:
        found = _listed(is_target=is_target).get(reference)
    if found is None and saving.is_trusted():
        found = find_for_trusted_file(reference)
        if found is None:
            found = _registered(name)  # by the module, while it was imported
    if found is None:
        raise LoadError(_not_found(reference))
    return found


def chosen(table: Any, name: Any, what: str) -> Any:
    """What a table of pullback's own has under a name in a file."""
    if not isinstance(name, str) or name not in table:
        raise LoadError(f"the file names {name!r} as {what}; there are {', '.join(table)}.")
    return table[name]


def parts(described: Any, *names: str) -> tuple[Any, ...]:
    """The parts of something of pullback's own that a file describes."""
    missing = [name for name in names if not (isinstance(described, dict) and name in described)]
    if missing:
        raise LoadError(
            f"the file describes something of pullback's own as {described!r:.80}, without {', '.join(missing)}."
        )
    return tuple(described[name] for name in names)


def keras_object(config: Any) -> Any:
    """The Keras object that a file describes: no function, which Keras would take from all of its own."""
    found: Any = keras.saving.deserialize_keras_object(config)
    if isinstance(found, types.FunctionType | type) and not (known(found) or saving.is_trusted()):
        raise LoadError(_not_found(reference_to(found)))
    return found


def passed(custom_objects: Any) -> AbstractContextManager[Any]:
    """A scope with what Keras hands on to `from_config`; an empty one would hide what Keras knows already."""
    scope = keras.saving.custom_object_scope
    return scope(custom_objects) if custom_objects else contextlib.nullcontext()


def operation_of_keras(name: str) -> Callable[..., Any] | None:
    """The operation or activation of Keras with this name."""
    names = (Reference("keras", f"{space}.{name}") for space in ("ops", "activations"))
    return next((_operations()[each] for each in names if each in _operations()), None)


def _registered(name: str) -> Any:
    found = keras.saving.get_registered_object(name)
    return keras.saving.get_registered_object(_without_package(name)) if found is None else found


def _without_package(name: str) -> str:
    return name.rpartition(">")[2]


def _not_found(reference: Reference) -> str:
    module = reference.module if reference.module.isprintable() else repr(reference.module)
    names = f"the file names {reference.name!r} of {module}, which "
    pass_it = f"pass custom_objects={{{_without_package(reference.name)!r}: ...}} when loading"
    if saving.is_trusted():
        return f"{names}cannot be imported here. Make that module importable, or {pass_it}."
    return (
        f"{names}is neither registered with Keras nor one of the operations that any file may name. If it is yours, "
        "put @keras.saving.register_keras_serializable() before its definition and import its module, or "
        f"{pass_it}; if you trust whoever made the file, load it with safe_mode=False."
    )


# Into files


def written(value: Any, what: str, otherwise: str = "", *, is_target: bool = False) -> Named:
    """The name under which loading finds this very object."""
    reference = known(value, is_target=is_target)
    if reference is None:
        reference = reference_to(value)
        if not is_found(value):
            raise ExportError(
                f"{what} cannot be written to a file, because loading could not find it again by its name. Define it "
                f"at the top level of a module that can be imported, with `def` and a name of its own{otherwise}."
            )
        if saving.is_writing():
            warnings.warn(_unregistered(reference, what), stacklevel=2)
    return Named(":".join(reference), value)


def known(value: Any, *, is_target: bool = False) -> Reference | None:
    """By which name any file may name an object; `None`: one that is trusted may, if any."""
    name = keras.saving.get_registered_name(value) if hasattr(value, "__name__") else ""
    if keras.saving.get_registered_object(name) is value:
        return Reference(reference_to(value).module, name)
    return _names(is_target=is_target).get(id(value))


def _unregistered(reference: Reference, what: str) -> str:
    passed = f"custom_objects={{{reference.name!r}: ...}}"
    where, instead = "is not registered with Keras", " or safe_mode=False"
    if reference.module == "__main__":
        where, instead = "is defined in __main__, the script or notebook that runs here", ""
    return (
        f"{what} {where}, so that no other process can load what is saved now without {passed}{instead}. Put "
        "@keras.saving.register_keras_serializable() before its definition, in a module that can be imported."
    )


# What any file may name

# Where TensorFlow defines what computes tensors from tensors. Whatever else it has (files, datasets, libraries, Python
# functions, printing, variables) is defined elsewhere.
_ARITHMETIC: Final = re.compile(
    r"tensorflow\.python\.ops\.((linalg|signal)\.)?(gen_)?"
    r"(array|bitwise|clip|dct|embedding|fft|image|linalg|manip|math|nn|sort|sparse|special_math|spectral)"
    r"_(ops|impl|ops_impl|ops_stack)"
)
_SPACES: Final = {
    "tensorflow": ("bitwise", "image", "linalg", "math", "nn", "quantization", "signal", "sparse"),
    "keras": ("ops", "activations", "losses"),
}
_READERS: Final = frozenset({"get", "deserialize", "serialize"})  # of configurations, by Keras
# How functions are called that other functions take: a file must not name one to have another one called.
_FUNCTION_TAKEN: Final = re.compile(r"f|g|op|body|branches|.*(fn|fun|func|function)")


@functools.cache
def _operations() -> dict[Reference, Callable[..., Any]]:
    """Functions without effects, by the names that they have in public, or in the modules of pullback.

    The table is made from what there is, so that no name leads anywhere else.
    """
    named_functions = [*_of_tensorflow(), *_of_keras(), *_of_pullback()]
    return {reference: value for reference, value in named_functions if not _takes_functions(value)}


def _takes_functions(function: Any) -> bool:
    return any(map(_FUNCTION_TAKEN.fullmatch, inspect.signature(function).parameters))


def _of_tensorflow() -> Iterator[tuple[Reference, Any]]:
    spaces = {"": tf} | {f"{space}.": getattr(tf, space) for space in _SPACES["tensorflow"]}
    for space, module in spaces.items():
        for name, value in _functions_in(module):
            if _ARITHMETIC.fullmatch(inspect.unwrap(value).__module__):
                yield Reference("tensorflow", f"{space}{name}"), value


def _of_keras() -> Iterator[tuple[Reference, Any]]:
    for space in _SPACES["keras"]:
        for name, value in _functions_in(getattr(keras, space)):
            if name not in _READERS:
                yield Reference("keras", f"{space}.{name}"), value


def _of_pullback() -> Iterator[tuple[Reference, Any]]:
    """The ready-made functions, and what these are made of that has a gradient of its own."""
    public = [id(value) for value in vars(functions).values()]
    home = functions.__name__
    for module in [m for name, m in list(sys.modules.items()) if name.startswith(f"{home}.")]:
        for name, value in vars(module).items():
            is_own = reference_to(value) == (module.__name__, name)
            if (
                is_own
                and callable(value)
                and (id(value) in public or hasattr(value, "__wrapped__"))
            ):
                yield Reference(module.__name__, name), value


@functools.cache
def _listed(*, is_target: bool) -> dict[Reference, Any]:
    """Operations; as targets also single ops of TensorFlow, and kinds of layers, models and losses."""
    more = [*_ops(), *_classes()] if is_target else []
    return {**_operations(), **dict(more)}


def _ops() -> Iterator[tuple[Reference, Any]]:
    for name, value in _functions_in(tf.raw_ops):
        yield Reference("tensorflow", f"raw_ops.{name}"), value


def _classes() -> Iterator[tuple[Reference, Any]]:
    for space in ("layers", "models", "losses"):
        for name, value in vars(getattr(keras, space)).items():
            if isinstance(value, type):
                yield Reference("keras", f"{space}.{name}"), value


@functools.cache
def _names(*, is_target: bool) -> dict[int, Reference]:
    """The shortest name of each of these, by identity."""
    listed = _listed(is_target=is_target)
    longest_first = sorted(listed, key=lambda r: (r.name.count("."), len(r.name)), reverse=True)
    return {id(listed[reference]): reference for reference in longest_first}


def _functions_in(module: Any) -> Iterator[tuple[str, Any]]:
    for name, value in vars(module).items():
        if isinstance(value, types.FunctionType) and not name.startswith("_"):
            yield name, value
