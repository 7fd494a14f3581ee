"""A headless Chromium driven over a pipe by its DevTools protocol: no driver, no port, no further package."""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--remote-debugging-pipe",
)
TIMEOUT_S = 60.0


def find() -> str | None:
    """The browser of this machine, or None."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


class Page:
    """One tab: loads a file, collects what it logs and asks for, evaluates, takes pictures."""

    def __init__(self, browser: str, profile: Path, width: int, height: int = 900, *, dark: bool = False) -> None:
        # The protocol is spoken on file descriptors 3 (to the browser) and 4 (from it); high numbers keep ours clear.
        to_browser, self._out = (fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in os.pipe())
        self._in, from_browser = (fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in os.pipe())
        command = [browser, *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
        wired = ["bash", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "bash", *command]
        self._process = subprocess.Popen(
            wired, pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_browser)
        os.close(from_browser)
        self._ids = itertools.count(1)
        self._buffer = b""
        self.events: list[dict[str, Any]] = []
        self._session: str | None = None
        self._open_tab(width, height, dark)

    def _open_tab(self, width: int, height: int, dark: bool) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        mobile = width < 600
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        if dark:
            scheme = [{"name": "prefers-color-scheme", "value": "dark"}]
            self.call("Emulation.setEmulatedMedia", features=scheme)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Asked to close, the browser ends its helpers first; they would go on writing into the profile otherwise.
        self._session = None
        with suppress(AssertionError, OSError):
            self.call("Browser.close")
        try:
            self._process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One call of the protocol; events that come meanwhile are kept."""
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        answer = self._read(lambda got: got.get("id") == number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def _read(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        until = time.monotonic() + TIMEOUT_S
        while True:
            while b"\0" in self._buffer:
                raw, _, self._buffer = self._buffer.partition(b"\0")
                message: dict[str, Any] = json.loads(raw)
                if "method" in message:
                    self.events.append(message)
                if wanted(message):
                    return message
            ready, _, _ = select.select([self._in], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"the browser said nothing for {TIMEOUT_S:.0f} s"
            chunk = os.read(self._in, 1 << 20)
            assert chunk, "the browser went away"
            self._buffer += chunk

    def load(self, file: Path) -> None:
        """Open a file and wait until it has loaded."""
        self.call("Page.navigate", url=file.resolve().as_uri())
        if not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._read(lambda got: got.get("method") == "Page.loadEventFired")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """Whatever the page threw, or logged as an error or a warning."""
        found = []
        for event in self.events:
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(str(params["entry"]["text"]))
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(str(params["args"]))
        return found

    def requests(self) -> list[str]:
        """Every address that was asked for, data and blob addresses inside the page left out."""
        asked = (e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent")
        return [url for url in asked if not url.startswith(("data:", "blob:"))]

    def picture(self, file: Path, *, whole: bool = True) -> None:
        """Save a PNG of the page, to its end."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(shot["data"]))
