r"""Where a command writes: stdout is its own, and what other code prints goes to stderr.

Nothing that a user's file can say reaches a terminal as a control sequence: it is written out, as `\u001b`.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, NoReturn, TextIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

# Control characters but tab and newline, what reverses the direction of text, and what no file in UTF-8 or XML holds.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_STYLE = re.compile("\x1b\\[[\\d;]*m")  # colors, which are dropped where others print them
_PIECE = 1 << 16  # bytes of a line that are looked at together
_PATIENCE = 2.0  # seconds for the last lines of stderr
_FROM = 100  # numbers of files below are closed by the dozen, and written to by mistake
_own: dict[str, TextIO] = {}


class Unwritten(OSError):
    """What a command is to say cannot be written; the text says where, and why."""


def escaped(text: str) -> str:
    r"""Text that changes no terminal and breaks no file; inside a string of JSON it means the same as before.

    >>> escaped("a" + chr(27) + "[31m")
    'a\\u001b[31m'
    """
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def in_one_line(text: str) -> str:
    """The same for names, which have one line each."""
    return escaped(text).replace("\n", "\\n")


def console(*, stderr: bool = False, soft_wrap: bool = False) -> Any:
    """A console of rich on our own stdout or stderr."""
    from rich.console import Console

    file = _stream("stderr" if stderr else "stdout")
    made = Console(file=file, highlight=False, soft_wrap=soft_wrap)
    hook: Any = _Hook()  # rich is not imported before something is printed
    made.push_render_hook(hook)
    return made


def echo(text: str) -> None:
    """Print to our own stdout."""
    file = _stream("stdout")
    file.write(escaped(text) + "\n")
    file.flush()


def _stream(name: str) -> TextIO:
    return _own.get(name) or getattr(sys, name)


class _Hook:
    """Escapes what is printed, after rich has styled it."""

    def process_renderables(self, renderables: list[Any]) -> list[Any]:
        """What is printed in their stead."""
        return [_Escaped(one) for one in renderables]


class _Escaped:
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __rich_console__(self, console: Any, options: Any) -> Iterable[Any]:
        for segment in console.render(self.inner, options):
            is_text = not segment.control
            yield segment._replace(text=escaped(segment.text)) if is_text else segment


@contextlib.contextmanager
def own_streams() -> Generator[None]:
    """What is printed inside, by Python or by C, goes to stderr; `console` and `echo` write to the real stdout."""
    outer = dict(_own)
    with contextlib.ExitStack() as stack:
        _own["stdout"] = _own.get("stdout") or stack.enter_context(_moved(sys.stdout))
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        try:
            yield
        finally:
            _own.clear()
            _own.update(outer)


@contextlib.contextmanager
def _moved(stream: TextIO) -> Generator[TextIO]:
    """Our own stdout, on another number while 1 means stderr; a stream that only stands for it stays as it is."""
    if not _has_number(stream, 1):
        yield stream
        return
    stream.flush()
    with _Lasting.of(1) as own:
        os.dup2(2, 1)
        try:
            yield own
        finally:
            with contextlib.suppress(OSError, ValueError):  # somebody has closed it
                stream.flush()
            os.dup2(own.fileno(), 1)


def require_streams() -> None:
    """Let stdin, stdout and stderr lead nowhere where they were closed: files opened later would get their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def give_up_stdout() -> None:
    """From now on all that is printed goes to stderr: threads and `atexit` run after the command."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        os.dup2(2, 1)


def filter_stderr(keep: Callable[[str], bool]) -> None:
    """Let a process apart read what anybody but us writes to stderr, and pass on the lines that are to be kept.

    Libraries of C and C++ write to it themselves, and a crash must not take with it what was said before.
    """
    if not (hasattr(os, "fork") and _has_number(sys.stderr, 2)):
        return
    sys.stderr.flush()
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.close(writing)
        _pass_on(reading, keep)
    os.close(reading)
    _own["stderr"] = _Lasting.of(2)
    os.dup2(writing, 2)
    os.close(writing)
    atexit.register(_stop_filter, child, os.getpid())  # the first to be registered runs last


def _stop_filter(child: int, pid: int) -> None:
    if os.getpid() != pid:  # a copy that a user's function has forked
        return
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    own = _own.pop("stderr")
    for number in (1, 2):  # nobody else keeps the pipe open
        os.dup2(own.fileno(), number)
    _wait_for(child)


def _pass_on(reading: int, keep: Callable[[str], bool]) -> NoReturn:
    """Lines until there are no more; interrupts are for others."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    for line in lines_of(lambda: os.read(reading, _PIECE)):
        _write_line(line, keep)
    os._exit(0)


def lines_of(read: Callable[[], bytes]) -> Iterator[bytes]:
    """The lines of what is read piece by piece; one that is longer than a piece comes in several."""
    rest = b""
    while part := read():
        *ended, last = re.split(rb"(?<=[\r\n])", part)
        for line in ended:
            yield rest + line
            rest = b""
        rest += last
        if len(rest) >= _PIECE:
            yield rest
            rest = b""
    yield rest


def _write_line(line: bytes, keep: Callable[[str], bool]) -> None:
    text = _STYLE.sub("", line.decode("utf-8", "backslashreplace"))
    if text and keep(text.rstrip("\r\n")):
        end = text[len(text.rstrip("\r\n")) :]
        with contextlib.suppress(OSError):  # whoever reads may have gone
            os.write(2, (escaped(text.rstrip("\r\n")) + end).encode())


def _wait_for(child: int) -> None:
    """Until all is passed on, unless somebody else keeps the pipe open."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(child, os.WNOHANG) == (0, 0):
                time.sleep(0.01)
                continue
        return


class _Lasting(io.FileIO):
    """What is written after it has failed once goes nowhere: it is said once."""

    _name, _has_failed = "", False

    def write(self, data: Any) -> int:
        """Write bytes."""
        if self._has_failed:
            return len(data)
        try:
            return super().write(data)
        except BrokenPipeError:  # nobody reads any further
            self._has_failed = True
            raise
        except OSError as error:
            self._has_failed = True
            raise Unwritten(f"{self._name} cannot be written: {error.strerror}") from error

    @classmethod
    def of(cls, number: int) -> TextIO:
        """Text in UTF-8 to what a number means, whatever becomes of that number."""
        made = cls(lasting(number), "w")
        made._name = ("stdin", "stdout", "stderr")[number]
        return io.TextIOWrapper(
            io.BufferedWriter(made), "utf-8", "backslashreplace", line_buffering=True
        )


def lasting(number: int) -> int:
    """Another number for what a number means, which nobody else closes."""
    return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _FROM) if fcntl else os.dup(number)


def _has_number(stream: TextIO, number: int) -> bool:
    try:
        return stream.fileno() == number
    except (OSError, ValueError, AttributeError):  # there is none, or one that stands for it
        return False
