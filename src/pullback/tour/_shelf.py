"""Where the stories are: in the wheel beside this file, in a working tree under `examples/`."""

import importlib.util
import sys
from pathlib import Path

from pullback.tour._story import Story

_HERE = Path(__file__).resolve().parent


def find_stories() -> list[Path]:
    """The files of all stories, in their order.

    >>> from pullback.tour import find_stories
    >>> find_stories()[0].name.startswith("story01")
    True
    """
    shipped, beside_src = _HERE / "examples", _HERE.parents[2] / "examples"
    shelf = shipped if shipped.is_dir() else beside_src
    return sorted(shelf.glob("story[0-9][0-9]_*.py"))


def load_story(path: Path) -> Story:
    """Run a story's file and return its `story`.

    >>> from pullback.tour import find_stories, load_story
    >>> load_story(find_stories()[0]).question.endswith("?")
    True
    """
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module.story
