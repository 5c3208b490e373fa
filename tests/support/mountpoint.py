# SPDX-License-Identifier: MIT
"""mountpoint.py - a cowfs store for a test, and mounts that cannot hang it.

Rules (docs/testing.md): no test process touches a mount. A child does, under
a time limit; when even SIGKILL does not end it (a request that the server
never answered), the server is killed, which ends the connection and with it
the wait. Store.close() always unmounts, stops, and then makes sure.

A process belongs to a store when its environment says COWFS_STORE=...: the
server and its keeper inherit it from the command that started them. So the
last resort needs no answer from a server that may be broken.
"""
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

PYTHON = sys.executable
BAD_LOG = re.compile(
    r"Sanitizer|runtime error:|\bBUG\b|Assertion .* failed|stack smashing|"
    r"double free|corrupted (size|double)|malloc\(\)|free\(\):|"
    r"buffer overflow detected|Segmentation fault")
MNT_FORCE, MNT_DETACH = 1, 2


def required(what):
    """True when the machine is said to have this: a skip is then a fault."""
    return what in os.environ.get("COWFS_TESTS_REQUIRE", "").split(",")


def binary():
    path = os.environ.get("COWFS_BIN") or shutil.which("cowfs")
    if not path:
        raise RuntimeError("no cowfs: set COWFS_BIN or PATH")
    return os.path.abspath(path)


_bin_folder = None


def environment(store=None):
    """The variables for a command: cowfs under test comes first in PATH."""
    global _bin_folder
    env = dict(os.environ)
    for name in ("COWFS_STORE", "XDG_DATA_HOME", "GIT_DIR", "CDPATH"):
        env.pop(name, None)
    path = binary()
    if os.path.basename(path) == "cowfs":
        folder = os.path.dirname(path)
    else:
        if not _bin_folder:
            _bin_folder = tempfile.TemporaryDirectory(prefix="cowfs-bin-")
            os.symlink(path, os.path.join(_bin_folder.name, "cowfs"))
        folder = _bin_folder.name
    env["PATH"] = folder + ":" + env.get("PATH", "/usr/bin:/bin")
    env.update(LC_ALL="C.UTF-8", PYTHONDONTWRITEBYTECODE="1")
    env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    if store:
        env["COWFS_STORE"] = str(store)
    return env


def _unescape(field):
    return re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]),
                  field).decode(errors="surrogateescape")


def mounts_below(folder, pid="self"):
    """Mount points at or below a folder, in the order of mounting."""
    prefix = os.path.realpath(folder)
    found = []
    try:
        with open(f"/proc/{pid}/mountinfo", "rb") as f:
            lines = f.read().splitlines()
    except OSError:
        return []
    for line in lines:
        point = _unescape(line.split(b" ")[4])
        if point == prefix or point.startswith(prefix + "/"):
            found.append(point)
    return found


def _stat_field(pid, index):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[index]
    except OSError:
        return None


def alive(pid):
    return _stat_field(pid, 0) not in (None, "Z", "X")


def processes_of(folder, relays=False):
    """Living cowfs processes whose store is at or below a folder: those that
    serve it, or the relays of its sandboxes."""
    prefix = b"COWFS_STORE=" + os.fsencode(str(folder))
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/comm") as f:
                name = f.read()
            if (not name.startswith("cowfs") or
                    name.startswith("cowfs-relay") != relays):
                continue
            with open(f"/proc/{entry}/environ", "rb") as f:
                variables = f.read().split(b"\0")
        except OSError:
            continue
        ours = any(v == prefix or v.startswith(prefix + b"/")
                   for v in variables)
        if ours and alive(entry):
            found.append(int(entry))
    return found


def boxes_of(folder):
    """The first processes of sandboxes of stores at or below a folder."""
    mark = b"COWFS_BOX=" + os.fsencode(str(folder)) + b"/"
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as f:
                ours = any(v.startswith(mark) for v in f.read().split(b"\0"))
        except OSError:
            continue
        if ours and alive(entry):
            found.append(int(entry))
    return found


def wait_until(condition, limit=10.0, what="condition"):
    """Polls; for states that no descriptor announces (a process's end)."""
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {limit} s: {what}")
        time.sleep(0.01)


def _umount2(path, flags):
    """In a child: even umount2 may wait for a server."""
    source = ("import ctypes, sys; "
              "ctypes.CDLL(None).umount2(sys.argv[1].encode(errors="
              "'surrogateescape'), int(sys.argv[2]))")
    argv = [PYTHON, "-c", source, path, str(flags)]
    if os.geteuid() != 0:
        argv = ["fusermount3", "-u", "-z", "--", path]
    child = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    try:
        child.wait(5)
    except subprocess.TimeoutExpired:
        child.kill()


def force_away(folder):
    """Ends the processes of a folder's stores, then takes mounts away."""
    for pid in processes_of(folder):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    try:
        wait_until(lambda: not processes_of(folder), 5)
    except AssertionError:
        for point in reversed(mounts_below(folder)):
            _umount2(point, MNT_FORCE)
    for point in reversed(mounts_below(folder)):
        _umount2(point, MNT_DETACH)


class Result:
    def __init__(self, args, code, out, err):
        self.args, self.code, self.out, self.err = args, code, out, err

    def lines(self):
        return self.out.splitlines()

    def json(self):
        return [json.loads(line) for line in self.out.splitlines()]

    def __repr__(self):
        return (f"$ {' '.join(map(str, self.args))}\n[exit {self.code}]\n"
                f"{self.out[-3000:]}{self.err[-3000:]}")


