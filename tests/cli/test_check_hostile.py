"""`pullback check` over files and folders as nobody would write them: each is looked at, or a line says why not."""

import json
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from pullback.cli import app
from pullback.cli.checking.outcome import Item, Outcome
from pullback.cli.checking.places import places
from pullback.cli.checking.show.files import as_github
from pullback.cli.checking.show.lines import line, note
from pullback.cli.checking.sites import sites_in
from pullback.cli.terminal import escaped, in_one_line

GOOD = "import tensorflow as tf\n@tf.custom_gradient\ndef good(x):\n    return tf.sin(x), lambda dy: dy * tf.cos(x)\n"
BAD = GOOD.replace("good", "bad").replace("dy * tf.cos", "2 * dy * tf.cos")
LATER = "@tf.custom_gradient\ndef later(x):\n    return x, lambda dy: dy\n"
ARGUMENTS = (
    "import argparse\np = argparse.ArgumentParser()\np.add_argument('file')\np.parse_args()\n"
)

# An object that stands for another, outside of its context; and names and texts that no file can hold.
PROXIES = """
class Proxy:
    @property
    def __class__(self): raise RuntimeError("outside of its context")
    def __getattr__(self, name): raise RuntimeError("outside of its context")
    def __repr__(self): raise RuntimeError("outside of its context")
    def __call__(self): pass
class Holder:
    proxy = Proxy()
proxy = Proxy()
table = {"proxy": proxy, proxy: 3, "\\udc80": proxy}
text = "\\udc80"
globals()["\\udc80"] = proxy
setattr(Holder, "\\udc80", proxy)
"""

