"""What is asked of the process in which functions run: which custom gradients there are, and what comes of each."""

from __future__ import annotations

import contextlib
import difflib
import time
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from pullback._engine import only_engine
from pullback._inputs import Inputs
from pullback.cli.checking.judge import judged
from pullback.cli.checking.listing import Known, file_of, function_of, known_in
from pullback.cli.checking.outcome import IGNORED, UNKNOWN, Item, Listing, Outcome, Unloaded
from pullback.cli.checking.places import Place
from pullback.cli.checking.process import Settings, shut
from pullback.cli.checking.reach import Found, Search, Unreached, given_call, with_call
from pullback.cli.checking.remarks import remarks_on
from pullback.cli.checking.sites import REGISTER, Site
from pullback.cli.discover import LAZY, Candidate, bound, named
from pullback.cli.inputs import NAME
from pullback.cli.settings import Project, Said, said_of
from pullback.cli.target import ending_of, enter_home, load, reason_and_place
from pullback.errors import CheckError

Answer = tuple[Listing | Unloaded | Outcome, list[str]]


class NotLoaded(Exception):
    """A target cannot be loaded; `why` says why."""

    def __init__(self, why: Unloaded) -> None:
        super().__init__(why.text)
        self.why = why


class Here:
    """Checks in this process."""

    def __init__(self, project: Project, *, apart: bool = False) -> None:
        self._project = project
        # nobody interrupts a process apart: what looks like it is raised by code that runs there
        self._passed_on = () if apart else (KeyboardInterrupt,)
        self._modules: dict[str, ModuleType] = {}
        self._known: dict[Place, dict[str, Known]] = {}
        self._settings = Settings()

    def names(self) -> list[str]:
        """Nothing is known before a place is asked about."""
        return []

    def outcome(self, question: tuple[Any, ...], options: dict[str, Any]) -> Answer:
        """What there is at `(place,)`, or what comes of `(place, name)`; and which settings of the process changed."""
        answer = self._answer(*question, options=options)
        return answer, self._settings.changed() + shut(self._modules.values())

    def _answer(self, place: Place, *name: str, options: dict[str, Any]) -> Any:
        try:
            known = self._load(place)
        except NotLoaded as error:
            return error.why
        if name:
            return self._outcome(place, known[name[0]], options)
        items = tuple(k.item for k in known.values())
        return Listing(items, remarks_on(self._modules[place.target], place))

    def close(self) -> None:
        """Nothing to close."""

    def _load(self, place: Place) -> dict[str, Known]:
        if place in self._known:
            enter_home(place.target)  # functions may import when they are called
        else:
            try:
                self._modules[place.target] = (
                    self._modules.get(place.target) or load(place.target)[0]
                )
                self._known[place] = self._list(place)
            except self._passed_on:
                raise
            except BaseException as error:
                raise NotLoaded(self._unloaded(place, error)) from error
        return self._known[place]

    def _list(self, place: Place) -> dict[str, Known]:
        """What is there; where a file has ended before it defined any of it, nothing is."""
        module = self._modules[place.target]
        known = known_in(module, place)
        ending = ending_of(module)
        if ending is not None and all(k.gone for k in known.values()):
            raise ending
        return known

    def _unloaded(self, place: Place, error: BaseException) -> Unloaded:
        module, only = self._modules.get(place.target), place.only
        if only and module and isinstance(error, AttributeError):
            near = difflib.get_close_matches(only, dir(module))
            hint = f". Near names: {', '.join(near)}" if near else ""
            return Unloaded(f"{module.__name__} has no {only!r}{hint}", absent=True)
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{place.target}.".startswith(f"{missing}."):
            how = "a function in a module is written module:function"
            return Unloaded(f"there is no module {missing}: {how}", absent=True)
        text, source = reason_and_place(error, place.target)
        return Unloaded(f"cannot be loaded: {text}{_where(missing, place)}", source)

    def _outcome(self, place: Place, known: Known, options: Mapping[str, Any]) -> Outcome:
        began = time.perf_counter()
        try:
            outcome = self._judged(place, known, options)
        except Unreached as error:
            outcome = Outcome(known.item, UNKNOWN, _needs(known.item, str(error)))
        except CheckError as error:
            outcome = Outcome(known.item, UNKNOWN, str(error))
        except SystemExit as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = (
                f"sys.exit({error.code!r}) was called at {Path(last.filename).name}:{last.lineno}"
            )
            outcome = Outcome(known.item, UNKNOWN, f"{where}: nothing can be said of it")
        except self._passed_on:
            raise
        except BaseException as error:
            text, _ = reason_and_place(error, place.target)
            outcome = Outcome(known.item, UNKNOWN, f"could not be checked: {text}")
        return replace(outcome, seconds=time.perf_counter() - began)

    def _judged(self, place: Place, known: Known, options: Mapping[str, Any]) -> Outcome:
        if known.gone:
            return Outcome(known.item, UNKNOWN, f"{known.gone}: nothing can be said of it")
        if known.site is not None and known.site.lazy:
            return Outcome(known.item, UNKNOWN, LAZY.format(known.site.lazy))
        module, name = self._modules[place.target], known.item.name
        function = function_of(module, known)
        names = self._project.names_of(known.item.file or place.target, module.__name__, name)
        of_project = self._project.of(names)
        said = said_of(module, name, function, of_project)
        if said.inputs.ignore:
            return Outcome(known.item, IGNORED, f"ignored: {said.inputs.ignore}")
        found = _found(module, known, said)
        later = said_of(
            module, name, found.function, of_project
        )  # a function inside a factory is seen only now
        if later.inputs.ignore:
            return Outcome(known.item, IGNORED, f"ignored: {later.inputs.ignore}")
        if later.origin and not said.origin:
            found = with_call(found, later.inputs, later.origin)
        everything = {**options, **later.inputs.options}
        return judged(known.item, found, everything, said.origin or later.origin)


