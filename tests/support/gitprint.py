#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""gitprint.py - all that is to be seen of a work tree, as JSON on standard
output. Uses no code of cowfs: what was rescued is compared by it.

    gitprint.py [--no-git] [SCRATCH]      of the working directory

SCRATCH, a directory elsewhere, asks also for the tree that git would commit.
"tree" has a line for each path: kind and mode, owner, size, mtime, content,
extended attributes, and the first path that is the same file. "git" has what
git says, by commands that change nothing.
"""
import hashlib
import json
import os
import stat
import subprocess
import sys

COMMANDS = [
    ["for-each-ref", "--format=%(refname) %(objectname) %(symref)"],
    ["symbolic-ref", "-q", "HEAD"],
    ["rev-parse", "-q", "--verify", "HEAD"],
    ["reflog", "--all", "--format=%H %gd %gs"],
    ["stash", "list", "--format=%H %gd %gs"],
    ["ls-files", "-s"],
    ["ls-files", "-t", "-v"],
    ["status", "--porcelain=v2", "--branch", "--ignored"],
    ["config", "--local", "--list"],
]


def content(path, st):
    if stat.S_ISLNK(st.st_mode):
        return os.readlink(path).hex()
    if not stat.S_ISREG(st.st_mode):
        return ""
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def xattrs(path):
    try:
        names = sorted(os.listxattr(path, follow_symlinks=False))
    except OSError:
        return []
    return [[n, os.getxattr(path, n, follow_symlinks=False).hex()]
            for n in names]


def tree():
    found, first = {}, {}
    todo = [b"."]
    while todo:
        path = todo.pop()
        st = os.lstat(path)
        name = os.fsdecode(path[2:]) or "."
        if stat.S_ISDIR(st.st_mode):
            todo += [os.path.join(path, n) for n in os.listdir(path)]
        found[name] = [
            oct(st.st_mode), st.st_uid, st.st_gid, st.st_mtime_ns,
            None if stat.S_ISDIR(st.st_mode) else st.st_size,
            content(path, st), xattrs(path), st.st_rdev]
        if st.st_nlink > 1 and not stat.S_ISDIR(st.st_mode):
            first.setdefault(st.st_ino, []).append(name)
    for names in first.values():
        for name in names:
            found[name].append(min(names))
    return found


def say(*args, **more):
    env = dict(os.environ, GIT_OPTIONAL_LOCKS="0", LC_ALL="C",
               GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null",
               **more)
    r = subprocess.run(["git", *args], env=env, capture_output=True,
                       check=False, timeout=120)
    # only of what succeeds the words count: others name places
    return [r.returncode, os.fsdecode(r.stdout) if not r.returncode else ""]


def git():
    """Each command's code and words. Where this is mounted is no matter."""
    here = os.getcwd()
    return {" ".join(c): [code, text.replace(here, "HERE")]
            for c in COMMANDS for code, text in [say(*c)]}


def work_tree(scratch):
    """What git would commit of all that is here and not ignored: its own tree
    by an index and objects elsewhere. None: it would not."""
    index = os.path.join(scratch, "index")
    objects = os.path.join(scratch, "objects")
    os.makedirs(objects, exist_ok=True)
    if os.path.exists(".git/index"):
        with open(".git/index", "rb") as f, open(index, "wb") as t:
            t.write(f.read())
    more = {"GIT_INDEX_FILE": index, "GIT_OBJECT_DIRECTORY": objects,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES":
                os.path.abspath(".git/objects")}
    if say("add", "-A", ".", **more)[0]:
        return None
    code, name = say("write-tree", **more)
    if code:
        return None
    return say("ls-tree", "-rz", name.strip(), **more)[1]


def main():
    told = {}
    # first: git makes objects younger that it would write
    for scratch in sys.argv[1:]:
        if scratch.startswith("/"):
            told["work"] = work_tree(scratch)
    told["tree"] = tree()
    if "--no-git" not in sys.argv:
        told["git"] = git()
    json.dump(told, sys.stdout, ensure_ascii=True)


if __name__ == "__main__":
    main()
