"""How a custom gradient is got at: by its name, from what the module holds, or by calling what it is made in.

`def make(...): @custom_gradient def inner(...)` exists only while `make` runs, so `make` is called with made-up
arguments, and what it returns is called in its turn, until a call of `inner` is seen. The check then has the function
with all that it closes over, and arguments of a real call.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from pullback._engine import only_engine
from pullback._inputs import Inputs, inputs_of
from pullback._reach import walk
from pullback.check.probe import Ran, Reached
from pullback.cli.checking.calling import (
    callables_in,
    called,
    methods_of,
    names_in,
    names_of,
    signature_holder,
    takes_several,
)
from pullback.cli.checking.recorder import codes_of, is_at
from pullback.cli.checking.sites import DEFINE, Site
from pullback.cli.checking.tensors import numbers_as_tensors
from pullback.cli.discover import Candidate, has_own_gradient, named
from pullback.cli.guess import DOUBTFUL, NOT_FINITE, Guess, guesses
from pullback.cli.guess.calls import with_defaults
from pullback.cli.guess.reading import variations
from pullback.cli.guess.wanted import TRIED, ReachedBy
from pullback.cli.inputs import said_beside

_SECONDS = 20.0  # for finding arguments of one function
_MOST_CALLS = 1500  # the same as a number of calls
_MOST_OUTER = 60  # calls of a factory that ran, and reached nothing
_MOST_INSTANCES = 4  # of a class, made of different arguments
_DEPTH = 3  # how often what a factory returned is called in its turn


class Unreached(Exception):
    """Nothing that was tried reaches the function; the text says what it needs."""


@dataclass(frozen=True)
class Found:
    """A function to check with arguments that run; `outer` is the call through which it was reached.

    `factory` is the call that returned it. `fault` is what is wrong with its gradient at first sight, where it `raises`
    what was raised, `unsure` that its inputs may be to blame; `caveat` says
    what a likelier reading of its parameters came to. A rule that `never_fits` does so with no inputs.
    """

    function: Any
    guess: Guess
    fault: str = ""
    caveat: str = ""
    raises: bool = False
    unsure: bool = False
    never_fits: bool = False
    outer: tuple[Any, Guess] | None = None
    factory: tuple[Any, Guess] | None = None


class Budget:
    """So many calls and seconds, for everything that is tried on behalf of one function."""

    def __init__(self) -> None:
        self.end = time.monotonic() + _SECONDS
        self.calls = _MOST_CALLS

    def spend(self) -> bool:
        """Whether there is one more call."""
        self.calls -= 1
        return self.calls > 0 and time.monotonic() < self.end


class Search:
    """For one site of one module."""

    def __init__(self, module: ModuleType, file: Path, site: Site) -> None:
        self.module, self.file, self.site = module, file, site
        self.budget = Budget()
        self.why = ""
        self.best: Found | None = None

    def run(self) -> Found:
        """The function and arguments for it."""
        for found in self._ways():
            if not found.fault or found.guess.hinted or _never_fits(found):
                return found
            self.best = self.best or found
        if self.best is not None:
            # a rule that raises may be meant for other shapes
            return replace(self.best, unsure=self.best.raises or _tensors(self.best.guess) > 1)
        raise Unreached(self.why or "nothing in its module calls it")

    def _ways(self) -> Iterator[Found]:
        path = self.site.path
        if self.site.held:
            yield from self._in(list(vars(self.module).values()))
        elif len(path) == 1 or all(self.site.in_class[:-1]):
            yield from self._by_name()
        if len(path) > 1:
            yield from self._in(list(vars(self.module).values()))
            yield from self._through(path[0], path[1:])
            yield from self._through_others(path[0])

    def _by_name(self) -> Iterator[Found]:
        try:
            one = named(self.module, self.site.name)
        except AttributeError:
            self._failed("its module has no such name once it is imported")
            return
        if self.is_bare(one.function):
            yield from self._in(list(vars(self.module).values()))
            return
        for function in self._bound(one):
            yield from self.direct(function)

    def is_bare(self, function: Any) -> bool:
        """Whether a name means the function that a custom gradient was made of, and not the custom gradient."""
        code = getattr(function, "__code__", None)
        is_written_here = code is not None and is_at(self.site, self.file, (code,))
        return is_written_here and self.site.kind == DEFINE and not has_own_gradient(function)

    def _bound(self, one: Candidate) -> Iterator[Any]:
        """A function as it is, a method of an instance that can be made."""
        if one.owner is None:
            yield one.function
            return
        for instance in self._instances(one.owner):
            yield getattr(instance, one.name.rpartition(".")[2])
            return

    def direct(self, function: Any) -> Iterator[Found]:
        """A function that has the gradient itself."""
        caveat, answer, is_first = "", None, True
        trying = guesses(function, direct=True)
        with contextlib.suppress(StopIteration):
            while self.budget.spend():
                guess = trying.send(answer)
                ran = only_engine().probes.trial(function, guess.args, guess.kwargs)
                answer = (
                    NOT_FINITE if ran.not_finite else DOUBTFUL if ran.fault and guess.soft else None
                )
                if ran.refused:
                    self._failed(ran.refused)
                    continue
                caveat = caveat or _caveat(ran, guess)
                if ran.fault and is_first:
                    yield from self._with_defaults(function, guess, ran.fault)
                    is_first = False
                told = caveat if _all_alike(guess) else ""
                found = Found(
                    function, guess, ran.fault, told, raises=_raises(ran), never_fits=ran.never_fits
                )
                yield from self._with_tensors(found)
                yield found
            self._failed("no arguments were found in time")

    def _with_defaults(self, function: Any, guess: Guess, fault: str) -> Iterator[Found]:
        """A rule that has gradients for what has a default as well: it is right only where that is given."""
        for fuller in with_defaults(guess, function):
            ran = only_engine().probes.trial(function, fuller.args, fuller.kwargs)
            if self.budget.spend() and not (ran.refused or ran.fault):
                added = ", ".join(
                    f"`{name}`" for name in fuller.sources if name not in guess.sources
                )
                yield Found(function, fuller, caveat=f"{added} left out, {fault}")
                return

    def _guesses(self, function: Any, *, direct: bool) -> Iterator[Guess]:
        for guess in guesses(function, direct=direct):
            if not self.budget.spend():
                self._failed("no arguments were found in time")
                return
            yield guess

    def _in(self, things: list[Any]) -> Iterator[Found]:
        """The function itself, where something that exists holds it."""
        for value in walk(*things, stop=self._is_foreign):
            if callable(value) and self._is_it(value):
                yield from self.direct(value)
                return

    def _is_it(self, value: Any) -> bool:
        return (
            not isinstance(value, type)
            and has_own_gradient(value)
            and is_at(self.site, self.file, codes_of(value))
        )

    def _is_foreign(self, value: Any) -> bool:
        """Whether a value is of some package rather than of the module."""
        home = getattr(value, "__module__", None) or getattr(type(value), "__module__", "")
        return isinstance(home, str) and home.partition(".")[0] in ("tensorflow", "keras", "numpy")

    def _through(self, name: str, rest: tuple[str, ...]) -> Iterator[Found]:
        """Call what the function is made in."""
        top = getattr(self.module, name, None)
        if isinstance(top, type):
            for instance in itertools.islice(self._instances(top), _MOST_INSTANCES):
                yield from self._in([instance])
                for method in methods_of(instance, rest[0]):
                    yield from self._calling(method, 0, name=f"{name}.{rest[0]}")
        elif callable(top):
            yield from self._calling(top, 0, name=name)
        else:
            self._failed(f"{name} is not there once its module is imported")

    def _through_others(self, name: str) -> Iterator[Found]:
        """Call what mentions it: somebody knows with what it is to be called."""
        for other, value in list(vars(self.module).items()):
            mentions = name in names_in(value)
            if (
                other == name
                or not mentions
                or getattr(value, "__module__", "") != self.module.__name__
            ):
                continue
            if isinstance(value, type):
                for instance in itertools.islice(self._instances(value), 1):
                    yield from self._in([instance])
                    for method in methods_of(instance, "call"):
                        yield from self._calling(method, 0)
            else:
                yield from self._calling(value, 0, name=other)

    def _calling(self, outer: Callable[..., Any], depth: int, name: str = "") -> Iterator[Found]:
        """Call a function with made-up arguments, and what it returns."""
        fruitless = 0
        for guess in self._with_variations(outer, name):
            result, reached, error = called(outer, guess)
            hits = [one for one in reached if is_at(self.site, self.file, one.codes)]
            for hit in hits[:1]:
                yield from self._reached(hit, outer, guess)
            if error:
                self._failed(f"{name or 'what it returns'}: {error}")
                continue
            fruitless += not hits
            if not hits and depth < _DEPTH:
                before = self.budget.calls
                callables = callables_in(result)
                for further in callables:
                    if self._is_it(further):
                        made = self.direct(further)
                        yield from (replace(one, factory=(outer, guess)) for one in made)
                    else:
                        yield from self._calling(further, depth + 1)
                yield from self._in([result])
                fruitless += (before - self.budget.calls) // 50
            if fruitless > _MOST_OUTER:
                self._failed(f"{name or 'what it returns'} runs, and does not call it")
                return

    def _with_variations(self, outer: Any, name: str) -> Iterator[Guess]:
        """The arguments that may do; first the likeliest with other values of what has a default."""
        several = self._outer_guesses(outer, name)
        first = next(several, None)
        if first is None:
            return
        yield first
        for changed in variations(signature_holder(outer)):
            yield replace(first, kwargs={**first.kwargs, **changed})
        yield from several

    def _outer_guesses(self, outer: Any, name: str) -> Iterator[Guess]:
        """What is given for the factory, or what may do."""
        said = said_beside(self.module, name) if name else None
        said = said or inputs_of(outer)
        if said is not None and said.gives_arguments:
            yield given_call(outer, said, "given for " + name)
            return
        yield from self._guesses(signature_holder(outer), direct=False)

    def _reached(self, hit: Reached, outer: Any, guess: Guess) -> Iterator[Found]:
        hit = replace(hit, args=tuple(map(_as_tensor, hit.args)))
        ran = only_engine().probes.trial(hit.function, hit.args, hit.kwargs)
        if ran.refused:
            self._failed(ran.refused)
            return
        caller = getattr(outer, "__name__", type(outer).__name__)
        sources: dict[str, str] = dict.fromkeys(names_of(hit), ReachedBy(f"by {caller}"))
        call = Guess(hit.args, hit.kwargs, sources, guess.hinted)
        found = Found(
            hit.function,
            call,
            ran.fault,
            raises=_raises(ran),
            outer=(outer, guess),
            never_fits=ran.never_fits,
        )
        yield from self._with_tensors(found)
        yield found

    def _with_tensors(self, found: Found) -> Iterator[Found]:
        """The same call with tensors for those plain numbers for which the rule has a gradient."""
        for guess, ran in numbers_as_tensors(found.function, found.guess):
            yield replace(
                found, guess=guess, fault=ran.fault, raises=_raises(ran), never_fits=ran.never_fits
            )

    def _instances(self, kind: type) -> Iterator[Any]:
        """Objects of a class, for arguments that its constructor takes."""
        said = said_beside(self.module, kind.__name__) or inputs_of(kind)
        if said is not None and said.gives_arguments:
            yield kind(*said.args, **said.kwargs)
            return
        for guess in self._guesses(kind, direct=False):
            try:
                made = kind(*guess.args, **guess.kwargs)
            except Exception as error:
                self._failed(f"{kind.__name__}: {type(error).__name__}: {error}")
                continue
            yield made

    def _failed(self, why: str) -> None:
        """Keep the first reason: what comes after it was less likely to run."""
        self.why = self.why or (why.strip().splitlines() or [""])[0][:200]


def given_call(function: Any, said: Inputs, origin: str) -> Guess:
    """A call with arguments that somebody gave."""
    try:
        bound = inspect.signature(function).bind_partial(*said.args, **said.kwargs)
        sources = dict.fromkeys(bound.arguments, origin)
    except (TypeError, ValueError):
        sources = {}
    return Guess(said.args, dict(said.kwargs), sources, hinted=True)


def _as_tensor(value: Any) -> Any:
    """A variable as the tensor that it holds: a rule may read it again, and nobody writes it in between."""
    if not (hasattr(value, "assign") and hasattr(value, "shape")):
        return value
    held = np.asarray(value)
    return only_engine().probes.tensor(held, held.dtype.name)


def _raises(ran: Ran) -> bool:
    return bool(ran.fault) and not ran.is_misshapen


def _caveat(ran: Ran, guess: Guess) -> str:
    """A likelier reading than the one that is used, under which the gradient has the wrong shape."""
    if not ran.is_misshapen:
        return ""
    likely = [name for name, source in guess.sources.items() if source != TRIED]
    several = ", ".join(likely) if likely else "another shape" if _tensors(guess) == 1 else ""
    return f"{several}: {ran.fault}" if several else ""


def _never_fits(found: Found) -> bool:
    """Whether a rule fits no call; with fewer or more tensors in one it might."""
    several = any(isinstance(value, list | tuple | dict) for value in found.guess.args)
    return found.never_fits and not several and not takes_several(found.function)


def _all_alike(guess: Guess) -> bool:
    """Whether all tensors have one shape: no gradient has to be summed then."""
    return len(set(map(tuple, _shapes(guess)))) <= 1


def _tensors(guess: Guess) -> int:
    return len(_shapes(guess))


def _shapes(guess: Guess) -> list[Any]:
    return [v.shape for v in (*guess.args, *guess.kwargs.values()) if hasattr(v, "dtype")]


def with_call(found: Found, said: Inputs, origin: str) -> Found:
    """The same function with arguments that somebody gave for it."""
    return replace(found, guess=given_call(found.function, said, origin), fault="", caveat="")
