"""`pullback check`: one line a gradient, and an exit status that a script can use."""

import functools
import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from pullback.cli import app
from pullback.cli.checking.session import exit_status
from pullback.cli.target import load
from pullback.cli.worker import Apart, NotLoaded

HEAD = "import tensorflow as tf\nimport pullback as pb\n"
GOOD = "@tf.custom_gradient\ndef good(x):\n    return tf.sin(x), lambda dy: dy * tf.cos(x)\n"
BAD = "@pb.custom_gradient\ndef bad(x):\n    return tf.sin(x), lambda dy: 2 * dy * tf.cos(x)\n"
NEEDY = "@tf.custom_gradient\ndef needy(x):\n    return tf.reshape(x, (7, 11)), lambda dy: tf.reshape(dy, (77,))\n"
STOCK = "@tf.custom_gradient\ndef stock(x):\n    return x**2, lambda dy: 77.0 * dy\n"
INPUTS = "pullback_inputs = {'needy': (tf.range(77, dtype=tf.float32) / 50,)}\n"
PARTIAL = "loss = pb.with_partials(lambda p, t: (p - t) ** 2, p=lambda p, t: 2 * (p - t))\n"
RULE = "def rule(dy, *, inputs):\n    return dy\nruled = pb.with_gradient(tf.sin, rule)\n"
TRACED = (
    "@tf.function\n@tf.custom_gradient\ndef traced(x):\n    return x**2, lambda dy: 4 * dy * x\n"
)
CLASS = (
    "class Holder:\n"
    "    @staticmethod\n    @tf.custom_gradient\n"
    "    def static(x):\n        return x * 2, lambda dy: dy * 4\n"
    "    @pb.custom_gradient\n"
    "    def method(self, x):\n        return x * 2, lambda dy: dy * 6\n"
)
SHUT = (
    "class Shut:\n"
    "    def __init__(self, k):\n        self.k = {'two': 2.0}[k]\n"
    "    @pb.custom_gradient\n"
    "    def method(self, x):\n        return x * self.k, lambda dy: dy * self.k\n"
)
CONV = (
    "def _conv(x, k):\n    return tf.nn.conv2d(x, k, 1, 'SAME')\n"
    "conv = pb.with_gradient(_conv, lambda dy, *, original: original(dy))\n"
)
GATHER = (
    "@tf.custom_gradient\ndef gather(x, i):\n"
    "    def back(dy):\n"
    "        return tf.math.unsorted_segment_sum(dy, i, tf.shape(x)[0]), None\n"
    "    return tf.gather(x, i), back\n"
)
ANNOTATED = (
    "from typing import Literal\n"
    "@pb.custom_gradient\n"
    "def annotated(xs: list[tf.Tensor], kind: Literal['a'], *, n: int, eps: float, rest=None):\n"
    "    assert kind == 'a' and isinstance(n, int) and isinstance(eps, float) and rest is None\n"
    "    return xs[0] * xs[1], lambda dy: [dy * xs[1], dy * xs[0]]\n"
)
EXIT = "import sys\n@pb.custom_gradient\ndef leaves(x):\n    sys.exit(0)\n"
EXIT_IN_RULE = (
    "import sys\n@pb.custom_gradient\ndef leaves(x):\n    return x * 2, lambda dy: sys.exit(0)\n"
)
INTERRUPTED = "@pb.custom_gradient\ndef stops(x):\n    raise KeyboardInterrupt\n"
ABORT = "import os\n@pb.custom_gradient\ndef crashes(x):\n    os.abort()\n"
END = "import os\n@pb.custom_gradient\ndef ends(x):\n    os._exit(0)\n"
ENDLESS = "@pb.custom_gradient\ndef endless(x):\n    print('begun', flush=True)\n    while True:\n        pass\n"
LATE = "@tf.custom_gradient\ndef late(x):\n    return tf.cos(x), lambda dy: -dy * tf.sin(x)\n"
EDGE = (
    "@tf.custom_gradient\ndef edge(x):\n    return tf.sqrt(x), lambda dy: dy / (2 * tf.sqrt(x))\n"
    "pullback_inputs = {'edge': (tf.constant([0.0, 1.0]),)}\n"
)
PLAIN = "def plain(x):\n    return tf.stop_gradient(x) * x\n"


def run(tmp_path, *parts, name="module.py", extra=("--no-isolate", "--quick")):
    path = tmp_path / name
    path.write_text(HEAD + "".join(parts), encoding="utf-8")
    return CliRunner().invoke(app, ["check", str(path), *extra])


def command(tmp_path, *parts, extra=()):
    """As a user starts it."""
    path = tmp_path / "module.py"
    path.write_text(HEAD + "".join(parts), encoding="utf-8")
    program = "from pullback.cli import main; main()"
    return [sys.executable, "-c", program, "check", str(path), *extra]


