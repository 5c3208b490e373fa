#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sizes.py - files stay under 600 lines, functions under 60, parameters at
six; size_allow.txt names the exceptions, each with its reason.

Functions are found by the house style: a body opens with "{" in the first
column and closes with "}" there.
"""
import re

from common import ROOT, c_files, finish, tracked, without_comments

MAX_FILE, MAX_FUNCTION, MAX_PARAMETERS = 600, 60, 6
HEAD = re.compile(r"^([A-Za-z_][^;{}#]*?)\b(\w+)\(([^;{}]*)\)\s*$", re.S)


def allowed():
    names = {}
    for line in (ROOT / "tests/lint/size_allow.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            what, _, reason = line.partition("\t")
            names[what] = reason.strip()
    return names


def count_parameters(text):
    depth, commas = 0, 0
    for c in text:
        depth += (c == "(") - (c == ")")
        commas += c == "," and depth == 0
    return 0 if text.strip() in ("", "void") else commas + 1


def functions(source):
    """Yields (name, first line, number of lines, parameters)."""
    lines = without_comments(source).split("\n")
    start = None
    for i, line in enumerate(lines):
        if line.startswith("{") and start is None:
            head = []
            j = i - 1
            while j >= 0 and lines[j].strip() and not \
                    lines[j].startswith(("}", "#")) and \
                    not lines[j].rstrip().endswith(";"):
                head.insert(0, lines[j])
                j -= 1
            start = (j + 1, "\n".join(head))
        elif line.startswith("}") and start is not None:
            m = HEAD.match(start[1])
            if m:
                yield (m[2], start[0] + 1, i - start[0] + 1,
                       count_parameters(m[3]))
            start = None


def main():
    exceptions = allowed()
    used, faults = set(), []

    def fault(key, text):
        if exceptions.get(key):
            used.add(key)
        else:
            faults.append(text)

    for name in tracked():
        if name.endswith((".c", ".h", ".py", ".sh", ".cmake")):
            n = (ROOT / name).read_text().count("\n")
            if n >= MAX_FILE:
                fault(name, f"{name}: {n} lines")
    for name in c_files():
        for f, line, n, params in functions((ROOT / name).read_text()):
            if n >= MAX_FUNCTION:
                fault(f"{name}:{f}", f"{name}:{line}: {f}: {n} lines")
            if params > MAX_PARAMETERS and not name.startswith("tests/"):
                fault(f"{name}:{f}",
                      f"{name}:{line}: {f}: {params} parameters")
    faults += [f"size_allow.txt: {k} is not needed" for k in exceptions
               if k not in used]
    finish("sizes", faults)


if __name__ == "__main__":
    main()
