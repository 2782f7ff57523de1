"""AutoGraph: what it converts, and the lines that it generated."""
# pyright: reportPrivateUsage=false

from __future__ import annotations

from tensorflow.python.autograph.core import config as _config
from tensorflow.python.autograph.impl import api as _api


def leave_unconverted(package: str) -> None:
    """Let AutoGraph call the functions of a package as they are; what they call is still the caller's to convert."""
    rule = _config.DoNotConvert(package)
    _config.CONVERSION_RULES = (rule, *_config.CONVERSION_RULES)


def is_generated(file: str) -> bool:
    """Whether AutoGraph wrote a file."""
    return "__autograph_generated_file" in file


def origin_of_line(file: str, line: int) -> tuple[str, int]:
    """Where the user wrote a line that AutoGraph has generated; any other line as it is."""
    if not is_generated(file):
        return file, line
    factories = [f for found in _api._TRANSPILER._cache._cache.values() for f in found.values()]
    # A decorated function begins at a line that the map leaves out.
    for key in ((file, line + further) for further in range(4)):
        for factory in factories:
            if key in factory.source_map:
                place = factory.source_map[key].loc
                return origin_of_line(place.filename, place.lineno)
    return file, line
