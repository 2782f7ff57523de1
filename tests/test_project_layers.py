"""Who may import whom, as ARCHITECTURE.md says, read from the source of every file."""

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "pullback"
VERBS = {"_define", "_override"}
ANALYSES = {"check", "explain", "audit"}
TOOLS = {"cli", "tour", "testing", "__main__"}
READY_MADE = {"rules", "functions", "saliency"}
DOORS = {"__init__", "extend", "keras"}

ALLOWED = {
    "door": {"core", "verb", "analysis", "ready-made", "door"},
    "verb": {"core"},
    "analysis": {"core", "verb", "analysis"},
    "core": {"core"},
    "engine": {"core", "door"},
    "ready-made": {"core", "door", "verb", "ready-made"},
    "tool": {"core", "door", "verb", "analysis", "tool"},
}
THIRD_PARTY = {
    "door": set(),
    "verb": {"numpy", "optree"},
    "analysis": {"numpy", "optree", "rich"},
    "core": {"numpy", "optree"},
    "engine": {"numpy", "optree"},
    "ready-made": {"numpy", "optree", "rich"},
    "tool": {"numpy", "optree", "rich", "typer", "pytest", "hypothesis"},
}
FRAMEWORKS_OF = {"tensorflow": {"tensorflow", "keras", "ml_dtypes"}}


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
    yield from (name for name, _ in imports_in(tree, package))


