#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""small.py STEP - an agent in a small project: a server at :3000 that keeps
notes in a file of SQLite, an edit, a commit. AGENT is its number."""
import http.server
import os
import pathlib
import sqlite3
import subprocess
import sys
import urllib.request

AGENT = os.environ["AGENT"]
DATA = "notes.db"
URL = "http://127.0.0.1:3000/"
NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Notes(http.server.BaseHTTPRequestHandler):
    def answer(self, text):
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        with sqlite3.connect(DATA) as db:
            rows = db.execute("select author from notes").fetchall()
        self.answer(" ".join(row[0] for row in rows).encode())

    def do_POST(self):
        with sqlite3.connect(DATA) as db:
            db.execute("create table if not exists notes (author text)")
            db.execute("insert into notes values (?)", (AGENT,))
        self.answer(b"kept")

    def log_message(self, *args):
        pass


def serve():
    server = http.server.HTTPServer(("", 3000), Notes)
    print("listening", flush=True)
    server.serve_forever()


def ask(data=None):
    with NO_PROXY.open(URL, data, 30) as r:
        return r.read().decode()


def begin():
    assert os.listdir("/dev/shm") == [] and not os.path.exists("/tmp/small")
    pathlib.Path("/tmp/small").write_text(AGENT)
    child = subprocess.Popen([sys.executable, "small.py", "serve"],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True)
    assert child.stdout.readline() == "listening\n"
    for _ in range(3):
        assert ask(b"note") == "kept"
    lines = pathlib.Path("settings").read_text().splitlines()
    lines[int(AGENT)] = f"set by {AGENT}"
    pathlib.Path("settings").write_text("\n".join(lines) + "\n")


def check():
    """The notes are three of ours, by the server that we left."""
    assert ask() == " ".join([AGENT] * 3)
    assert pathlib.Path("/tmp/small").read_text() == AGENT


def commit():
    subprocess.run(["pkill", "-f", "small.py serve"], check=True)
    subprocess.run(["git", "checkout", "-q", "-b", "work"], check=True)
    subprocess.run(["git", "commit", "-qam", f"by {AGENT}"], check=True)


globals()[sys.argv[1]]()
