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
