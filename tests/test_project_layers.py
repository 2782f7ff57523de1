"""Who may import whom, as ARCHITECTURE.md says, read from the source of every file."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "pullback"
VERBS = {"_define", "_override"}
ANALYSES = {"check", "flow"}
TOOLS = {"cli", "tour", "testing"}
READY_MADE = {"rules", "functions"}
DOORS = {"__init__", "extend"}

ALLOWED = {
    "door": {"core", "verb", "analysis", "ready-made"},
    "verb": {"core"},
    "analysis": {"core"},
    "core": {"core"},
    "engine": {"core", "analysis"},
    "ready-made": {"core", "door", "verb"},
    "tool": {"core", "door", "verb", "analysis", "tool"},
}
THIRD_PARTY = {
    "door": set(),
    "verb": {"numpy", "optree"},
    "analysis": {"numpy", "optree", "rich"},
    "core": {"numpy", "optree"},
    "engine": {"numpy", "optree"},
    "ready-made": {"numpy", "optree"},
    "tool": {"numpy", "optree", "rich", "typer", "pytest", "hypothesis"},
}
FRAMEWORKS_OF = {"tensorflow": {"tensorflow", "keras"}}


def layer_of(part: str) -> str:
    """The layer of a first-level part of the package: a module's or a folder's name."""
    if part == "engines":
        return "engine"
    known = {
        "verb": VERBS,
        "analysis": ANALYSES,
        "tool": TOOLS,
        "ready-made": READY_MADE,
        "door": DOORS,
    }
    return next((layer for layer, parts in known.items() if part in parts), "core")


def imported_modules(path: Path, package: str) -> Iterator[str]:
    """Absolute names of everything a file imports when it runs, at the top or in a function."""
    tree = _WithoutTypeChecking().visit(ast.parse(path.read_text(encoding="utf-8")))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1]
            start = ".".join(base) + "." if node.level else ""
            name = (start + (node.module or "")).rstrip(".")
            yield from (f"{name}.{alias.name}" for alias in node.names)


class _WithoutTypeChecking(ast.NodeTransformer):
    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        return node.orelse if ast.unparse(node.test) == "TYPE_CHECKING" else node


def violations(source: Path) -> list[str]:
    """One line per import that points the wrong way."""
    return [
        f"{path.relative_to(source)} imports {name}"
        for path in sorted(source.rglob("*.py"))
        for name in imported_modules(path, _package_of(path, source))
        if not _is_allowed(path.relative_to(source), name)
    ]


def _package_of(path: Path, source: Path) -> str:
    return ".".join([source.name, *path.parent.relative_to(source).parts])


def _is_allowed(path: Path, name: str) -> bool:
    own_part = path.parts[0].removesuffix(".py")
    layer = layer_of(own_part)
    top, *rest = name.split(".")
    if top in sys.stdlib_module_names:
        return True
    if top != "pullback":
        folders = set(path.parts) | {path.stem}
        frameworks = {name for folder in folders for name in FRAMEWORKS_OF.get(folder, ())}
        return top in THIRD_PARTY[layer] | frameworks
    target = _first_part(rest)
    if own_part == "engines" and target == "engines":
        return _same_engine(path, rest)
    return target == own_part or layer_of(target) in ALLOWED[layer]


def _first_part(rest: list[str]) -> str:
    """`from pullback import x` goes through the door, unless `x` is a part of the package."""
    is_part = bool(rest) and ((SOURCE / rest[0]).is_dir() or (SOURCE / f"{rest[0]}.py").is_file())
    return rest[0] if is_part else "__init__"


def _same_engine(path: Path, rest: list[str]) -> bool:
    return len(rest) < 2 or len(path.parts) < 2 or path.parts[1].removesuffix(".py") == rest[1]


def test_every_import_points_the_right_way() -> None:
    assert violations(SOURCE) == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("_rule.py", "import tensorflow"),
        ("_rule.py", "from pullback.engines.tensorflow import attach"),
        ("_rule.py", "from .engines import tensorflow"),
        ("_rule.py", "def late():\n    import keras"),
        ("errors.py", "from pullback.check import report"),
        ("check/report.py", "from pullback.engines import tensorflow"),
        ("engines/tensorflow/attach.py", "import torch"),
        ("engines/tensorflow/attach.py", "from pullback.engines.jax import attach"),
        ("engines/tensorflow/attach.py", "from pullback._define import custom_gradient"),
        ("rules/activations.py", "import tensorflow"),
        ("cli/tour.py", "import tensorflow"),
    ],
)
def test_the_layer_test_can_fail(tmp_path: Path, file: str, line: str) -> None:
    path = tmp_path / "pullback" / file
    path.parent.mkdir(parents=True)
    path.write_text(line, encoding="utf-8")
    assert len(violations(tmp_path / "pullback")) == 1
