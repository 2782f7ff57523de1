"""A long check says what it is doing, where somebody looks, and leaves nothing behind."""

import io
import sys
import types

import pytest

from pullback.check import numbers, progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def opened(monkeypatch, patience=0.0, refresh=0.0):
    """A terminal; in a fixture pytest would put its own in place of it."""
    monkeypatch.setattr(numbers, "PATIENCE", patience)
    monkeypatch.setattr(numbers, "REFRESH", refresh)
    monkeypatch.setattr(sys, "stderr", Terminal())
    return sys.stderr


def work():
    progress.say("point 1, the given arguments")
    progress.say("point 2, negative values")
    progress.say("wrong, 12 explanations tried")


def shown(stream):
    """What each change of the line left to be read."""
    return stream.getvalue().split("\r\x1b[K")[1:]


def test_points_and_explanations_are_shown_and_cleared(monkeypatch):
    terminal = opened(monkeypatch)
    with progress.shown("f"):
        work()
    assert shown(terminal) == [
        "checking f: point 1, the given arguments",
        "checking f: point 2, negative values",
        "checking f: wrong, 12 explanations tried",
        "",
    ]


def test_the_line_is_cleared_when_the_check_raises(monkeypatch):
    terminal = opened(monkeypatch)

    @progress.shown("f")
    def interrupted():
        work()
        raise KeyboardInterrupt("now")

    with pytest.raises(KeyboardInterrupt, match="now"):
        interrupted()
    assert shown(terminal)[-1] == ""


def test_a_short_check_shows_nothing(monkeypatch):
    terminal = opened(monkeypatch, patience=60.0)
    with progress.shown("f"):
        work()
    assert terminal.getvalue() == ""


def test_what_follows_fast_is_not_written_every_time(monkeypatch):
    terminal = opened(monkeypatch, refresh=60.0)
    with progress.shown("f"):
        work()
    assert len(shown(terminal)) == 2


def test_a_file_gets_nothing(monkeypatch):
    terminal = opened(monkeypatch)
    monkeypatch.setattr(terminal, "isatty", lambda: False)
    with progress.shown("f"):
        work()
    assert terminal.getvalue() == ""


def test_whoever_shows_progress_himself_can_hide_it(monkeypatch):
    terminal = opened(monkeypatch)
    with progress.hidden(), progress.shown("f"):
        work()
    assert terminal.getvalue() == ""
    work()
    assert terminal.getvalue() == "", "outside of a check nothing is shown either"


def test_in_a_notebook_one_element_changes(monkeypatch):
    terminal = opened(monkeypatch)
    texts = []
    handle = types.SimpleNamespace(update=texts.append)

    def display(text, *, display_id):
        assert display_id
        texts.append(text)
        return handle

    shell = types.SimpleNamespace(kernel=object())
    notebook = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    fake = types.SimpleNamespace(display=display, Pretty=str)
    monkeypatch.setitem(sys.modules, "IPython.display", fake)
    with progress.shown("f"):
        work()
    assert terminal.getvalue() == ""
    assert texts[0] == "checking f: point 1, the given arguments"
    assert texts[-1] == ""