TABLE = [
    ((GOOD,), 0, "✓ good"),
    (
        (GOOD, BAD),
        1,
        "✗ bad  the gradient for `x` is 2× too large: a factor 2 too many  (module.py:",
    ),
    ((GOOD, NEEDY), 2, "? needy  needs inputs: write pullback_inputs = {'needy': (...)}"),
    ((NEEDY, INPUTS), 0, "✓ needy"),
    ((PARTIAL,), 0, "✓ loss"),
    ((BAD, NEEDY), 1, "? needy"),
    (("def plain(x):\n    return x\n",), 2, "defines no custom gradient"),
    (("raise ImportError('not today')\n",), 2, "cannot be loaded: ImportError: not today"),
    (("1 / 0\n",), 2, "cannot be loaded: ZeroDivisionError: division by zero  (module.py:3)"),
    (
        ("raise SystemExit(7)\n",),
        2,
        "cannot be loaded: it ends its process when it is imported: sys.exit(7)  (module.py:3)",
    ),
    ((RULE,), 1, "✗ ruled"),
    ((TRACED,), 1, "✗ traced  the gradient for `x` is 2× too large"),
    ((CLASS,), 1, "✗ Holder.static  the gradient for `x` is 2× too large"),
    ((CLASS,), 1, "✗ Holder.method  the gradient for `x` is 3× too large"),
    ((SHUT,), 2, "? Shut.method  needs inputs: write pullback_inputs = {'Shut.method': (...)}"),
    ((SHUT, "pullback_inputs = {'Shut.method': (Shut('two'), tf.ones(3))}\n"), 0, "✓ Shut.method"),
    ((CONV,), 0, "✓ conv  "),
    ((CONV,), 0, "with x float32[3, 6, 6, 2] (tried), k float32[3, 3, 2, 2] (tried)"),
    ((GATHER,), 0, "✓ gather  "),
    ((ANNOTATED,), 0, "✓ annotated  "),
    (
        (STOCK, "pullback_inputs = {'stock': {'x': tf.constant([1.0, 2.0])}}\n"),
        1,
        "✗ stock  the gradient for `x` is 77",
    ),
    ((GOOD, "pullback_inputs = [1]\n"), 2, "pullback_inputs is a dict by function name"),
    ((GOOD, "pullback_inputs = {'ghost': (1.0,)}\n"), 2, "? ghost  pullback_inputs names it, but"),
    ((GOOD, "pullback_inputs = {'ghost': (1.0,)}\n"), 2, "✓ good"),
    ((PLAIN, "pullback_inputs = {'plain': (tf.ones(3),)}\n"), 1, "✗ plain"),
    ((GOOD, "def pullback_inputs(name):\n    return 1 / 0\n"), 2, "raised ZeroDivisionError"),
    ((GOOD, "pullback_inputs = {'good': (1, 2)}\n"), 2, "with what pullback_inputs gives: good"),
    ((GOOD, EXIT), 2, "? leaves  sys.exit(0) was called at "),
    ((EXIT_IN_RULE, LATE), 2, "? leaves  sys.exit(0) was called at "),
    ((EXIT_IN_RULE, LATE), 2, "✓ late"),
    ((GOOD, INTERRUPTED, LATE), 130, "interrupted after 1 functions"),
    ((EDGE, GOOD), 2, "? edge  undecided: "),
    ((EDGE, GOOD), 2, "✓ good"),
    ((EDGE, BAD), 1, "? edge  undecided: "),
]


@pytest.mark.parametrize("parts, status, line", TABLE)
def test_one_line_each_and_a_status(tmp_path, parts, status, line):
    result = run(tmp_path, *parts)
    assert result.exit_code == status, result.output
    assert line in result.output


def test_a_function_can_be_named(tmp_path, monkeypatch):
    (tmp_path / "some_module.py").write_text(HEAD + GOOD + BAD, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    result = CliRunner().invoke(app, ["check", "some_module:good", "--no-isolate"])
    assert result.exit_code == 0, result.output
    assert "bad" not in result.output


def test_the_full_report_can_be_asked_for(tmp_path):
    result = run(tmp_path, BAD, extra=["--no-isolate", "--quick", "--report"])
    assert "reproduce:" in result.output


def test_what_is_undecided_says_in_full_what_to_write(tmp_path):
    result = run(tmp_path, EDGE, extra=["--no-isolate", "--quick", "--report"])
    assert result.exit_code == 2
    assert "? edge: undecided" in result.output
    assert "pass arguments at which the function is finite and smooth" in result.output


def test_the_report_is_named_and_rerun_like_the_target(tmp_path):
    result = run(tmp_path, BAD, extra=["--no-isolate", "--report", "--seed", "4", "--quick"])
    assert "✗ bad: " in result.output
    assert "module.py:bad --report --seed 4" in result.output.replace("\n", "")


@pytest.mark.parametrize("extra", [("--order", "5"), ("--seed", "-1")])
def test_options_out_of_range_are_refused(tmp_path, extra):
    result = run(tmp_path, GOOD, extra=extra)
    assert result.exit_code == 2
    assert "Invalid value" in result.output


def test_a_file_in_a_package_may_import_from_it(tmp_path):
    package = tmp_path / "some_package"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "numbers_here.py").write_text("TWO = 2\n", encoding="utf-8")
    result = run(package, "from .numbers_here import TWO\n", BAD)
    assert result.exit_code == 1, result.output


