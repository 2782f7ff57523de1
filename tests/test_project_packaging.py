"""What is built and installed: the wheel, its stories, the pins; what is said of it elsewhere."""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from pullback.engines.tensorflow.versions import SUPPORTED

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the source distribution, so that this is complete, too."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, capture_output=True, check=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def unpacked_wheel(wheel: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(wheel.parent / "site")
    return wheel.parent / "site"


def closure(requirements: Iterable[str]) -> set[str]:
    """The distributions that these need here, and what those need in turn."""
    found, waiting = set[str](), [(Requirement(one), "") for one in requirements]
    while waiting:
        one, extra = waiting.pop()
        if _normal(one.name) in found or (one.marker and not one.marker.evaluate({"extra": extra})):
            continue
        found.add(_normal(one.name))
        needs = metadata.distribution(one.name).requires or []
        waiting += [(Requirement(n), e) for n in needs for e in ("", *one.extras)]
    return found


def bare_environment(wheel: Path, folder: Path, requirements: Iterable[str]) -> Path:
    """A new environment with the wheel and what it declares, nothing else: links to what is installed here."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*install, "--quiet", wheel], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    here = Path(sysconfig.get_path("platlib"))
    for name in closure(requirements):
        for part in {file.parts[0] for file in metadata.files(name) or []} - {"..", "__pycache__"}:
            if not (packages / part).exists():
                (packages / part).symlink_to(here / part)
    return folder / "bin"


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, env=alone, capture_output=True, text=True, check=False)


def test_the_wheel_works_without_a_framework_and_says_what_to_install(
    wheel: Path, tmp_path: Path
) -> None:
    binaries = bare_environment(wheel, tmp_path / "bare", PROJECT["dependencies"])
    assert run(binaries / "python", "-c", "import tensorflow").returncode == 1
    where = run(binaries / "python", "-c", "import pullback; print(pullback.__file__)")
    assert where.stdout.startswith(str(tmp_path))
    shown = run(binaries / "pullback", "--help")
    assert shown.returncode == 0
    assert "Change any gradient. Know it is the one you meant." in shown.stdout
    install = "pip install 'pullback[tensorflow]'"
    program = "import pullback as pb; pb.check(lambda x: x, 1.0)"
    assert install in run(binaries / "python", "-c", program).stderr
    toured = run(binaries / "pullback", "tour")
    assert toured.returncode == 2
    assert install in " ".join(toured.stderr.replace("│", "").split())


def test_the_wheel_works_with_tensorflow(wheel: Path, tmp_path: Path) -> None:
    needed = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["tensorflow-cpu"]
    binaries = bare_environment(wheel, tmp_path / "full", needed)
    toured = run(binaries / "pullback", "tour", "1")
    assert "pullback 1 of 1 stories" in " ".join(toured.stdout.split()), toured.stderr


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


def test_the_citation_says_what_the_project_says() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == PROJECT["version"]
    assert " AND ".join(cited["license"]) == PROJECT["license"]


def test_the_badges_are_true() -> None:
    badges = re.findall(r"/badge/(\w+)-([^)]+)-blue", (ROOT / "README.md").read_text("utf-8"))
    said = {name: text.replace("--", "-").replace("_%7C_", ", ") for name, text in badges}
    prefix = "Programming Language :: Python :: "
    versions = [
        one.removeprefix(prefix) for one in PROJECT["classifiers"] if one.startswith(prefix)
    ]
    assert {name: text.replace("_", " ") for name, text in said.items()} == {
        "licence": PROJECT["license"],
        "python": ", ".join(versions),
        "tensorflow": SUPPORTED,
    }


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
