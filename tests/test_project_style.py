"""Bounds that keep the source readable."""

import ast
import io
import re
import statistics
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
BY_VERB = [
    path
    for path in TESTS
    if path.parent.name in {"define", "override"} and path.parent.parent.name == "tests"
]

# The classes of one letter keep this pattern from finding itself.
MACHINE = re.compile(
    r"(?<![\w.~])/(?:home|root|Users|tmp|work|opt|mnt)/\w|file:/{2}|\bpyp[i]\b|pythonhoste[d]"
)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions_in(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def length_of(function: Function) -> int:
    """Lines from the `def` on, docstring left out."""
    last = function.end_lineno or function.lineno
    doc = function.body[0] if ast.get_docstring(function) else None
    return last - function.lineno + 1 - (doc.end_lineno - doc.lineno + 1 if doc else 0)


def lines_of(path: Path) -> int:
    """Lines that hold something."""
    return sum(map(bool, map(str.strip, path.read_text(encoding="utf-8").splitlines())))


def raises_without_match(tree: ast.AST) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"pytest.raises", "pytest.warns"}
        and "match" not in {keyword.arg for keyword in node.keywords}
    ]


def returns_of_tests(tree: ast.AST) -> list[int]:
    """Lines at which a test may end before its last line; functions inside a test may return."""
    tests = [f for f in functions_in(tree) if f.name.startswith("test_")]
    nested = [g for f in tests for g in ast.walk(f) if isinstance(g, Function) and g is not f]
    inside = {node for function in nested for node in ast.walk(function)}
    returns = [n for f in tests for n in ast.walk(f) if isinstance(n, ast.Return)]
    return [node.lineno for node in returns if node not in inside]


def private_imports(tree: ast.AST) -> list[str]:
    """What is imported from pullback besides the package itself and its errors."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    modules = [alias.name for node in imports for alias in node.names]
    modules += [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    ours = [name for name in modules if name.partition(".")[0] == "pullback"]
    return [name for name in ours if name not in {"pullback", "pullback.errors"}]


def without_a_place(tests: Path, source: Path) -> list[str]:
    """Tests of private units that do not mirror `source`."""
    core = (tests / "core").glob("test_*.py")
    lost = [p for p in core if not (source / f"{p.stem.removeprefix('test')}.py").is_file()]
    for engine in (tests / "engines").iterdir():
        deep = [path.relative_to(tests) for path in engine.glob("*/**/test_*.py")]
        lost += [tests / path for path in deep if not (source / path.parent).is_dir()]
    return sorted(path.name for path in lost)


def comment_lines(path: Path) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    return sum(token.type == tokenize.COMMENT for token in tokens)


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_modules_and_functions_are_short(path: Path) -> None:
    assert lines_of(path) <= 400
    assert [f.name for f in functions_in(tree_of(path)) if length_of(f) > 60] == []


def test_typical_modules_and_functions_are_shorter() -> None:
    lengths = sorted(length_of(f) for path in SOURCES for f in functions_in(tree_of(path)))
    assert statistics.median(lines_of(path) for path in SOURCES) <= 120
    assert statistics.median(lengths) <= 8
    assert lengths[int(0.9 * len(lengths))] <= 20


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_every_return_type_is_annotated(path: Path) -> None:
    assert [f.name for f in functions_in(tree_of(path)) if f.returns is None] == []


@pytest.mark.parametrize("path", TESTS, ids=named)
def test_every_raises_has_a_match(path: Path) -> None:
    assert raises_without_match(tree_of(path)) == []


def test_the_match_test_can_fail() -> None:
    assert raises_without_match(ast.parse("with pytest.raises(ValueError): pass")) == [1]


@pytest.mark.parametrize("path", TESTS, ids=named)
def test_no_test_ends_early(path: Path) -> None:
    assert returns_of_tests(tree_of(path)) == []


def test_the_early_end_test_can_fail() -> None:
    early = "def test_a():\n    def f(): return 1\n    if f():\n        return"
    assert returns_of_tests(ast.parse(early)) == [4]


@pytest.mark.parametrize("path", BY_VERB, ids=named)
def test_tests_of_verbs_use_public_names(path: Path) -> None:
    assert private_imports(tree_of(path)) == []


def test_the_public_names_test_can_fail() -> None:
    lines = "from pullback import check\nfrom pullback._rule import Rule\nimport pullback.extend"
    assert private_imports(ast.parse(lines)) == ["pullback.extend", "pullback._rule"]


def test_tests_of_private_units_mirror_the_source() -> None:
    assert without_a_place(ROOT / "tests", ROOT / "src" / "pullback") == []


def test_the_mirror_test_can_fail(tmp_path: Path) -> None:
    for name in ("core/test_tale.py", "engines/tensorflow/tale/test_of_it.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    assert without_a_place(tmp_path, ROOT / "src" / "pullback") == ["test_of_it.py", "test_tale.py"]


def test_nothing_is_skipped() -> None:
    words = re.compile(r"\b(?:mark\.(?:skip|skipif|xfail)|pytest\.(?:skip|xfail|importorskip)\()\b")
    assert [named(path) for path in TESTS if words.search(path.read_text(encoding="utf-8"))] == []


def test_comments_are_few() -> None:
    comments = sum(comment_lines(path) for path in SOURCES)
    assert comments < 0.08 * sum(lines_of(path) for path in SOURCES)


def test_no_file_names_a_machine_or_a_registry() -> None:
    texts = {path: path.read_bytes().decode("utf-8", "ignore") for path in tracked_files()}
    assert [named(path) for path, text in texts.items() if MACHINE.search(text)] == []


@pytest.mark.parametrize("text", ["cd /roo" + "t/x", "file:/" + "//a", "py" + "pi.org"])
def test_the_machine_test_can_fail(text: str) -> None:
    assert MACHINE.search(text)
