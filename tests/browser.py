"""Pages as Chromium lays them out: a browser without a window, spoken to over a pair of pipes.

The protocol is that of its developer tools: one JSON object a message, a zero byte after each. No package is needed.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

FOUND = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
# In seconds; an answer takes a moment.
_LONGEST = 60.0
# How far a page reaches to the right, and what on it does. What a block of its own scrolls does not widen the page.
_OVERFLOW = """(() => {
  const wide = document.documentElement.clientWidth;
  const scrolled = element => {
    for (let one = element.parentElement; one; one = one.parentElement)
      if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(one).overflowX)) return true;
    return false;
  };
  const beyond = [...document.querySelectorAll('body *')].filter(
    one => one.getBoundingClientRect().right > wide + 1 && !scrolled(one));
  const named = beyond.map(one => one.tagName + '.' + one.className);
  return {wide, reach: document.documentElement.scrollWidth, beyond: named};
})()"""


def _lifted(descriptor):
    """Return a copy of a descriptor beyond those with a meaning, in the place of it."""
    copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return copy


class Browser:
    """A Chromium that shows one page.

    Parameters
    ----------
    folder : path
        Where it may keep what it needs; a folder of its own.
    """

    def __init__(self, folder):
        words = [
            FOUND, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
            "--no-first-run", "--disable-extensions", "--disable-background-networking", f"--user-data-dir={folder}",
            "about:blank",
        ]  # fmt: skip
        reading, self._to = os.pipe()
        self._from, writing = os.pipe()
        # It reads from descriptor 3 and writes to descriptor 4, which neither end may be before.
        reading, writing = _lifted(reading), _lifted(writing)

        def place():
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self._process = subprocess.Popen(
            words, preexec_fn=place, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**os.environ, "HOME": str(folder)},
        )  # fmt: skip
        os.close(reading)
        os.close(writing)
        self._last, self._rest = 0, b""
        self._session = None
        self.said = []  # Messages of the console, and what was refused or went wrong.
        (target,) = [one for one in self("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        self._session = self("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        os.close(self._to)
        self._process.kill()
        self._process.wait()
        os.close(self._from)

    def __call__(self, method, **parameters):
        """Ask for something, and return the answer."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self):
        while b"\0" not in self._rest:
            assert select.select([self._from], [], [], _LONGEST)[0], "the browser does not answer"
            read = os.read(self._from, 1 << 16)
            assert read, "the browser has ended"
            self._rest += read
        text, _, self._rest = self._rest.partition(b"\0")
        answer = json.loads(text)
        if answer.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            self.said.append(answer["params"])
        return answer

    def show(self, path, width, *, media="screen"):
        """Show a file on a screen of so many pixels, or as it is printed on paper of that width."""
        self("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 600)
        self("Emulation.setEmulatedMedia", media=media)
        self("Page.navigate", url=path.resolve().as_uri())
        deadline = time.monotonic() + _LONGEST
        while self.evaluate("document.readyState") != "complete" or self.evaluate("location.href") == "about:blank":
            assert time.monotonic() < deadline, "the page is not shown"

    def evaluate(self, expression):
        """Return the value of an expression of the page."""
        return self("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def overflow(self):
        """Return how wide the window is, how far the page reaches, and which elements reach beyond the window."""
        return self.evaluate(_OVERFLOW)

    def picture(self):
        """Return the whole page as PNG."""
        return base64.b64decode(self("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def paper(self):
        """Return the page as it is printed on A4, as PDF."""
        return base64.b64decode(self("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)["data"])
