"""Frozen dataclasses as JSON and back: what another process or a file says is read as data, and only if it fits."""

from __future__ import annotations

import base64
import enum
import functools
import json
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

_KINDS = "biufc"  # of arrays: numbers
_NUMBERS = ("nan", "inf", "-inf")  # as files have them, which are to be JSON for everybody


class Unfitting(ValueError):
    """Data that are not what they should be."""


def as_line(value: Any) -> bytes:
    """One line."""
    return json.dumps(_plain(value), separators=(",", ":")).encode() + b"\n"


def read_line(line: bytes, hint: Any) -> Any:
    """The value of a type that a line holds; raises `Unfitting` where it holds anything else."""
    return _fitting(line, hint, _Reader(tagged=True))


def read_untagged(text: str, hint: Any) -> Any:
    """The same of JSON that does not name its classes and has only what makes their objects equal, as files have."""
    return _fitting(text, hint, _Reader(tagged=False))


def _fitting(text: bytes | str, hint: Any, reader: _Reader) -> Any:
    try:
        return reader.read(json.loads(text), hint)
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


class _Reader:
    """Reads values of given types."""

    def __init__(self, *, tagged: bool) -> None:
        self._tagged = tagged  # whether the classes of dataclasses are named

    def read(self, data: Any, hint: Any) -> Any:
        """A value of this type."""
        origin = typing.get_origin(hint)
        if origin in (typing.Union, types.UnionType):
            return self._one_of(data, typing.get_args(hint))
        if is_dataclass(hint):
            return self._dataclass(data, hint)
        if origin is np.ndarray:
            return _read_array(data)
        if origin in (tuple, list):
            return self._several(data, origin, typing.get_args(hint))
        if origin in (Mapping, dict):
            key, item = typing.get_args(hint)
            return {self.read(k, key): self.read(v, item) for k, v in _is(data, dict).items()}
        return _is(data, hint)

    def _one_of(self, data: Any, hints: tuple[Any, ...]) -> Any:
        for hint in hints:
            try:
                return self.read(data, hint)
            except (ValueError, TypeError):
                continue
        raise Unfitting(f"{data!r:.80} is none of {hints}")

    def _dataclass(self, data: Any, kind: Any) -> Any:
        inner = _is(data, dict).get(kind.__name__) if self._tagged else data
        wanted = {f.name for f in fields(kind) if self._tagged or f.compare}
        if (self._tagged and len(data) != 1) or set(_is(inner, dict)) != wanted:
            raise Unfitting(f"{data!r:.80} is no {kind.__name__}")
        hints = _hints(kind)
        return kind(**{name: self.read(value, hints[name]) for name, value in inner.items()})

    def _several(self, data: Any, kind: Any, hints: tuple[Any, ...]) -> Any:
        items = _is(data, list)
        each = hints if kind is tuple and hints[-1:] != (...,) else (hints[0],) * len(items)
        return kind(self.read(item, hint) for item, hint in zip(items, each, strict=True))


_hints = functools.cache(typing.get_type_hints)


def _read_array(data: Any) -> Any:
    name, shape, text = _is(data, list)
    dtype = np.dtype(name)
    if dtype.kind not in _KINDS:
        raise Unfitting(f"{name} is no dtype of numbers")
    return np.frombuffer(base64.b64decode(text), dtype).reshape(shape).copy()


def _is(data: Any, kind: Any) -> Any:
    """What JSON has a word for, and numbers for which it has none."""
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(data)
    if kind is float and data in _NUMBERS:
        return float(data)
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
