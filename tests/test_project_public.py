"""The public names: few, listed here by hand, and free of frameworks."""

import ast
import importlib
import importlib.metadata
import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pullback

# One for each question of users (the verbs, `targets`, `saliency`), what they give and raise, how targets are named.
# What is ready-made lies in modules, which are not counted. `inputs` is what the command line reads beside a function:
# without it, a rule that is meant to differ from the derivative could not say so where it is written. `__version__` is
# what bug reports and other packages ask every package for.
MOST_NAMES = 23
FRAMEWORKS = ("tensorflow", "keras", "jax", "torch", "mxnet")
PUBLIC = {
    "CheckFailed",
    "DEFAULT",
    "Flow",
    "Override",
    "PullbackError",
    "Report",
    "RuleResultError",
    "Saliency",
    "UnmatchedOverride",
    "UnreachableOverride",
    "__version__",
    "check",
    "custom_gradient",
    "explain",
    "export",
    "inputs",
    "inside",
    "override",
    "saliency",
    "targets",
    "where",
    "with_gradient",
    "with_partials",
}


def public_names() -> set[str]:
    return {name for name in dir(pullback) if not inspect.ismodule(getattr(pullback, name))}


def frameworks_imported_by(code: str) -> list[str]:
    return output_of(f"import sys\n{code}\nprint(*sorted(set({FRAMEWORKS!r}) & set(sys.modules)))")


def output_of(program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_the_public_names_are_these() -> None:
    assert public_names() == PUBLIC


def names_for_type_checkers(source: str) -> dict[str, str]:
    """What is imported under `if TYPE_CHECKING`: each name and the module that it comes from."""
    blocks = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    block = next(node for node in blocks if ast.unparse(node.test) == "TYPE_CHECKING")
    lines = [line for line in block.body if isinstance(line, ast.ImportFrom)]
    return {alias.asname or "": line.module or "" for line in lines for alias in line.names}


def test_type_checkers_see_the_names_that_there_are() -> None:
    source = Path(pullback.__file__).read_text(encoding="utf-8")
    seen = names_for_type_checkers(source)
    assert sorted(seen) == dir(pullback)
    for name, home in seen.items():
        assert getattr(importlib.import_module(home), name) is getattr(pullback, name)


@pytest.mark.parametrize("name", ["check", "explain", "saliency"])
def test_a_verb_stays_a_function_whatever_is_imported_of_its_package(name: str) -> None:
    program = f"import pullback.{name}.api, pullback; print(callable(pullback.{name}))"
    assert output_of(program) == ["True"]


def test_once_one_name_is_asked_for_all_are_there_to_be_found() -> None:
    program = "import pullback; pullback.rules; print(*set(dir(pullback)) - set(vars(pullback)))"
    assert output_of(program) == []


def test_a_name_that_there_is_not_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'pullback' has no attribute 'chek'"):
        pullback.chek  # pyright: ignore[reportAttributeAccessIssue]


def test_the_version_is_the_one_that_is_installed() -> None:
    project = Path(__file__).parents[1] / "pyproject.toml"
    declared = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"]
    assert pullback.__version__ == declared == importlib.metadata.version("pullback")


def test_a_star_import_leaves_the_version_of_the_importer_alone() -> None:
    program = "__version__ = 'mine'; from pullback import *; print(__version__)"
    assert output_of(program) == ["mine"]


def test_the_public_names_are_few() -> None:
    assert len(PUBLIC) <= MOST_NAMES


@pytest.mark.parametrize("module", ["pullback", "pullback.extend", "pullback.tour", "pullback.cli"])
def test_importing_imports_no_framework(module: str) -> None:
    assert frameworks_imported_by(f"import {module}") == []


@pytest.mark.parametrize("heavy", ["rich", "matplotlib", "typer", "numpy"])
def test_importing_the_package_imports_nothing_heavy(heavy: str) -> None:
    assert output_of(f"import sys, pullback; print({heavy!r} in sys.modules)") == ["False"]


def test_the_import_test_can_fail() -> None:
    fake = "import types; sys.modules['torch'] = types.ModuleType('torch'); import torch"
    assert frameworks_imported_by(f"import pullback\n{fake}") == ["torch"]
