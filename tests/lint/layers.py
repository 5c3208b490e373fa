#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""layers.py - includes point down, and each library has one home.

The table is docs/architecture.md's staircase. A layer may include itself,
base, and what its line names; a header named *_int.h stays in its folder; a
third-party header is included only where its line says.
"""
import re

from common import ROOT, c_files, finish

MAY = {
    "fs/base": [],
    "fs/object": [],
    "fs/store": ["object"],
    "fs/env": ["object", "store"],
    "fs/exchange": ["object", "store", "git", "env/delta.h"],
    "fs/git": ["object", "store", "env/delta.h"],
    "daemon/fuse": ["object", "env"],
    "daemon/ctl": ["object"],
    "daemon/box": [],
    "daemon/serve": ["object", "store", "env", "exchange", "git", "fuse",
                     "ctl", "box"],
    "daemon/cli": ["object", "store", "exchange", "git", "env/delta.h",
                   "env/check.h", "ctl", "box", "serve"],
}
HOME = {
    "xxhash.h": ["fs/object"],
    "zlib.h": ["fs/object"],
    "lmdb.h": ["fs/store"],
    "archive.h": ["fs/exchange"],
    "archive_entry.h": ["fs/exchange"],
    "git2.h": ["fs/git"],
    "fuse_lowlevel.h": ["daemon/fuse"],
    "fuse.h": ["daemon/fuse"],
    "linux/fuse.h": ["daemon/fuse"],
    "seccomp.h": ["daemon/box"],
    "json-c/json.h": ["daemon/cli"],
    "json.h": ["daemon/cli"],
    "cmocka.h": ["tests/support"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
LAYERS = {name.split("/")[1]: name for name in MAY}


def folder_of(name):
    for layer in MAY:
        if name.startswith(layer + "/"):
            return layer
    return name.rpartition("/")[0]


def check(name, kind, target):
    here = folder_of(name)
    if target in HOME or target.startswith("json-c/"):
        homes = HOME.get(target, ["daemon/cli"])
        if here in MAY and here not in homes:
            return f"<{target}> belongs to {', '.join(homes)}"
    if kind == "<" or here not in MAY:
        return int_fault(name, target)
    layer, _, _ = target.partition("/")
    if layer not in LAYERS:
        return f'"{target}" does not name a layer'
    if not (ROOT / LAYERS[layer] / target.partition("/")[2]).exists():
        return f'"{target}" does not exist'
    allowed = MAY[here] + ["base", here.split("/")[1]]
    if layer not in allowed and target not in allowed:
        return f'"{target}" is not below {here}'
    return int_fault(name, target)


def int_fault(name, target):
    """A test of a module may see its inside; nobody else may."""
    if not target.endswith("_int.h") or name.startswith(("tests/unit/", "tests/fuzz/")):
        return None
    layer = target.partition("/")[0]
    if layer in LAYERS and folder_of(name) != LAYERS[layer]:
        return f'"{target}" is private to {LAYERS[layer]}'
    return None


def main():
    faults = []
    for name in c_files():
        source = (ROOT / name).read_text()
        for m in INCLUDE.finditer(source):
            fault = check(name, m[1], m[2])
            if fault:
                line = source.count("\n", 0, m.start(2)) + 1
                faults.append(f"{name}:{line}: {fault}")
    finish("layers", faults)


if __name__ == "__main__":
    main()
