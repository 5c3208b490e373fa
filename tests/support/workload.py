#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""workload.py KIND NOTES CLOCK SEED SECONDS [ARG] - works in a mount and notes,
outside of it, what was acknowledged and when.

The length of the file CLOCK is the time (powercut/cutdisk.c has one that
grows). A line of NOTES is JSON: ["begin", time, operation] before it is made,
["done", time, synced, more] when it has returned. The work is done in the
current folder. KIND:

  stamps     files read, written, cut, mapped, renamed: stamps.py
  names      names made, renamed, linked, removed: names.py
  databases  rows in SQLite, by write-ahead log and by rollback, and commits
  trees      archives (ARG) unpacked and committed

When calls fail because the file system's server has died, that is said in one
line, "dead ERROR", and is no fault. Everything else is.

Kind nudge stands in for a kernel that writes pages back when it likes: in the
folder of environments it has their files written, one here, one there, without
a flush. Kernels do so after half a minute, which no test waits for.
"""
import ctypes
import errno
import json
import mmap
import os
import random
import sqlite3
import subprocess
import sys
import time

import names
from stamps import SECTOR, History, read_stamps, stamps

LIBC = ctypes.CDLL(None, use_errno=True)
PUNCH = 3  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
START_WRITING = 2  # SYNC_FILE_RANGE_WRITE
BIG = 400  # sectors


class Notes:
    def __init__(self, path, clock):
        self.clock = clock
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def now(self):
        return os.stat(self.clock).st_size

    def put(self, *fields):
        os.write(self.fd, json.dumps(fields).encode() + b"\n")

    def begin(self, op):
        self.put("begin", self.now(), op)

    def done(self, synced, more=None):
        self.put("done", self.now(), synced, more)


def with_file(path, flags, fn):
    fd = os.open(path, flags, 0o644)
    try:
        return fn(fd)
    finally:
        os.close(fd)


class Doer:
    """Makes an operation; says whether its return promises a sync."""

    def __init__(self, history):
        self.history = history

    def bytes(self, path, first, count):
        """Of an operation that the history has taken already."""
        return stamps(self.history.names[path], first, count,
                      self.history.count)

    def do_read(self, path):
        """Every byte is what it has to be, and so is the end."""
        with open(path, "rb") as f:
            found = read_stamps(f.read())
        want = self.history.present(path)
        assert found == want, [x for x in zip(found, want) if x[0] != x[1]][:4]

    def do_create(self, path):
        with_file(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, lambda fd: 0)

    def do_write(self, path, first, count, flags=0):
        data, at = self.bytes(path, first, count), first * SECTOR

        def write(fd):
            """The kernel may split it; a server that dies cuts it short."""
            done = 0
            while done < len(data):
                done += os.pwrite(fd, data[done:], at + done)
        with_file(path, os.O_WRONLY | flags, write)

    def do_write_sync(self, path, first, count):
        self.do_write(path, first, count, os.O_DSYNC)
        return True

    def do_map(self, path, first, count):
        data = self.bytes(path, first, count)

        def store(fd):
            with mmap.mmap(fd, 0) as m:
                m[first * SECTOR:first * SECTOR + len(data)] = data
                m.flush()
        with_file(path, os.O_RDWR, store)
        return True

    def do_truncate(self, path, sectors):
        os.truncate(path, sectors * SECTOR)

    def do_hole(self, path, first, count):
        length = ctypes.c_long(count * SECTOR)
        offset = ctypes.c_long(first * SECTOR)
        r = with_file(path, os.O_WRONLY, lambda fd: LIBC.fallocate(
            fd, PUNCH, offset, length))
        if r != 0:
            raise OSError(ctypes.get_errno(), "fallocate", path)

    def do_rename(self, old, new):
        os.rename(old, new)

    def do_link(self, old, new):
        os.link(old, new)

    def do_unlink(self, path):
        os.unlink(path)

    def do_fsync(self, path):
        with_file(path, os.O_RDONLY, os.fsync)
        return True

    do_fsync_folder = do_fsync


class Chooser:
    """Which operations come next: a list of one or more."""

    def __init__(self, rng, history):
        self.rng, self.history, self.made = rng, history, 0
        self.calm = 0  # so many steps without a sync

    def path(self):
        self.made += 1
        return f"d{self.rng.randrange(3)}/f{self.made}"

    def any(self):
        return self.rng.choice(sorted(self.history.names))

    def size(self, path):
        return self.history.sizes[self.history.names[path]]

    def count(self):
        return self.rng.choice([1, 1, 3, 8, 8, 20, 64, 130, 200])

    def next(self):
        names = self.history.names
        if len(names) < 6:
            return self.new()
        kinds = ["write"] * 8 + ["read"] * 4 + ["new", "new", "replace", "replace",
                                 "truncate", "truncate", "hole", "rename",
                                 "link"]
        if self.calm:
            self.calm -= 1
        else:
            kinds += ["fsync"] * 5 + ["write_sync", "map", "safe", "folder"]
            if self.rng.random() < 0.05:
                self.calm = 60
        if len(names) > 25:
            kinds += ["unlink"] * 8
        return getattr(self, self.rng.choice(kinds))()

    def read(self):
        return [("read", self.any())]

    def new(self):
        p = self.path()
        return [("create", p), ("write", p, 0, self.count())]

    def place(self, path):
        return self.rng.randrange(min(BIG, self.size(path) + 4))

    def write(self):
        p = self.any()
        return [("write", p, self.place(p), self.count())]

    def write_sync(self):
        p = self.any()
        return [("write_sync", p, self.place(p), self.count())]

    def map(self):
        p = self.any()
        size = self.size(p)
        if not size:
            return self.write()
        first = self.rng.randrange(size)
        return [("map", p, first, min(size - first, self.count()))]

    def replace(self):
        p, tmp = self.any(), self.path()
        return [("create", tmp), ("write", tmp, 0, self.count()),
                ("rename", tmp, p)]

    def safe(self):
        p, tmp = self.any(), self.path()
        return [("create", tmp), ("write", tmp, 0, self.count()),
                ("fsync", tmp), ("rename", tmp, p), ("fsync_folder", ".")]

    def truncate(self):
        p = self.any()
        return [("truncate", p, self.rng.randrange(BIG))]

    def hole(self):
        p = self.any()
        size = self.size(p)
        if size < 2:
            return self.write()
        first = self.rng.randrange(size - 1)
        return [("hole", p, first, self.rng.randrange(1, size - first))]

    def rename(self):
        return [("rename", self.any(), self.path())]

    def link(self):
        return [("link", self.any(), self.path())]

    def unlink(self):
        return [("unlink", self.any())]

    def fsync(self):
        return [("fsync", self.any())]

    def folder(self):
        return [("fsync_folder", self.rng.choice([".", "d0", "d1"]))]


def work_stamps(notes, rng, end, _):
    for folder in ("d0", "d1", "d2"):
        os.mkdir(folder)
    history = History()
    chooser, doer = Chooser(rng, history), Doer(history)
    while time.monotonic() < end:
        for op in chooser.next():
            notes.begin(op)
            history.add(op)
            notes.done(bool(getattr(doer, "do_" + op[0])(*op[1:])))


def payload(i):
    return f"row {i} " * (i * 7 % 400 + 1)


def open_database(mode):
    """With "full", deleting the journal, which commits, is not synced."""
    db = sqlite3.connect(f"{mode}.db", isolation_level=None)
    db.execute(f"pragma journal_mode={mode}")
    db.execute("pragma synchronous=" +
               ("extra" if mode == "delete" else "full"))
    db.execute("create table if not exists t"
               "(i integer primary key, text text)")
    with_file(".", os.O_RDONLY, os.fsync)
    return db


def git(*args):
    subprocess.run(["git", "-C", "repo", "-c", "core.fsync=all",
                    "-c", "user.name=t", "-c", "user.email=t@t",
                    "-c", "gc.auto=0", *args], check=True,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def commit(i):
    with open("repo/file", "a") as f:
        f.write(payload(i) + "\n")
    with open(f"repo/new{i}", "w") as f:
        f.write(payload(i))
    git("add", "-A")
    git("commit", "-q", "-m", f"commit {i}")
    with_file("repo/.git", os.O_RDONLY, os.fsync)


def work_names(notes, rng, end, _):
    model = names.Names()
    while time.monotonic() < end:
        op = model.choose(rng)
        notes.begin(op)
        number = names.do(op)
        model.add(op, number)
        notes.done(False, number)


def work_trees(notes, rng, end, archive):
    start_repository(notes)
    i = 0
    while time.monotonic() < end:
        i += 1
        notes.begin(["tree", i])
        os.mkdir(f"repo/t{i}")
        subprocess.run(["tar", "-xf", archive, "-C", f"repo/t{i}"],
                       check=True)
        notes.done(False)
        notes.begin(["git", i])
        commit(i)
        notes.done(True)


def start_repository(notes):
    notes.begin(["start"])
    subprocess.run(["git", "init", "-q", "repo"], check=True)
    notes.done(True)


def work_databases(notes, rng, end, _):
    """Row or commit i after i - 1: what was acknowledged is a number."""
    start_repository(notes)
    dbs = {mode: open_database(mode) for mode in ("wal", "delete")}
    counts = {"wal": 0, "delete": 0, "git": 0}
    while time.monotonic() < end:
        kind = rng.choice(["wal"] * 4 + ["delete"] * 4 + ["git"])
        counts[kind] += 1
        i = counts[kind]
        notes.begin([kind, i])
        if kind == "git":
            commit(i)
        else:
            dbs[kind].execute("insert into t values(?, ?)", (i, payload(i)))
            if i % 50 == 0:
                dbs[kind].execute("vacuum")
        notes.done(True)


def work_nudge(notes, rng, end, _):
    while time.monotonic() < end:
        time.sleep(rng.random() * 0.03)
        files = [os.path.join(folder, name)
                 for folder, _, names in os.walk(".") for name in names]
        if files:
            with_file(rng.choice(files), os.O_RDONLY,
                      lambda fd: LIBC.sync_file_range(
                          fd, ctypes.c_long(0), ctypes.c_long(0),
                          START_WRITING))


WORK = {"stamps": work_stamps, "databases": work_databases,
        "names": work_names, "trees": work_trees, "nudge": work_nudge}


def server_is_dead(program_failed):
    """Whatever failed: is it because nobody answers? A name that nobody has
    asked for is in no cache."""
    try:
        os.mkdir(f"probe{os.getpid()}")
    except OSError as e:
        if e.errno in (errno.ENOTCONN, errno.ECONNABORTED):
            print(f"dead {errno.errorcode[e.errno]}: {program_failed!r}")
            return True
    return False


def main():
    kind, path, clock, seed, seconds, *more = sys.argv[1:]
    try:
        WORK[kind](Notes(path, clock), random.Random(int(seed)),
                   time.monotonic() + float(seconds),
                   more[0] if more else None)
    except (OSError, sqlite3.Error, subprocess.CalledProcessError) as e:
        if not server_is_dead(e):
            raise


if __name__ == "__main__":
    main()
