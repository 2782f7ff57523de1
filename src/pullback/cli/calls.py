"""One call of what a target names: a function or model in a module, or the model of a file."""

import importlib.util
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from rich.text import Text

from pullback._engine import TABLE, Spec, only_engine
from pullback._engine import load as load_engine
from pullback.cli.discover import LAZY, Candidate, bound, lazy_result, named
from pullback.cli.inputs import NAME, Call, given, tried
from pullback.cli.paths import is_there
from pullback.cli.source import SUFFIXES
from pullback.cli.status import Left
from pullback.cli.target import ending_of, load, reason_and_place, why_not
from pullback.cli.terminal import console
from pullback.errors import ArgumentError, PullbackError

T = TypeVar("T")
Run = Callable[[Any, Call, Mapping[str, Any]], T]
BATCH = 2  # of one example alone, a sum over the batch cannot be told from none
SIZES = (8, 32, 224)  # tried in turn where a model leaves a size open: some need many pixels
MOST_NUMBERS = 10**8  # of one made-up argument; a file may ask for more than there is memory
_MODEL = "model"  # what the model of a file is called in expressions
_INPUT = re.compile(r"(?P<dtype>[a-z]+\d*)?\[(?P<shape>[\d, ]*)\]")


class NotRun(Exception):
    """The target was not run; the text says why."""


def refuse(target: str, error: NotRun) -> None:
    """Say on the error stream what was not run, and why."""
    line = Text.assemble(("? ", "yellow"), (target, "bold"), f"  {error}")
    console(stderr=True, soft_wrap=True).print(line)


class Ran(NamedTuple):
    """What came of a call, and the arguments in words where nobody gave them."""

    result: Any
    arguments: str


def run_target(target: str, run: Run[Any], inputs: Sequence[str] = ()) -> Ran:
    """Call what a target names: with `inputs`, with what is given beside it, with what it says, or by trying."""
    one, names, call = _loaded(target)
    try:
        if inputs:
            return Ran(run(one.function, _parsed(inputs), names), "")
        if call is not None:
            return Ran(run(_for(one, call).function, call, names), "")
        return _by_trying(one, run, names)
    except PullbackError as error:
        raise NotRun(str(error)) from error
    except SystemExit as error:
        raise NotRun(f"ended the program with status {error.code}") from error
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:  # which a function raises, and nobody catches on the way
        said, _ = reason_and_place(error, target)
        raise NotRun(str(error) if isinstance(error, Left) else f"raised {said}") from error


def _loaded(target: str) -> tuple[Candidate, Mapping[str, Any], Call | None]:
    """The function or model of a target, the names beside it, and the call that is given there."""
    try:
        one, names, call = _subject(target)
    except KeyboardInterrupt:
        raise
    except Left as error:
        raise NotRun(f"cannot be loaded: it {error}") from error
    except BaseException as error:  # whatever a file does when it is imported
        raise NotRun(f"cannot be loaded: {why_not(error, target)}") from error
    if one is None:
        raise NotRun("names no function or model: write module:name or file.py:name")
    if kind := lazy_result(one.function):
        raise NotRun(LAZY.format(kind))
    return one, names, call


def _subject(target: str) -> tuple[Candidate | None, Mapping[str, Any], Call | None]:
    path = Path(target)
    if is_there(path) and path.suffix not in SUFFIXES:
        model = _model_in(path)
        return Candidate(_MODEL, model), {_MODEL: model}, None
    if path.suffix in (".keras", ".h5"):
        raise FileNotFoundError(f"there is no file {path}")
    module, name = load(target)
    if name is None:
        return None, {}, None
    try:
        one = named(module, name)
    except AttributeError:
        if (ending := ending_of(module)) is not None:
            raise ending from None
        raise
    return one, vars(module), given(module, one.name)


