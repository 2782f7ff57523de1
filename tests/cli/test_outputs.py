"""Files that commands write: refused before anything runs, whole or as they were, whatever the text holds."""

import json
import os
import stat
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from pullback.cli import app
from pullback.cli.checking.outcome import Ending, Item, Outcome
from pullback.cli.checking.show.files import as_json, as_junit
from pullback.cli.checking.show.page import as_page
from pullback.cli.checking.show.sarif import as_sarif
from pullback.cli.outputs import unwritable, write
from pullback.cli.terminal import echo, escaped

# Every character that a terminal or a file may stumble over; what is printable, among it what has two parts in UTF-16.
WILD = "".join(map(chr, [*range(32), *range(127, 160), 0x202E, 0x2066, 0xDFFF, 0xD800, 0xFFFE]))
TAME = "aé☃\U0001f600 <&>\"']]>"


def test_what_is_escaped_can_be_printed_and_nothing_else_is_changed() -> None:
    assert escaped(TAME + "\t\n") == TAME + "\t\n"
    assert escaped("\x1b[31m\udc80\u202e") == r"\u001b[31m\udc80\u202e"
    assert all(letter.isprintable() or letter in "\t\n" for letter in escaped(WILD))


OUTCOME = Outcome(
    Item(f"f{WILD}", f"/a{WILD}.py", 3),
    "wrong",
    f"{WILD}{TAME}",
    f"x {WILD}",
    f"a{WILD}.py:3",
    notes=(WILD,),
)


@pytest.mark.parametrize("make", [as_json, as_junit, as_page, as_sarif])
def test_no_text_breaks_a_file(tmp_path: Path, make: object) -> None:
    assert callable(make)
    file = tmp_path / "out"
    write(file, make([OUTCOME], Ending(1.0, WILD, (WILD,))))
    text = file.read_bytes().decode()
    assert [letter for letter in text if letter in WILD and letter not in "\t\n"] == []
    if make is as_json:
        (found,) = json.loads(text)["results"]
        assert found["name"] == OUTCOME.item.name
        assert found["text"] == OUTCOME.text
    if make is as_sarif:
        (found,) = json.loads(text)["runs"][0]["results"]
        assert OUTCOME.text in found["message"]["text"]
    if make is as_junit:
        (case, _) = ElementTree.fromstring(text)
        assert TAME in case[0].attrib["message"]


def test_what_cannot_be_written_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "out"
    file.write_text("before", encoding="utf-8")

    def fail(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="no space left"):
        write(file, "after")
    assert file.read_text(encoding="utf-8") == "before"
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_keeps_its_permissions_and_a_link_its_file(tmp_path: Path) -> None:
    file, link = tmp_path / "out", tmp_path / "link"
    file.touch()
    file.chmod(0o640)
    link.symlink_to(file)
    write(link, "text")
    assert link.is_symlink()
    assert file.read_text(encoding="utf-8") == "text"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    new = tmp_path / "new"
    write(new, "text")
    beside = tmp_path / "beside"
    beside.touch()
    assert new.stat().st_mode == beside.stat().st_mode


def test_what_is_no_file_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write(pipe, "text")
    assert os.read(reading, 100) == b"text"
    os.close(reading)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_dash_is_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    write("-", "text")
    echo("\x1b")
    assert capsys.readouterr().out == "text\n\\u001b\n"


def test_files_that_would_be_lost_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ops.py", "book.ipynb", "model.keras", "other.txt"):
        Path(name).touch()
    Path("link.html").symlink_to("model.keras")
    Path("loop").symlink_to("loop")
    lost = "cannot be written: it is a source, which would be lost"
    assert lost in unwritable({"--html": "ops.py"})
    assert lost in unwritable({"--html": "book.ipynb"})
    assert lost in unwritable({"--html": "link.html"}, ["./model.keras"])
    assert unwritable({"--html": "link.html"}) == ""
    assert unwritable({"--html": "new.py", "--json": "other.txt"}, ["ops.py"]) == ""
    assert "--junit ./other.txt is where --json goes" in unwritable(
        {"--json": "other.txt", "--junit": "./other.txt"}
    )
    assert "--sarif - is where --json goes" in unwritable({"--json": "-", "--sarif": "-"})
    assert unwritable({"--json": ""}) == "--json names no file."
    assert "cannot be written: File name too long" in unwritable({"--json": "x" * 300})
    assert "there is no folder loop" in unwritable({"--json": "loop/out"})


def test_the_settings_that_are_read_are_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ops.py").touch()
    settings = Path("pyproject.toml")
    settings.write_text("[tool.pullback]\nquick = true\n", encoding="utf-8")
    done = CliRunner().invoke(app, ["check", "ops.py", "--json", "pyproject.toml"])
    assert done.exit_code == 2
    assert "pyproject.toml cannot be written: it is a source" in done.output
    assert "quick" in settings.read_text(encoding="utf-8")


@pytest.mark.parametrize("option", ["--json", "--junit", "--html", "--sarif"])
def test_a_file_without_a_name_is_refused(option: str) -> None:
    done = CliRunner().invoke(app, ["check", "nowhere.py", option, ""])
    assert (done.exit_code, f"{option} names no file." in done.output) == (2, True)


def test_a_device_that_takes_nothing_is_said() -> None:
    done = CliRunner().invoke(app, ["check", "nowhere.py", "--json", "/dev/full"])
    assert done.exit_code == 2
    assert "? /dev/full cannot be written: No space left on device" in done.output
    assert "report" not in done.output


@pytest.mark.parametrize(
    "words",
    [
        ["check", "ops.py", "--html", "ops.py"],
        ["check", ".", "--json", "./ops.py"],
        ["explain", "ops.py:f", "--html", "ops.py"],
        ["audit", "tensorflow", "--html", "ops.py"],
    ],
)
def test_no_command_writes_over_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "raise SystemExit('was run')  # tf.custom_gradient(f)\n"
    Path("ops.py").write_text(text, encoding="utf-8")
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "ops.py cannot be written: it is a source" in done.output
    assert Path("ops.py").read_text(encoding="utf-8") == text
