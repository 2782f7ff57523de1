"""A run of `pullback check` over several places: what it selects, shows, writes and takes from pyproject.toml."""

import json
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from pullback import inputs
from pullback.cli import app
from pullback.cli.checking.outcome import Ending, Item, Outcome
from pullback.cli.checking.select import is_selected, require_expression
from pullback.cli.checking.show.files import as_github, as_junit
from pullback.cli.settings import project, require_seconds
from pullback.errors import CheckError

HEAD = "import tensorflow as tf\nimport pullback as pb\n"
GOOD = HEAD + "@tf.custom_gradient\ndef good(x):\n    return tf.sin(x), lambda dy: dy * tf.cos(x)\n"
BAD = (
    HEAD + "@tf.custom_gradient\ndef bad(x):\n    return tf.sin(x), lambda dy: dy * tf.cos(x) * 2\n"
)
ROUND = HEAD + "@tf.custom_gradient\ndef rounded(x):\n    return tf.round(x), lambda dy: dy\n"
BROKEN = "import not_there_at_all\n@tf.custom_gradient\ndef lost(x): ...\n"


def check(*words, status):
    done = CliRunner().invoke(app, ["check", "--no-isolate", "--quick", *map(str, words)])
    assert done.exit_code == status, done.output
    return done.output


def write(folder, **files):
    for name, text in files.items():
        path = folder.joinpath(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def test_a_folder_is_searched_and_what_is_not_the_users_is_left_out(tmp_path):
    write(tmp_path, a=GOOD, deep__er__b=BAD, build__c=BAD, venv__d=BAD, plain="raise SystemExit")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "e.py").write_text(BAD, encoding="utf-8")
    told = check(tmp_path, status=1)
    assert f"✓ {tmp_path / 'a.py'}:good" in told
    assert f"✗ {tmp_path / 'deep' / 'er' / 'b.py'}:bad" in told
    assert "2 custom gradients: ✓ 1 right, ✗ 1 wrong in" in told


def test_a_file_that_cannot_be_loaded_has_a_line_for_all_it_defines(tmp_path):
    write(tmp_path, a=GOOD, broken=BROKEN, syntax="def f(:\n")
    told = check(tmp_path, status=2)
    assert "broken.py:lost  cannot be loaded: ModuleNotFoundError" in told
    assert "syntax.py  cannot be loaded: SyntaxError" in told
    assert "a.py:good" in told


def test_a_file_that_another_imports_is_run_once(tmp_path):
    registered = "@tf.RegisterGradient('OnceOnly')\ndef rule(op, dy):\n    return dy\n"
    write(tmp_path, b_imported=GOOD + registered, a_imports="from b_imported import good\n" + BAD)
    told = check(tmp_path, "-k", "good or bad", status=1)
    assert "b_imported.py:good  " in told
    assert "cannot be loaded" not in told


def test_several_targets_are_checked_each_once(tmp_path):
    write(tmp_path, a=GOOD, b=BAD)
    again = [f"{tmp_path}/./a.py", tmp_path / "b.py:bad"]
    told = check(tmp_path / "a.py", tmp_path / "b.py", tmp_path / "a.py", *again, status=1)
    assert told.count("good") == told.count("bad") == 1


