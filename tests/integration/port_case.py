# SPDX-License-Identifier: MIT
"""Servers in environments, and connections to their published ports."""
import errno
import os
import socket

import pytest

# Serves its own name, and gives back what it is sent; by http, with node.
NODE = """
const http = require("http");
http.createServer((req, res) => {
    res.setHeader("x-env", process.env.COWFS_ENV);
    if (req.method == "GET") return res.end("I am " + process.env.COWFS_ENV);
    req.pipe(res);
}).listen(+process.env.PORT, process.argv[1]);
"""
# The same for bare bytes: after the end of what comes, their number, an end.
COUNT = """
import os, socket, threading
s = socket.create_server(("127.0.0.1", int(os.environ["PORT"])), backlog=256)
def serve(c):
    n = 0
    while data := c.recv(65536):
        n += len(data)
    c.sendall(str(n).encode())
    c.close()
while True:
    threading.Thread(target=serve, args=[s.accept()[0]]).start()
"""


@pytest.fixture
def box(loaded):
    return loaded


def holders(path):
    """Processes with a record lock on a file, which a user may not look at."""
    number = os.stat(path).st_ino
    with open("/proc/locks", encoding="ascii") as f:
        return [int(w[4]) for w in map(str.split, f)
                if w[1] == "POSIX" and w[5].endswith(f":{number}")]


def relays_of(store, env="e"):
    path = store.path / "envs" / env / "box/relay"
    return holders(path) if path.exists() else []


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def ports(store, env="e"):
    return store.run("--json", "ports", env).json()


def variables(store, env="e", *options):
    out = store.run("run", *options, env, "--", "env").out
    return dict(line.split("=", 1) for line in out.splitlines())


def start(store, env, *argv):
    store.run("run", "--detach", env, "--", *argv)


def dial(place, timeout=20):
    """A connection to a row's address, or to a socket's path."""
    if isinstance(place, dict):
        return socket.create_connection((place["host"], place["host_port"]),
                                        timeout)
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(timeout)
    # A path may be too long for a name.
    folder = os.open(os.path.dirname(place), os.O_PATH)
    try:
        s.connect(f"/proc/self/fd/{folder}/{os.path.basename(place)}")
    finally:
        os.close(folder)
    return s


def read_all(s):
    parts = []
    while data := s.recv(1 << 16):
        parts.append(data)
    return b"".join(parts)


def get(place):
    with dial(place) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return read_all(s).rpartition(b"\r\n\r\n")[2].decode()


def is_up(place):
    try:
        with dial(place) as s:
            s.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return bool(s.recv(1))
    except ConnectionError:
        return False


def exchange(place, data):
    """Sends, ends its half, and reads all that comes back."""
    with dial(place) as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        return read_all(s)


def is_up_bare(place):
    try:
        return exchange(place, b"") == b"0"
    except ConnectionError:
        return False
    except OSError as e:  # shutdown's word for a reset
        if e.errno != errno.ENOTCONN:
            raise
        return False
