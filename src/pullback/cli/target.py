"""What a target on the command line names: a file, a module, or a function in one of them."""

import contextlib
import importlib
import importlib.util
import os
import re
import sys
import threading
import traceback
from collections.abc import Generator
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from pullback.cli import notebook
from pullback.cli.checking.sites import TELLING, sites_in
from pullback.cli.homes import enter, is_beside, is_entered
from pullback.cli.paths import is_there, real
from pullback.cli.source import is_source, unreadable

_ENDING = "__pullback_ending__"
# As `pullback check` writes names: with what holds a function, or with the line of one of several definitions.
_NAME = re.compile(r"(?!\d)[\w.]+(?:\[.+\]|@\d+)?")


def load(target: str) -> tuple[ModuleType, str | None]:
    """The module that a target names, and the function in it, if one is named.

    >>> load("math:sin")[1]
    'sin'
    """
    place, name = split(target)
    if not is_source(place) and ("/" in place or place.startswith(".")):
        raise FileNotFoundError(
            f"{place} is no Python file: name a file, a module or module:function"
        )
    with _arguments_of_nobody(place):
        if is_source(place):
            return _from_file(Path(place)), name
        enter_home(place)
        return importlib.import_module(place), name


@contextlib.contextmanager
def _arguments_of_nobody(place: str) -> Generator[None]:
    """What reads the command line when it is imported must not read this one, but find its defaults."""
    before, alone = sys.argv, [place]
    sys.argv = alone
    try:
        yield
    finally:
        if sys.argv is alone:
            sys.argv = before


def enter_home(place: str) -> None:
    """Let names mean what they do for a file or module: those of its own folder come first."""
    if not is_source(place):
        enter(Path.cwd())
        return
    path = real(place)
    packages = packages_of(path)
    root = path.parents[len(packages)]
    # a file named like a module of somebody else's must not be found in its stead
    enter(root, last=not packages and _is_taken(path))


def split(target: str) -> tuple[str, str | None]:
    """The file or module of a target, and the function in it, if one is named.

    >>> split("package.module:function")
    ('package.module', 'function')
    >>> split("ops.py:table['f']")
    ('ops.py', "table['f']")
    """
    place, _, name = target.rpartition(":")
    if is_there(target) or not place or not _NAME.fullmatch(name):
        return target, None
    return place, name


def why_not(error: BaseException, target: str) -> str:
    """What went wrong while a target was loaded, with the line of the target where it did."""
    text, place = reason_and_place(error, target)
    return f"{text}  ({place})" if place else text


def reason_and_place(error: BaseException, target: str) -> tuple[str, str]:
    """What went wrong while a target was loaded, and where in the target: `file.py:12`, or nothing."""
    kind, said = type(error).__name__, str(error)
    if isinstance(error, SystemExit):
        how = "os._exit" if isinstance(error, _Exit) else "sys.exit"
        kind, said = "it ends its process when it is imported", f"{how}({error.code!r})"
    name = Path(split(target)[0]).stem
    frames = traceback.extract_tb(error.__traceback__)
    places = [(f.filename, f.lineno) for f in frames if Path(f.filename).stem == name]
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).stem == name:
        said = error.msg  # the rest of its text is the place
        places.append((error.filename, error.lineno))
    where = f"{Path(places[-1][0]).name}:{places[-1][1]}" if places else ""
    return f"{kind}: {said}" if said.strip() else kind, where


def _from_file(path: Path) -> ModuleType:
    if why := unreadable(path):
        reason = f"{path} {why}" if is_there(path) else f"there is no file {path}"
        raise FileNotFoundError(reason)
    path = real(path)
    enter_home(str(path))
    packages = packages_of(path)
    if packages:
        importlib.import_module(".".join(packages))
    loaded = [m for name, m in list(sys.modules.items()) if _is_of(name, m, path)]
    if loaded:  # another file imports it: what it registers cannot be registered twice
        return loaded[0]
    if path.suffix == notebook.SUFFIX:
        return _run_notebook(path)
    if packages:
        return _run(path, ".".join([*packages, path.stem]))
    return _run(path, f"{path.stem}_to_check" if _is_taken(path) else path.stem)


def _run(path: Path, name: str) -> ModuleType:
    """A file as a module; one that ends its process, or raises, has what it had defined by then."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    at_first = {*vars(module), "__builtins__"}
    try:
        with _exits_are_raised():
            spec.loader.exec_module(module)
    except SystemExit as error:
        setattr(module, _ENDING, error)
    except BaseException as error:
        sys.modules.pop(name, None)  # half of a module is none, for whoever imports it
        if not isinstance(error, Exception) or at_first.issuperset(vars(module)):
            raise
        setattr(module, _ENDING, error)
        return module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
    return module


class _Exit(SystemExit):
    """`os._exit` was called."""


@contextlib.contextmanager
def _exits_are_raised() -> Generator[None]:
    """Let `os._exit` raise, here and not in copies of this process or in other threads, which have nothing to tell."""
    leave, here = os._exit, (os.getpid(), threading.get_ident())

    def leave_or_raise(status: int) -> NoReturn:
        if (os.getpid(), threading.get_ident()) == here:
            raise _Exit(status)
        leave(status)

    os._exit = leave_or_raise
    try:
        yield
    finally:
        os._exit = leave


def _run_notebook(path: Path) -> ModuleType:
    """The cells of a notebook as a module, up to the last that defines a custom gradient or has a say about them."""
    book = notebook.read(path)
    module = ModuleType("__main__")  # as in Jupyter
    module.__file__ = str(path)
    sys.modules[re.sub(r"\W", "_", path.stem) + "_notebook"] = module
    wanted = [max(site.lines) for site in sites_in(book.text)]
    wanted += [cell.before + 1 for cell in book.cells if any(w in cell.text for w in TELLING)]
    program = sys.modules["__main__"]
    sys.modules["__main__"] = module  # where what is pickled looks for its functions
    try:
        with _exits_are_raised():
            ended = notebook.run(book, max(wanted, default=0), vars(module))
    finally:
        sys.modules["__main__"] = program
    if ended:
        setattr(module, _ENDING, ended[1])
    return module


def ending_of(module: ModuleType) -> BaseException | None:
    """What ended a file before its end, after which what it had defined is there."""
    return vars(module).get(_ENDING)


def _is_of(name: str, module: ModuleType, path: Path) -> bool:
    """Whether the module of a name is that file, run to its end and not as a program."""
    file = getattr(module, "__file__", None)
    is_done = not getattr(getattr(module, "__spec__", None), "_initializing", False)
    return isinstance(file, str) and file == str(path) and is_done and name != "__main__"


def packages_of(path: Path) -> list[str]:
    """The packages that a file lies in, the outermost first."""
    found: list[str] = []
    for folder in path.parents:
        if not (folder / "__init__.py").is_file():
            break
        found.insert(0, folder.name)
    return found


def _is_taken(path: Path) -> bool:
    """Whether others may mean another module by the name of a file."""
    name = path.stem
    if name in sys.modules:
        return not (is_beside(name) or _is_of(name, sys.modules[name], path))
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    return spec is not None and not is_entered(spec.origin)
