#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""look.py KIND - reads what workload.py has left in the current folder.

Answers with one line of JSON: of stamps, {path: stamps of its sectors}; of
names, {path: [kind, inode number]}; of databases, {"wal": rows, "delete": rows,
"git": commits, "wrong": [...]}; of trees, {"git": commits, "trees": {folder:
checksum}, "wrong": [...]}.
"""
import hashlib
import json
import os
import sqlite3
import subprocess
import sys

import names
from stamps import read_stamps
from workload import payload


def look_stamps():
    found = {}
    for folder, _, names in os.walk("."):
        for name in names:
            path = os.path.join(folder, name)[2:]
            with open(path, "rb") as f:
                found[path] = read_stamps(f.read())
    return found


def rows(mode, wrong):
    if not os.path.exists(f"{mode}.db"):
        return 0
    try:
        db = sqlite3.connect(f"{mode}.db")
        state = db.execute("pragma integrity_check").fetchone()[0]
        found = db.execute("select i, text from t order by i").fetchall()
    except sqlite3.Error as e:
        if "no such table" in str(e):
            return 0
        wrong.append(f"{mode}.db: {e}")
        return -1
    if state != "ok":
        wrong.append(f"{mode}.db: {state}")
    for n, (i, text) in enumerate(found, 1):
        if i != n or text != payload(i):
            wrong.append(f"{mode}.db: row {n} is {i}: {text[:40]!r}")
            break
    return len(found)


def git(wrong, *args):
    r = subprocess.run(["git", "-C", "repo", *args], text=True,
                       errors="replace", capture_output=True)
    if r.returncode or "error" in r.stderr:
        wrong.append(f"git {args}: {r.returncode} {r.stderr[:500]}")
    return r.stdout


def commits(wrong):
    """The subjects count down to 1; what was committed is in the tree."""
    if not os.path.exists("repo/.git/HEAD"):
        return 0
    branch = subprocess.run(["git", "-C", "repo", "rev-parse", "-q",
                             "--verify", "HEAD"], capture_output=True)
    if branch.returncode:
        return 0
    git(wrong, "fsck", "--full", "--strict", "--no-dangling")
    subjects = git(wrong, "log", "--format=%s").split("\n")[:-1]
    want = [f"commit {i}" for i in range(len(subjects), 0, -1)]
    if subjects != want:
        wrong.append(f"git log: {subjects[:3]}, wanted {want[:3]}")
    for i in range(1, len(subjects) + 1, 3):
        if git(wrong, "show", f"HEAD:new{i}") != payload(i):
            wrong.append(f"git: new{i} is another")
    return len(subjects)


def look_databases():
    wrong = []
    found = {mode: rows(mode, wrong) for mode in ("wal", "delete")}
    found["git"] = commits(wrong)
    found["wrong"] = wrong
    return found


def checksum(top):
    """Of a tree: its names, modes, times and bytes."""
    sum_ = hashlib.sha256()
    for folder, folders, files in os.walk(top):
        folders.sort()
        for name in sorted(files):
            path = os.path.join(folder, name)
            st = os.lstat(path)
            sum_.update(f"{path[len(top):]} {st.st_mode} {st.st_size} "
                        f"{st.st_mtime_ns}\n".encode())
            with open(path, "rb") as f:
                sum_.update(f.read())
    return sum_.hexdigest()


def look_trees():
    wrong = []
    found = {"git": commits(wrong), "wrong": wrong, "trees": {}}
    if os.path.isdir("repo"):
        found["trees"] = {name: checksum(f"repo/{name}")
                          for name in os.listdir("repo")
                          if name.startswith("t")}
    return found


LOOK = {"stamps": look_stamps, "databases": look_databases,
        "names": lambda: names.listing("."), "trees": look_trees}

if __name__ == "__main__":
    print(json.dumps(LOOK[sys.argv[1]]()))
