"""What an annotation asks for: shapes in the way of jaxtyping, plain values, choices, lists, functions."""

from __future__ import annotations

import collections.abc
import enum
import inspect
import re
import types
import typing
from typing import Any

from pullback.cli.guess.sizes import Dims
from pullback.cli.guess.wanted import ANNOTATION, Wanted

_PLAIN: dict[Any, Any] = {int: 2, bool: True, str: "", float: 0.5, complex: 0.5 + 0.5j}
_BY_NAME = {kind.__name__: value for kind, value in _PLAIN.items()}
_DTYPES = {
    "Float": "float32", "Float32": "float32", "Float64": "float64", "Float16": "float16", "BFloat16": "bfloat16",
    "Int": "int32", "Int32": "int32", "Int64": "int64", "Integer": "int32", "Bool": "bool", "Complex": "complex64",
    "Complex64": "complex64", "Complex128": "complex128", "Num": "float32", "Shaped": "float32", "Inexact": "float32",
}  # fmt: skip
_DIM = re.compile(
    r"\d*[A-Za-z_]\w*(?:\s*(?:\+|-|\*|//?)\s*\w+)*|\d+(?:\s*(?:\+|-|\*|//?)\s*\w+)+"
)  # `H`, `2*H`, `H//2`
_SHAPED = re.compile(r"^(?:\w+\.)*(\w+)\[\s*[\w.]+\s*,\s*[fr]?[\"'](.*?)[\"']\s*\]$")


def square(x: Any) -> Any:
    """The function that is given where one is asked for."""
    return x * x


def from_annotation(parameter: inspect.Parameter) -> list[Wanted]:
    """What may be given for the annotation; nothing where it does not tell."""
    wanted = parameter.annotation
    return [] if wanted is inspect.Parameter.empty else _read(wanted)


def _read(wanted: Any) -> list[Wanted]:
    if isinstance(wanted, str):
        return _from_text(wanted)
    for read in (_shaped, _choice, _union, _several):
        if found := read(wanted):
            return found
    if wanted in _PLAIN:
        return _plain(wanted, _PLAIN[wanted])
    is_function = wanted is typing.Callable or typing.get_origin(wanted) is collections.abc.Callable
    return [Wanted(ANNOTATION, square)] if is_function else []


def _plain(kind: Any, value: Any) -> list[Wanted]:
    """Numbers are often tensors in truth; what else is named is what it is."""
    return [] if kind in (int, float, str) else [Wanted(ANNOTATION, value)]


def kind_of(parameter: inspect.Parameter) -> type | None:
    """`int`, `float` or `str`, where the annotation says so: the name may tell which one."""
    wanted = parameter.annotation
    if isinstance(wanted, str):
        plain = re.sub(r"^Optional\[(\w+)\]$|\s*\|\s*None$", r"\1", wanted.strip())
        return next((kind for kind in (int, float, str) if kind.__name__ == plain), None)
    inner = [a for a in typing.get_args(wanted) if a is not types.NoneType]
    wanted = inner[0] if _is_union(wanted) and inner else wanted
    return wanted if wanted in (int, float, str) else None


def of_kind(kind: type) -> Any:
    """A value of it."""
    return _PLAIN[kind]


def _shaped(wanted: Any) -> list[Wanted]:
    """`Float[tf.Tensor, "batch dim"]`, of jaxtyping or of anything that looks like it."""
    text = getattr(wanted, "dim_str", None)
    if isinstance(text, str):
        name = str(getattr(wanted, "__name__", "Float")).partition("[")[0]
        return [_of_dims(text, _DTYPES.get(name, "float32"))]
    if typing.get_origin(wanted) is typing.Annotated:
        texts = [m for m in wanted.__metadata__ if isinstance(m, str)]
        return [_of_dims(texts[0], "float32")] if texts else _read(wanted.__origin__)
    return []


def _of_dims(text: str, dtype: str) -> Wanted:
    return Wanted(ANNOTATION, dims=dims_of(text), dtype=dtype)


def dims_of(text: str) -> Dims:
    """The dimensions of `"batch *rest 3"`; what stands for any number of them is one, or none for `...`.

    >>> dims_of("batch 3 dim=4"), dims_of("2 * units")
    (('batch', 3, 4), ('2*units',))
    """
    text = re.sub(r"(?<=\w)\s+([+*-]|//?)\s+(?=\w)", r"\1", text)  # a formula is one size
    parts = [w.strip() for w in text.split(",")] if "," in text else text.split()
    words = [w.rpartition("=")[2] for w in parts if w not in ("...", "")]
    words = [w.strip("*#?_ ") or "free" for w in words]
    return tuple(int(w) if w.isdigit() else w if _DIM.fullmatch(w) else "free" for w in words)


def _choice(wanted: Any) -> list[Wanted]:
    if typing.get_origin(wanted) is typing.Literal:
        return [Wanted(ANNOTATION, value) for value in typing.get_args(wanted)]
    if isinstance(wanted, type) and issubclass(wanted, enum.Enum):
        return [Wanted(ANNOTATION, value) for value in wanted]
    return []


def _is_union(wanted: Any) -> bool:
    return typing.get_origin(wanted) in (typing.Union, types.UnionType)


def _union(wanted: Any) -> list[Wanted]:
    if not _is_union(wanted):
        return []
    return [
        one for kind in typing.get_args(wanted) if kind is not types.NoneType for one in _read(kind)
    ]


def _several(wanted: Any) -> list[Wanted]:
    origin = typing.get_origin(wanted) or wanted
    if origin not in (list, tuple, collections.abc.Sequence, typing.List, typing.Tuple):  # noqa: UP006
        return []
    inside = [a for a in typing.get_args(wanted) if a is not Ellipsis]
    if any(a in (int, float) for a in inside):
        return [
            Wanted(ANNOTATION, tuple(_PLAIN[a] for a in inside) * (2 if len(inside) == 1 else 1))
        ]
    shaped = _read(inside[0]) if inside else []
    dims = shaped[0].dims if shaped else None
    return [Wanted(ANNOTATION, dims=dims, items=max(2, len(inside)))]


def _from_text(text: str) -> list[Wanted]:
    """An annotation that could not be evaluated, as for a package that is imported for types alone."""
    text = (
        re.sub(r"^(?:typing\.)?Optional\[(.*)\]$", r"\1", text.strip())
        .removesuffix("| None")
        .strip()
    )
    if found := _SHAPED.match(text):
        return [_of_dims(found[2], _DTYPES.get(found[1], "float32"))]
    if re.match(r"^(?:\w+\.)*Callable\b", text):
        return [Wanted(ANNOTATION, square)]
    if found := re.match(r"^(?:\w+\.)*(?:list|List|tuple|Tuple|Sequence|Iterable)\b", text):
        return [Wanted(ANNOTATION, items=2)]
    return [Wanted(ANNOTATION, True)] if text == "bool" else []
