"""What is built and installed: the wheel, its stories, the pins."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from pullback.engines.tensorflow.versions import SUPPORTED

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def unpacked_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_the_wheel_is_typed_and_has_its_entry_points(unpacked_wheel: Path) -> None:
    (entry_points,) = unpacked_wheel.glob("*.dist-info/entry_points.txt")
    words = entry_points.read_text(encoding="utf-8")
    assert "pullback = pullback.cli:main" in words
    assert "pullback = _pullback_pytest" in words
    assert (unpacked_wheel / "_pullback_pytest.py").is_file()
    assert (unpacked_wheel / "pullback" / "py.typed").is_file()


def test_the_wheel_ships_the_stories_where_the_tour_finds_them(unpacked_wheel: Path) -> None:
    program = "from pullback.tour import find_stories; print(*find_stories(), sep='\\n')"
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(unpacked_wheel)},
        cwd=unpacked_wheel,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    in_tree = sorted((ROOT / "examples").glob("story*.py"))
    assert [Path(path).name for path in found] == [path.name for path in in_tree]
    assert all(path.startswith(str(unpacked_wheel)) for path in found)


def test_the_wheel_ships_what_pages_are_made_of_with_its_licences(unpacked_wheel: Path) -> None:
    views = Path("pullback", "explain", "views")
    in_tree = [
        path for path in (ROOT / "src" / views).rglob("*") if path.suffix not in {".py", ".pyc"}
    ]
    files = [path.relative_to(ROOT / "src") for path in in_tree if path.is_file()]
    assert {path.name for path in files} >= {"page.js", "cytoscape.min.js", "dagre.LICENSE.txt"}
    assert [path for path in files if not (unpacked_wheel / path).is_file()] == []
    (licences,) = unpacked_wheel.glob("*.dist-info/licenses")
    assert {path.name for path in licences.rglob("*.txt")} == {
        path.name for path in files if path.name.endswith(".LICENSE.txt")
    }


def test_every_constraint_is_a_pin() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


def test_every_dependency_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {_normal(line.split("==")[0]) for line in lines}
    extras = [one for extra in PROJECT["optional-dependencies"].values() for one in extra]
    names = {_normal(re.split(r"[\[<>=; ]", one)[0]) for one in PROJECT["dependencies"] + extras}
    assert names - pinned == {"pullback"}


def test_the_supported_versions_of_tensorflow_are_the_same_everywhere() -> None:
    oldest, newest = SUPPORTED.split(" to ")
    major, minor = newest.split(".")
    extras = PROJECT["optional-dependencies"]
    ranges = [Requirement(one).specifier for one in extras["tensorflow"] + extras["tensorflow-cpu"]]
    assert {str(one) for one in ranges} == {f"<{major}.{int(minor) + 1},>={oldest}"}
    assert all(one.contains(f"{newest}.0rc0", prereleases=True) for one in ranges)
    assert f"TensorFlow {SUPPORTED};" in (ROOT / "README.md").read_text(encoding="utf-8")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
