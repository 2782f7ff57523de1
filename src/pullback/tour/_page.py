"""Stories as one page. Nothing is fetched, everything is escaped."""

import html
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.syntax import Syntax
from rich.terminal_theme import MONOKAI

from pullback.tour._render import short, words_of
from pullback.tour._story import Answer, Told

_WIDTH = 92  # characters of a picture or a line of code
_RUN_AS_FILE = re.compile(r"\n+if __name__ == .*", re.DOTALL)
_COLUMNS = ("", "stock TensorFlow", "pullback", "mathematics")


def as_page(told: Sequence[Told], made_with: str) -> str:
    """A whole document; `made_with` says what it was made with."""
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    stories = "\n".join(map(_section, told))
    links = "".join(_link(one) for one in told)
    ours, stock = (sum(one.ours_is_right for one in told), sum(one.stock_is_right for one in told))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        '<meta name="color-scheme" content="light dark"/>'
        f"<title>pullback: a tour</title><style>{style}</style></head>\n<body><main>"
        "<header><h1>Change any gradient. Know it is the one you meant.</h1>"
        f"<p>{len(told)} questions about gradients, asked of stock TensorFlow and of pullback. True numbers on every "
        f"line: <b>pullback in {ours} of {len(told)} stories, stock TensorFlow in {stock}</b>.</p></header>\n"
        f"<nav><ol>{links}</ol><p>The marks: stock TensorFlow, then pullback.</p></nav>\n{stories}\n"
        f"<footer>Made by <code>pullback tour --html</code> with {html.escape(made_with)}.</footer>"
        "</main></body></html>\n"
    )


def _link(told: Told) -> str:
    marks = f"{_mark(told.stock_is_right)} {_mark(told.ours_is_right)}"
    name = _words(told.story.question)
    return f'<li value="{told.number}"><a href="#story{told.number}">{name}</a><span>{marks}</span></li>'


def _mark(right: bool) -> str:
    return '<b class="right">✓</b>' if right else '<b class="wrong">✗</b>'


def _section(told: Told) -> str:
    story = told.story
    heads = "".join(f"<th>{name}</th>" for name in _COLUMNS)
    rows = "".join(
        f"<tr><th>{_words(line.name)}</th>{_cell(line.stock)}{_cell(line.ours)}"
        f"<td>{html.escape(short(line.truth))}</td></tr>"
        for line in told.outcomes
    )
    picture = "" if story.picture is None else _drawn(story.picture(), "picture")
    moral = f'<p class="moral">{_words(story.moral)}</p>' if story.moral else ""
    return (
        f'<section id="story{told.number}"><h2><span>{told.number}</span> {_words(story.question)}</h2>'
        f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
        f"{picture}{moral}<details><summary>The code: {html.escape(told.path.name)}</summary>"
        f"{_drawn(_code(told.path), 'code')}</details></section>"
    )


def _words(text: str) -> str:
    """Escaped text, with what stands in backticks as code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text))


def _cell(answer: Answer) -> str:
    kind = "right" if answer.right else "wrong"
    return f'<td class="{kind}">{html.escape(words_of(answer))}</td>'


def _code(path: Path) -> Syntax:
    text = _RUN_AS_FILE.sub("", path.read_text(encoding="utf-8"))
    return Syntax(text, "python", theme="ansi_dark", background_color="default", word_wrap=True)


def _drawn(picture: Any, kind: str) -> str:
    """What rich prints, with its colours."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(picture)
    text = console.export_html(theme=MONOKAI, inline_styles=True, code_format="{code}", clear=True)
    return f'<pre class="terminal {kind}">{text.rstrip()}</pre>'
