"""`pullback check` over notebooks: code cells in order, without what only IPython understands."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pullback.cli import app, notebook

IMPORTS = "%matplotlib inline\n!pip install some-library \\\n    another\nimport tensorflow as tf\nSCALE = 2.0"
BAD = "x = !ls\n@tf.custom_gradient\ndef bad(x):\n    y = tf.sin(x)\n    return y, lambda dy: SCALE * dy * tf.cos(x)"
GOOD = "%%time\n@tf.custom_gradient\ndef good(x):\n    return tf.sin(x), lambda dy: dy * tf.cos(x)\ngood?"
TRAINING = "raise RuntimeError('training has begun')"


def cell(source: str, kind: str = "code") -> dict[str, Any]:
    lines = source.splitlines(keepends=True)
    return {
        "cell_type": kind,
        "metadata": {},
        "outputs": [],
        "execution_count": None,
        "source": lines,
    }


def write(path: Path, *sources: str, language: str = "python", indent: int | None = 1) -> Path:
    cells = [cell("# A *title*", "markdown"), *map(cell, sources)]
    data = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "k", "display_name": "k", "language": language}},
        "cells": cells,
    }
    path.write_text(json.dumps(data, indent=indent), encoding="utf-8")
    return path


def check(*words: object, status: int) -> str:
    done = CliRunner().invoke(app, ["check", "--no-isolate", "--quick", *map(str, words)])
    assert done.exit_code == status, done.output
    return done.output


def test_the_cells_of_a_notebook_in_a_folder_are_checked(tmp_path: Path) -> None:
    book = write(tmp_path / "a book.ipynb", IMPORTS, "%%bash\nexit 1", BAD, GOOD, TRAINING)
    (tmp_path / ".ipynb_checkpoints").mkdir()
    write(tmp_path / ".ipynb_checkpoints" / "a book.ipynb", BAD)
    out = {kind: tmp_path / kind for kind in ("json", "sarif")}
    told = check(
        tmp_path, *(w for kind, file in out.items() for w in (f"--{kind}", file)), status=1
    )
    assert "✗ bad  the gradient for `x` is 2× too large" in told
    assert "(a book.ipynb cell 4:5)" in told
    assert "✓ good" in told
    left_out = "cell 2:1, cell 2:2, cell 2:3, cell 3:1, cell 4:1, cell 5:5"
    assert f"a book.ipynb  lines for IPython or the shell were left out: {left_out}\n" in told
    (bad, _) = json.loads(out["json"].read_text(encoding="utf-8"))["results"]
    written = book.read_text(encoding="utf-8").splitlines()
    assert (bad["file"], bad["cell"]) == (str(book), "cell 4:3")
    assert '"def bad(x):' in written[bad["line"] - 1]
    (result,) = json.loads(out["sarif"].read_text(encoding="utf-8"))["runs"][0]["results"]
    line = result["locations"][0]["physicalLocation"]["region"]["startLine"]
    assert '"    return y, lambda dy' in written[line - 1]


def test_one_function_of_a_notebook_is_named_and_explained(tmp_path: Path) -> None:
    book = write(tmp_path / "book.ipynb", IMPORTS, BAD, GOOD)
    told = check(f"{book}:bad", "--report", status=1)
    assert "rule: book.ipynb cell 3:5" in told
    assert "good" not in told
    assert CliRunner().invoke(app, ["explain", f"{book}:good"]).exit_code == 0


def test_a_cell_that_raises_ends_the_notebook(tmp_path: Path) -> None:
    told = check(write(tmp_path / "a.ipynb", IMPORTS, GOOD, "open('not there')", BAD), status=2)
    assert "? a.ipynb  FileNotFoundError" in told.replace(f"{tmp_path}/", "")
    assert "(a.ipynb cell 4:1): what it had defined by then was checked" in told
    assert "✓ good" in told
    assert "? bad  never defined in this run" in told


def test_of_several_definitions_the_last_cell_has_the_one_that_is_checked(tmp_path: Path) -> None:
    again = GOOD.replace("good", "bad").replace("dy * tf", "2.0 * dy * tf")
    told = check(write(tmp_path / "a.ipynb", IMPORTS, BAD, again), status=1)
    assert "replaced by cell 4:3" in told
    assert "(a.ipynb cell 4:4)" in told


@pytest.mark.parametrize(
    "text, said",
    [
        ("{", "is no notebook of format 4"),
        ("[]", "is no notebook of format 4"),
        ("{}", "is no notebook of format 4"),
        ('{"cells": 3}', "is no notebook of format 4"),
        ('{"cells": [3]}', "is no notebook of format 4"),
        ('{"cells": [{"cell_type": "code", "source": [3]}]}', "is no notebook of format 4"),
        ('{"cells": [], "metadata": 3}', "is no notebook of format 4"),
        ("[" * 100_000, "is no notebook of format 4"),
        ('{"cells": [], "metadata": {"kernelspec": {"language": "R"}}}', "is a notebook of R"),
        (
            '{"cells": [], "metadata": {"kernelspec": {"language": ["R"]}}}',
            "is a notebook of a language without a name: ['R']",
        ),
        ('{"cells": [], "metadata": null}', "is no notebook of format 4"),
        ('{"cells": "code"}', "is no notebook of format 4"),
        ('{"cells": {"a": {}}}', "is no notebook of format 4"),
        ('{"cells": [{"cell_type": "code", "source": 3}]}', "is no notebook of format 4"),
        ('{"cells": [{"cell_type": "code", "source": {"a": 1}}]}', "is no notebook of format 4"),
        ('{"cells": {}}', "is no notebook of format 4"),
        ('{"cells": []}', "defines no custom gradient"),
    ],
    ids=range(17),
)
def test_what_is_no_notebook_of_python_is_said(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.ipynb").write_text(text, encoding="utf-8")
    assert f"a.ipynb  {said}" in check(tmp_path / "a.ipynb", status=2)


def test_a_cell_that_is_no_python_leaves_the_run_undecided(tmp_path: Path) -> None:
    told = check(write(tmp_path / "a.ipynb", "def f(:\n", IMPORTS, GOOD), status=2)
    assert "? a.ipynb" in told.replace(f"{tmp_path}/", "")
    assert "cell 2 is no Python and was left out: SyntaxError: invalid syntax" in told
    assert "✓ good" in told


@pytest.mark.parametrize("fault", ["\ud800", "def f(:"])
def test_a_notebook_in_a_folder_is_not_passed_over_for_a_cell_that_is_no_python(
    tmp_path: Path, fault: str
) -> None:
    write(tmp_path / "a.ipynb", IMPORTS, f"{GOOD}\nx = '{fault}\n")
    write(tmp_path / "b.ipynb", f"x = '{fault}\n")
    told = check(tmp_path, status=2)
    assert "a.ipynb  cell 3 is no Python and was left out: " in told
    assert "b.ipynb" not in told


@pytest.mark.parametrize("indent", [None, 1])
def test_lines_are_found_however_the_file_is_written(tmp_path: Path, indent: int | None) -> None:
    book = notebook.read(write(tmp_path / "a.ipynb", "x = 1\nx = 1", "x = 1", indent=indent))
    raw = [line for cell in book.cells for line in cell.raw]
    assert raw == ([1, 1, 1] if indent is None else sorted(set(raw)))
    assert [(c.number, c.before, c.length) for c in book.cells] == [(2, 0, 2), (3, 2, 1)]


# A cell, and which of its lines are left out; the rest has to be Python with as many lines.
CELLS: dict[str, tuple[int, ...]] = {
    "x = 1": (),
    "": (),
    "%load_ext autoreload\n%autoreload 2\nx = 1": (1, 2),
    "text = ('a %s'\n        % 3)": (),
    "text = '''\n%not magic\n!nor this\n'''": (),
    "for k in range(3):\n    !echo {k}\n    y = k": (2,),
    "files = !ls -l": (1,),
    "t = %timeit -o f(x)": (1,),
    "%time y = 3": (),
    "?len\nlen?\nlen??": (1, 2, 3),
    "!pip install a \\\n  b \\\n  c\nx = 1": (1, 2, 3),
    "pip install a": (1,),
    "%%capture out\nx = 1": (),
    "%%timeit\nx = 1": (1,),
    "%%writefile a.py\nnot python": (1,),
    "%%html\n<b>": (1,),
}


@pytest.mark.parametrize("source", CELLS)
def test_what_only_ipython_understands_is_left_out(tmp_path: Path, source: str) -> None:
    (found,) = notebook.read(write(tmp_path / "a.ipynb", source)).cells
    assert (found.left_out, found.fault) == (CELLS[source], "")
    assert found.length == source.count("\n") + 1
    ast.parse(found.text)


def test_cells_are_run_as_in_jupyter(tmp_path: Path) -> None:
    import_all = (
        "import asyncio, pickle\nimport tensorflow as tf\nasync def wait():\n    return 2.0"
    )
    shell = "shell = get_ipython()\nshell.run_line_magic('time', '1')\nfiles = list(shell.getoutput('ls'))"
    main = "if __name__ == '__main__':\n    SCALE = await wait()\npickle.dumps(wait)"
    assert "is 2× too large" in check(
        write(tmp_path / "a.ipynb", import_all, shell, main, BAD), status=1
    )


def test_what_is_timed_is_run(tmp_path: Path) -> None:
    book = notebook.read(write(tmp_path / "a.ipynb", "%time y = 3", "display(y)\nz = y"))
    names: dict[str, Any] = {}
    assert notebook.run(book, 3, names) is None
    assert names["z"] == 3
