"""A browser for tests: headless Chromium through Debian's chromedriver, in W3C WebDriver over
HTTP."""

import json
import re
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
NEEDED = "no chromium and chromedriver (Debian: chromium, chromium-driver)"
MISSING = None if CHROMIUM and DRIVER else NEEDED
SWITCHES = ["--headless", "--no-sandbox", "--no-first-run", "--window-size=1280,900"]
OFF = ["gpu", "quic", "background-networking", "component-update", "sync"]
# How WebDriver writes keys that print nothing: https://www.w3.org/TR/webdriver2/#keyboard-actions
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "Left": "\ue012", "Up": "\ue013",
        "Right": "\ue014", "Down": "\ue015"}  # fmt: skip
# The key of an element's reference, from the same standard.
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """One session. Elements are named by CSS selectors, of which the first match counts."""

    def __init__(self, server: str, profile: str) -> None:
        self.at = f"{server}/session"
        words = [*SWITCHES, *(f"--disable-{name}" for name in OFF), f"--user-data-dir={profile}"]
        wanted = {"goog:chromeOptions": {"binary": CHROMIUM, "args": words}}
        wanted |= {"goog:loggingPrefs": {"browser": "ALL"}}
        answer = self._ask("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        self.at += f"/{answer['sessionId']}"

    def _ask(self, method: str, path: str, content: Any = None) -> Any:
        body = None if content is None else json.dumps(content).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.at + path, body, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def open(self, page: Path) -> None:
        self._ask("POST", "/url", {"url": page.resolve().as_uri()})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a function's body returns in the page."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": arguments})

    def find(self, selector: str) -> str:
        return self._ask("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector: str) -> None:
        self._ask("POST", f"/element/{self.find(selector)}/click", {})

    def write(self, selector: str, text: str) -> None:
        self._ask("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def press(self, *keys: str) -> None:
        """Keys, one after another, to whatever has the focus."""
        kinds = "keyDown", "keyUp"
        strokes = [{"type": kind, "value": KEYS[key]} for key in keys for kind in kinds]
        source = {"type": "key", "id": "keyboard", "actions": strokes}
        self._ask("POST", "/actions", {"actions": [source]})

    def console(self) -> list[str]:
        """What the console said since it was asked last."""
        return [entry["message"] for entry in self._ask("POST", "/se/log", {"type": "browser"})]


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with a profile of its own, closed at the end."""
    assert DRIVER is not None
    with tempfile.TemporaryDirectory() as profile:
        driver = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, text=True)
        assert driver.stdout is not None
        try:
            said = next(line for line in driver.stdout if "successfully on port" in line)
            port = re.findall(r"\d+", said)[-1]
            browser = Browser(f"http://127.0.0.1:{port}", profile)
            try:
                yield browser
            finally:
                browser._ask("DELETE", "")
        finally:
            driver.terminate()
            driver.wait(30)
            driver.stdout.close()