def imports_in(tree: ast.AST, package: str) -> Iterator[tuple[str, str]]:
    """Absolute name of each import, and the name that it has in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((a.name, a.asname or a.name.partition(".")[0]) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1]
            start = ".".join(base) + "." if node.level else ""
            name = (start + (node.module or "")).rstrip(".")
            yield from ((f"{name}.{a.name}", a.asname or a.name) for a in node.names)


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
        ("saliency/methods.py", "import tensorflow"),
        ("cli/tour.py", "import tensorflow"),
    ],
)
def test_the_layer_test_can_fail(tmp_path: Path, file: str, line: str) -> None:
    path = tmp_path / "pullback" / file
    path.parent.mkdir(parents=True)
    path.write_text(line, encoding="utf-8")
    assert len(violations(tmp_path / "pullback")) == 1


# Arrows inside a folder. Imports in functions and those for types count: they are dependencies as well.

FOLDERS = ("check", "engines/tensorflow", "explain", "program", "saliency")


def arrows(folder: Path, package: str) -> dict[str, set[str]]:
    """Which part of a folder imports which: a module at its top is a part, and so is a folder in it."""
    found: dict[str, set[str]] = {}
    for path in folder.rglob("*.py"):
        inside = path.relative_to(folder).parts
        part = inside[0].removesuffix(".py")
        own = ".".join([package, *inside[:-1]])
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = [name for name, _ in imports_in(tree, own) if name.startswith(f"{package}.")]
        targets = {_part(folder, name.removeprefix(f"{package}.")) for name in names}
        found.setdefault(part, set()).update(targets - {part})
    return found


def _part(folder: Path, name: str) -> str:
    first = name.partition(".")[0]
    exists = (folder / first).is_dir() or (folder / f"{first}.py").is_file()
    return first if exists else "__init__"


def in_cycles(graph: Mapping[str, set[str]]) -> set[str]:
    """The nodes that can be reached from themselves."""
    reached = {node: set(targets) for node, targets in graph.items()}
    for _ in graph:
        reached = {
            node: targets.union(*(reached.get(t, set()) for t in targets))
            for node, targets in reached.items()
        }
    return {node for node, targets in reached.items() if node in targets}


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_parts_of_a_folder_import_each_other(folder: str) -> None:
    package = ".".join(["pullback", *folder.split("/")])
    assert in_cycles(arrows(SOURCE / folder, package)) == set()


@pytest.mark.parametrize(
    "line",
    [
        "from pullback.check import report",
        "from pullback.check.report import Report",
        "from ..report import Report",
        "def late():\n    from pullback.check import report",
        "if TYPE_CHECKING:\n    from pullback.check.report import Report",
    ],
)
def test_the_cycle_test_can_fail(tmp_path: Path, line: str) -> None:
    lines = {
        "report.py": "import pullback.check.words",
        "words.py": "from pullback.check.search.points import P",
        "search/points.py": line,
        "search/other.py": "",
        "api.py": "from pullback.check import report",
    }
    for name, text in lines.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert in_cycles(arrows(tmp_path, "pullback.check")) == {"report", "words", "search"}


# What an engine takes from the core: the names of the second door, and nothing is changed there.


def _engine_files(source: Path) -> Iterator[tuple[str, str, ast.AST]]:
    """Engine, package and tree of each file of an engine."""
    for path in sorted((source / "engines").glob("*/**/*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        yield path.relative_to(source).parts[1], _package_of(path, source), tree


def _is_of_the_core(name: str, engine: str) -> bool:
    own = f"pullback.engines.{engine}"
    return f"{name}.".startswith("pullback.") and not f"{name}.".startswith(f"{own}.")


def private_names(source: Path) -> set[str]:
    """What engines import from pullback otherwise than from `pullback.extend` and `pullback.errors`."""
    return {
        name
        for engine, package, tree in _engine_files(source)
        for name, _ in imports_in(tree, package)
        if _is_of_the_core(name, engine)
        and not name.startswith(("pullback.extend.", "pullback.errors."))
    }


def patches(source: Path) -> set[str]:
    """Where engines change classes and modules of the core, as code."""
    found: set[str] = set()
    for engine, package, tree in _engine_files(source):
        imported = imports_in(tree, package)
        core = {local for name, local in imported if _is_of_the_core(name, engine)}
        changed = [node for node in ast.walk(tree) if _root(_changed_by(node)) in core]
        found |= {ast.unparse(_changed_by(node) or node) for node in changed}
    return found


def _changed_by(node: ast.AST) -> ast.expr | None:
    """What a node changes: the target of an assignment to an attribute, the object of a call such as `setattr`."""
    if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        return node
    if not isinstance(node, ast.Call) or len(node.args) < 2:
        return None
    named = isinstance(node.args[1], ast.Constant) and isinstance(node.args[1].value, str)
    reads = ast.unparse(node.func) in {"getattr", "hasattr"}
    changes = ast.unparse(node.func) in {"setattr", "delattr"} or (named and not reads)
    return node.args[0] if changes else None


def _root(node: ast.AST | None) -> str | None:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def test_an_engine_imports_nothing_by_a_private_path() -> None:
    assert private_names(SOURCE) == set()


def test_an_engine_changes_nothing_in_the_core() -> None:
    assert patches(SOURCE) == set()


def _engine_of_one_file(folder: Path, text: str) -> Path:
    path = folder / "pullback" / "engines" / "numpy" / "values.py"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return folder / "pullback"


@pytest.mark.parametrize(
    "line",
    [
        "from pullback._rule import Rule",
        "import pullback",
        "import pullback._rule",
        "from pullback import _rule",
        "from ..._rule import Rule",
        "def late():\n    from pullback.check.probe import Probe",
        "if TYPE_CHECKING:\n    from pullback._rule import Rule",
    ],
)
def test_the_test_of_private_paths_can_fail(tmp_path: Path, line: str) -> None:
    good = "from pullback.extend import Engine\nfrom pullback.errors import EngineError\n"
    source = _engine_of_one_file(tmp_path, f"{good}from pullback.engines.numpy import a\n{line}")
    assert len(private_names(source)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "Call.run = fast",
        "Call.run: int = fast",
        "Call.run += 1",
        "del Call.run",
        "core.Call.run = fast",
        "def late():\n    setattr(Call, name, fast)",
        "delattr(Call, 'run')",
        "@hook(Call, 'run')\ndef fast(): ...",
        "mock.patch.object(core.Call, 'run')",
    ],
)
def test_the_test_of_patches_can_fail(tmp_path: Path, line: str) -> None:
    imports = "from pullback.extend import Call\nfrom pullback import extend as core\n"
    harmless = "from pullback.engines.numpy.a import Own\nOwn.run = getattr(Call, 'run')\n"
    source = _engine_of_one_file(tmp_path, imports + harmless + line)
    assert len(patches(source)) == 1
