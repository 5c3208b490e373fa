#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs.py - the pages tell the truth about the tree.

Checked: paths named in back quotes exist; relative links lead somewhere;
every source file is in docs/architecture.md's table; every ADR is in
docs/adr/README.md's list, and the numbers have no gap; every source opens
with an SPDX line; no file names a place of one machine.
"""
import re

from common import ROOT, finish, tracked

SPDX = "SPDX-License-Identifier: MIT"
SOURCES = (".c", ".h", ".py", ".sh", ".cmake", "CMakeLists.txt")
TOP = ("fs", "daemon", "tests", "bench", "docs", "examples", ".ci")
PATH = re.compile(r"`((?:%s)/[A-Za-z0-9_./*{},-]*)`" %
                  "|".join(re.escape(t) for t in TOP))
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
# Written so that this file does not find itself.
PLACES = re.compile("|".join(["/wo" + "rk/", r"\.lib" + "rary",
                              "/root" + r"/\.", "/tmp/" + "h/"]))
# Made by a build or a run, so named by pages without being in the tree.
MADE = ("bench/out",)


def expand(path):
    """{a,b} in a path, as a shell has it; one level."""
    m = re.search(r"\{([^{}]*)\}", path)
    if not m:
        return [path]
    return [p for part in m[1].split(",")
            for p in expand(path[:m.start()] + part + path[m.end():])]


def exists(path):
    path = path.rstrip("/.,")
    if path.startswith(MADE):
        return True
    if "*" in path:
        return any(ROOT.glob(path))
    if "NNNN" in path:
        return True
    return (ROOT / path).exists()


def check_page(name, text):
    for m in PATH.finditer(text):
        for path in expand(m[1]):
            if not exists(path):
                yield f"{name}: {path} does not exist"
    for m in LINK.finditer(text):
        if re.match(r"[a-z]+:", m[1]):
            continue
        if not (ROOT / name).parent.joinpath(m[1]).exists():
            yield f"{name}: broken link {m[1]}"


def check_table(files):
    """Each source of fs/ and daemon/ stands in architecture.md, by its path
    or by its name in a line of its folder's table."""
    page = ROOT / "docs/architecture.md"
    if not page.exists():
        yield "docs/architecture.md is missing"
        return
    words = set(re.findall(r"[\w./{},-]+", page.read_text()))
    words = {p for w in words for p in expand(w)}
    for name in files:
        if name.startswith(("fs/", "daemon/")) and \
                name.endswith((".c", ".h", ".sh")):
            if name not in words and name.rpartition("/")[2] not in words:
                yield f"docs/architecture.md: no word of {name}"


def check_adrs(files):
    adrs = sorted(n for n in files
                  if re.match(r"docs/adr/\d{4}-.*\.md$", n))
    index = ROOT / "docs/adr/README.md"
    text = index.read_text() if index.exists() else ""
    for i, name in enumerate(adrs, 1):
        if int(name.split("/")[2][:4]) != i:
            yield f"{name}: number {i:04} is not there"
        if name.rpartition("/")[2] not in text:
            yield f"docs/adr/README.md: no word of {name}"


def check_opening(name, text):
    script = text.startswith("#!")
    if name.endswith(SOURCES) or script:
        if SPDX not in "\n".join(text.split("\n")[:3]):
            yield f"{name}: no SPDX line at its top"


def main():
    files = tracked()
    faults = []
    for name in files:
        try:
            text = (ROOT / name).read_text()
        except UnicodeDecodeError:
            continue
        if name.endswith(".md"):
            faults += check_page(name, text)
        faults += check_opening(name, text)
        for i, line in enumerate(text.split("\n"), 1):
            if PLACES.search(line):
                faults.append(f"{name}:{i}: names a place of one machine")
    faults += check_table(files)
    faults += check_adrs(files)
    finish("docs", faults)


if __name__ == "__main__":
    main()
