"""Frozen dataclasses as a line of JSON and back: what another process says is read as data, and only if it fits."""

from __future__ import annotations

import base64
import json
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

_KINDS = "biufc"  # of arrays: numbers


class Unfitting(ValueError):
    """Data that are not what they should be."""


def as_line(value: Any) -> bytes:
    """One line."""
    return json.dumps(_plain(value), separators=(",", ":")).encode() + b"\n"


def read_line(line: bytes, hint: Any) -> Any:
    """The value of a type that a line holds; raises `Unfitting` where it holds anything else."""
    try:
        return _read(json.loads(line), hint)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise Unfitting(str(error)) from error


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {
            type(value).__name__: {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
        }
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return _plain_array(value)
    return value.item() if isinstance(value, np.generic) else value


def _plain_array(array: Any) -> list[Any]:
    """Numbers with their dtype; those that NumPy has no name for, such as bfloat16, in one that holds them all."""
    known = array if array.dtype.kind in _KINDS else array.astype(np.float64)
    data = base64.b64encode(np.ascontiguousarray(known).tobytes()).decode()
    return [known.dtype.name, list(known.shape), data]


def _read(data: Any, hint: Any) -> Any:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return _read_one_of(data, typing.get_args(hint))
    if is_dataclass(hint):
        return _read_dataclass(data, hint)
    if origin is np.ndarray:
        return _read_array(data)
    if origin in (tuple, list):
        return _read_several(data, origin, typing.get_args(hint))
    if origin in (Mapping, dict):
        key, item = typing.get_args(hint)
        return {_read(k, key): _read(v, item) for k, v in _is(data, dict).items()}
    return _is(data, hint)


def _read_one_of(data: Any, hints: tuple[Any, ...]) -> Any:
    for hint in hints:
        try:
            return _read(data, hint)
        except (ValueError, TypeError):
            continue
    raise Unfitting(f"{data!r:.80} is none of {hints}")


def _read_dataclass(data: Any, kind: Any) -> Any:
    inner = _is(data, dict).get(kind.__name__)
    hints = typing.get_type_hints(kind)
    if len(data) != 1 or set(_is(inner, dict)) != {f.name for f in fields(kind)}:
        raise Unfitting(f"{data!r:.80} is no {kind.__name__}")
    return kind(**{name: _read(value, hints[name]) for name, value in inner.items()})


def _read_several(data: Any, kind: Any, hints: tuple[Any, ...]) -> Any:
    items = _is(data, list)
    each = hints if kind is tuple and hints[-1:] != (...,) else (hints[0],) * len(items)
    return kind(_read(item, hint) for item, hint in zip(items, each, strict=True))


def _read_array(data: Any) -> Any:
    name, shape, text = _is(data, list)
    dtype = np.dtype(name)
    if dtype.kind not in _KINDS:
        raise Unfitting(f"{name} is no dtype of numbers")
    return np.frombuffer(base64.b64decode(text), dtype).reshape(shape).copy()


def _is(data: Any, kind: Any) -> Any:
    """What JSON has a word for."""
    if typing.get_origin(kind) is typing.Literal:
        is_one = data in typing.get_args(kind)
    elif kind is float:
        is_one = isinstance(data, int | float) and not isinstance(data, bool)
    elif kind in (None, type(None)):
        is_one = data is None
    else:
        is_one = type(data) is kind
    if not is_one:
        raise Unfitting(f"{data!r:.80} is no {kind}")
    return data
