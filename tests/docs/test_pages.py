"""Every Python block of the docs runs, and prints what the page shows."""

from pathlib import Path

import keras
import pytest

from tests.docs.pages import PAGES, README, differences
from tests.docs.update import WIDTH, as_module, updated


@pytest.fixture(autouse=True)
def as_in_a_new_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages share a process, as importing TensorFlow takes longer than most of them: names and seeds start anew."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", WIDTH)
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(0)


@pytest.mark.parametrize("path", [README, *PAGES], ids=lambda path: path.stem)
def test_a_page_prints_what_it_shows(path: Path, tmp_path: Path) -> None:
    assert differences(path.read_text(encoding="utf-8"), as_module(path), tmp_path) == []


def page(code: str, shown: str = "") -> str:
    return f"```python\n{code}\n```\n" + (f"\n```text\n{shown}\n```\n" if shown else "")


@pytest.mark.parametrize(
    "text",
    [page("print(1)", "2"), page("print(1)"), page("x = 1", "1"), page("print(1)", "1 2")],
    ids=["another", "not shown", "not printed", "in part"],
)
def test_another_output_is_found(text: str, tmp_path: Path) -> None:
    assert len(differences(text, "wrong_page", tmp_path)) == 1


def test_text_with_words_before_it_is_no_output(tmp_path: Path) -> None:
    text = page("x = 1") + "A log:\n\n```text\n1\n```\n" + page("print(x)", "1")
    assert differences(text, "log_page", tmp_path) == []


def test_the_blocks_of_a_page_are_one_program(tmp_path: Path) -> None:
    text = page("x = 1") + page("def line():\n    raise ValueError(x)") + page("line()")
    with pytest.raises(ValueError, match="1") as raised:
        differences(text, "three_blocks", tmp_path)
    assert raised.traceback[-1].lineno == 3
    assert raised.traceback[-1].path == tmp_path / "three_blocks.py"


@pytest.mark.parametrize("shown", ["", "2", "1\n2"])
def test_outputs_are_written_into_a_page(shown: str, tmp_path: Path) -> None:
    text = page("x = 1") + "words\n" + page("print(x)", shown) + "end\n"
    right = page("x = 1") + "words\n" + page("print(x)", "1") + "end\n"
    assert updated(text, "update_page", tmp_path) == right