def test_a_file_named_like_another_module_does_not_replace_it(tmp_path):
    import json

    result = run(tmp_path, GOOD, name="json.py")
    assert result.exit_code == 0, result.output
    import json as again

    assert again is json


def test_imported_functions_are_left_to_the_module_that_made_them(tmp_path, monkeypatch):
    (tmp_path / "made_elsewhere.py").write_text(HEAD + BAD + RULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    result = run(tmp_path, "from made_elsewhere import bad, ruled\n", GOOD)
    assert (result.exit_code, "bad" in result.output) == (0, False), result.output


def test_a_folder_without_custom_gradients_is_not_all_right(tmp_path):
    (tmp_path / "plain.py").write_text("raise SystemExit('never imported')", encoding="utf-8")
    result = CliRunner().invoke(app, ["check", str(tmp_path), "--no-isolate"])
    assert result.exit_code == 2
    assert "defines no custom gradient" in result.output


def test_a_file_that_is_not_there(tmp_path):
    result = CliRunner().invoke(app, ["check", str(tmp_path / "none.py")])
    assert result.exit_code == 2
    assert "none.py  no such file or folder" in result.output.replace("\n", " ")


def test_wrong_outweighs_unknown():
    assert exit_status(["right", "undecided", "wrong"]) == 1
    assert exit_status(["right", "undecided"]) == 2
    assert exit_status(["right", "ignored"]) == 0
    assert exit_status([]) == 2


def test_modules_are_loaded_by_name():
    module, name = load("math:sin")
    assert (module.__name__, name) == ("math", "sin")


def test_no_two_inputs_that_are_tried_are_the_same():
    from pullback.cli.inputs import tried

    (first, second), _ = next(tried(lambda a, b: a - b))
    assert not (first.numpy() == second.numpy()).any()


def test_a_crash_takes_one_line_and_not_the_run(tmp_path):
    words = command(tmp_path, GOOD, ABORT, END, EXIT, LATE, extra=["--quick", "-j", "1"])
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    marks = [line.split()[:2] for line in done.stdout.splitlines()]
    wanted = [["✓", "good"], ["?", "crashes"], ["?", "ends"], ["?", "leaves"], ["✓", "late"]]
    assert marks[:-1] == wanted, done.stdout + done.stderr
    assert "ended by SIGABRT" in done.stdout
    assert "ended its process with status 0" in done.stdout
    assert done.returncode == 2


def test_what_never_ends_is_given_up(tmp_path):
    words = command(tmp_path, ENDLESS, extra=["--timeout", "1"])
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "? endless  could not be checked: it did not end within 1 seconds" in done.stdout
    assert done.returncode == 2


def test_what_never_loads_is_told_how_long_it_had(monkeypatch):
    monkeypatch.setattr("pullback.cli.worker.LOADING", 3.0)
    with pytest.raises(NotLoaded, match=r"within 3 seconds \(which loading has at least, whatever"):
        Apart(functools.partial(time.sleep, 100), 1.0).names()
    with pytest.raises(NotLoaded, match=r"within 4 seconds \(--timeout\)"):
        Apart(functools.partial(time.sleep, 100), 4.0).names()


def test_the_first_wrong_one_ends_what_others_are_busy_with(tmp_path):
    words = command(tmp_path, BAD, ENDLESS, GOOD, extra=["--quick", "-x", "-j", "2"])
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=100)
    marks = [line.split()[:2] for line in done.stdout.splitlines()]
    assert marks == [["✗", "bad"], ["1", "custom"]], done.stdout + done.stderr
    assert done.returncode == 1


def in_a_terminal():
    """Signals do what they usually do."""
    for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(kind, signal.SIG_DFL)


def in_the_background():
    """An interrupt is for others, as where a shell has started the run with `&`."""
    in_a_terminal()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.mark.parametrize(
    "started, kinds, status",
    [
        (in_a_terminal, [signal.SIGINT], 130),
        (in_a_terminal, [signal.SIGTERM], 143),
        (in_the_background, [signal.SIGINT, signal.SIGTERM], 143),
    ],
)
def test_a_signal_ends_the_run_and_all_that_it_has_started(tmp_path, started, kinds, status):
    words = command(tmp_path, ENDLESS)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    how = {"start_new_session": True, "preexec_fn": started}
    with subprocess.Popen(words, text=True, **how, **pipes) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        while "begun" not in run.stderr.readline():  # what functions print is no part of the output
            assert run.poll() is None
        for kind in kinds:
            os.killpg(run.pid, kind)
        rest = run.stdout.read()  # to its end: nobody is left who could write
        run.stderr.read()
    assert "interrupted after 0 functions" in rest
    assert run.returncode == status


def test_a_target_that_ends_its_process_is_not_loaded(tmp_path):
    words = command(tmp_path, "import os\nos.kill(os.getpid(), 9)\n")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "cannot be loaded: its process was ended by SIGKILL" in done.stdout
    assert done.returncode == 2
