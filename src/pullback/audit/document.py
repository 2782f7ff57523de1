"""A text of headings, paragraphs, lists, tables and programs, written as Markdown or as a page that needs no network.

What stands in backticks is code; all else is plain text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Heading:
    """A title of a level, 1 to 3."""

    level: int
    text: str

    @property
    def name(self) -> str:
        """What links call it."""
        return re.sub(r"\W+", "-", self.text.lower()).strip("-")


@dataclass(frozen=True)
class Paragraph:
    """Sentences."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Rows of cells under their titles, which may be empty."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Program:
    """Lines of code, or what it prints, as they are."""

    language: str
    text: str


Block = Heading | Paragraph | Items | Table | Program


def as_markdown(blocks: Sequence[Block]) -> str:
    """The blocks as Markdown."""
    return "\n\n".join(map(_markdown, blocks)) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"{'#' * level} {text}"
        case Paragraph(text):
            return text
        case Items(texts):
            return "\n".join(f"- {text}" for text in texts)
        case Program(language, text):
            return f"```{language}\n{text.strip()}\n```"
        case Table(titles, rows):
            head = "|" + "".join(f" {title} |" if title else " |" for title in titles)
            return "\n".join([head, "|" + "---|" * len(titles), *map(_markdown_row, rows)])


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_markdown_cell, cells))} |"


def _markdown_cell(text: str) -> str:
    plain = _in_text(text, lambda part: part.replace("<", "&lt;").replace("[", "&#91;"))
    return plain.replace("|", "\\|")


def as_html(blocks: Sequence[Block], title: str) -> str:
    """The blocks as a whole document, its sections linked at the top."""
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    sections = [block for block in blocks if isinstance(block, Heading) and block.level == 2]
    links = " ".join(f'<a href="#{one.name}">{html.escape(one.text)}</a>' for one in sections)
    first, *rest = map(_html, blocks)
    body = "\n".join([first, f"<nav>{links}</nav>", *rest])
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        '<meta name="color-scheme" content="light dark"/>'
        f"<title>{html.escape(title)}</title><style>{style}</style></head>\n"
        f"<body><main>\n{body}\n</main></body></html>\n"
    )


def _html(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f'<h{level} id="{html.escape(block.name)}">{_words(text)}</h{level}>'
        case Paragraph(text):
            return f"<p>{_words(text)}</p>"
        case Items(texts):
            return "<ul>" + "".join(f"<li>{_words(text)}</li>" for text in texts) + "</ul>"
        case Program(language, text):
            return f'<pre class="{language}"><code>{html.escape(text.strip())}</code></pre>'
        case Table(titles, rows):
            head = f"<thead>{_html_row('th', titles)}</thead>" if any(titles) else ""
            body = "".join(_html_row("td", row) for row in rows)
            return f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>'


def _html_row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{_words(cell)}</{tag}>" for cell in cells) + "</tr>"


def _words(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text, quote=False))


def _in_text(text: str, change: Callable[[str], str]) -> str:
    """Change what does not stand in backticks."""
    parts = text.split("`")
    parts[::2] = map(change, parts[::2])
    return "`".join(parts)
