"""What a built site refers to: links that lead nowhere, and what it would load from the network."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

# Attributes that make a browser load something at once, by tag; other links are for readers to follow.
LOADING = {
    ("script", "src"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("link", "href"),
}


@dataclass
class Page(HTMLParser):
    """The anchors of a page, what it links to and what it loads."""

    path: Path
    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in {"id", "name"} and value:
                self.anchors.add(value)
            if (tag, name) in LOADING and value:
                self.loads.append(value)
            if name in {"href", "src"} and value:
                self.links.append(value)


def pages_of(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def from_the_network(site: Path) -> list[str]:
    """What a page or a style sheet loads from somewhere else."""
    found = [url for page in pages_of(site).values() for url in page.loads if urlsplit(url).netloc]
    styles = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    return found + [path for text in styles for path in ("url(http", "@import") if path in text]


def broken_links(site: Path) -> list[str]:
    """Links to files and anchors that are not there; those to elsewhere are looked at by their form."""
    pages = pages_of(site)
    return [
        f"{page.path.relative_to(site)}: {link}"
        for page in pages.values()
        for link in page.links
        if page.path.name != "404.html" and not _leads_somewhere(link, page, pages)
    ]


def _leads_somewhere(link: str, page: Page, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme in {"http", "https"}:
        return "." in parts.netloc and " " not in link
    path, anchor = urldefrag(link)
    target = (page.path.parent / unquote(path)).resolve() if path else page.path
    if target.is_dir():
        target /= "index.html"
    known = pages.get(target)
    return target.is_file() and (known is None or not anchor or unquote(anchor) in known.anchors)


def anchors_of(site: Path) -> Iterator[str]:
    return (anchor for page in pages_of(site).values() for anchor in page.anchors)
