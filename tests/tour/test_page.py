"""Stories as a page: every word is there, escaped, and the code beside them."""

from pathlib import Path

from pullback.tour import Line, Story, Told
from pullback.tour._page import as_page

CODE = 'double = 2  # <of course>\n\nif __name__ == "__main__":\n    story.show()\n'


def told(tmp_path: Path, number: int = 3) -> Told:
    path = tmp_path / "story03_twice.py"
    path.write_text(CODE, encoding="utf-8")
    story = Story(
        "Is `a < b`?",
        stock=abs,
        ours=lambda x: x + x,
        lines=[Line("of <two>", lambda double: double(2), truth=4)],
        moral="Sums & products.",
        picture=lambda: "[bold]seen[/bold]",
    )
    return Told(number, path, story, story.tell())


def test_the_words_of_a_story_are_escaped_and_code_is_code(tmp_path: Path) -> None:
    page = as_page([told(tmp_path)], "a & b")
    assert "Is <code>a &lt; b</code>?" in page
    assert "<th>of &lt;two&gt;</th>" in page
    assert "Sums &amp; products." in page
    assert "with a &amp; b." in page


def test_both_answers_and_the_truth_are_there(tmp_path: Path) -> None:
    page = as_page([told(tmp_path)], "")
    assert '<td class="wrong">✗ 2, silently</td><td class="right">✓ 4</td><td>4</td>' in page
    assert "pullback in 1 of 1 stories, stock TensorFlow in 0" in page


def test_pictures_and_code_are_shown_without_what_runs_the_file(tmp_path: Path) -> None:
    page = as_page([told(tmp_path)], "")
    assert "seen</span></pre>" in page
    assert "&lt;of course&gt;" in page
    assert "__main__" not in page


def test_every_story_can_be_linked_to(tmp_path: Path) -> None:
    page = as_page([told(tmp_path, 3), told(tmp_path, 5)], "")
    for number in (3, 5):
        assert page.count(f'<a href="#story{number}">') == 1
        assert page.count(f'<section id="story{number}">') == 1
