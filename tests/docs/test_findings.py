"""docs/findings.md has every kind of finding, each with an example that gives it."""

import re
from typing import get_args

import pytest

from pullback.check.report import FindingKind
from tests.docs.pages import ROOT, blocks_of

KINDS = get_args(FindingKind)
TEXT = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")


def sections(text: str) -> dict[str, str]:
    """What is under each heading of the third level."""
    parts = re.split(r"^##+ ", text, flags=re.MULTILINE)
    return {title: rest for title, _, rest in (part.partition("\n") for part in parts)}


def test_every_kind_is_listed_once() -> None:
    assert sorted(re.findall(r"^### (.+)$", TEXT, flags=re.MULTILINE)) == sorted(KINDS)


# That the examples print what the page shows is tested with all other pages.
@pytest.mark.parametrize("kind", KINDS)
def test_the_example_of_a_kind_is_one_of_it(kind: str) -> None:
    shown = "".join(block.shown for block in blocks_of(sections(TEXT)[kind]))
    assert re.findall(r"^(\w+):", shown, flags=re.MULTILINE) in ([kind], [kind, kind])