# Bytes of a file, then its status, and what its line says.
FILES: dict[bytes, tuple[bytes, str, str]] = {
    b"a\nb.py": (BAD.encode(), "wrong", "2× too large"),
    b"nl\n::error::x.py": (BAD.encode(), "wrong", "2× too large"),
    **{
        f"{codec}.py".encode(): (
            f"# -*- coding: {codec} -*-\n{GOOD}".encode(),
            "undecided",
            "cannot be loaded",
        )
        for codec in ("hex", "rot13", "base64", "zip", "bz2")
    },
    b"proxies.py": ((PROXIES + GOOD).encode(), "right", " calls"),
    b"\x1b[31mred.py": (GOOD.encode(), "right", " calls"),
    b"\xff\xfe.py": (BAD.encode(), "wrong", "2× too large"),
    b"mark.py": (b"\xef\xbb\xbf" + GOOD.encode(), "right", " calls"),
    b"latin.py": (b"# coding: latin-1\nS = '\xe9'\n" + GOOD.encode(), "right", " calls"),
    b"windows.py": (GOOD.replace("\n", "\r\n").encode(), "right", " calls"),
    b"uncoded.py": (b"S = '\xe9'\n" + GOOD.encode(), "undecided", "cannot be loaded: SyntaxError"),
    b"nowhere.py": (b"# coding: nonsense\n" + GOOD.encode(), "undecided", "unknown encoding"),
    b"nul.py": (b"x = '\0'\n" + GOOD.encode(), "undecided", "cannot contain null bytes"),
    b"brackets.py": (b"x = " + b"(" * 300 + b"\n", "undecided", "too many nested parentheses"),
    b"sum.py": (b"x = " + b"+".join([b"1"] * 9000), "undecided", "recursion"),
    b"terms.py": (b"x = " + b"+".join([b"1"] * 600) + b"\n" + GOOD.encode(), "right", " calls"),
    b"ended.py": (GOOD.encode() + b"raise SystemExit('done')\n", "right", " calls"),
    b"raised.py": (GOOD.encode() + b"import sys\nDATA = sys.argv[1]\n", "right", " calls"),
    b"left.py": (b"import os\n" + GOOD.encode() + b"os._exit(0)\n", "right", " calls"),
    b"read.py": (GOOD.encode() + ARGUMENTS.encode(), "right", " calls"),
    b"before.py": (b"raise SystemExit(0)\n" + GOOD.encode(), "undecided", "it ends its process"),
    b"said.py": (
        b"import tensorflow as tf\n@tf.custom_gradient\ndef bad(x):\n    raise ValueError('\\x1b[2J\\udc80\\x00')\n",
        "undecided",
        "needs inputs",
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    inner = folder / "inner"
    inner.mkdir()
    for name, (data, _, _) in FILES.items():
        (inner / os.fsdecode(name)).write_bytes(data)
    (inner / "empty.py").touch()
    (inner / "loop.py").symlink_to("loop.py")
    (inner / "nothing.py").symlink_to("not there")
    (inner / "again").symlink_to("../inner")
    os.mkfifo(inner / "pipe.py")
    (inner / "folder.py").mkdir()
    deep = inner.joinpath(*["d"] * 300)
    deep.mkdir(parents=True)
    (deep / "deep.py").write_text(GOOD, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def run(folder: Path) -> Any:
    outputs = [
        x for kind in ("json", "junit", "html", "sarif") for x in (f"--{kind}", f"{folder}/{kind}")
    ]
    words = ["check", str(folder / "inner"), "--no-isolate", "--quick", *outputs]
    return CliRunner().invoke(app, words)


@pytest.fixture(scope="module")
def results(run: Any, folder: Path) -> list[dict[str, Any]]:
    return json.loads((folder / "json").read_text(encoding="utf-8"))["results"]


@pytest.mark.parametrize("name", FILES, ids=repr)
def test_each_file_has_its_line(results: list[dict[str, Any]], name: bytes) -> None:
    _, status, text = FILES[name]
    (found,) = [one for one in results if one["file"].endswith("/" + os.fsdecode(name))]
    assert found["status"] == status
    assert text in found["text"]


def test_nothing_else_is_a_line_and_what_is_deep_is_found(
    run: Any, results: list[dict[str, Any]]
) -> None:
    assert len(results) == len(FILES) + 1
    (deep,) = [one for one in results if one["file"].endswith("/d/deep.py")]
    assert deep["status"] == "right"
    assert run.exit_code == 1


def test_what_ended_a_file_is_said(run: Any) -> None:
    assert (
        "ended.py  it ends its process when it is imported: sys.exit('done')  (ended.py:5)"
        in run.output
    )
    assert "read.py  it ends its process when it is imported: sys.exit(2)" in run.output
    assert (
        "left.py  it ends its process when it is imported: os._exit(0)  (left.py:6)" in run.output
    )
    assert "raised.py  IndexError: list index out of range  (raised.py:6): what" in run.output


def test_the_output_is_lines_of_text_and_files_are_whole(run: Any, folder: Path) -> None:
    assert all(letter.isprintable() or letter == "\n" for letter in run.output)
    assert "a\\nb.py:bad" in run.output
    assert all(line[:2] in ("✓ ", "✗ ", "? ", "· ") for line in run.stdout.splitlines()[:-1])
    ElementTree.parse(folder / "junit")
    log = json.loads((folder / "sarif").read_text(encoding="utf-8"))
    uris = [
        one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for one in log["runs"][0]["results"]
    ]
    assert any(uri.endswith("/%FF%FE.py") for uri in uris)
    assert any(uri.endswith("/a%0Ab.py") for uri in uris)
    assert (folder / "html").read_text(encoding="utf-8").endswith("</html>\n")


NAMES = ("nl\n::error::x.py", "nl\r::error::x.py", "a,title=%0A::error::x.py")


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_name_of_a_file_ends_no_line(name: str) -> None:
    outcome = Outcome(Item("f", name, 2), "wrong", f"in {name}", name, f"{name}:4", notes=(name,))
    assert in_one_line(name) in line(outcome, "f").plain
    for text in (line(outcome, "f").plain, note("?", name, name).plain, as_github(outcome)):
        assert not set("\r\n") & set(escaped(text))
    coded = name.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    file = coded.replace(":", "%3A").replace(",", "%2C")
    assert as_github(outcome) == f"::error file={file},line=2,title=pullback%3A f::in {coded}"


TARGETS = {
    "inner/loop.py": "is no file that can be read to its end",
    "inner/nothing.py": "is no file that can be read to its end",
    "inner/pipe.py": "is no file that can be read to its end",
    "/dev/zero": "is no Python file",
    "/dev/null": "is no Python file",
    "": "is no name",
    "\0.py": "no such file or folder",
    "x" * 5000: "no such file or folder",
    "y" * 5000 + ".py": "no such file or folder",
    "inner/empty.py": "defines no custom gradient",
    "inner/\x1b": "no such file or folder",
}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: repr(target[:20]))
def test_what_is_no_target_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(app, ["check", target, "--no-isolate"])
    assert done.exit_code == 2, done.output
    assert TARGETS[target] in done.output
    assert "\x1b" not in done.output


def test_a_file_that_nobody_has_written_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "large.py").write_text(GOOD, encoding="utf-8")
    monkeypatch.setattr("pullback.cli.source._LARGEST", 10)
    done = CliRunner().invoke(app, ["check", str(tmp_path), "--no-isolate"])
    assert f"large.py  has {len(GOOD)} bytes, more than anybody writes" in done.output
    assert done.exit_code == 2


def test_a_folder_that_cannot_be_listed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made by hand: whoever may do everything can list every folder."""
    shut = tmp_path / "shut"
    shut.mkdir()
    listed = Path.iterdir

    def iterdir(self: Path) -> Any:
        if self == shut:
            raise PermissionError(13, "Permission denied")
        return listed(self)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    done = CliRunner().invoke(app, ["check", str(tmp_path), "--no-isolate"])
    assert "shut  cannot be read: Permission denied" in done.output
    assert done.exit_code == 2


@pytest.mark.parametrize("terms", [10, 100_000])
def test_a_source_that_is_too_deep_is_said_to_be(terms: int) -> None:
    if terms == 10:
        assert [
            site.name for site in sites_in("x = " + "+".join(["f()"] * terms) + "\n" + GOOD)
        ] == ["good"]
    else:
        with pytest.raises(ValueError, match="nested too deeply"):
            sites_in("x = " + "+".join(["1"] * terms))


def test_where_there_may_be_none_nothing_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pre-commit calls it: with files, of which most have no custom gradient."""
    monkeypatch.chdir(tmp_path)
    Path("plain.py").write_text("raise SystemExit('was run')\n", encoding="utf-8")
    Path("bad.py").write_text(BAD, encoding="utf-8")
    words = ["check", "--no-isolate", "--quick", "plain.py"]
    assert CliRunner().invoke(app, words).exit_code == 2
    none = CliRunner().invoke(app, [*words, "--if-any"])
    assert (none.exit_code, "was run" in none.output) == (0, False)
    some = CliRunner().invoke(app, [*words, "bad.py", "--if-any"])
    assert (some.exit_code, "✗ bad" in some.output) == (1, True)
    assert [Path(place.target).name for place in places(["plain.py", "bad.py"], telling=True)] == [
        "bad.py"
    ]
    lost = CliRunner().invoke(app, [*words, "gone.py", "--if-any"])
    assert (lost.exit_code, "gone.py  no such file" in lost.output) == (2, True)