def test_a_package_is_searched_by_its_name(tmp_path, monkeypatch):
    write(tmp_path, nice_package__ops="from .numbers_in import TWO\n" + BAD)
    write(tmp_path, nice_package__numbers_in="TWO = 2.0\n")
    (tmp_path / "nice_package" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert "✗ bad" in check("nice_package", status=1)


def test_names_are_selected_and_the_first_wrong_one_may_end_the_run(tmp_path):
    write(tmp_path, a=BAD, b=GOOD)
    assert "bad" not in check(tmp_path, "-k", "good and not other", status=0)
    told = check(tmp_path, "-x", status=1)
    assert "good" not in told
    assert "✗ 1 wrong in" in told
    assert told.endswith(" s; stopped at the first wrong one: 1 not checked\n")
    assert "stopped" not in check(tmp_path, status=1)
    assert "defines no custom gradient that -k 'nowhere' means" in check(
        tmp_path, "-k", "nowhere", status=2
    )


@pytest.mark.parametrize(
    "expression, name, wanted",
    [
        ("relu", "file.py:Guided_ReLU", True),
        ("relu or tanh", "tanh", True),
        ("relu and not leaky", "leaky_relu", False),
        ("not relu", "tanh", True),
        ("relu and (leaky or soft)", "relu", False),
        ("a b or c", "my a b.py:f", True),
        ("not not relu", "relu", True),
    ],
)
def test_words_select_names(expression, name, wanted):
    assert is_selected(expression, name) is wanted


@pytest.mark.parametrize(
    "expression", ["and or (", "relu and", "(relu", "relu)", "not", "a or or b"]
)
def test_words_that_make_no_expression_are_refused_before_anything_runs(tmp_path, expression):
    write(tmp_path, a="raise SystemExit('was run')\n" + GOOD)
    told = check(tmp_path, "-k", expression, status=2)
    assert f"? -k {expression!r} cannot be read at" in told
    assert "was run" not in told


@pytest.mark.parametrize("option", ["--json", "--junit", "--html"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(tmp_path, option):
    write(tmp_path, a=GOOD)
    told = check(tmp_path, option, tmp_path / "nowhere" / "out", status=2)
    assert (
        f"? {option} {tmp_path / 'nowhere' / 'out'} cannot be written: there is no folder" in told
    )
    assert "it is a folder" in check(tmp_path, option, tmp_path, status=2)
    assert "good" not in told


def test_what_gives_a_coroutine_or_a_generator_is_told_so(tmp_path, recwarn):
    lazy = "@tf.custom_gradient\nasync def later(x):\n    return x, lambda dy: dy\n"
    lazy += "@tf.custom_gradient\ndef parts(x):\n    yield x\n"
    told = check(write(tmp_path, a=HEAD + lazy), status=2)
    assert (
        "? later  a call of it gives a coroutine, which has no gradient: write it with def" in told
    )
    assert "? parts  a call of it gives a generator" in told
    assert not [w for w in recwarn if "never awaited" in str(w.message)]


def test_a_registered_rule_is_blamed_at_its_own_line(tmp_path):
    rule = "@tf.RegisterGradient('TripledTanh')\ndef rule(op, dy):\n    return 3 * dy * (1 - op.outputs[0] ** 2)\n"
    told = check(write(tmp_path, blamed=HEAD + rule), status=1)
    assert "(blamed.py:3)" in told


def test_what_is_written_for_programs_and_people(tmp_path):
    write(tmp_path, a=GOOD, b=BAD, c=ROUND)
    files = {kind: tmp_path / f"out.{kind}" for kind in ("junit", "html")}
    words = [word for kind, path in files.items() for word in (f"--{kind}", path)]
    done = CliRunner().invoke(
        app, ["check", "--no-isolate", "--quick", str(tmp_path), "--json", "-", *map(str, words)]
    )
    data = json.loads(done.stdout)
    assert data["counts"] == {"right": 1, "wrong": 1, "undecided": 1, "ignored": 0}
    assert [one["kind"] for one in data["results"]] == [None, "factor", None]
    suite = ElementTree.fromstring(files["junit"].read_text(encoding="utf-8"))
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
    page = files["html"].read_text(encoding="utf-8")
    assert "2× too large" in page
    assert "https:" not in page.replace("https://www.w3.org", "")


def test_annotations_for_github_name_the_line_of_the_rule(tmp_path):
    write(tmp_path, b=BAD)
    (told, *_) = check(tmp_path, "--format", "github", status=1).splitlines()
    assert told.startswith(
        f"::error file={tmp_path / 'b.py'},line=5,title=pullback%3A bad::the gradient"
    )


def test_what_would_break_a_format_is_escaped():
    outcome = Outcome(Item("f<g>", "a,b.py", 3), "undecided", "100 %\nand <more>", "x")
    assert (
        as_github(outcome)
        == "::warning file=a%2Cb.py,line=3,title=pullback%3A f<g>::100 %25%0Aand <more>"
    )
    assert ElementTree.fromstring(as_junit([outcome], Ending(1.0)))[0].get("name") == "f<g>"
    ignored = Outcome(Item("f"), "ignored", "ignored: a surrogate")
    assert (
        ElementTree.fromstring(as_junit([ignored], Ending(1.0)))[0][0].text
        == "ignored: a surrogate"
    )


def test_pyproject_says_what_is_meant(tmp_path):
    write(tmp_path, a=ROUND, b=BAD)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pullback]\nseed = 3\n[tool.pullback.functions."a.py:rounded"]\nagainst = "tf.identity"\n'
        '[tool.pullback.functions.bad]\nignore = "known, to be mended"\n',
        encoding="utf-8",
    )
    told = check(tmp_path, status=0)
    assert "a.py:rounded" in told
    assert "b.py:bad  ignored: known, to be mended" in told


def test_keys_of_pyproject_are_paths_from_there_whatever_the_current_folder(tmp_path, monkeypatch):
    write(tmp_path, deep__in__some__folder__a=ROUND)
    key = "deep/in/some/folder/a.py:rounded"
    (tmp_path / "pyproject.toml").write_text(
        f'[tool.pullback.functions."{key}"]\nignore = "meant"\n', encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path / "deep" / "in")
    assert "ignored: meant" in check("some/folder/a.py", status=0)


def test_keys_of_pyproject_about_nothing_are_said(tmp_path):
    write(tmp_path, a=GOOD, b=GOOD)
    keys = ("a.py:god", "gone.py:good", "b.py:god", "nobody", "good")
    text = "".join(f'[tool.pullback.functions."{key}"]\norder = 1\n' for key in keys)
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    about = {key: f'functions."{key}"] is about no custom gradient that was found' for key in keys}
    one, every = check(tmp_path / "a.py", status=2), check(tmp_path, status=2)
    assert [key for key in keys if about[key] in one] == ["a.py:god", "gone.py:good"]
    assert [key for key in keys if about[key] in every] == list(keys[:-1])


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "[tool.pullback]\ntolerence = 1e-3",
            "has no key 'tolerence'. There are: order, tolerance",
        ),
        ("[tool.pullback.functions.f]\nignored = 'x'", "has no key 'ignored'"),
        ("[tool.pullback]\norder = 'two'", "order = 'two' is not of the right kind"),
        ("[tool.pullback\n", "cannot be read"),
        ("[tool.pullback.functions.f]\nignore = ''", "ignore is the reason, in words; got ''"),
        ("tool = 3", r"\[tool\] in .* is a table; got 3"),
        ("[tool]\npullback = []", r"\[tool.pullback\] in .* is a table; got \[\]"),
        ("[tool.pullback]\nfunctions = 'x'", r"functions\] in .* is a table; got 'x'"),
        ("[tool.pullback.functions]\nf = 1", r'functions."f"\] in .* is a table; got 1'),
        ("[tool.pullback]\ntimeout = nan", "write seconds, or 0 for ever"),
        ("[tool.pullback]\ntimeout = inf", "write seconds, or 0 for ever"),
        (f"[tool.pullback]\ntimeout = {10**400}", "write seconds, or 0 for ever"),
        (f"[tool.pullback]\ntolerance = {10**400}", "write a positive number"),
        ("[tool.pullback]\ntimeout = -5", "write seconds, or 0 for ever"),
        ("[tool.pullback]\ntimeout = true", "write seconds, or 0 for ever"),
        ("[tool.pullback]\njobs = 0", "write a whole number from 1 on"),
        ("[tool.pullback]\nseed = -1", "write a whole number from 0 on"),
        ("[tool.pullback]\norder = 3", "write 1 or 2"),
        ("[tool.pullback]\nquick = 1", "write true or false"),
        ("[tool.pullback]\ntolerance = nan", "write a positive number"),
        ("[tool.pullback.functions.f]\nwrt = [1]", "write a name or a list of names"),
        ("[tool.pullback.functions.f]\nagainst = 1", "write text"),
        ("x = " + "[" * 5000, "cannot be read"),
        ("# \udcff", "cannot be read: 'utf-8' codec"),
    ],
)
def test_settings_without_effect_are_errors(tmp_path, text, message):
    (tmp_path / "pyproject.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(CheckError, match=message):
        project(tmp_path)


def test_words_in_more_brackets_than_anybody_writes_are_refused():
    with pytest.raises(CheckError, match="nested too deeply"):
        require_expression("(" * 20_000)


@pytest.mark.parametrize("seconds", ["nan", "inf", "1e400"])
def test_what_is_no_time_is_refused(tmp_path, seconds):
    write(tmp_path, a="raise SystemExit('was run')\n" + GOOD)
    told = check(tmp_path, "--timeout", seconds, status=2)
    assert "--timeout" in told  # some versions of typer refuse NaN themselves
    assert "was run" not in told
    assert CliRunner().invoke(app, ["audit", "tensorflow", "--timeout", seconds]).exit_code == 2
    with pytest.raises(CheckError, match=r"--timeout (nan|inf): write seconds, or 0 for ever"):
        require_seconds(float(seconds), "--timeout")


def test_a_mistake_in_pyproject_ends_the_run(tmp_path):
    write(tmp_path, a=GOOD)
    (tmp_path / "pyproject.toml").write_text("[tool.pullback]\nspeed = 9", encoding="utf-8")
    assert "has no key 'speed'" in check(tmp_path, status=2)


def test_options_stand_beside_a_function_and_its_inputs(tmp_path):
    beside = "pullback_inputs = {'rounded': pb.inputs(tf.ones(3), against=tf.identity)}\n"
    write(tmp_path, a=ROUND + beside)
    assert "✓ rounded" in (told := check(tmp_path / "a.py", status=0))
    assert "x float32[3] (pullback_inputs)" in told


def test_inputs_for_a_factory_reach_what_it_makes(tmp_path):
    text = HEAD + (
        "def make(table):\n    k = table['scale']\n    @tf.custom_gradient\n    def inner(x):\n"
        "        return k * x, lambda dy: k * dy\n    return inner\n"
        "pullback_inputs = {'make': ({'scale': 2.0},)}\n"
    )
    write(tmp_path, a=text)
    assert "✓ make.inner" in check(tmp_path / "a.py:make.inner", status=0)


def test_the_version_is_printed():
    done = CliRunner().invoke(app, ["--version"])
    assert done.output.startswith("pullback ")
    assert done.exit_code == 0


SCALED = "@tf.custom_gradient\ndef {}(x):\n    {}\n    return K * tf.sin(x), lambda dy: {} * dy * tf.cos(x)\n"


@pytest.mark.parametrize("layout", ["module", "package", "folder", "mixed", "same name"])
@pytest.mark.parametrize("is_late", [False, True], ids=["at the top", "when called"])
def test_each_file_gets_the_modules_beside_it(tmp_path, layout, is_late):
    """The rules are right for K = 1 and K = 2: the first with its own constant, the second with none but its own."""
    source = "consts" if layout in ("module", "same name") else "shared.consts"
    line = f"from {source} import K"
    for folder, k, name in (("one", 1.0, "f"), ("two", 2.0, "g")):
        text = HEAD + ("" if is_late else line + "\n")
        text += SCALED.format(name, line if is_late else "pass", k)
        file = "ops" if layout == "same name" else f"ops_{folder}"
        write(tmp_path / folder, **{file: text, source.replace(".", "__"): f"K = {k}\n"})
        if layout == "package" or (layout == "mixed" and folder == "one"):
            (tmp_path / folder / "shared" / "__init__.py").touch()
    told = check(tmp_path, status=0)
    assert ":f  " in told
    assert ":g  " in told


def test_what_is_wrong_is_run_again_by_the_command_that_found_it(tmp_path):
    """The file is named like a module of Python's own, so that no program could import it by its name."""
    write(tmp_path, colorsys=BAD)
    page = tmp_path / "out.html"
    words = ["--no-isolate", "--quick", "--json", "-", "--html", str(page), "--seed", "3"]
    done = CliRunner().invoke(app, ["check", str(tmp_path), *words])
    again = f"pullback check {tmp_path / 'colorsys.py'}:bad --report --seed 3"
    assert json.loads(done.stdout)["results"][0]["reproduce"] == again
    assert f"<pre>{again}</pre>" in page.read_text(encoding="utf-8")


UNLOADABLE = {
    "syntax": ("x = 1\ndef f(:\n", 2, "SyntaxError: invalid syntax"),
    "ended": (
        "import sys\n\n\nsys.exit(3)\n",
        4,
        "it ends its process when it is imported: sys.exit(3)",
    ),
    "wordless": ("x = 1\n\nassert x == 2\n" + GOOD, 3, "AssertionError"),
}


@pytest.mark.parametrize("name", UNLOADABLE)
def test_what_cannot_be_loaded_has_its_place_once_and_in_all_formats(tmp_path, name):
    text, line, why = UNLOADABLE[name]
    write(tmp_path, **{name: text})
    file = tmp_path / f"{name}.py"
    told, *_ = check(file, status=2).splitlines()
    assert told.endswith(f"cannot be loaded: {why}  ({name}.py:{line})")
    annotation, *_ = check(file, "--format", "github", status=2).splitlines()
    assert annotation.startswith(f"::warning file={file},line={line},")
    out, junit = tmp_path / "out.json", tmp_path / "out.xml"
    check(file, "--json", out, "--junit", junit, status=2)
    (found,) = json.loads(out.read_text(encoding="utf-8"))["results"]
    assert found["file"] == str(file)
    assert found["source"] == f"{name}.py:{line}"
    assert found["line"] > 0
    (case,) = ElementTree.fromstring(junit.read_text(encoding="utf-8"))
    assert (case.get("file"), case.get("line")) == (str(file), str(found["line"]))


def test_a_sentence_that_is_quoted_ends_once(tmp_path):
    rule = (
        "@tf.custom_gradient\ndef f(x):\n    def grad(dy):\n        raise ValueError('Not so.')\n"
        "    return x * 2, grad\n"
    )
    told = check(write(tmp_path, a=HEAD + rule), status=2)
    assert "ValueError: Not so. @pb.inputs(...) says which" in told


@pytest.mark.parametrize(
    "target", ["nope", "nope.txt", "src/nope/", "nope.py", "nope.py:f", "nope:f"]
)
def test_what_is_not_there_is_said_and_not_counted(tmp_path, monkeypatch, target):
    monkeypatch.chdir(tmp_path)
    told = check(target, status=2)
    assert told.startswith(f"? {target.removesuffix(':f')}  no such file or folder")
    assert "custom gradient" not in told
    write(tmp_path, a=GOOD)
    words = ("--format", "github", "--json", "out.json")
    told = check(target, "a.py", *words, status=2)
    assert "1 custom gradient: ✓ 1 right in" in told
    assert told.startswith("::warning title=pullback%3A ")
    data = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert [one["status"] for one in data["results"]] == ["undecided", "right"]


def test_a_file_that_is_no_python_is_said_to_be_none_and_a_module_here_is_found(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(write(tmp_path, module_right_here=GOOD))
    (tmp_path / "notes.txt").touch()
    assert "? notes.txt  is no Python file: name a file" in check("notes.txt", status=2)
    assert "✓ good" in check("module_right_here", status=0)


def test_flags_and_choices_that_keep_their_defaults_are_told(tmp_path):
    text = HEAD + (
        "@tf.custom_gradient\ndef f(x, training=False, kind='l2', size=3):\n"
        "    return 2.0 * x, lambda dy: 2.0 * dy\n"
        "pullback_inputs = {'g': pb.inputs(tf.ones(2), kwargs={'training': True})}\n"
        "@tf.custom_gradient\ndef g(x, training=False):\n"
        "    return (tf.sin(x), lambda dy: dy * tf.cos(x)) if training else (x, lambda dy: dy)\n"
    )
    told = check(write(tmp_path, a=text), status=0)
    assert "with x float32[3, 4] (tried), training=False (default), kind='l2' (default)\n" in told
    assert "with x float32[2] (pullback_inputs), training=True (pullback_inputs)\n" in told


def test_what_is_no_option_of_inputs_says_where_it_belongs():
    with pytest.raises(CheckError, match=r"no option 'training'; .*kwargs=\{\"training\": True\}"):
        inputs(1.0, training=True)


@pytest.mark.parametrize("reason", ["", "  ", True])
def test_nothing_is_ignored_without_a_reason(reason):
    with pytest.raises(CheckError, match="ignore is the reason, in words; got"):
        inputs(ignore=reason)
