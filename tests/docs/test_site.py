"""The documentation as a site: built without a warning, complete, without network, and every link leads somewhere."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pullback import errors, functions, keras, rules
from tests.docs.pages import PAGES, ROOT
from tests.docs.site import anchors_of, broken_links, from_the_network
from tests.test_project_public import PUBLIC

CONFIGURATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def public_names() -> set[str]:
    """Every public function and class; those that share their name with a package are listed with their module."""
    packages = {module.__name__: vars(module) for module in (rules, functions, errors)}
    names = {f"{package}.{name}" for package, names in packages.items() for name in named(names)}
    names |= {f"pullback.keras.{name}" for name in keras.__all__}
    own = PUBLIC - set(vars(errors))
    shared = {"check", "explain", "saliency"}
    return names | {f"pullback.{n}.api.{n}" if n in shared else f"pullback.{n}" for n in own}


def named(names: dict[str, Any]) -> list[str]:
    return [name for name, value in names.items() if name[0].isalpha() and callable(value)]


def build(folder: Path) -> str:
    """The site in `folder / "site"`; what the builder says."""
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    (folder / "src").symlink_to(ROOT / "src")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_site_is_complete_and_needs_no_network(tmp_path: Path) -> None:
    assert "No issues found" in build(tmp_path)
    site = tmp_path / "site"
    assert broken_links(site) == []
    assert from_the_network(site) == []
    assert public_names() - set(anchors_of(site)) == set()


def test_every_page_is_in_the_navigation_once() -> None:
    listed = re.findall(r"([\w-]+)\.md$", CONFIGURATION, flags=re.MULTILINE)
    assert sorted(listed) == sorted(path.stem for path in PAGES)


def test_the_public_names_are_found() -> None:
    assert public_names() >= {
        "pullback.override",
        "pullback.check.api.check",
        "pullback.rules.clip",
    }
    assert "pullback.errors.CheckFailed" in public_names()


PLAIN = "<a id='here'></a><a href='{}'>x</a>"


@pytest.mark.parametrize(
    "link", ["missing.html", "#nowhere", "other/#nowhere", "http://nowhere", "other/none.png"]
)
def test_a_broken_link_is_found(link: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "index.html").write_text(PLAIN.format("../index.html#here"))
    (tmp_path / "index.html").write_text(PLAIN.format(link))
    assert broken_links(tmp_path) == [f"index.html: {link}"]


@pytest.mark.parametrize(
    "text",
    ["<script src='https://a.b/c.js'>", "<link href='//a.b/c.css'>", "<img src='http://a/b'>"],
)
def test_what_is_loaded_from_elsewhere_is_found(text: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(text)
    (tmp_path / "own.css").write_text("a { background: url(http://a/b) }")
    assert len(from_the_network(tmp_path)) == 2


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_links_between_files_lead_to_files(name: str) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / name).read_text(encoding="utf-8"))
    assert [link for link in links if not (ROOT / link).exists()] == []
