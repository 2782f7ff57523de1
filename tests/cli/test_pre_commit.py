"""The hook for pre-commit: its manifest, and the command as pre-commit calls it."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

MANIFEST = Path(__file__).parents[2] / ".pre-commit-hooks.yaml"
BAD = "import tensorflow as tf\n@tf.custom_gradient\ndef bad(x):\n    return tf.sin(x), lambda dy: 2 * dy * tf.cos(x)\n"
PLAIN = "raise SystemExit('was run')\n"


def test_the_manifest_has_what_is_required() -> None:
    (hook,) = yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))
    assert hook["id"] == "pullback-check"
    assert {"id", "name", "entry", "language"} <= set(hook)
    assert hook["types_or"] == ["python", "jupyter"]
    assert hook["require_serial"] is True  # it has processes of its own


@pytest.mark.parametrize("files, status", [(["plain.py"], 0), (["plain.py", "bad.py"], 1)])
def test_files_are_checked_as_pre_commit_calls_it(
    tmp_path: Path, files: list[str], status: int
) -> None:
    (tmp_path / "plain.py").write_text(PLAIN, encoding="utf-8")
    (tmp_path / "bad.py").write_text(BAD, encoding="utf-8")
    (hook,) = yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))
    first, *rest = shlex.split(hook["entry"])
    assert first == "python"
    done = subprocess.run(
        [sys.executable, *rest, *files], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert ("✗ bad" in done.stdout) == (status == 1)
    assert "was run" not in done.stdout + done.stderr
