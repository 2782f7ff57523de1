"""What functions compute with comes from several modules into one: a name means the same in each of them."""

import importlib
import pkgutil
from typing import Any

from pullback.engines.tensorflow import array_functions


def test_no_name_is_taken_twice() -> None:
    meant: dict[str, Any] = {}
    clashes: list[str] = []
    for found in pkgutil.iter_modules(array_functions.__path__):
        module = importlib.import_module(f"{array_functions.__name__}.{found.name}")
        for name, value in vars(module).items():
            if callable(value) and not name.startswith("_"):
                clashes += [f"{found.name}.{name}"] * (meant.setdefault(name, value) is not value)
    assert clashes == []
