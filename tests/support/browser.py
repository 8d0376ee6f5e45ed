"""Headless Chromium, driven by ChromeDriver with the WebDriver protocol (W3C)."""

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-unsafe-swiftshader",
    "--window-size=900,700",
)

needs_browser = pytest.mark.skipif(
    not (BROWSER and DRIVER) and not os.environ.get("CI"),
    reason="no chromium with chromedriver on the PATH",
)


class Tab:
    """Page in the browser."""

    def __init__(self, address, session):
        self.address, self.session = address, session

    def call(self, method, path, body=None):
        return _call(self.address, method, f"/session/{self.session}{path}", body)

    def open(self, path):
        self.call("POST", "/url", {"url": Path(path).resolve().as_uri()})

    def run(self, script, *arguments):
        """Return the result of a script; its exception is an error here."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script, seconds=30.0):
        """Wait until a script returns a true value."""
        end = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < end, f"still not: {script}; {self.errors()}"
            time.sleep(0.05)

    def screenshot(self):
        """Return a screenshot of the page as PNG."""
        return base64.b64decode(self.call("GET", "/screenshot"))

    def errors(self):
        """Return the errors on the console since the last call."""
        entries = self.call("POST", "/se/log", {"type": "browser"})
        return [one["message"] for one in entries if one["level"] == "SEVERE"]


@contextmanager
def browser():
    """Open a tab of a new browser, which ends with the context."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [DRIVER, "--port=0"]
        driver = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            address = _address(driver)
            options = {
                "binary": BROWSER,
                "args": [*FLAGS, f"--user-data-dir={folder}"],
            }
            wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
            body = {"capabilities": {"alwaysMatch": wanted}}
            session = _call(address, "POST", "/session", body)["sessionId"]
            try:
                yield Tab(address, session)
            finally:
                _call(address, "DELETE", f"/session/{session}")
        finally:
            os.killpg(driver.pid, signal.SIGKILL)  # ends the browser too, even if it hangs
            driver.wait()
            driver.stdout.close()


def _address(driver):
    for line in driver.stdout:
        if "started successfully on port" in line:
            return f"http://127.0.0.1:{line.split()[-1].rstrip('.')}"
    raise RuntimeError("chromedriver did not start")


def _call(address, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        value = json.load(error)["value"]
        raise RuntimeError(f"{value['error']}: {value['message']}") from None
