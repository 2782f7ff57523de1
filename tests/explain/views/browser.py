"""A headless browser, driven over the two pipes of its DevTools: no further package, no port."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

# Chromium reads commands from file descriptor 3 and answers on 4.
_START = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3]]
for end, fd in zip(ends, (3, 4)):
    os.dup2(end, fd)
os.execv(sys.argv[3], sys.argv[3:])
"""
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-pipe",
)
_KINDS = {"warning", "error", "assert"}


class Browser:
    """One page at a time; what its console says is kept in `console`."""

    def __init__(self, folder: Path, size: tuple[int, int] = (1400, 900)) -> None:
        program = (
            os.environ.get("BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")
        )
        assert program, "no chromium: install Debian's chromium, or name a browser in BROWSER"
        reads, self._out = os.pipe()
        self._in, writes = os.pipe()
        options = [*_OPTIONS, f"--user-data-dir={folder}", f"--window-size={size[0]},{size[1]}"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(reads), str(writes), program, *options],
            pass_fds=(reads, writes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(reads)
        os.close(writes)
        self.console: list[str] = []
        self.requests: list[str] = []
        self._left, self._last, self._session = b"", 0, ""
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        attached = self._send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for part in ("Page", "Runtime", "Log", "Network"):
            self._send(f"{part}.enable")
        self._send(
            "Emulation.setDeviceMetricsOverride",
            width=size[0],
            height=size[1],
            deviceScaleFactor=1,
            mobile=False,
        )

    def open(self, path: Path) -> None:
        """Load a file and wait until it has run."""
        self.console.clear()
        self.requests.clear()
        self._send("Page.navigate", url=path.resolve().as_uri())
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def run(self, script: str) -> Any:
        """The value of an expression; a promise is awaited."""
        got = self._send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in got, got["exceptionDetails"]
        return got["result"].get("value")

    def click(self, x: float, y: float) -> None:
        """With the mouse, as a person would."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(kind, x, y)

    def mouse(self, kind: str, x: float, y: float) -> None:
        """One event of the mouse."""
        pressed = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        self._send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **pressed)
        self.run("new Promise(done => setTimeout(done, 60))")

    def type(self, text: str) -> None:
        """Into whatever has the focus."""
        self._send("Input.insertText", text=text)

    def dark(self, on: bool) -> None:
        """What the system prefers."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self._send("Emulation.setEmulatedMedia", features=[feature])

    def picture(self, path: Path) -> None:
        """What is seen."""
        path.write_bytes(base64.b64decode(self._send("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        """End the browser."""
        self._session = ""
        self._send("Browser.close")
        self._process.wait(timeout=20)
        os.close(self._out)
        os.close(self._in)

    def _send(self, method: str, **params: Any) -> dict[str, Any]:
        self._last += 1
        command: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._out, json.dumps(command).encode() + b"\0")
        while (message := self._next()).get("id") != self._last:
            pass
        assert "error" not in message, (method, message)
        return message["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            read = os.read(self._in, 1 << 20)
            assert read, "the browser has ended"
            self._left += read
        text, _, self._left = self._left.partition(b"\0")
        message = json.loads(text)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method: str | None, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.console.append(str(params["exceptionDetails"]))
        if method == "Runtime.consoleAPICalled" and params["type"] in _KINDS:
            self.console.append(str([arg.get("value") for arg in params["args"]]))
        if method == "Log.entryAdded" and params["entry"]["level"] in _KINDS:
            self.console.append(params["entry"]["text"])
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
