"""Chromium without a screen, driven over a pipe by the DevTools protocol, as a person would use a page."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
from types import TracebackType
from typing import Any

from tests.support.waiting import block_until

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """A page in a browser with a profile of its own. Dialogs that ask for a text get :attr:`reply`."""

    def __init__(self) -> None:
        assert BROWSER is not None
        self.reply = ""
        #: What the browser could not load, and errors of scripts; for messages of failed tests.
        self.problems: list[str] = []
        self._number = 0
        self._rest = b""
        # Chromium has a socket in its profile and in TMPDIR, and takes no path that is longer than a socket's.
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True, dir="/tmp")
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        words = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe"]
        # The protocol's descriptors are 3 and 4.
        script = f'exec 3<&{to_browser} 4>&{from_browser} "$0" "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", script, BROWSER, *words, f"--user-data-dir={self._profile.name}", "about:blank"],
            env=os.environ | {"TMPDIR": "/tmp"},
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_browser)
        os.close(from_browser)
        pages = [one for one in self("Target.getTargets", session=False)["targetInfos"] if one["type"] == "page"]
        self._session = self("Target.attachToTarget", session=False, targetId=pages[0]["targetId"], flatten=True)[
            "sessionId"
        ]
        for part in ("Page", "Network", "Log", "Runtime"):
            self(f"{part}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._out)
        os.close(self._in)
        self._profile.cleanup()

    def __call__(self, method: str, *, session: bool = True, **parameters: object) -> Any:
        """Call a method of the protocol."""
        number = self._send(method, parameters, session=session)
        while True:
            message = self._message()
            if message.get("method") == "Page.javascriptDialogOpening":
                self._send("Page.handleJavaScriptDialog", {"accept": True, "promptText": self.reply})
            if message.get("method") in ("Network.loadingFailed", "Log.entryAdded", "Runtime.exceptionThrown"):
                self.problems.append(json.dumps(message["params"])[:500])
            if message.get("id") == number:
                assert "error" not in message, (method, message)
                return message["result"]

    def _send(self, method: str, parameters: dict[str, object], *, session: bool = True) -> int:
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        return self._number

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = os.read(self._in, 1 << 20)
            assert piece, "the browser has ended"
            self._rest += piece
        first, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(first)
        return found

    def open(self, url: str) -> None:
        """Go to an address."""
        self("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        done = self("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def until(self, script: str) -> Any:
        """Wait until the value of an expression is true, and return it."""

        def told() -> str:
            return "\n".join([self.run("document.body.innerText"), *self.problems[-20:]])

        return block_until(lambda: self.run(script), script, told=told)

    def click(self, selector: str, text: str = "") -> None:
        """Click the first element of the selector whose text is or begins with this."""
        those = f"(one) => one.textContent.startsWith({json.dumps(text)}) && !one.disabled"
        found = f"[...document.querySelectorAll({json.dumps(selector)})].find({those})"
        self.until(f"!!{found}")
        self.run(f"{found}.click()")

    def press(self, key: str, code: int) -> None:
        """Press a key and let it go, by its name and the number that Windows has for it."""
        for kind in ("keyDown", "keyUp"):
            text = "\r" if (kind, key) == ("keyDown", "Enter") else ""
            self("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, text=text)

    def picture(self, path: str, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Write a PNG file of the page at a width."""
        self("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self("Emulation.setEmulatedMedia", features=features)
        data = self("Page.captureScreenshot", format="png", captureBeyondViewport=False)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