def _where(missing: str | None, place: Place) -> str:
    """The folder above a file, or `src` in it, that has a module which is not installed."""
    folders = [folder for above in Path(place.target).parents for folder in (above, above / "src")]
    for folder in folders if missing and "." not in missing else ():
        if (folder / f"{missing}.py").is_file() or any((folder / f"{missing}").glob("*.py")):
            return f". It is in {folder}: install it, or set PYTHONPATH={folder}"
    return ""


def _found(module: ModuleType, known: Known, said: Said) -> Found:
    """The function to check, with arguments: those given, or those found."""
    site = known.site or Site(tuple(known.item.name.split(".")), frozenset({-1}), in_class=())
    search = Search(module, file_of(module) or Path(), site)
    if site.kind == REGISTER:
        return _registered(search, site)
    one = known.candidate or _candidate(module, known)
    if one is not None and one.function is None:
        raise CheckError(f"{NAME} names it, but {module.__name__} has no such function")
    if one is not None and said.origin and not search.is_bare(one.function):
        one, inputs = _with_instance(one, said.inputs)
        return Found(one.function, given_call(one.function, inputs, said.origin))
    if one is not None and known.candidate is not None:
        search.site = replace(
            site, path=(one.name,), in_class=(True,) * one.name.count(".") + (False,)
        )
    found = search.run()
    return with_call(found, said.inputs, said.origin) if said.origin else found


def _candidate(module: ModuleType, known: Known) -> Candidate | None:
    with contextlib.suppress(AttributeError):
        return named(module, known.item.name)
    return None


def _with_instance(one: Candidate, inputs: Inputs) -> tuple[Candidate, Inputs]:
    """A method gets its instance from the inputs, or from its class."""
    if one.owner is None or (inputs.args and isinstance(inputs.args[0], one.owner)):
        return one, inputs
    return bound(one), inputs


def _registered(search: Search, site: Site) -> Found:
    """A rule that is registered for an op, on the op."""
    try:
        function = only_engine().probes.op_with_gradient(site.op, site.label)
    except LookupError as error:
        raise CheckError(f"{error}; write pullback_inputs for a function that uses it") from error
    for found in search.direct(function):
        if not found.fault:
            return found
        search.best = search.best or found
    if search.best is None:
        raise Unreached(search.why)
    return search.best


def _needs(item: Item, why: str) -> str:
    first = item.name.partition(".")[0]
    other = f" (or {first!r}: for {first} itself)" if "." in item.name else ""
    return (
        f"needs inputs: write {NAME} = {{{item.name!r}: (...)}} beside it{other}. First try: {why}"
    )
