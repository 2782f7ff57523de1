"""Tables of custom gradients in a file: source, name, status, and what the text and that of the inputs say."""

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from pullback.cli import app

Form = tuple[str, str, str, str, str]


def results_of(folder: Path, head: str, forms: Sequence[Form]) -> dict[str, Any]:
    """One run over a file of all forms: what it says, by name."""
    text = head + "\n\n".join(textwrap.dedent(form[0]) for form in forms)
    (folder / "forms.py").write_text(text, encoding="utf-8")
    words = ["check", str(folder), "--no-isolate", "--json", str(folder / "out.json")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1, done.output
    data = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    return {one["name"]: one for one in data["results"]}


def assert_line(found: dict[str, Any], form: Form) -> None:
    """The line of a form says what it should."""
    _, _, status, text, inputs = form
    assert found["status"] == status, found
    assert text in found["text"]
    assert inputs in found["inputs"]
