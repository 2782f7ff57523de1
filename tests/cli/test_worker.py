"""A process apart: whatever runs there, each question has its own answer or none, and nothing is left behind."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pullback._plain_data import Unfitting, as_line, read_line
from pullback.cli import worker
from pullback.cli.worker import Apart, Lost
from tests.cli.hostile import Hostile

ROOT = Path(__file__).parents[2]
# Done by what runs there, and what is said of it: nothing where the answer is had in spite of it.
DEEDS = {
    "nothing": "",
    "stray bytes": "wrote what is no answer: 'junk",
    "a stray byte": "wrote what is no answer",
    "stray lines": "wrote what is no answer",
    "a pickle": "wrote what is no answer: 'cos",
    "data that fit nothing": "wrote what is no answer",
    "deep data": "wrote what is no answer",
    "no end": "wrote what is no answer",
    "an answer to nothing": "answered out of turn",
    "an answer of another type": "wrote what is no answer",
    "a fork": "",
    "a fork in C": "",
    "a copy that answers": "it forked its process, and only the copy answered",
    "an exit": "it ended its process with status 7",
    "no Exception": "it ended its process with status 1",
    "an interrupt": "it ended its process with status 1",
    "a signal": "its process was ended by SIGKILL",
    "closed files": "it closed the files of its process",
    "other files": "it closed the files of its process",
    "much output": "",
    "closed streams": "",
}


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(worker, "_PATIENCE", 1.0)
    monkeypatch.setattr(worker, "_LONGEST", 100_000)
    made = Apart(Hostile, 20.0, str)
    yield made
    made.close()


@pytest.mark.parametrize("deed", DEEDS)
def test_a_question_has_its_answer_or_is_lost(apart: Apart, deed: str, tmp_path: Path) -> None:
    (first,) = apart.names()
    if DEEDS[deed]:
        with pytest.raises(Lost, match=DEEDS[deed]):
            apart.outcome(deed, {})
        assert not apart.is_running
    else:
        assert apart.outcome(deed, {}) == deed
    assert apart.outcome("nothing", {}) == "nothing"
    assert (apart.names() == [first]) is False  # asked again, it is made again
    assert list(tmp_path.iterdir()) == []


def test_one_answer_too_many_is_seen_with_the_next_question(apart: Apart) -> None:
    """Who writes what an answer looks like is believed: code that is checked is trusted code."""
    apart.names()
    assert apart.outcome("two answers", {}) == "two answers"
    with pytest.raises(Lost, match=r"answered out of turn|was ended by SIGKILL"):
        apart.outcome("nothing", {})


def test_it_can_be_waited_for_longer_than_any_clock_goes(apart: Apart) -> None:
    assert apart.outcome("nothing", {}, 1e300) == "nothing"


@pytest.mark.parametrize("kind", ["SIGKILL", "SIGTERM", "SIGHUP", "SIGINT"])
@pytest.mark.parametrize("deed", ["a loop", "loops"])
def test_it_ends_with_who_asks(kind: str, deed: str, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    words = [sys.executable, "-m", "tests.cli.hostile", deed, str(ready)]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    with subprocess.Popen(words, env=environment, cwd=ROOT, preexec_fn=with_signals) as parent:
        until(lambda: ready.exists() and ready.read_text(encoding="utf-8") != "")
        group = int(ready.read_text(encoding="utf-8"))
        until(lambda: len(alive(group)) == (3 if deed == "loops" else 1))
        parent.send_signal(getattr(signal, kind))
    until(lambda: alive(group) == [])
    assert parent.returncode != 0


def with_signals() -> None:
    """Signals as in a terminal: a run in the background inherits that they are ignored."""
    for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(kind, signal.SIG_DFL)


def alive(group: int) -> list[str]:
    """The processes of a group that have not ended."""
    states = subprocess.run(
        ["ps", "-e", "-o", "pgid=,stat="], capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in states.stdout.splitlines()]
    return [state for number, state in rows if int(number) == group and state[0] != "Z"]


def until(is_so: Any) -> None:
    """Wait for something that is bound to happen; what never does is an error."""
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


@dataclasses.dataclass(frozen=True)
class Inner:
    number: float
    text: str = ""


@dataclasses.dataclass(frozen=True)
class Outer:
    several: tuple[Inner, ...]
    one: Inner | None
    arrays: dict[str, np.ndarray[Any, Any]]
    pair: tuple[int, str] = (1, "a")


VALUES = [
    Outer((Inner(0.1, "\udc80\x1b\n☃"), Inner(float("inf"))), None, {}),
    Outer((), Inner(1.0), {"x": np.arange(6.0).reshape(2, 3)}),
    Outer(
        (), None, {"z": np.array(1 + 2j, np.complex64), "b": np.array([True]), "e": np.ones((0, 2))}
    ),
]


@pytest.mark.parametrize("value", VALUES)
def test_data_come_back_as_they_were(value: Outer) -> None:
    line = as_line(value)
    assert line.isascii()
    assert line.count(b"\n") == 1
    back = read_line(line, Outer)
    assert dataclasses.replace(back, arrays={}) == dataclasses.replace(value, arrays={})
    for name, array in value.arrays.items():
        np.testing.assert_array_equal(back.arrays[name], array, strict=True)


OTHERS = [
    (b"", int, "Expecting value"),
    (b"\xff", str, "decode byte 0xff"),
    (b"1.5", int, "1.5 is no <class 'int'>"),
    (b"true", int, "True is no"),
    (b"1", bool, "1 is no"),
    (b"[1, 2]", tuple[int, str], "2 is no"),
    (b"[1]", tuple[int, str], "longer than"),
    (b'{"Inner": {"number": 1}}', Inner, "is no Inner"),
    (b'{"Inner": {"number": "1", "text": ""}}', Inner, "'1' is no <class 'float'>"),
    (b'{"Inner": {"number": 1, "text": "", "more": 1}}', Inner, "is no Inner"),
    (b'{"Other": {"number": 1, "text": ""}}', Inner, "None is no <class 'dict'>"),
    (b'{"Inner": null}', Inner | None, "is none of"),
    (b'["float64", [3], "AAAA"]', np.ndarray[Any, Any], "buffer size"),
    (b'["object", [1], "AAAAAAAAAAA="]', np.ndarray[Any, Any], "no dtype of numbers"),
    (b'["float64", [2], ""]', np.ndarray[Any, Any], "cannot reshape"),
    (b"[" * 100_000, list[int], "recursion"),
    (b"1" * 10_000, int, "Exceeds the limit"),
]


@pytest.mark.parametrize("line, hint, why", OTHERS, ids=range(len(OTHERS)))
def test_data_that_are_something_else_are_refused(line: bytes, hint: Any, why: str) -> None:
    with pytest.raises(Unfitting, match=why):
        read_line(line, hint)