class Store:
    """A store in a folder of its own, with everything that a test needs."""

    def __init__(self, folder=None):
        self.folder = pathlib.Path(
            folder or tempfile.mkdtemp(prefix="cowfs-t-"))
        # Other users, whom tests try, must be able to reach the mounts.
        self.folder.chmod(0o755)
        self.path = self.folder / "store"
        self.env = environment(self.path)
        self.history = []
        self.log_skip = []  # expressions for log lines that a test expects

    # -- commands ---------------------------------------------------------
    def spawn(self, argv, **kw):
        kw.setdefault("env", self.env)
        kw.setdefault("stdin", subprocess.DEVNULL)
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        self.history.append([str(a) for a in argv])
        return subprocess.Popen(argv, start_new_session=True, **kw)

    def finish(self, child, limit, data=None):
        try:
            out, err = child.communicate(data, limit)
        except subprocess.TimeoutExpired:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            try:
                child.communicate(timeout=5)
            except subprocess.TimeoutExpired:
                force_away(self.folder)
            raise AssertionError(
                f"not done after {limit} s: {child.args}") from None
        decode = "surrogateescape"
        return Result(child.args, child.returncode,
                      (out or b"").decode(errors=decode),
                      (err or b"").decode(errors=decode))

    def run(self, *args, expect=0, limit=60, data=None, **kw):
        """Runs cowfs; its exit code must be expect (None: any)."""
        if data is not None:
            kw["stdin"] = subprocess.PIPE
        child = self.spawn(["cowfs", *map(str, args)], **kw)
        result = self.finish(child, limit, data)
        assert not BAD_LOG.search(result.err), result
        assert expect is None or result.code == expect, result
        return result

    def load(self, path, tag="base", *args):
        """Imports a tree; returns the snapshot's id."""
        return self.run("import", path, "-t", tag, *args,
                        limit=300).out.strip()

    def mount(self, *args, **kw):
        return self.run("mount", *args, **kw).out.rstrip("\n")

    def status(self):
        result = self.run("--json", "daemon", "status", expect=None)
        rows = result.json() if result.code == 0 and result.out else []
        return rows[0] if rows else {}

    def server_pid(self):
        pid = self.status().get("pid")
        assert pid, "no server"
        return int(pid)

    def kill_server(self):
        """SIGKILL to the server; returns when keeper and server are gone."""
        os.kill(self.server_pid(), signal.SIGKILL)
        wait_until(lambda: not processes_of(self.path), 10,
                   "keeper and server have ended")

    # -- children that may touch the mount --------------------------------
    def start_inside(self, folder, argv, limit=60, **kw):
        wrapped = ["timeout", "-s", "KILL", str(limit), "sh", "-c",
                   'cd "$1" || exit 99; shift; exec "$@"', "sh",
                   str(folder), *map(str, argv)]
        return self.spawn(wrapped, **kw)

    def inside(self, folder, argv, limit=60, expect=0, **kw):
        """Runs a command with its working directory in the mount."""
        child = self.start_inside(folder, argv, limit, **kw)
        result = self.finish(child, limit + 10)
        assert expect is None or result.code == expect, result
        return result

    def sh(self, folder, script, **kw):
        return self.inside(folder, ["sh", "-euc", script], **kw)

    def py(self, folder, source, *args, **kw):
        prelude = "import os, sys, stat, errno, json, time, mmap, fcntl\n"
        return self.inside(
            folder, [PYTHON, "-c", prelude + textwrap.dedent(source), *args],
            **kw)

    # -- the end ----------------------------------------------------------
    def log(self):
        try:
            return (self.path / "server.log").read_text(errors="replace")
        except OSError:
            return ""

    def write_repro(self):
        with open(self.folder / "repro.sh", "w") as f:
            f.write("#!/bin/sh\n# The commands of a failed test, in order.\n")
            f.write(f"export COWFS_STORE={self.path}\n")
            for argv in self.history:
                quoted = " ".join("'" + a.replace("'", "'\\''") + "'"
                                  for a in argv)
                f.write(quoted + "\n")

    def close(self, keep=False):
        """Unmounts, stops, makes sure; returns what was wrong."""
        wrong = []
        try:
            if processes_of(self.path):
                self.run("umount", "--all", "--discard", limit=60)
            # One that another user made is not ours to stop.
            if (self.path.exists() and
                    self.path.stat().st_uid == os.geteuid()):
                self.run("daemon", "stop", limit=30)
        except AssertionError as e:
            wrong.append(f"end: {e}")
        left = processes_of(self.path) + boxes_of(self.path) + \
            processes_of(self.path, relays=True)
        for pid in boxes_of(self.path):
            os.kill(pid, signal.SIGKILL)
        mounts = mounts_below(self.folder)
        if left or mounts:
            wrong.append(f"left over: processes {left}, mounts {mounts}")
            force_away(self.folder)
        for line in self.log().splitlines():
            expected = any(re.search(e, line) for e in self.log_skip)
            if BAD_LOG.search(line) and not expected:
                wrong.append(f"server.log: {line}")
        if mounts_below(self.folder):
            wrong.append(f"cannot unmount {mounts_below(self.folder)}")
        elif keep or wrong:
            self.write_repro()
            wrong.append(f"kept: {self.folder}") if wrong else None
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
            if self.folder.exists():
                wrong.append(f"cannot remove {self.folder}")
        return wrong


def umount2(path, flags):
    """umount2(2) by this process; returns 0 or an errno."""
    libc = ctypes.CDLL(None, use_errno=True)
    ok = libc.umount2(os.fsencode(str(path)), flags) == 0
    return 0 if ok else ctypes.get_errno()
