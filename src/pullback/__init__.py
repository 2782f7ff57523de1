"""Change any gradient. Know it is the one you meant."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from pullback._awaiting import load_engines

if TYPE_CHECKING:
    from pullback import functions as functions
    from pullback import keras as keras
    from pullback import rules as rules
    from pullback._define import custom_gradient as custom_gradient
    from pullback._define import with_gradient as with_gradient
    from pullback._define import with_partials as with_partials
    from pullback._inputs import inputs as inputs
    from pullback._override import export as export
    from pullback._override import override as override
    from pullback._override import targets as targets
    from pullback._overriding import Override as Override
    from pullback._rule import DEFAULT as DEFAULT
    from pullback._targets import inside as inside
    from pullback._targets import where as where
    from pullback._version import __version__ as __version__
    from pullback.check.api import check as check
    from pullback.check.report import Report as Report
    from pullback.errors import CheckFailed as CheckFailed
    from pullback.errors import PullbackError as PullbackError
    from pullback.errors import RuleResultError as RuleResultError
    from pullback.errors import UnmatchedOverride as UnmatchedOverride
    from pullback.errors import UnreachableOverride as UnreachableOverride
    from pullback.explain.api import explain as explain
    from pullback.explain.flow import Flow as Flow
    from pullback.saliency.api import saliency as saliency
    from pullback.saliency.result import Saliency as Saliency

# The same names at run time, loaded when one of them is first asked for: `pullback --help` asks for none.
_HOMES: Final = {
    "pullback": ("functions", "keras", "rules"),
    "pullback._define": ("custom_gradient", "with_gradient", "with_partials"),
    "pullback._inputs": ("inputs",),
    "pullback._override": ("export", "override", "targets"),
    "pullback._overriding": ("Override",),
    "pullback._rule": ("DEFAULT",),
    "pullback._targets": ("inside", "where"),
    "pullback._version": ("__version__",),
    "pullback.check.api": ("check",),
    "pullback.check.report": ("Report",),
    "pullback.errors": (
        "CheckFailed",
        "PullbackError",
        "RuleResultError",
        "UnmatchedOverride",
        "UnreachableOverride",
    ),
    "pullback.explain.api": ("explain",),
    "pullback.explain.flow": ("Flow",),
    "pullback.saliency.api": ("saliency",),
    "pullback.saliency.result": ("Saliency",),
}
_HOME: Final = {name: home for home, names in _HOMES.items() for name in names}
_is_loading = False

if not TYPE_CHECKING:
    __all__ = sorted(_HOME.keys() - {"__version__"})


def __getattr__(name: str) -> Any:
    global _is_loading
    if name not in _HOME:
        raise AttributeError(f"module 'pullback' has no attribute {name!r}")
    if _is_loading:  # what is being loaded asks for a part
        return _loaded(name)
    _is_loading = True
    try:
        # All at once: what a rule names of this module is looked up here, and `pb.DEFAULT` must be there to be found.
        globals().update({each: _loaded(each) for each in _HOME})
    finally:
        _is_loading = False
    return globals()[name]


def _loaded(name: str) -> Any:
    home = _HOME[name]
    if home == __name__:
        return importlib.import_module(f"{home}.{name}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(_HOME)


class _Package(ModuleType):
    """Python gives a package its parts as attributes; `check`, `explain` and `saliency` stay the functions."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and _HOME.get(name, __name__) != __name__):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
# A process that only reads a file with our classes in it asks for no name before.
load_engines()
