"""Arguments for a function found in a module: given beside it, or found by trying."""

import enum
import inspect
import itertools
import typing
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType, UnionType
from typing import Any

from pullback._engine import only_engine
from pullback.errors import CheckError

NAME = "pullback_inputs"
Call = tuple[tuple[Any, ...], dict[str, Any]]
Shape = tuple[int, ...]

ALIKE: tuple[Shape, ...] = ((5,), (3, 4), (3, 3), (), (2, 3, 4), (1, 6, 6, 2))
MIXED: tuple[Shape, ...] = ((3, 4), (4,), (4, 3), ())
APART: dict[int, list[tuple[Shape, ...]]] = {
    2: [((1, 6, 6, 2), (3, 3, 2, 2)), ((2, 3, 4), (4, 5)), ((2, 6, 3), (3, 3, 2))],
    3: [((1, 6, 6, 2), (3, 3, 2, 2), (2,)), ((2, 4), (4, 3), (3,))],
}
_PLAIN = {int: 1, bool: True, str: "", float: 0.5}


def names_given(module: ModuleType) -> list[str]:
    """The names for which `pullback_inputs` holds arguments, as far as it tells without being asked."""
    inputs = getattr(module, NAME, None)
    if inputs is not None and not callable(inputs) and not isinstance(inputs, Mapping):
        raise CheckError(
            f"{NAME} is a dict by function name or a function of the name; got "
            f"{type(inputs).__name__}."
        )
    return list(inputs) if isinstance(inputs, Mapping) else []


def given(module: ModuleType, name: str) -> Call | None:
    """What `pullback_inputs` beside a function says: a dict by name, or a function of the name."""
    names_given(module)
    inputs = getattr(module, NAME, None)
    try:
        found = inputs(name) if callable(inputs) else (inputs or {}).get(name)
        found = found() if callable(found) else found
    except Exception as error:
        raise CheckError(f"{NAME} raised {type(error).__name__}: {error}") from error
    return None if found is None else _call(found)


def _call(found: Any) -> Call:
    """A dict holds keyword arguments, a tuple or list positional ones, a tuple and a dict both."""
    if isinstance(found, dict):
        return (), found
    if not isinstance(found, tuple | list):
        return (found,), {}
    both = len(found) == 2 and isinstance(found[0], tuple | list) and isinstance(found[1], dict)
    return (tuple(found[0]), found[1]) if both else (tuple(found), {})


def tried(function: Any) -> Iterator[Call]:
    """Tensors of one shape for all parameters that need a value, then of mixed shapes and dtypes."""
    needed = _needed(function)
    sample = only_engine().probes.sample
    for dtypes, positive in _kinds(len(needed)):
        for shapes in _shapes(len(needed)):
            made = [
                _value(p, sample(shape, dtype, positive=positive, which=k))
                for k, (p, shape, dtype) in enumerate(zip(needed, shapes, dtypes, strict=True))
            ]
            by_name = inspect.Parameter.KEYWORD_ONLY
            pairs = list(zip(needed, made, strict=True))
            yield (
                tuple(value for p, value in pairs if p.kind is not by_name),
                {p.name: value for p, value in pairs if p.kind is by_name},
            )


def _kinds(count: int) -> Iterator[tuple[Sequence[str], bool]]:
    """Dtypes by parameter, and whether all numbers are positive."""
    for dtype, positive in (("float32", False), ("float32", True), ("float64", False)):
        yield [dtype] * count, positive
    for whole in reversed(range(count if count > 1 else 0)):
        yield ["int32" if k == whole else "float32" for k in range(count)], False
    yield ["complex64"] * count, False


def _shapes(count: int) -> list[tuple[Shape, ...]]:
    mixed = itertools.product(MIXED, repeat=count) if count in (2, 3) else ()
    return [*((shape,) * count for shape in ALIKE), *mixed, *APART.get(count, ())]


def _needed(function: Any) -> list[inspect.Parameter]:
    """Parameters without a default, with their annotations resolved."""
    try:
        known = list(inspect.signature(function, eval_str=True).parameters.values())
    except NameError:
        known = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found = [p for p in known if p.kind not in several and p.default is inspect.Parameter.empty]
    return found or [p for p in known if p.kind is inspect.Parameter.VAR_POSITIONAL]


def _value(parameter: inspect.Parameter, tensor: Any) -> Any:
    """What an annotation asks for: a plain value, several tensors, or the tensor."""
    wanted = parameter.annotation
    if typing.get_origin(wanted) in (typing.Union, UnionType):
        wanted = next((a for a in typing.get_args(wanted) if a is not type(None)), None)
    if typing.get_origin(wanted) is typing.Literal:
        return typing.get_args(wanted)[0]
    if isinstance(wanted, type) and issubclass(wanted, enum.Enum):
        return next(iter(wanted))
    if typing.get_origin(wanted) in (list, tuple, Sequence) or wanted in (list, tuple):
        return [tensor, tensor]
    return next((v for kind, v in _PLAIN.items() if wanted is kind), tensor)
