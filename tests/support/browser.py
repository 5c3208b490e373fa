# SPDX-License-Identifier: MIT
"""browser.py URL PNG - opens a page in headless Chromium, clicks the first button,
waits until the page says so, takes a screenshot. Run inside a sandbox.

It speaks the browser's protocol over two pipes, so no port is needed.
"""
import base64
import json
import os
import subprocess
import sys
import tempfile

ARGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--disable-extensions", "--window-size=800,600",
        "--remote-debugging-pipe", "about:blank"]
SAID = ("new Promise(done => { const at = document.getElementById('said');"
        "const look = () => at.textContent == 'nothing yet' ?"
        " setTimeout(look, 20) : done(at.textContent); look(); })")
MIDDLE = ("(() => { const r = document.querySelector('button')"
          ".getBoundingClientRect(); return [r.x + r.width / 2,"
          " r.y + r.height / 2]; })()")


class Browser:
    def __init__(self, folder):
        commands, self.to = os.pipe()
        self.answers, said = os.pipe()
        # The browser reads descriptor 3 and writes descriptor 4.
        script = f'exec "$@" 3<&{commands} 4>&{said}'
        self.child = subprocess.Popen(
            ["sh", "-c", script, "sh", "chromium",
             f"--user-data-dir={folder}", *ARGS],
            pass_fds=(commands, said), stdin=subprocess.DEVNULL)
        os.close(commands)
        os.close(said)
        self.number, self.rest, self.session = 0, b"", None

    def messages(self):
        while True:
            line, end, rest = self.rest.partition(b"\0")
            if end:
                self.rest = rest
                yield json.loads(line)
                continue
            part = os.read(self.answers, 1 << 16)
            if not part:
                sys.exit("the browser has ended")
            self.rest += part

    def __call__(self, method, **params):
        self.number += 1
        call = {"id": self.number, "method": method, "params": params}
        if self.session:
            call["sessionId"] = self.session
        text = json.dumps(call).encode() + b"\0"
        assert os.write(self.to, text) == len(text)
        for message in self.messages():
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]

    def value(self, expression):
        return self("Runtime.evaluate", expression=expression,
                    awaitPromise=True, returnByValue=True)["result"]["value"]


def main(url, png):
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(folder)
        page = browser("Target.createTarget", url="about:blank")["targetId"]
        browser.session = browser("Target.attachToTarget", targetId=page,
                                  flatten=True)["sessionId"]
        browser("Page.enable")
        browser("Page.navigate", url=url)
        for message in browser.messages():
            if message.get("method") == "Page.loadEventFired":
                break
        x, y = browser.value(MIDDLE)
        for kind in ("mousePressed", "mouseReleased"):
            browser("Input.dispatchMouseEvent", type=kind, x=x, y=y,
                    button="left", clickCount=1)
        print(browser.value(SAID))
        shot = browser("Page.captureScreenshot", format="png")["data"]
        with open(png, "wb") as f:
            f.write(base64.b64decode(shot))
        browser.session = None
        browser("Browser.close")
        browser.child.wait(30)


main(*sys.argv[1:])