def _model_in(path: Path) -> Any:
    """The model of a file, read by an engine whose framework is installed."""
    for framework in TABLE:
        if importlib.util.find_spec(framework) is not None:
            model = load_engine(framework).read_model(path)
            if model is not None:
                return model
    wanted = "a .keras or .h5 file, a SavedModel folder, file.py:name or module:name"
    raise ArgumentError(
        f"there is no model in {path} that an installed framework reads; write {wanted}"
    )


def _for(one: Candidate, call: Call) -> Candidate:
    """A method gets its instance from the inputs, or from its class."""
    args, _ = call
    is_method = one.owner is not None and not (args and isinstance(args[0], one.owner))
    return bound(one) if is_method else one


def _by_trying(one: Candidate, run: Run[Any], names: Mapping[str, Any]) -> Ran:
    first: Exception | None = None
    for call in _tries(one):
        try:
            result = run(_for(one, call).function, call, names)
        except NotRun:  # which other arguments would not change
            raise
        except Exception as error:  # of whatever the function is made of
            first = first or error
            continue
        args, kwargs = call
        return Ran(result, ", ".join(map(spec, (*args, *kwargs.values()))))
    beside = "" if one.name == _MODEL else f" write {NAME} = {{{one.name!r}: (...)}} beside it, or"
    why = next(iter(str(first).splitlines()), type(first).__name__)
    raise NotRun(f"needs inputs:{beside} write --input 'float32[2, 3]'. First try: {why}")


def _tries(one: Candidate) -> Iterator[Call]:
    """What a model says that it takes; else tensors of many shapes."""
    specs = only_engine().call_specs(one.function)
    if specs is None:
        yield from tried(bound(one).function)
        return
    args, kwargs = specs
    for size in SIZES:
        yield tuple(_filled(args, size)), _filled(kwargs, size)


def _filled(specs: Any, size: int) -> Any:
    """Tensors in the place of specs; a size that is left open is this one, that of a batch is small."""
    if isinstance(specs, Spec):
        if specs.shape is None:
            raise ArgumentError("it takes a tensor of unknown rank: give its shape with --input.")
        shape = [BATCH if n is None and k == 0 else n for k, n in enumerate(specs.shape)]
        known = [size if n is None else n for n in shape]
        if math.prod(known) > MOST_NUMBERS:
            raise ArgumentError(
                f"it takes a tensor of {math.prod(known):,} numbers, which may take all memory: give its shape with "
                "--input if it is to be so."
            )
        return _tensor(known, specs.dtype)
    if isinstance(specs, Mapping):
        return {key: _filled(item, size) for key, item in specs.items()}
    return [_filled(item, size) for item in specs] if isinstance(specs, list | tuple) else specs


def _parsed(inputs: Sequence[str]) -> Call:
    """Tensors of the dtypes and shapes that were written on the command line."""
    made: list[Any] = []
    for text in inputs:
        found = _INPUT.fullmatch(text.strip())
        if found is None:
            raise ArgumentError(f"--input {text!r} is no shape: write it like 'float32[2, 3]'.")
        shape = [int(n) for n in re.findall(r"\d+", found["shape"])]
        made.append(_tensor(shape, found["dtype"] or "float32"))
    return tuple(made), {}


def _tensor(shape: Sequence[int], dtype: str) -> Any:
    """A tensor of ordinary numbers; of whole ones those that every table has a row for."""
    try:
        kind = np.dtype(dtype)
    except TypeError:
        raise ArgumentError(f"nothing can be made up for a tensor of dtype {dtype}.") from None
    rng = np.random.default_rng(len(shape))
    numbers = rng.integers(0, 2, shape) if kind.kind in "biu" else rng.normal(size=shape)
    return only_engine().arrays.asarray(numbers.astype(kind))


def spec(value: Any) -> str:
    """An argument in a few characters."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"{getattr(getattr(value, 'dtype', None), 'name', '')}{list(shape)}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {spec(item)}" for key, item in value.items()) + "}"
    is_list = isinstance(value, list | tuple)
    return f"[{', '.join(map(spec, value))}]" if is_list else repr(value)
