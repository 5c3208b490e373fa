#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""fill.py VERB KIND [N] - fills a full disk from within a mount, unit by unit.

  fill KIND     makes units until there is no room, then says how many there are
  more KIND N   makes one more after N, which must do
  check KIND N  all N are there, and whole

A unit is an unpacked archive (tar), a row of SQLite (sqlite) or a commit (git).
Whatever fails must fail for want of room (or of quota), in so many words.
"""
import io
import os
import random
import sqlite3
import subprocess
import sys
import tarfile
import zlib

FULL = ("No space left", "disk is full", "Disk quota exceeded",
        "disk I/O error", "Wrote only")


class Full(Exception):
    pass


def data(i, size):
    return random.Random(i).randbytes(size)


def run(*argv, **kw):
    r = subprocess.run(argv, capture_output=True, **kw)
    text = r.stderr.decode(errors="replace")
    if r.returncode:
        if any(words in text for words in FULL):
            raise Full(text)
        raise AssertionError(f"{argv}: {r.returncode} {text}")
    return r.stdout


class Tar:
    def files(self, i):
        return [(f"u{i}/f{n}", data(i * 100 + n, 4000 * n + 1))
                for n in range(20)]

    def make(self, i):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            for name, content in self.files(i):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
        try:
            run("tar", "-xf", "-", input=out.getvalue())
        except Full:
            run("rm", "-rf", f"u{i}")
            raise

    def check(self, i):
        for name, content in self.files(i):
            with open(name, "rb") as f:
                assert f.read() == content, name


class Sqlite:
    def __init__(self):
        self.db = sqlite3.connect("fill.db", isolation_level=None)
        self.db.execute("pragma synchronous=full")
        self.db.execute("create table if not exists t"
                        "(i integer primary key, b blob)")

    def make(self, i):
        try:
            self.db.execute("insert into t values(?, ?)",
                            (i, data(i, 300000)))
        except sqlite3.OperationalError as e:
            if any(words in str(e) for words in FULL):
                raise Full(str(e)) from None
            raise

    def check(self, i):
        if i == 1:
            state = self.db.execute("pragma integrity_check").fetchone()[0]
            assert state == "ok", state
        row = self.db.execute("select b from t where i = ?", (i,)).fetchone()
        assert row and row[0] == data(i, 300000), f"row {i}"


class Git:
    def __init__(self):
        if not os.path.exists("repo"):
            run("git", "init", "-q", "repo")

    def git(self, *args):
        return run("git", "-C", "repo", "-c", "user.name=t", "-c",
                   "core.fsync=all", "-c", "user.email=t@t", "-c",
                   "gc.auto=0", *args)

    def make(self, i):
        try:
            with open(f"repo/f{i}", "wb") as f:
                f.write(data(i, 400000))
            self.git("add", "-A")
            self.git("commit", "-q", "-m", f"commit {i}")
        except (OSError, Full) as e:
            for name in ("repo/.git/index.lock", "repo/.git/HEAD.lock",
                         f"repo/f{i}"):
                if os.path.exists(name):
                    os.unlink(name)
            raise Full(str(e)) from None

    def check(self, i):
        if i == 1:
            self.git("fsck", "--full", "--no-dangling")
        found = self.git("show", f"HEAD:f{i}")
        assert zlib.crc32(found) == zlib.crc32(data(i, 400000)), i


def fill(maker):
    n = 0
    try:
        while n < 1000:
            maker.make(n + 1)
            n += 1
    except Full as e:
        print(n)
        print(e, file=sys.stderr)
        return
    raise AssertionError("it does not get full")


def main():
    verb, kind, *more = sys.argv[1:]
    maker = {"tar": Tar, "sqlite": Sqlite, "git": Git}[kind]()
    if verb == "fill":
        fill(maker)
    elif verb == "more":
        maker.make(int(more[0]) + 1)
    else:
        for i in range(1, int(more[0]) + 1):
            maker.check(i)


if __name__ == "__main__":
    main()
