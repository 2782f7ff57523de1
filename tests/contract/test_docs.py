"""What docs/engines.md says is true: its excerpts are the code, and nothing of the protocol is left out."""

import re
import textwrap
from pathlib import Path

import pytest

from pullback import extend
from pullback._overriding import OverrideEngine
from pullback.testing import contract

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "engines.md").read_text(encoding="utf-8")
SHOWN = ("core/fake_engine.py", "contract/fake_adapter.py", "contract/test_fake.py")
EXCERPTS = re.findall(r"^```py\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("excerpt", EXCERPTS, ids=lambda text: textwrap.shorten(text, 40))
def test_an_excerpt_is_code_that_runs(excerpt: str) -> None:
    assert any(excerpt in (ROOT / "tests" / file).read_text(encoding="utf-8") for file in SHOWN)


@pytest.mark.parametrize(
    "name", ["name", *(name for name in vars(extend.Engine) if not name.startswith("_"))]
)
def test_every_member_of_the_protocol_is_explained(name: str) -> None:
    assert re.search(rf"^\| `{name}[`(]", TEXT, flags=re.MULTILINE)


@pytest.mark.parametrize("member", re.findall(r"^\| `(\w+)[`(].*\|", TEXT, flags=re.MULTILINE))
def test_every_member_that_is_explained_exists(member: str) -> None:
    known = {*vars(extend.Engine), *extend.Pullback.__slots__, *vars(OverrideEngine)}
    assert member in known | {"name", "engine"}


@pytest.mark.parametrize("name", [name for name in vars(OverrideEngine) if name.isalpha()])
def test_every_member_for_overrides_is_explained(name: str) -> None:
    assert f"`{name}(" in TEXT


@pytest.mark.parametrize("capability", contract.CAPABILITIES)
def test_every_capability_is_named(capability: str) -> None:
    assert f"`{capability}`" in TEXT


def test_the_files_that_are_named_exist() -> None:
    named = re.findall(r"`((?:src|tests)/[\w/]+\.py)`", TEXT)
    assert named
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_the_worked_example_is_short() -> None:
    files = ("fake_engine.py", "fake_framework.py")
    lines = [len((ROOT / "tests" / "core" / f).read_text("utf-8").splitlines()) for f in files]
    assert max(lines) <= 300
