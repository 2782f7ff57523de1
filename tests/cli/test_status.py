"""One set of exit statuses for all commands, and stdout that is theirs alone."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pullback.cli import app
from pullback.cli.noise import is_noise
from pullback.cli.status import Ended
from pullback.cli.terminal import lines_of

# It speaks on every way there is, also when it is imported and when the process ends.
LOUD = """
import atexit, os, sys, ctypes
import tensorflow as tf
libc = ctypes.CDLL(None)

def speak():
    print("from Python")
    print("to the first stream", file=sys.__stdout__)
    os.write(1, b"to file 1\\n")
    os.system("echo from a shell")
    libc.puts(b"from C")
    libc.fflush(None)
    os.write(2, b"E0000 00:00:1.5   20056 svd_op_impl.h:112] a library's log\\n \\x1b[2Junstyled\\x1b[0m\\x07\\n")
    os.write(2, b" ** On entry to DLASCL parameter number  4 had an illegal value\\n")

speak()
atexit.register(speak)

def f(x):
    speak()
    return tf.sin(x)

@tf.custom_gradient
def g(x):
    speak()
    return tf.sin(x), lambda dy: dy * tf.cos(x)
"""
SPOKEN = ("from Python", "to the first stream", "to file 1", "from a shell", "from C")


def run(*words: str, folder: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "pullback", *words],
        env={**os.environ, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "words",
    [
        ["check", "loud.py:g", "--quick", "--json", "-"],
        ["check", "loud.py:g", "--quick", "--sarif", "-", "--no-isolate"],
        ["explain", "loud.py:f", "--json", "-"],
        ["targets", "loud.py:f", "--json"],
    ],
)
def test_stdout_has_the_data_and_nothing_else(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "loud.py").write_text(LOUD, encoding="utf-8")
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, "-m", "pullback", *words],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
    assert [text for text in SPOKEN if text not in done.stderr] == []
    assert "library's log" not in done.stderr
    assert "DLASCL" not in done.stderr
    assert r" \u001b[2Junstyled\u0007" in done.stderr
    assert "\x1b" not in done.stderr


def test_what_libraries_log_is_there_if_it_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(LOUD, encoding="utf-8")
    done = run("explain", "loud.py:f", folder=tmp_path, TF_CPP_MIN_LOG_LEVEL="0")
    assert "svd_op_impl.h:112] a library's log" in done.stderr


NOISE = [
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    "I0000 00:00:1795030224.219433   19520 port.cc:153] oneDNN custom operations are on.",
    "W0000 00:00:1795030276.383399   20056 local_rendezvous.cc:412] Local rendezvous is aborting",
    "E0000 00:00:1700000000.123456     999 cuda_dnn.cc:8310] Unable to register cuDNN factory",
    "2024-01-01 00:00:00.000000: I external/local_tsl/tsl/cuda/cudart_stub.cc:31] Could not find cuda drivers",
    "2024-01-01 00:00:00.000000: W tensorflow/core/kernels/kernel.cu.cc:31] slow",
    "To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow with the flags.",
    " ** On entry to DLASCL parameter number  4 had an illegal value",
    "Intel MKL ERROR: Parameter 4 was incorrect on entry to DLASCL",
]
SAID = [
    "F0000 00:00:1795030276.381774   20056 tensor.cc:112] Check failed: 1 == 2",
    "2024-01-01 00:00:00.000000: F tensorflow/core/framework/tensor.cc:31] Check failed",
    "I1118 19:23:29.123456 140 train.py:12] absl's logging of the user's own",
    "E1118 19:23:29.123456 140 train.py:12] loss is NaN",
    "Traceback (most recent call last):",
    "ValueError: On entry to the function",
    "Segmentation fault",
    "",
]


def test_noise_is_told_from_what_the_user_has_to_see() -> None:
    assert [line for line in NOISE if not is_noise(line)] == []
    assert [line for line in SAID if is_noise(line)] == []


def test_errors_of_the_users_code_stay_visible(tmp_path: Path) -> None:
    text = "import sys\nprint('careful', file=sys.stderr)\nimport faulthandler\nfaulthandler.enable()\n"
    (tmp_path / "a.py").write_text(text + "import os\nos.abort()\n", encoding="utf-8")
    done = run("check", "a.py:f", folder=tmp_path)
    assert "ended by SIGABRT" in done.stdout
    assert "careful" in done.stderr
    assert "Fatal Python error: Aborted" in done.stderr
    assert done.returncode == 2


def raising(error: BaseException) -> Any:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    return fail


# Where each command does its work.
WORK = {
    "check": ("pullback.cli.checking.session.Session.run", ["."]),
    "explain": ("pullback.cli.calls.run_target", ["math:sin"]),
    "targets": ("pullback.cli.calls.run_target", ["math:sin"]),
    "audit": ("pullback.cli.auditing.run", ["tensorflow"]),
    "tour": ("pullback.tour.find_stories", []),
}


@pytest.mark.parametrize("name", WORK)
@pytest.mark.parametrize(
    "error, status",
    [
        (ZeroDivisionError("of ours"), 3),
        (OSError(28, "No space left"), 3),
        (RecursionError("of ours"), 3),
        (KeyboardInterrupt(), 130),
        (Ended(signal.SIGTERM), 143),
        (Ended(signal.SIGHUP), 129),
    ],
    ids=repr,
)
def test_a_failure_of_ours_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, error: BaseException, status: int
) -> None:
    monkeypatch.chdir(tmp_path)
    place, words = WORK[name]
    monkeypatch.setattr(place, raising(error))
    done = CliRunner().invoke(app, [name, *words])
    assert done.exit_code == status
    assert ("pullback itself failed" in done.output) == (status == 3)


@pytest.mark.parametrize(
    "words", [[], ["nothing"], ["check"], ["check", ".", "--order", "3"], ["explain", "--what"]]
)
def test_a_slip_in_the_words_is_status_2(words: Sequence[str]) -> None:
    assert CliRunner().invoke(app, words).exit_code == 2


def test_a_reader_that_has_gone_is_no_verdict(tmp_path: Path) -> None:
    text = "import tensorflow as tf\ndef f(x):\n    return tf.sin(x)\n"
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    words = [sys.executable, "-m", "pullback", "targets", "a.py:f"]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        words, cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert done.returncode == 128 + signal.SIGPIPE
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_are_no_failure(tmp_path: Path, closed: str) -> None:
    words = f"{sys.executable} -m pullback check nowhere.py --json out {closed}"
    done = subprocess.run(["sh", "-c", words], cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert json.loads((tmp_path / "out").read_text(encoding="utf-8"))["counts"]["undecided"] == 1


def test_files_do_not_get_the_numbers_of_streams_that_were_closed() -> None:
    program = "import os; from pullback.cli.terminal import require_streams; require_streams(); os._exit(os.dup(0))"
    words = f"{sys.executable} -c '{program}' <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", words], check=False).returncode > 2


@pytest.mark.parametrize("words", [["check", "nowhere.py"], ["--help"]], ids=" ".join)
def test_an_stdout_that_takes_nothing_is_said(tmp_path: Path, words: list[str]) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "pullback", *words],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert "? stdout cannot be written: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_closes_all_files_leaves_the_command_its_own(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pullback.cli import terminal, main\n"
        "terminal.echo = lambda text, echo=terminal.echo: [os.closerange(0, 64), echo(text)]\n"
        "main()"
    )
    words = [sys.executable, "-c", program, "check", "nowhere.py", "--json", "-"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert json.loads(done.stdout)["counts"]["undecided"] == 1
    assert done.stderr.count("\n") == 1


PIECE = 1 << 16


@pytest.mark.parametrize(
    "parts, lines",
    [
        ([b"a\nb", b"c\r", b"\nd"], [b"a\n", b"bc\r", b"\n", b"d"]),
        ([b"x" * PIECE] * 100, [b"x" * PIECE] * 100 + [b""]),
        ([b"x" * 40_000] * 3 + [b"\ny"], [b"x" * 80_000, b"x" * 40_000 + b"\n", b"y"]),
    ],
    ids=["short", "endless", "long"],
)
def test_lines_come_as_they_end_and_long_ones_in_pieces(
    parts: list[bytes], lines: list[bytes]
) -> None:
    left = iter([*parts, b""])
    assert list(lines_of(lambda: next(left))) == lines
