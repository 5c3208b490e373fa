#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""listing.py DIR [--content] - every path below DIR with its attributes, one
JSON object a line, sorted by path bytes.

What find's %p %y %m %U %G %s %T@ %n %l print, the extended attributes, and
with --content a hash. Two trees are equal when their listings are. Sizes and
link counts of directories belong to the file system and are left out.
"""
import hashlib
import json
import os
import stat
import sys


def text(name):
    return name.decode("latin-1")


def describe(path, content):
    st = os.lstat(path)
    kind = stat.S_IFMT(st.st_mode)
    row = {"kind": oct(kind), "mode": oct(stat.S_IMODE(st.st_mode)),
           "uid": st.st_uid, "gid": st.st_gid, "mtime": st.st_mtime_ns}
    if kind != stat.S_IFDIR:
        row.update(size=st.st_size, nlink=st.st_nlink)
    if kind in (stat.S_IFCHR, stat.S_IFBLK):
        row["rdev"] = st.st_rdev
    if kind == stat.S_IFLNK:
        row["target"] = text(os.readlink(path))
    names = os.listxattr(path, follow_symlinks=False)
    row["xattrs"] = {n: text(os.getxattr(path, n, follow_symlinks=False))
                     for n in sorted(names)}
    if content and kind == stat.S_IFREG:
        with open(path, "rb") as f:
            row["sha"] = hashlib.file_digest(f, "sha256").hexdigest()
    return row, kind == stat.S_IFDIR


def walk(top, content):
    """Yields (path, row); the root is b'.'."""
    stack = [b"."]
    os.chdir(top)
    while stack:
        path = stack.pop()
        row, is_dir = describe(path, content)
        yield path, row
        if is_dir:
            names = sorted(os.listdir(path), reverse=True)
            stack += [os.path.join(path, n) for n in names]


def listing(top, content=False):
    """{path text: row} of a tree; changes the working directory."""
    return {text(p): row for p, row in walk(os.fsencode(top), content)}


if __name__ == "__main__":
    rows = listing(sys.argv[1], "--content" in sys.argv[2:])
    for name in sorted(rows):
        print(json.dumps([name, rows[name]], sort_keys=True))
