"""The public names: few, listed here by hand, and free of frameworks."""

import inspect
import subprocess
import sys

import pytest

import pullback

# One for each question of users (the verbs, `targets`, `saliency`), what they give and raise, how targets are named.
# What is ready-made lies in modules, which are not counted. `inputs` is what the command line reads beside a function:
# without it, a rule that is meant to differ from the derivative could not say so where it is written.
MOST_NAMES = 22
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
    names = {name for name, value in vars(pullback).items() if not inspect.ismodule(value)}
    return {name for name in names if name.isidentifier() and not name.startswith("_")}


def frameworks_imported_by(code: str) -> list[str]:
    program = f"import sys\n{code}\nprint(*sorted(set({FRAMEWORKS!r}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_the_public_names_are_these() -> None:
    assert public_names() == PUBLIC


def test_the_public_names_are_few() -> None:
    assert len(PUBLIC) <= MOST_NAMES


@pytest.mark.parametrize("module", ["pullback", "pullback.extend", "pullback.tour", "pullback.cli"])
def test_importing_imports_no_framework(module: str) -> None:
    assert frameworks_imported_by(f"import {module}") == []


def test_importing_the_package_imports_no_renderer() -> None:
    program = "import sys, pullback; print(*{'rich', 'matplotlib', 'typer'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_the_import_test_can_fail() -> None:
    fake = "import types; sys.modules['torch'] = types.ModuleType('torch'); import torch"
    assert frameworks_imported_by(f"import pullback\n{fake}") == ["torch"]
